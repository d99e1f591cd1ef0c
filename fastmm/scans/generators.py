"""Generators: random problems, each from the standard normal numbers of its own stream."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, ClassVar

import numpy as np

from fastmm.arrays import FloatArray

Data = dict[str, FloatArray]


@dataclass(frozen=True)
class Generator:
    """A distribution of problems; `draw` turns normal numbers into a batch of them.

    Every generator ends with queries `Z`, uniform on the sphere, when W is to be trained.
    """

    name: ClassVar[str]

    def __repr__(self) -> str:
        given = {name: value for name, value in vars(self).items() if value != getattr(type(self), name)}
        return self.name + (f"({', '.join(f'{k}={v!r}' for k, v in given.items())})" if given else "")

    def check(self, n: int, T: int, d: int) -> None:
        """Refuses shapes that have no such problems."""

    def width(self, n: int, T: int, d: int) -> int:
        """Normal numbers that one problem takes, without its queries."""
        return n * T * d + d + n

    def draw(self, normals: FloatArray, n: int, T: int, d: int, queries: bool) -> Data:
        """Problems (trials, ...) from normals (trials, width), the queries' ones at the end."""
        taken = self.width(n, T, d)
        data = self._problems(normals[:, :taken], n, T, d)
        if queries:
            data["Z"] = _unit(normals[:, taken : taken + n * d].reshape(-1, n, d))
        return data

    def _problems(self, normals: FloatArray, n: int, T: int, d: int) -> Data:
        raise NotImplementedError


@dataclass(frozen=True, repr=False)
class Sphere(Generator):
    """Tokens and head uniform on the unit sphere, labels -1 and +1 with equal chance.

    The random experiments of the paper's appendix E, and of its sequels on W (Tarzanagh, Li, Thrampoulidis, Oymak,
    "Transformers as Support Vector Machines", 2023) and on mirror descent (Julistiono, Tarzanagh, Azizan, 2024).
    """

    name = "sphere"

    def _problems(self, normals: FloatArray, n: int, T: int, d: int) -> Data:
        X, v, z = np.split(normals, [n * T * d, n * T * d + d], axis=1)
        return {"X": _unit(X.reshape(-1, n, T, d)), "Y": _signs(z), "v": _unit(v)}


@dataclass(frozen=True, repr=False)
class Gaussian(Generator):
    """Tokens and head with independent normal entries of variance ``scale**2 / d``: norms are near `scale`."""

    scale: float = 1.0
    name = "gaussian"

    def __post_init__(self) -> None:
        _need("scale", self.scale, 0, math.inf)

    def _problems(self, normals: FloatArray, n: int, T: int, d: int) -> Data:
        X, v, z = np.split(normals, [n * T * d, n * T * d + d], axis=1)
        scale = self.scale / math.sqrt(d)
        return {"X": (scale * X).reshape(-1, n, T, d), "Y": _signs(z), "v": scale * v}


@dataclass(frozen=True, repr=False)
class Mixture(Generator):
    """A contextual mixture: in each input some tokens carry the signal, the others context noise.

    A signal token is ``q + Y w``, any other ``-shift (q + Y w) + noise g`` with g normal of variance ``1/d``; q and w
    are orthonormal and random, w is the head. ``ceil(relevant T)`` tokens at random places are signal tokens, at most
    T - 1 of them. After Oymak, Rawat, Soltanolkotabi, Thrampoulidis, "On the Role of Attention in Prompt-tuning",
    2023; signal tokens get the same small normal part, so that no two are equal.
    """

    relevant: float = 0.25
    shift: float = 0.2
    noise: float = 0.3
    name = "mixture"

    def __post_init__(self) -> None:
        _need("relevant", self.relevant, 0, 1)
        _need("shift", self.shift, -math.inf, math.inf)
        _need("noise", self.noise, 0, math.inf)

    def check(self, n: int, T: int, d: int) -> None:
        if d < 2 or T < 2:
            raise ValueError(f"generator: got 'mixture' with T={T}, d={d}; allowed: T and d of 2 or more")

    def width(self, n: int, T: int, d: int) -> int:
        return n * T * d + 2 * d + n + n * T

    def _problems(self, normals: FloatArray, n: int, T: int, d: int) -> Data:
        ends = np.cumsum([n * T * d, d, d, n])
        g, q, w, z, order = np.split(normals, ends, axis=1)
        Y = _signs(z)
        q, w = _orthonormal(q, w)
        context = q[:, None, :] + Y[..., None] * w[:, None, :]  # (trials, n, d)
        places = order.reshape(-1, n, T).argsort(axis=-1)
        signal = places < min(T - 1, math.ceil(self.relevant * T))
        factor = np.where(signal, 1.0, -self.shift)
        X = factor[..., None] * context[:, :, None, :] + (self.noise / math.sqrt(d)) * g.reshape(-1, n, T, d)
        return {"X": X, "Y": Y, "v": w}


@dataclass(frozen=True, repr=False)
class Benign(Generator):
    """Data of benign overfitting: one relevant token, a weakly relevant and a confusing one, noise, flipped labels.

    Two orthogonal random signals of the norm `signal` belong to the labels; token 0 of an input is the signal of its
    true label, token 1 is `rho` times that, token 2 is `rho` times the other signal, and to each token a standard
    normal vector is added. A share `flips` of the labels is then reversed. The head is the unit vector along the
    difference of the signals, divided by `signal`. Sakamoto, Sato, "Benign overfitting in token selection of
    attention mechanism", ICML 2025, whose own settings are n = 20, T = 8, d = 2000.
    """

    signal: float = 20.0
    rho: float = 0.1
    flips: float = 0.2
    name = "benign"

    def __post_init__(self) -> None:
        _need("signal", self.signal, 0, math.inf)
        _need("rho", self.rho, -math.inf, math.inf)
        if not 0 <= self.flips < 1:
            raise ValueError(f"flips: got {self.flips!r}; allowed: a share, 0 or more and below 1")

    def check(self, n: int, T: int, d: int) -> None:
        if T < 3 or d < 2:
            raise ValueError(f"generator: got 'benign' with T={T}, d={d}; allowed: T of 3 or more, d of 2 or more")

    def width(self, n: int, T: int, d: int) -> int:
        return n * T * d + 2 * d + 2 * n

    def _problems(self, normals: FloatArray, n: int, T: int, d: int) -> Data:
        ends = np.cumsum([n * T * d, d, d, n])
        g, a, b, z, flip = np.split(normals, ends, axis=1)
        true = _signs(z)
        plus, minus = _orthonormal(a, b)
        up = true[..., None] > 0
        own = np.where(up, plus[:, None, :], minus[:, None, :])
        other = np.where(up, minus[:, None, :], plus[:, None, :])
        X = g.reshape(-1, n, T, d).copy()
        X[:, :, 0] += self.signal * own
        X[:, :, 1] += self.rho * self.signal * own
        X[:, :, 2] += self.rho * self.signal * other
        flipped = flip < NormalDist().inv_cdf(self.flips) if self.flips else np.zeros(flip.shape, bool)
        return {"X": X, "Y": np.where(flipped, -true, true), "v": _unit(plus - minus) / self.signal}


def as_generator(value: Any) -> Any:
    """The generator of a name; generators and functions are returned as they are."""
    if isinstance(value, Generator) or (callable(value) and hasattr(value, "__qualname__")):
        return value
    if not isinstance(value, str) or value not in GENERATORS:
        names = ", ".join(map(repr, GENERATORS))
        raise ValueError(f"generator: got {value!r}; allowed: {names}, a generator of fastmm.scans, or a function")
    return GENERATORS[value]


def _unit(x: FloatArray) -> FloatArray:
    return np.asarray(x / np.sqrt((x * x).sum(axis=-1, keepdims=True)))


def _orthonormal(a: FloatArray, b: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The direction of a, and that of b across it."""
    first = _unit(a)
    return first, _unit(b - (b * first).sum(-1, keepdims=True) * first)


def _signs(z: FloatArray) -> FloatArray:
    return np.where(z < 0, -1.0, 1.0)


def _need(name: str, value: Any, low: float, high: float) -> None:
    """Refuses what is not a number strictly between the bounds."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not low < value < high:
        raise ValueError(f"{name}: got {value!r}; allowed: a number above {low} and below {high}")


GENERATORS: dict[str, Generator] = {kind.name: kind() for kind in (Sphere, Gaussian, Mixture, Benign)}

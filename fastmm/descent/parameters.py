"""Which parameters a run trains, where they start, and how a shared query turns a run in W into one in p."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from fastmm import arrays
from fastmm.arrays import FloatArray, IntArray
from fastmm.problem import Problem

TRAINS = {"p": ("p",), "v": ("v",), "pv": ("p", "v"), "W": ("W",), "Wv": ("W", "v"), "KQ": ("Q", "K")}
TRAINS["KQv"] = (*TRAINS["KQ"], "v")
ROLES = {"p": 0, "v": 1, "W": 2, "Q": 3, "K": 4}


@dataclass(frozen=True)
class Lift:
    """A run in W with one shared query u is a run in ``p = W' u`` (Lemma 1): ``W = W0 + u (p - p0)' / ||u||^2``."""

    W0: FloatArray
    p0: FloatArray
    u: FloatArray

    def matrix(self, p: FloatArray) -> FloatArray:
        """W (..., d_q, d) of p (..., d)."""
        u = self.u.astype(np.float64)
        scaled = u / (u * u).sum(axis=-1, keepdims=True)
        change = scaled[..., :, None] * (p - self.p0).astype(np.float64)[..., None, :]
        return np.asarray((self.W0 + change).astype(p.dtype))


@dataclass(frozen=True)
class Setup:
    """The parameters of one call of `descend`.

    Attributes
    ----------
    names : tuple of str
        Trained parameters.
    starts : dict
        Start of every parameter of the model, trained or not, each with its own leading dimensions.
    lift : Lift or None
        Set when a run in W is carried out in p.
    rate : ndarray
        Factor (...) of the step size that the lift brings; 1 without one.
    """

    names: tuple[str, ...]
    starts: dict[str, FloatArray]
    lift: Lift | None
    rate: FloatArray

    def core(self, name: str) -> int:
        """Number of axes of one value of a parameter."""
        return 1 if name in ("p", "v") else 2

    def batches(self) -> list[tuple[str, tuple[int, ...]]]:
        """Batch shapes of the starts, named as the arguments are."""
        shown = {"p": "p0", "v": "v0", "W": "W0", "Q": "W0", "K": "W0"}
        return [(shown[k], a.shape[: a.ndim - self.core(k)]) for k, a in self.starts.items()]


def set_up(problem: Problem, train: str, p0: Any, v0: Any, W0: Any, rule: Any, keep_matrix: bool) -> Setup:
    """Checks the starts against `train`; `keep_matrix` forbids the lift (something looks at W itself)."""
    if train not in TRAINS:
        raise ValueError(f"train: got {train!r}; allowed: {', '.join(map(repr, TRAINS))}")
    names = TRAINS[train]
    if v0 is not None and "v" not in names:
        raise ValueError(f"v0: got a start for train={train!r}; allowed: None (the head is the problem's)")
    starts: dict[str, FloatArray] = {}
    if "v" in names:
        starts["v"] = _start("v0", problem.v if v0 is None else v0, problem, ("d",), (problem.d,))
    if "p" in names or (train == "v" and W0 is None):
        if W0 is not None:
            raise ValueError(f"W0: got a start for train={train!r}; allowed: None")
        starts["p"] = _start("p0", np.zeros(problem.d_k) if p0 is None else p0, problem, ("d_k",), (problem.d_k,))
        return Setup(names, starts, None, np.ones(()))
    if p0 is not None:
        raise ValueError(f"p0: got a start for train={train!r}; allowed: None (W takes its place)")
    if problem.Z is None:
        raise ValueError(f"train: got {train!r}, but the problem has no queries; allowed: with Problem(..., Z=Z)")
    d_q, d = problem.Z.shape[-1], problem.d
    if "Q" in names:
        if not isinstance(W0, (tuple, list)) or len(W0) != 2:
            given = "None (0 is a stationary point)" if W0 is None else type(W0).__name__
            raise ValueError(f"W0: got {given}; allowed: factors (Q0, K0) of W = Q K', of d_q and d rows")
        starts["Q"] = _start("W0[0]", W0[0], problem, ("d_q", "m"), (d_q,))
        starts["K"] = _start("W0[1]", W0[1], problem, ("d", "m"), (d,))
        if starts["Q"].shape[-1] != starts["K"].shape[-1] or starts["Q"].shape[-1] == 0:
            shapes = f"{starts['Q'].shape} and {starts['K'].shape}"
            raise ValueError(f"W0: got factors of shapes {shapes}; allowed: as many columns, 1 or more")
        return Setup(names, starts, None, np.ones(()))
    starts["W"] = _start("W0", np.zeros((d_q, d)) if W0 is None else W0, problem, ("d_q", "d"), (d_q, d))
    return _lifted(problem, names, starts, rule, keep_matrix)


def _lifted(
    problem: Problem, names: tuple[str, ...], starts: dict[str, FloatArray], rule: Any, keep_matrix: bool
) -> Setup:
    """With one shared query, steps along the gradient ``u g'`` of W are steps along g of p, longer by a power of u."""
    powers = {"normalized": 1, "gradient": 2, "momentum": 2, "polyak": 0}
    Z = problem.Z
    assert Z is not None
    whole = Setup(names, starts, None, np.ones(()))
    if keep_matrix or names != ("W",) or Z.shape[-2] != 1 or rule.name not in powers or getattr(rule, "radii", True):
        return whole
    u = Z[..., 0, :].astype(np.float64)
    norm = np.sqrt((u * u).sum(axis=-1))
    if not np.all((norm > 0) & (norm < math.inf)) or problem.K is not problem.X:
        return whole
    W0 = starts["W"]
    p0 = np.asarray((u[..., None, :] @ W0.astype(np.float64))[..., 0, :].astype(problem.dtype))
    return Setup(("p",), {"p": p0}, Lift(W0, p0, u), norm ** powers[rule.name])


def _start(name: str, value: Any, problem: Problem, axes: tuple[str, ...], extents: tuple[int, ...]) -> FloatArray:
    start = arrays.floats(name, value, problem.dtype, axes)
    known = start.shape[start.ndim - len(axes) : start.ndim - len(axes) + len(extents)]
    if known != extents:
        wanted = ", ".join([*(f"{a}={e}" for a, e in zip(axes, extents, strict=False)), *axes[len(extents) :]])
        source = "the keys" if axes == ("d_k",) else "the problem"
        raise ValueError(f"{name}: got shape {start.shape}; allowed: (..., {wanted}) to match {source}")
    return start


def problem_arguments(problem: Problem, setup: Setup, batch: tuple[int, ...]) -> dict[str, Any]:
    """The problem's data as keyword arguments of the compiled run: keys, and scores or values, and queries."""
    keys = problem.K if "p" in setup.starts else problem.X
    out: dict[str, Any] = {}

    def add(name: str, index: str, array: FloatArray | IntArray, core: int) -> None:
        out[name], out[index] = arrays.blocks(array, core, batch)

    add("keys", "key_index", keys, 3)
    if "v" in setup.starts:
        add("values", "value_index", problem.X, 3)
        add("labels", "label_index", problem.Y, 1)
    else:
        add("scores", "score_index", problem.scores, 2)
    if "p" not in setup.starts:
        Z = problem.Z
        assert Z is not None
        own = np.ascontiguousarray(np.broadcast_to(Z, (*Z.shape[:-2], problem.n, Z.shape[-1])))
        add("queries", "query_index", own, 2)
    if problem.lengths is not None:
        add("lengths", "length_index", problem.lengths, 1)
    return out


def start_arguments(setup: Setup, batch: tuple[int, ...], radii: dict[str, float]) -> list[tuple[Any, ...]]:
    """The parameters as the compiled run takes them: role, trained or not, starts (batch, rows, columns), radius."""
    unknown = set(radii) - set(setup.names)
    if unknown:
        raise ValueError(f"rule: within names {sorted(unknown)}; allowed: trained parameters {list(setup.names)}")
    count = math.prod(batch)
    out = []
    for name, start in setup.starts.items():
        core = start.shape[start.ndim - setup.core(name) :]
        shape = core if len(core) == 2 else (*core, 1)
        full = np.ascontiguousarray(np.broadcast_to(start, (*batch, *core))).reshape(count, *shape)
        out.append((ROLES[name], name in setup.names, full, radii.get(name, math.inf)))
    return out

"""Cones around max-margin directions, in which gradient descent stays and finds no stationary point."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fastmm import arrays
from fastmm.arrays import BoolArray, FloatArray
from fastmm.gradients import descent_direction
from fastmm.problem import Problem
from fastmm.theory.optimality import LocalOptimality, local_optimality


@dataclass(frozen=True, eq=False)
class Cone:
    """``{p : ||p|| >= R, p·q >= (1 - mu) ||p||}`` around the max-margin direction q of some tokens.

    Attributes
    ----------
    direction : ndarray, shape (d,)
        q, of norm 1.
    mu : float
        The admissible width, ``(min(1/2, delta) / A)² / 8``: any p inside, scaled to the norm of the max-margin vector,
        keeps the margins of neighbors within [1/2, 3/2] and the others at least 1 + delta.
    delta : float
        Half of what the margin of the closest token that is no neighbor exceeds 1 by; inf when all are neighbors.
    size : float
        A, the largest norm of a key times the norm of the max-margin vector.
    optimality : LocalOptimality
        Of the tokens, with the certified max-margin vector.
    """

    direction: FloatArray
    mu: float
    delta: float
    size: float
    optimality: LocalOptimality
    problem: Problem = field(repr=False)

    @property
    def half_angle(self) -> float:
        """Angle between the axis and the edge, in degrees."""
        return float(np.degrees(2 * np.arcsin(np.sqrt(min(self.mu, 2.0) / 2))))  # arccos(1 - mu) without its rounding

    def contains(self, p: Any, radius: float = 0.0) -> BoolArray | bool:
        """Whether points (..., d) lie in the cone, at least `radius` from the origin."""
        points = arrays.floats("p", p, np.float64, ("d",))
        arrays.need_shape("p", points, ("d",), self.direction.shape, "the keys")
        norm = np.linalg.norm(points, axis=-1)
        inside = (norm > 0) & (norm >= radius) & (points @ self.direction >= (1 - self.mu) * norm)
        return bool(inside) if inside.ndim == 0 else np.asarray(inside)

    def sample(self, count: int, *, seed: int = 0) -> FloatArray:
        """Unit vectors of the cone, shape (count, d): every other one on its edge, the rest between edge and axis."""
        random = np.random.default_rng(seed)
        q = self.direction
        across = random.standard_normal((count, len(q)))
        across -= (across @ q)[:, None] * q
        norms = np.linalg.norm(across, axis=-1, keepdims=True)
        across = np.divide(across, norms, out=np.zeros_like(across), where=norms > 1e-12)  # nothing is across in 1-D
        part = np.where(np.arange(count) % 2 == 0, 1.0, random.random(count))
        angle = np.radians(self.half_angle) * part[:, None]
        out = np.cos(angle) * q + np.sin(angle) * across
        return np.asarray(out / np.linalg.norm(out, axis=-1, keepdims=True))

    def alignment(self, radius: Any, *, samples: int = 1000, seed: int = 0, loss: str = "logistic") -> Any:
        """Least cosine of steepest descent with q at sampled points of the cone that are `radius` from the origin.

        A positive one at all radii from R on says that no sampled point there is stationary.

        Parameters
        ----------
        radius : float or array_like, shape (...)
        samples, seed : int
        loss : {"logistic", "exponential", "correlation"}

        Returns
        -------
        float or ndarray, shape (...)
        """
        radii = arrays.floats("radius", radius, np.float64, ())
        points = radii[..., None, None] * self.sample(samples, seed=seed)
        found = descent_direction(self.problem, points, loss).direction
        least = (found @ self.direction).min(-1)
        return float(least) if np.ndim(least) == 0 else least

    def smallest_radius(self, *, samples: int = 1000, seed: int = 0, loss: str = "logistic") -> float:
        """The radius from which on `alignment` is positive, to 10 %: sampled, not proved; inf when it never is.

        Radii from a thousandth to ten thousand times the norm of the max-margin vector are tried.
        """
        norm = 1 / float(self.optimality.solution.margin)
        radii = norm * np.geomspace(1e-3, 1e4, 170)
        bad = np.flatnonzero(~(self.alignment(radii, samples=samples, seed=seed, loss=loss) > 0))
        if not len(bad):
            return float(radii[0])
        return float(radii[bad[-1] + 1]) if bad[-1] + 1 < len(radii) else float("inf")


def cone(problem: Problem, selected: Any) -> Cone:
    """The cone around the max-margin direction of some tokens, with the width that the theory admits.

    Parameters
    ----------
    problem : Problem
        One problem, no batch.
    selected : array_like of int, shape (n,)

    Returns
    -------
    Cone

    Raises
    ------
    TypeError, ValueError
        For an argument that is no Problem, a batch, tokens that cannot be separated, or nothing to separate.

    Notes
    -----
    The theorem on the convergence of gradient descent started inside also wants the tokens to be locally optimal and
    the radius to be large enough: `Cone.optimality`, `Cone.smallest_radius`.

    References
    ----------
    Tarzanagh, Li, Zhang, Oymak, "Max-Margin Token Selection in Attention Mechanism", NeurIPS 2023, theorem 3. The width
    is one that its proof admits, as derived for fastmm; the paper's own was not at hand.

    Examples
    --------
    >>> import fastmm as mm
    >>> problem = mm.Problem([[[1, 0], [0, 0]], [[-2, 1], [0, 0]]], [1, 1], [1, 3])
    >>> own = mm.theory.cone(problem, [0, 1])
    >>> own.delta, own.contains([4.0, 0.1]), own.contains([4.0, 1.0])
    (0.5, True, False)
    """
    if not isinstance(problem, Problem):
        raise TypeError(f"problem: got {type(problem).__name__}; allowed: a Problem")
    if problem.batch_shape or np.ndim(selected) != 1:
        raise ValueError(
            f"problem and selected: got a batch of shape {problem.batch_shape} and tokens of shape "
            f"{np.shape(selected)}; allowed: one problem and (n,)"
        )
    found = local_optimality(problem, selected)
    if not found.feasible:
        raise ValueError(f"selected: got {np.asarray(selected).tolist()}, which cannot be separated; allowed: tokens "
                         "with a max-margin vector")  # fmt: skip
    w = np.asarray(found.solution.w)
    norm = float(np.linalg.norm(w))
    if norm == 0:
        raise ValueError("selected: there is nothing to separate, so there is no direction")
    real, tokens = problem.real_tokens, np.asarray(selected)
    keys = np.where(real[..., None], problem.K, 0.0)
    others = real & (np.arange(problem.T) != tokens[:, None]) & ~found.neighbors
    chosen = keys[np.arange(problem.n), tokens][:, None]
    excess = ((chosen - keys) @ w - 1)[others]
    delta = 0.5 * float(excess.min()) if excess.size else float("inf")
    size = float(np.linalg.norm(keys, axis=-1).max()) * norm
    mu = (min(0.5, delta) / size) ** 2 / 8
    return Cone(w / norm, mu, delta, size, found, problem)

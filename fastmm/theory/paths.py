"""Regularization paths: minimisers of the risk over growing balls, in all directions or within a cone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fastmm import arrays, integers, losses
from fastmm.arrays import FloatArray
from fastmm.losses import Loss
from fastmm.margin import att_svm
from fastmm.problem import Problem
from fastmm.theory.excess import log_excess_of
from fastmm.theory.minimizers import ConeSet, minimize_in_ball, minimize_in_cone
from fastmm.theory.one_input import excess_gap
from fastmm.theory.single import single

_PROVED = 1e-6  # of the excess: a smaller gap counts as none


@dataclass(frozen=True, eq=False)
class Path:
    """A regularization path.

    Attributes
    ----------
    radii : ndarray, shape (R,)
    p : ndarray, shape (R, d_k)
        Best point found in each ball (and cone).
    log_excess : ndarray, shape (R,)
        Log of the excess of the risk there over ``mean_i ell(max_t gamma_it)``.
    gap : ndarray, shape (R,)
        No point of the ball has an excess smaller than ``(1 - gap)`` times that of p; inf where nothing is proved.
    status : str
        "proved": all gaps are below 1e-6 (problems of one input, once their best token outweighs the others).
        "grid": no point of a fine grid of the whole two-dimensional set is better: minimal to the grid's resolution.
        "starts": the best of the starts, nothing is proved.
    starts : int
        Starts tried at each radius.
    """

    radii: FloatArray
    p: FloatArray
    log_excess: FloatArray
    gap: FloatArray
    status: str
    starts: int

    @property
    def directions(self) -> FloatArray:
        """Unit vectors of p, shape (R, d_k); NaN where p is 0."""
        size = np.linalg.norm(self.p, axis=-1, keepdims=True)
        return np.asarray(np.divide(self.p, size, out=np.full_like(self.p, np.nan), where=size > 0))


def regularization_path(
    problem: Problem, radii: Any, *, loss: str | Loss = "logistic", starts: int = 64, seed: int = 0
) -> Path:
    """Minimisers of the risk over the balls ``||p|| <= R``.

    Parameters
    ----------
    problem : Problem
        A single one.
    radii : array_like, shape (R,)
        Increasing positive numbers.
    loss : {"logistic", "exponential", "correlation"}
    starts : int
        Random directions tried at each radius, besides the last minimiser scaled and the max-margin direction of the
        optimal tokens if there is one.
    seed : int

    Returns
    -------
    Path

    Raises
    ------
    TypeError, ValueError
        For other arguments and a batch of problems.

    Notes
    -----
    All starts run projected normalised descent together; the best distinct ends are finished by sequential quadratic
    programming (SciPy's SLSQP) on the log of the excess risk over R, which stays of order 1 at any R. In the plane a
    polar grid of the whole ball, 0.1 degrees by R/8, joins the starts. With one input the excess has convex sublevel
    sets below the second score, so that a stationary point there is a global minimum; `gap` bounds what its rounding
    leaves open. Under the paper's Theorem 1 the directions tend to the max-margin direction of the optimal tokens.

    References
    ----------
    Tarzanagh, Li, Zhang, Oymak, NeurIPS 2023, Theorem 1.

    Examples
    --------
    >>> import fastmm as mm
    >>> problem = mm.Problem([[[1.0, 0.0], [0.0, 0.0]], [[-2.0, 1.0], [0.0, 0.0]]], [1.0, 1.0], [1.0, 3.0])
    >>> path = mm.theory.regularization_path(problem, [2.0, 20.0])
    >>> [round(float(mm.correlation(p, [1.0, 3.0])), 4) for p in path.p], path.status
    ([0.9761, 0.9999], 'grid')
    """
    single("regularization_path", problem)
    return _path(problem, as_radii("radii", radii), losses.get(loss), None, integers.as_count("starts", starts), seed)


def local_regularization_path(
    problem: Problem,
    radii: Any,
    q: Any,
    *,
    eps: float,
    least: float,
    loss: str | Loss = "logistic",
    starts: int = 64,
    seed: int = 0,
) -> Path:
    """Minimisers of the risk over ``{||p|| <= R, ||p|| >= least, cos(p, q) >= 1 - eps}``.

    Parameters
    ----------
    problem : Problem
        A single one.
    radii : array_like, shape (R,)
        Increasing numbers larger than `least`.
    q : array_like, shape (d_k,)
        Axis of the cone, of any positive length.
    eps, least : float
        Width of the cone, in (0, 1), and its smallest norm, positive.
    loss, starts, seed
        As for `regularization_path`.

    Returns
    -------
    Path

    Raises
    ------
    TypeError, ValueError
        For other arguments and a batch of problems.

    Notes
    -----
    Such a path tends to q exactly for locally optimal max-margin directions, if the cone is narrower than the
    distance to the next change of neighbors.

    References
    ----------
    Tarzanagh, Li, Zhang, Oymak, NeurIPS 2023, Theorem 4.

    Examples
    --------
    >>> import fastmm as mm
    >>> problem = mm.Problem([[[-0.1, 1.0], [1.0, 0.0], [0.0, 0.0]]], [1.0], [0.9, 1.09])
    >>> path = mm.theory.local_regularization_path(problem, [160.0], [1.0, 0.0], eps=3e-4, least=5.0)
    >>> bool(mm.correlation(path.p[0], [1.0, 0.0]) > 0.99999999)
    True
    """
    single("local_regularization_path", problem)
    axis = arrays.floats("q", q, np.float64, ("d_k",))
    if axis.shape != (problem.d_k,) or not axis.any():
        raise ValueError(f"q: got {q!r}; allowed: a nonzero vector of length {problem.d_k}")
    if not 0 < eps < 1:
        raise ValueError(f"eps: got {eps!r}; allowed: a number between 0 and 1")
    if not least > 0:
        raise ValueError(f"least: got {least!r}; allowed: a positive number")
    sizes = as_radii("radii", radii)
    if sizes.size and sizes[0] < least:
        raise ValueError(f"radii: got {sizes[0]}; allowed: at least least={least}")
    cone = ConeSet(axis / np.linalg.norm(axis), float(eps), float(least))
    return _path(problem, sizes, losses.get(loss), cone, integers.as_count("starts", starts), seed)


def as_radii(name: str, value: Any) -> FloatArray:
    """Increasing positive radii (R,)."""
    radii = arrays.floats(name, value, np.float64, ("R",))
    if radii.ndim != 1 or not np.all(radii > 0) or np.any(np.diff(radii) <= 0):
        raise ValueError(f"{name}: got {value!r}; allowed: increasing positive numbers")
    return radii


def _path(problem: Problem, radii: FloatArray, loss: Loss, cone: ConeSet | None, starts: int, seed: int) -> Path:
    rng = np.random.default_rng(seed)
    directions = rng.standard_normal((starts, problem.d_k))
    directions /= np.linalg.norm(directions, axis=-1, keepdims=True)
    known = []
    best = att_svm(problem.K, problem.optimal, lengths=problem.lengths, throw=False)
    if best.optimal and np.isfinite(best.direction).all():
        known.append(best.direction)
    points, values = [], []
    for radius in radii:
        tried = np.concatenate([np.reshape(known, (-1, problem.d_k)), directions])
        if cone is None:
            p = minimize_in_ball(problem, float(radius), loss, tried)
        else:
            p = minimize_in_cone(problem, float(radius), loss, tried, cone)
        known = [*known[:1], p / max(float(np.linalg.norm(p)), np.finfo(float).tiny)]
        points.append(p)
        values.append(float(log_excess_of(problem, p, loss)))
    gap = np.full(len(radii), np.inf)
    if cone is None and problem.n == 1:
        gap = np.array([excess_gap(problem, p, float(radius)) for p, radius in zip(points, radii, strict=True)])
    status = "proved" if np.all(gap < _PROVED) else "grid" if problem.d_k == 2 else "starts"
    p = np.reshape(points, (len(radii), problem.d_k))
    return Path(radii, p, np.asarray(values, np.float64), gap, status, len(directions) + 2)

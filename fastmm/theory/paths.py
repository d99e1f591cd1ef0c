"""Regularization paths: minimisers of the risk over growing balls, in all directions or within a cone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fastmm import arrays, losses, rules
from fastmm.arrays import FloatArray
from fastmm.descent import descend
from fastmm.gradients import descent_direction
from fastmm.losses import Loss
from fastmm.margin import att_svm
from fastmm.problem import Problem
from fastmm.theory.directions import direction_optimality
from fastmm.theory.enumeration import single
from fastmm.theory.excess import log_excess_of, signed_log_excess, slope_of_log_excess

_POLISHED = 6  # of the distinct ends of the starts, the best so many are finished exactly


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
    status : str
        "grid": no point of a fine grid of the whole two-dimensional set is better: minimal to the grid's resolution.
        "starts": the best of the starts, nothing is proved.
    starts : int
        Starts tried at each radius.
    """

    radii: FloatArray
    p: FloatArray
    log_excess: FloatArray
    status: str
    starts: int

    @property
    def directions(self) -> FloatArray:
        """Unit vectors of p, shape (R, d_k); NaN where p is 0."""
        size = np.linalg.norm(self.p, axis=-1, keepdims=True)
        return np.asarray(np.divide(self.p, size, out=np.full_like(self.p, np.nan), where=size > 0))


@dataclass(frozen=True)
class _Cone:
    """``cos(p, axis) >= 1 - eps`` and ``||p|| >= least``."""

    axis: FloatArray
    eps: float
    least: float


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
    polar grid of the whole ball, 0.1 degrees by R/8, joins the starts. Under the paper's
    Theorem 1 the directions tend to the max-margin direction of the optimal tokens.

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
    return _path(problem, as_radii("radii", radii), losses.get(loss), None, _positive("starts", starts), seed)


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
    cone = _Cone(axis / np.linalg.norm(axis), float(eps), float(least))
    return _path(problem, sizes, losses.get(loss), cone, _positive("starts", starts), seed)


def as_radii(name: str, value: Any) -> FloatArray:
    """Increasing positive radii (R,)."""
    radii = arrays.floats(name, value, np.float64, ("R",))
    if radii.ndim != 1 or not np.all(radii > 0) or np.any(np.diff(radii) <= 0):
        raise ValueError(f"{name}: got {value!r}; allowed: increasing positive numbers")
    return radii


def _positive(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise ValueError(f"{name}: got {value!r}; allowed: a positive integer")
    return int(value)


def _path(problem: Problem, radii: FloatArray, loss: Loss, cone: _Cone | None, starts: int, seed: int) -> Path:
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
    status = "grid" if problem.d_k == 2 else "starts"
    shape = (len(radii), problem.d_k)
    return Path(radii, np.reshape(points, shape), np.asarray(values, np.float64), status, len(directions) + 2)


def minimize_in_ball(problem: Problem, radius: float, loss: Loss, directions: FloatArray) -> FloatArray:
    """The best point found in the ball from starts along unit vectors (S, d_k)."""
    run = descend(
        problem,
        p0=radius * directions,
        steps=200,
        lr=lambda k: 0.25 * radius * 0.97**k,  # ends are near the minima of their basins
        rule=rules.Normalized().within(p=radius),
        loss=loss,
    )
    assert run.p is not None
    starts = np.concatenate([radius * directions[:2], run.p.astype(np.float64)])
    if problem.d_k == 2:
        angles = np.linspace(-np.pi, np.pi, 3600, endpoint=False)
        starts = np.concatenate([starts, _grid(angles, radius * np.linspace(0.125, 1, 8)), np.zeros((1, 2))])
    values = log_excess_of(problem, starts, loss)
    order = np.argsort(values, kind="stable")
    best, lowest = starts[order[0]], values[order[0]]
    chosen: list[FloatArray] = []
    for k in order[:200]:  # the best distinct ends
        if all(np.linalg.norm(starts[k] - other) > 1e-2 * radius for other in chosen):
            chosen.append(starts[k])
        if len(chosen) == _POLISHED:
            break
    for start in chosen:
        end = _polish(problem, start, radius, loss)
        value = log_excess_of(problem, end, loss)
        if value < lowest:
            best, lowest = end, value
    return np.asarray(best)


def minimize_in_cone(problem: Problem, radius: float, loss: Loss, directions: FloatArray, cone: _Cone) -> FloatArray:
    """The best point found in ball and cone, by projected normalised descent of all starts with ever shorter steps.

    Points are compared by the risk minus that of the tokens the axis selects, in the log domain with its sign.
    """
    half = 2 * np.arcsin(np.sqrt(cone.eps / 2))
    across = directions - np.outer(directions @ cone.axis, cone.axis)
    p = _into_cone(radius * (cone.axis + 0.5 * np.tan(half) * across), radius, cone)
    for k in range(1200):
        p = _into_cone(p + 0.25 * half * radius * 0.99**k * descent_direction(problem, p, loss).direction, radius, cone)
    p = np.concatenate([p, [radius * cone.axis]])
    if problem.d_k == 2:
        angles = np.arctan2(cone.axis[1], cone.axis[0]) + half * np.linspace(-1, 1, 2001)
        p = np.concatenate([p, _grid(angles, np.linspace(cone.least, radius, 8))])
    selected = direction_optimality(problem, cone.axis).selected
    sign, size = signed_log_excess(problem, p, loss, selected)
    return np.asarray(p[np.lexsort((sign * size, sign))[0]])


def _into_cone(p: FloatArray, radius: float, cone: _Cone) -> FloatArray:
    """Points (S, d_k) brought to the cone, along planes through its axis, and into its range of norms."""
    along = np.maximum(p @ cone.axis, 0.0)[:, None]
    across = p - (p @ cone.axis)[:, None] * cone.axis
    size = np.linalg.norm(across, axis=-1, keepdims=True)
    tangent = np.tan(2 * np.arcsin(np.sqrt(cone.eps / 2)))
    outside = size > tangent * along
    nearest = (along + tangent * size) / (1 + tangent * tangent)  # projection onto the cone's edge
    shrink = np.divide(tangent * nearest, size, out=np.ones_like(size), where=outside)
    inside = np.where(outside, nearest, along) * cone.axis + shrink * across
    norm = np.linalg.norm(inside, axis=-1, keepdims=True)
    return np.asarray(inside * np.clip(norm, cone.least, radius) / norm)


def _grid(angles: FloatArray, norms: FloatArray) -> FloatArray:
    """All points of a polar grid, (A * N, 2)."""
    units = np.stack([np.cos(angles), np.sin(angles)], -1)
    return np.asarray((norms[:, None, None] * units).reshape(-1, 2))


def _polish(problem: Problem, start: FloatArray, radius: float, loss: Loss) -> FloatArray:
    """The local minimum in the ball near a start, in x = p / R."""
    from scipy.optimize import minimize

    def objective(x: FloatArray) -> tuple[float, FloatArray]:
        value, slope = slope_of_log_excess(problem, radius * x, loss)
        return value / radius, slope

    ball = {"type": "ineq", "fun": lambda x: 1 - x @ x, "jac": lambda x: -2 * x}
    options = {"ftol": 1e-15, "maxiter": 300}
    found = minimize(objective, start / radius, jac=True, method="SLSQP", constraints=[ball], options=options)
    x = np.asarray(found.x, np.float64)
    if not np.isfinite(x).all():
        return start
    end: FloatArray = radius * x / max(float(np.linalg.norm(x)), 1.0)
    return end

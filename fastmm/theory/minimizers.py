"""Minimisers of the risk over a ball, or over a piece of a cone in it: many starts, the best finished exactly."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fastmm import rules
from fastmm.arrays import FloatArray
from fastmm.descent import descend
from fastmm.gradients import descent_direction
from fastmm.losses import Loss
from fastmm.problem import Problem
from fastmm.theory.directions import direction_optimality
from fastmm.theory.excess import log_excess_of, signed_log_excess, slope_of_log_excess

_POLISHED = 6  # of the distinct ends of the starts, the best so many are finished exactly


@dataclass(frozen=True)
class ConeSet:
    """``cos(p, axis) >= 1 - eps`` and ``||p|| >= least``."""

    axis: FloatArray
    eps: float
    least: float


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


def minimize_in_cone(problem: Problem, radius: float, loss: Loss, directions: FloatArray, cone: ConeSet) -> FloatArray:
    """The best point found in ball and cone, by projected normalised descent of all starts with ever shorter steps.

    Points are compared by the risk minus that of the tokens the axis selects, in the log domain with its sign.
    """
    half = 2 * np.arcsin(np.sqrt(cone.eps / 2))
    across = directions - np.outer(directions @ cone.axis, cone.axis)
    p = _into_cone(radius * (cone.axis + 0.5 * np.tan(half) * across), radius, cone)
    for k in range(300):
        p = _into_cone(p + 0.25 * half * radius * 0.96**k * descent_direction(problem, p, loss).direction, radius, cone)
    p = np.concatenate([p, [radius * cone.axis]])
    if problem.d_k == 2:
        angles = np.arctan2(cone.axis[1], cone.axis[0]) + half * np.linspace(-1, 1, 2001)
        p = np.concatenate([p, _grid(angles, np.linspace(cone.least, radius, 8))])
    selected = direction_optimality(problem, cone.axis).selected
    sign, size = signed_log_excess(problem, p, loss, selected)
    return np.asarray(p[np.lexsort((sign * size, sign))[0]])


def _into_cone(p: FloatArray, radius: float, cone: ConeSet) -> FloatArray:
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

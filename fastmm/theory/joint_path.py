"""Joint regularization paths: head and query minimised together over two balls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from fastmm import integers, losses
from fastmm.arrays import FloatArray
from fastmm.gradients import loss_and_grad
from fastmm.losses import Loss
from fastmm.plan import Plan
from fastmm.problem import Problem
from fastmm.theory.minimizers import minimize_in_ball
from fastmm.theory.paths import as_radii
from fastmm.theory.single import single


@dataclass(frozen=True, eq=False)
class JointPath:
    """A joint regularization path: ``v`` (R, d) in balls of `head_radii`, ``p`` (R, d_k) in balls of `radii`.

    `log_risk` (R,) is the logarithm of the risk; `status` is "starts": the best of the starts, nothing is proved.
    """

    radii: FloatArray
    head_radii: FloatArray
    v: FloatArray
    p: FloatArray
    log_risk: FloatArray
    status: str = "starts"


def joint_regularization_path(
    problem: Problem,
    radii: Any,
    head_radius: Callable[[float], float] | None = None,
    *,
    loss: str | Loss = "logistic",
    starts: int = 16,
    seed: int = 0,
) -> JointPath:
    """Minimisers of the risk over ``||v|| <= r(R), ||p|| <= R``.

    Parameters
    ----------
    problem : Problem
        A single one; its head is the first start.
    radii : array_like, shape (R,)
        Increasing positive numbers.
    head_radius : callable, optional
        r as a function of R; r = R by default. What the limit of p is depends on it.
    loss : {"logistic", "exponential"}
    starts : int
        Random pairs of directions tried at each radius, besides the last minimiser scaled.
    seed : int

    Returns
    -------
    JointPath

    Raises
    ------
    ValueError
        For other arguments, the correlation loss, a batch, and radii so large that the risk underflows.

    Notes
    -----
    Each start is finished by sequential quadratic programming (SciPy's SLSQP) on the log of the risk in both variables.
    The best is then improved in p alone, in the log domain of the excess at fixed v, which goes on to resolve p where
    the risk no longer does. The r(R) that the paper's theorems ask for was not available to us.

    References
    ----------
    Tarzanagh, Li, Zhang, Oymak, NeurIPS 2023, Theorems 5 and 6.

    Examples
    --------
    >>> import fastmm as mm
    >>> problem = mm.Problem([[[0.0, 0.0], [1.0, 1.0]], [[0.0, 0.0], [1.0, -1.0]]], [1.0, -1.0], [0.0, 1.0])
    >>> path = mm.theory.joint_regularization_path(problem, [8.0])
    >>> [round(float(abs(mm.correlation(*pair))), 4) for pair in ((path.v[0], [0, 1]), (path.p[0], [1, 0]))]
    [1.0, 1.0]
    """
    single("joint_regularization_path", problem)
    kind = losses.get(loss)
    if kind.name == "correlation":
        raise ValueError("loss: got 'correlation'; allowed: losses with the infimum 0, logistic and exponential")
    starts = integers.as_count("starts", starts)
    sizes = as_radii("radii", radii)
    heads = np.array([float(radius if head_radius is None else head_radius(float(radius))) for radius in sizes])
    if not np.all((heads > 0) & np.isfinite(heads)):
        raise ValueError(f"head_radius: gives {heads.tolist()}; allowed: positive numbers")
    rng = np.random.default_rng(seed)
    tried = rng.standard_normal((starts, problem.d + problem.d_k))
    own = float(np.linalg.norm(problem.v))
    if own > 0:
        tried[0, : problem.d] = problem.v / own
    found: list[FloatArray] = []
    for radius, head in zip(sizes, heads, strict=True):
        some = [_unit(problem, start) for start in tried] + found[-1:]
        found.append(_minimize(problem, float(head), float(radius), kind, some))
    ends = np.reshape(found, (len(sizes), problem.d + problem.d_k))
    v, p = ends[:, : problem.d] * heads[:, None], ends[:, problem.d :] * sizes[:, None]
    risk = [float(loss_and_grad(problem, p[k], v=v[k], loss=kind).loss) for k in range(len(sizes))]
    if any(value == 0 for value in risk):
        raise ValueError(f"radii: the risk underflows at {sizes[risk.index(0)]}; allowed: smaller R and r(R)")
    return JointPath(sizes, heads, v, p, np.log(risk))


def _unit(problem: Problem, x: FloatArray) -> FloatArray:
    """Both parts of (v, p) in unit length."""
    v, p = x[: problem.d], x[problem.d :]
    return np.concatenate([v / np.linalg.norm(v), p / np.linalg.norm(p)])


def _minimize(problem: Problem, head: float, radius: float, loss: Loss, starts: list[FloatArray]) -> FloatArray:
    """The best end, as (v / r, p / R)."""
    from scipy.optimize import minimize

    d = problem.d
    plan = Plan(problem, ("p", "v"), loss, threads=1)

    def objective(x: FloatArray) -> tuple[float, FloatArray]:
        plan(radius * x[d:], head * x[:d])
        risk = max(float(plan.loss), np.finfo(float).tiny)
        slope = np.concatenate([head * plan.grad["v"], radius * plan.grad["p"]]) / risk
        return float(np.log(risk)) / head, slope / head

    mask = np.arange(d + problem.d_k) < d
    balls = [
        {"type": "ineq", "fun": lambda x, m=m: 1 - x @ (m * x), "jac": lambda x, m=m: -2 * m * x} for m in (mask, ~mask)
    ]
    best, lowest = starts[0], np.inf
    for start in starts:
        found = minimize(
            objective, start, jac=True, method="SLSQP", constraints=balls, options={"ftol": 1e-14, "maxiter": 500}
        )
        x = np.asarray(found.x, np.float64)
        if np.isfinite(x).all():
            for part in (mask, ~mask):
                x[part] /= max(float(np.linalg.norm(x[part])), 1.0)
            value = objective(x)[0]
            if value < lowest:
                best, lowest = x, value
    p = minimize_in_ball(problem.with_head(head * best[:d]), radius, loss, best[None, d:])
    return np.concatenate([best[:d], p / radius])

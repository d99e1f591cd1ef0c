"""The cones around a locally optimal direction in which gradient descent converges to it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fastmm import arrays, losses
from fastmm.arrays import FloatArray
from fastmm.errors import InfeasibleError
from fastmm.gradients import descent_direction
from fastmm.losses import Loss
from fastmm.problem import Problem
from fastmm.theory.correlation import correlation
from fastmm.theory.lipschitz import slope_bounds
from fastmm.theory.optimality import LocalOptimality, local_optimality
from fastmm.theory.padding import keys_of
from fastmm.theory.single import single_selection


@dataclass(frozen=True, eq=False)
class Cone:
    """``C_{mu,R} = {p : ||p|| >= R, cos(p, p_mm) >= 1 - mu}`` around a max-margin direction.

    Attributes
    ----------
    direction : ndarray, shape (d_k,)
        The unit vector of its axis.
    mu : float
        Largest admissible: for any p in the cone, scaled to ``||p_mm||``, the margins of neighbors stay in [1/2, 3/2]
        and at most those of all other tokens.
    half_angle : float
        ``arccos(1 - mu)`` in radians.
    delta : float
        Half of what the margins of other tokens exceed 1 by at least; inf without other tokens.
    theory_radius : float
        A radius beyond which the proof's inequalities hold: then no stationary point lies in the cone. Infinite when
        they cannot decide, that is when the selection is not locally optimal or when the bounds on the margins of
        neighbors and others meet in this cone.
    optimality : LocalOptimality
    """

    direction: FloatArray
    mu: float
    half_angle: float
    delta: float
    theory_radius: float
    optimality: LocalOptimality
    _problem: Problem = field(repr=False)
    _loss: Loss = field(repr=False)

    def contains(self, p: Any, radius: float = 0.0) -> Any:
        """Whether points p (..., d_k) lie in the cone of that radius."""
        points = arrays.floats("p", p, np.float64, ("d",))
        arrays.need_shape("p", points, ("d",), self.direction.shape, "the keys")
        size = np.linalg.norm(points, axis=-1, keepdims=True)
        chord = ((points - size * self.direction) ** 2).sum(-1)  # |u - q|^2 = 2 (1 - cos), without cancellation
        inside = np.asarray((size[..., 0] > 0) & (size[..., 0] >= radius) & (chord <= 2 * self.mu * size[..., 0] ** 2))
        return bool(inside) if inside.ndim == 0 else inside

    def sample(self, count: int, seed: int = 0) -> FloatArray:
        """Unit vectors (count, d_k) in the cone: the axis, then half on the edge, half between."""
        rng = np.random.default_rng(seed)
        axis = self.direction
        across = rng.standard_normal((count, len(axis)))
        if len(axis) == 1:
            return np.repeat(axis[None], count, axis=0)
        if len(axis) == 2:  # both edges for certain
            across = np.outer(np.where(np.arange(count) % 2, 1.0, -1.0), [-axis[1], axis[0]])
        across -= np.outer(across @ axis, axis)
        across /= np.linalg.norm(across, axis=-1, keepdims=True)
        angle = self.half_angle * np.where(np.arange(count) % 4 < 2, 1.0, np.sqrt(rng.random(count)))
        angle[:1] = 0
        points: FloatArray = np.cos(angle)[:, None] * axis + np.sin(angle)[:, None] * across
        return points

    def least_alignment(self, radius: float, count: int = 1024, seed: int = 0) -> float:
        """Smallest cosine of minus the gradient and the axis over samples of the cone at the norms R, 2R, 4R and 8R.

        Where it is positive no sample is a stationary point and every one is drawn on along the axis. A zero gradient
        counts as -1.
        """
        points = self.sample(count, seed)[:, None] * (radius * np.array([1.0, 2.0, 4.0, 8.0]))[:, None]
        steps = descent_direction(self._problem, points, self._loss).direction
        return float(np.nan_to_num(correlation(steps, self.direction), nan=-1.0).min())

    def sampled_radius(self, count: int = 1024, seed: int = 0) -> float:
        """Smallest radius, to 1 %, from which the sampled alignment is positive; inf when there is none up to 1e6.

        Evidence by sampling, not a proof.
        """
        scale = float(np.linalg.norm(self.optimality.solution.w))
        high = scale
        while self.least_alignment(high, count, seed) <= 0:
            high *= 2
            if high > 1e6 * scale:
                return math.inf
        low = high
        while self.least_alignment(low, count, seed) > 0:
            low /= 2
            if low < 1e-3 * scale:
                return low
        while high > 1.01 * low:
            middle = math.sqrt(low * high)
            if self.least_alignment(middle, count, seed) > 0:
                high = middle
            else:
                low = middle
        return high


def cone(problem: Problem, selected: Any, *, loss: str | Loss = "logistic", threads: int | None = None) -> Cone:
    """The cone of the paper around the max-margin direction of a selection, with the largest admissible mu.

    Parameters
    ----------
    problem : Problem
        A single one.
    selected : array_like of int, shape (n,)
    loss : {"logistic", "exponential", "correlation"}
    threads : int, optional

    Returns
    -------
    Cone

    Raises
    ------
    InfeasibleError
        When the selection cannot be separated.
    TypeError, ValueError
        For other arguments, a batch, and problems with nothing to separate.

    Notes
    -----
    ``delta = min over other tokens of (margin - 1) / 2``, ``A = max ||k_it|| ||p_mm||``,
    ``mu = (min(1/2, delta) / A)^2 / 8``: a unit vector in the cone is within ``sqrt(2 mu)`` of the axis, so margins
    move by at most ``2 A sqrt(2 mu) = min(1/2, delta)``. The paper's printed constants were not available to us; these
    are derived. The same holds for `theory_radius`: the terms of neighbors in ``<-grad, p_mm>`` are bounded below,
    those of other tokens and of pairs of unselected tokens above.

    References
    ----------
    Tarzanagh, Li, Zhang, Oymak, NeurIPS 2023, Theorem 3.

    Examples
    --------
    >>> import fastmm as mm
    >>> problem = mm.Problem([[[-0.1, 1.0], [1.0, 0.0], [0.0, 0.0]]], [1.0], [0.9, 1.09])
    >>> around = mm.theory.cone(problem, [1])
    >>> round(around.mu, 7), round(around.delta, 3), around.least_alignment(10.0) > 0.99
    (0.0003094, 0.05, True)
    """
    tokens = single_selection("cone", problem, selected)
    kind = losses.get(loss)
    found = local_optimality(problem, tokens, threads=threads)
    if not found.feasible:
        found.solution.check("cone", False)
        raise InfeasibleError("cone: the selection cannot be separated", found.solution)
    w = found.solution.w
    size = float(np.linalg.norm(w))
    if size == 0:
        raise ValueError("problem: has nothing to separate; allowed: an input of two tokens or more")
    real = np.broadcast_to(problem.real_tokens, (problem.n, problem.T))
    keys = keys_of(problem)
    own = np.take_along_axis(keys, tokens[:, None, None], axis=1)
    rows = own - keys
    others = real & ~found.neighbors & (np.arange(problem.T) != tokens[:, None])
    excess = np.where(others, rows @ w - 1, np.inf).min(initial=np.inf)
    delta = 0.5 * float(excess)
    A = float(np.linalg.norm(keys, axis=-1).max()) * size
    mu = (min(0.5, delta) / A) ** 2 / 8
    least = _theory_radius(problem, kind, found, rows, others, mu, size)
    half_angle = 2 * math.asin(math.sqrt(mu / 2))  # arccos(1 - mu) without cancellation
    return Cone(found.solution.direction, mu, half_angle, delta, least, found, problem, kind)


def _theory_radius(
    problem: Problem, loss: Loss, found: LocalOptimality, rows: Any, others: Any, mu: float, size: float
) -> float:
    """Beyond it ``<-grad, p_mm>`` is positive on the whole cone.

    With weights s and the selected token a, it is the mean of ``|ell'| (s_a sum_t s_t g_t b_t + pairs)``,
    with g the score gaps and b the margins of p_mm. Neighbors add at least ``s_a s_t g_min``, others at least
    ``-s_a s_t G B``, pairs of unselected tokens at least ``-G B (sum of unselected s)^2 / 2``.
    """
    if not found.min_score_gap > 0:
        return math.inf
    scores = np.where(problem.real_tokens, problem.scores, np.nan)
    G = float(np.nanmax(np.nanmax(scores, -1) - np.nanmin(scores, -1)))
    B = float((rows @ found.solution.w)[found.neighbors | others].max())
    shift = float(np.linalg.norm(rows, axis=-1).max()) * size * math.sqrt(2 * mu)
    nearest, above = 1 - shift, 1 + shift
    competitors = problem.T - 1
    least, largest, _ = (float(part) for part in slope_bounds(problem, loss))
    # unselected weights together are at most half of the selected one's, and pairs take at most half of g_min
    scale = max(math.log(competitors) / nearest, math.log(G * B * competitors / found.min_score_gap) / nearest, 0.0)
    if others.any():
        apart = 1 + float((rows @ found.solution.w - 1)[others].min()) - shift - above
        if apart <= 0:
            return math.inf
        # s_a >= 1/2 twice against the weights of all other tokens of all inputs
        bad = largest * problem.n * competitors * (G * B + found.min_score_gap / 2)
        scale = max(scale, math.log(8 * bad / (least * found.min_score_gap)) / apart)
    return scale * size

"""A proof that a point minimises the risk of one input over a ball."""

from __future__ import annotations

import numpy as np

from fastmm.arrays import FloatArray
from fastmm.problem import Problem


def excess_gap(problem: Problem, p: FloatArray, radius: float) -> float:
    """How much smaller, relatively, the excess of a problem of one input can be than at p, anywhere in the ball.

    The risk falls with the margin ``z``. Let ``a`` be the best token and ``c = z(p)`` at least the second score. Then
    ``h(q) = sum_t (c - gamma_t) exp((k_t - k_a) q)`` over the other tokens is convex, equals the excess
    ``gamma_a - c`` at p, and is at most the excess at every q with a larger margin. So no excess in the ball is smaller
    than ``h(p) - (R ||h'(p)|| + <h'(p), p>)``; the bracket over ``h(p)`` is returned, inf if ``c`` is too small.
    """
    real = problem.real_tokens[0]
    scores = problem.scores[0][real].astype(np.float64)
    keys = problem.K[0][real].astype(np.float64)
    best = int(scores.argmax())
    others = np.arange(len(scores)) != best
    if not others.any():
        return 0.0
    rows, gaps = (keys - keys[best])[others], (scores[best] - scores)[others]
    logits = rows @ p
    top = float(logits.max())
    weights = np.exp(logits - top)
    with np.errstate(over="ignore"):  # then the excess is negligible against the gaps
        excess = float(gaps @ weights / (np.exp(-top) + weights.sum()))
    terms = (gaps - excess) * weights  # c - gamma_t = (gamma_a - gamma_t) - (gamma_a - c)
    total = float(terms.sum())
    if not (terms >= 0).all() or total <= 0:
        return float("inf")
    slope = terms @ rows / total
    return max(float(radius * np.linalg.norm(slope) + slope @ p), 0.0)

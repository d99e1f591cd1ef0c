"""Directional neighbors of any vector, and whether the tokens it selects beat them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fastmm import arrays
from fastmm.arrays import BoolArray, IntArray
from fastmm.margin.certificate import ON_MARGIN
from fastmm.problem import Problem
from fastmm.theory.padding import keys_of


@dataclass(frozen=True, eq=False)
class DirectionOptimality:
    """What a direction selects and how, for one direction or a batch with the leading dimensions ``...``.

    Attributes
    ----------
    selected : ndarray of int, shape (..., n)
        The token with the largest logit of each input, the first of several.
    separates : bool or ndarray of bool, shape (...)
        Whether each of these logits is larger than all others of its input.
    margin : float or ndarray, shape (...)
        Smallest difference of a selected logit and another of its input, for the unit vector; inf without others.
    neighbors : ndarray of bool, shape (..., n, T)
        Directional neighbors: the tokens that attain the margin, to 1e-8 of it; none where nothing is separated.
    min_score_gap : float or ndarray, shape (...)
        Smallest score of a selected token minus that of a neighbor; inf without neighbors, NaN if not separating.
    neighbor_optimal : bool or ndarray of bool, shape (...)
        Whether the direction separates and every gap is positive.
    """

    selected: IntArray
    separates: Any
    margin: Any
    neighbors: BoolArray
    min_score_gap: Any
    neighbor_optimal: Any


def direction_optimality(problem: Problem, q: Any) -> DirectionOptimality:
    """Tokens selected by a direction, its directional neighbors, and whether it is neighbor-optimal.

    Parameters
    ----------
    problem : Problem
        Its keys and scores are used.
    q : array_like, shape (..., d_k)
        Directions of any positive length; leading dimensions broadcast with those of the problem.

    Returns
    -------
    DirectionOptimality

    Raises
    ------
    TypeError, ValueError
        For an argument that is no Problem, shapes that do not fit, zero vectors, NaN or infinity.

    Notes
    -----
    One pass over the keys, ``n T d_k`` operations a direction. A max-margin direction has the same neighbors here and
    in its ATT-SVM.

    References
    ----------
    Tarzanagh, Li, Zhang, Oymak, NeurIPS 2023, Theorem 4 and its lemmas.

    Examples
    --------
    >>> import fastmm as mm
    >>> problem = mm.Problem([[[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]], [1.0], [1.0, 0.5])
    >>> found = mm.theory.direction_optimality(problem, [3.0, 0.0])
    >>> found.selected, found.margin, found.neighbor_optimal, found.min_score_gap
    (array([0]), 1.0, True, 0.5)
    """
    if not isinstance(problem, Problem):
        raise TypeError(f"problem: got {type(problem).__name__}; allowed: a fastmm.Problem")
    q = arrays.floats("q", q, np.float64, ("d_k",))
    arrays.need_shape("q", q, ("d_k",), (problem.d_k,), "the keys")
    largest = np.abs(q).max(-1, keepdims=True)
    if not np.all(largest > 0):
        raise ValueError("q: got a zero vector; allowed: one with a direction")
    batch = arrays.broadcast_batch([("problem", problem.batch_shape), ("q", q.shape[:-1])])
    unit = q / largest
    unit = unit / np.linalg.norm(unit, axis=-1, keepdims=True)
    keys = keys_of(problem)
    shape = (*batch, problem.n, problem.T)
    real = np.broadcast_to(problem.real_tokens, shape)
    logits = np.where(real, (keys @ unit[..., None, :, None])[..., 0], -np.inf)
    selected = np.asarray(logits.argmax(-1), np.int64)
    others = real & (np.arange(problem.T) != selected[..., None])
    margins = np.where(others, np.take_along_axis(logits, selected[..., None], -1) - logits, np.inf)
    margin = margins.min((-2, -1), initial=np.inf)
    separates = margin > 0
    neighbors = others & (margins <= margin[..., None, None] * (1 + ON_MARGIN)) & separates[..., None, None]
    scores = np.broadcast_to(np.where(problem.real_tokens, problem.scores, 0), shape)
    gaps = np.where(neighbors, np.take_along_axis(scores, selected[..., None], -1) - scores, np.inf)
    gap = np.where(separates, gaps.min((-2, -1), initial=np.inf), np.nan)
    best = separates & (gap > 0)
    if batch:
        return DirectionOptimality(selected, separates, margin, neighbors, gap, best)
    return DirectionOptimality(selected, bool(separates), float(margin), neighbors, float(gap), bool(best))

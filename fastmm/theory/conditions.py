"""The theorems' conditions as checks that say yes or no, with the numbers behind it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fastmm import losses
from fastmm.losses import Loss
from fastmm.problem import Problem
from fastmm.theory.optimality import local_optimality

_SAME_SCORE = 1e-12  # relative to the largest score of the input: scores that differ by rounding only
_FULL_RANK = 1e-9  # smallest singular value of unit rows that counts as more than zero
_GRID = 20001


@dataclass(frozen=True)
class Check:
    """A condition: whether it holds, and by how much.

    Attributes
    ----------
    holds : bool
    numbers : mapping of str to float
    """

    holds: bool
    numbers: Mapping[str, float]

    def __bool__(self) -> bool:
        return self.holds


def assumption_a(loss: str | Loss, bound: float) -> Check:
    """Assumption A: on ``[-bound, bound]`` the loss decreases strictly, with a bounded and Lipschitz slope.

    Parameters
    ----------
    loss : str or Loss
        One of `fastmm.losses`, or a `fastmm.custom_loss` with its curvature.
    bound : float
        Positive and finite.

    Returns
    -------
    Check
        Numbers "M1" and "M0", the largest size of the slope and of the curvature, and "least_slope", the smallest size
        of the slope; sampled at 20001 evenly spaced points, which include both ends.

    Raises
    ------
    ValueError
        For an unknown loss, a loss without curvature, a bound that is not positive and finite.

    References
    ----------
    Tarzanagh, Li, Zhang, Oymak, "Max-Margin Token Selection in Attention Mechanism", NeurIPS 2023, assumption A.

    Examples
    --------
    >>> import fastmm as mm
    >>> check = mm.theory.assumption_a("logistic", 5.0)
    >>> check.holds, check.numbers["M0"]
    (True, 0.25)
    """
    kind = losses.get(loss)
    if isinstance(bound, bool) or not isinstance(bound, int | float) or not 0 < bound < np.inf:
        raise ValueError(f"bound: got {bound!r}; allowed: a positive finite number")
    x = np.linspace(-bound, bound, _GRID)
    slope, bend = np.asarray(kind.slope(x)), np.asarray(kind.curvature(x))
    numbers = {
        "M1": float(np.abs(slope).max()),
        "M0": float(np.abs(bend).max()),
        "least_slope": float(-slope.max()),
    }
    finite = bool(np.isfinite(slope).all() and np.isfinite(bend).all())
    return Check(finite and numbers["least_slope"] > 0, numbers)


def assumption_b(problem: Problem) -> Check:
    """Assumption B: in each input all tokens but the best share one score, which is smaller.

    Parameters
    ----------
    problem : Problem
        One problem, no batch.

    Returns
    -------
    Check
        Numbers "spread", the largest difference of two scores of an input that are not its best, relative to the
        largest score of that input, and "gap", the smallest difference of a best score and the next. Scores count as
        one up to 1e-12 of the largest. Inputs of one token have nothing to compare: spread 0, gap inf.

    Raises
    ------
    TypeError, ValueError
        For an argument that is no Problem, and for a batch.

    References
    ----------
    Tarzanagh, Li, Zhang, Oymak, "Max-Margin Token Selection in Attention Mechanism", NeurIPS 2023, assumption B.

    Examples
    --------
    >>> import fastmm as mm
    >>> check = mm.theory.assumption_b(mm.Problem([[[1.0], [0.5], [0.5]]], [1.0], [1.0]))
    >>> check.holds, check.numbers["gap"]
    (True, 0.5)
    """
    _need_one(problem)
    scores, real = problem.scores, problem.real_tokens
    others = real & (np.arange(problem.T) != problem.optimal[:, None])
    low = np.where(others, scores, np.inf).min(-1, initial=np.inf)
    high = np.where(others, scores, -np.inf).max(-1, initial=-np.inf)
    top = np.where(real, scores, -np.inf).max(-1, initial=-np.inf)
    largest = np.where(real, np.abs(scores), 0.0).max(-1, initial=0.0)
    some = others.any(-1)
    spread = np.where(some, high - low, 0.0)[some] / np.where(largest > 0, largest, 1.0)[some]
    numbers = {
        "spread": float(spread.max(initial=0.0)),
        "gap": float((top - high)[some].min(initial=np.inf)),
    }
    return Check(numbers["spread"] <= _SAME_SCORE and numbers["gap"] > 0, numbers)


def general_position(problem: Problem, selected: Any) -> Check:
    """Whether the rows on the margin of some tokens' ATT-SVM are linearly independent.

    Parameters
    ----------
    problem : Problem
        One problem, no batch.
    selected : array_like of int, shape (n,)
        Tokens that can be separated.

    Returns
    -------
    Check
        Numbers "rows", how many neighbors there are, "rank", and "least", the smallest singular value of the rows
        scaled to norm 1; the rank counts those above 1e-9. No rows are independent, with least inf.

    Raises
    ------
    TypeError, ValueError
        For an argument that is no Problem, a batch, and tokens that cannot be separated.

    Notes
    -----
    The paper asks it of all sets of at most d differences of keys; the theorems use it at the margin only.

    Examples
    --------
    >>> import fastmm as mm
    >>> problem = mm.Problem([[[1, 0], [0, 0]], [[-2, 1], [0, 0]]], [1, 1], [1, 3])
    >>> mm.theory.general_position(problem, [0, 0]).numbers["rank"]
    2.0
    """
    _need_one(problem)
    found = local_optimality(problem, selected)
    if np.ndim(found.feasible):
        raise ValueError(f"selected: got shape {np.shape(selected)}; allowed: (n,)")
    if not found.feasible:
        raise ValueError(f"selected: got {np.asarray(selected).tolist()}, which cannot be separated")
    i, t = np.nonzero(found.neighbors)
    rows = problem.K[i, np.asarray(selected)[i]].astype(np.float64) - problem.K[i, t]
    norms = np.linalg.norm(rows, axis=-1, keepdims=True)
    values = np.linalg.svd(rows / np.where(norms > 0, norms, 1.0), compute_uv=False) if len(rows) else np.zeros(0)
    rank = int((values > _FULL_RANK).sum())
    least = 0.0 if len(rows) > rows.shape[1] else float(values.min(initial=np.inf))
    return Check(rank == len(rows), {"rows": float(len(rows)), "rank": float(rank), "least": least})


def _need_one(problem: Any) -> None:
    if not isinstance(problem, Problem):
        raise TypeError(f"problem: got {type(problem).__name__}; allowed: a Problem")
    if problem.batch_shape:
        raise ValueError(f"problem: got a batch of shape {problem.batch_shape}; allowed: one problem")

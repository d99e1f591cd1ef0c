"""Local and global optimality of a choice of tokens."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from fastmm import arrays, integers
from fastmm.arrays import BoolArray, FloatArray, IntArray
from fastmm.margin import MaxMargin, att_svm
from fastmm.problem import Problem


@dataclass(frozen=True, eq=False)
class LocalOptimality:
    """What a choice of tokens is, for one problem or a batch with the leading dimensions ``...``.

    Attributes
    ----------
    feasible : bool or ndarray of bool, shape (...)
        Whether some vector separates the selected tokens from the others.
    locally_optimal : bool or ndarray of bool, shape (...)
        Whether every neighbor of the ATT-SVM has a strictly smaller score than the selected token of its input; False
        where infeasible.
    globally_optimal : bool or ndarray of bool, shape (...)
        Whether every selected token has the largest score of its input, ties included.
    neighbors : ndarray of bool, shape (..., n, T)
        Tokens on the margin of the ATT-SVM.
    min_score_gap : float or ndarray, shape (...)
        Smallest score of a selected token minus that of a neighbor; inf without neighbors, NaN where infeasible.
    solution : MaxMargin
        Answer of the ATT-SVM.
    """

    feasible: Any
    locally_optimal: Any
    globally_optimal: Any
    neighbors: BoolArray
    min_score_gap: Any
    solution: MaxMargin

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, LocalOptimality):
            return NotImplemented
        names = [field.name for field in fields(self) if field.name != "solution"]
        same = (
            np.array_equal(getattr(self, name), getattr(other, name), equal_nan=name == "min_score_gap")
            for name in names
        )
        return self.solution == other.solution and all(same)

    __hash__ = None  # type: ignore[assignment]


def local_optimality(problem: Problem, selected: Any, *, threads: int | None = None) -> LocalOptimality:
    """Decides whether a choice of tokens is feasible, locally optimal and globally optimal.

    Parameters
    ----------
    problem : Problem
        Its keys and scores are used.
    selected : array_like of int, shape (..., n)
        The selected token of each input; leading dimensions broadcast with those of the problem, so that one problem
        can be asked about many choices at once.
    threads : int, optional
        For the ATT-SVMs; see `fastmm.config.resolve_threads`.

    Returns
    -------
    LocalOptimality

    Raises
    ------
    NotSolvedError
        When an ATT-SVM ends neither with a certified answer nor with a proof of infeasibility.
    TypeError, ValueError
        For an argument that is no Problem, and for indices outside the sequences.

    Notes
    -----
    Neighbors are found by their margin, not by their multiplier, and scores compared exactly as computed.

    References
    ----------
    Tarzanagh, Li, Zhang, Oymak, "Max-Margin Token Selection in Attention Mechanism", NeurIPS 2023, definition 2.

    Examples
    --------
    >>> import fastmm as mm
    >>> problem = mm.Problem([[[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]], [1.0], [1.0, 0.5])
    >>> answer = mm.theory.local_optimality(problem, [0])
    >>> answer.locally_optimal, answer.min_score_gap
    (True, 0.5)
    """
    if not isinstance(problem, Problem):
        raise TypeError(f"problem: got {type(problem).__name__}; allowed: a fastmm.Problem")
    tokens = integers.as_selected("selected", selected, problem.n, problem.T, problem.lengths)
    batch = arrays.broadcast_batch([("problem", problem.batch_shape), ("selected", tokens.shape[:-1])])
    tokens = np.broadcast_to(tokens, (*batch, problem.n))
    solution = att_svm(problem.K, tokens, lengths=problem.lengths, threads=threads, throw=False)
    solution.check_decided("local_optimality")
    return judge(np.broadcast_to(problem.scores, (*batch, problem.n, problem.T)), problem.real_tokens, tokens, solution)


def judge(scores: FloatArray, real: BoolArray, selected: IntArray, solution: MaxMargin) -> LocalOptimality:
    """What the selected tokens (..., n) with these scores (..., n, T) are, given the answer of their program."""
    feasible = np.asarray(solution.optimal)
    own = np.take_along_axis(scores, selected[..., None], axis=-1)
    gaps = np.where(solution.neighbors, own - scores, np.inf)
    gap = np.where(feasible, gaps.min((-2, -1), initial=np.inf), np.nan)
    best = np.where(real, scores, -np.inf).max(-1)
    globally = (own[..., 0] == best).all(-1)
    locally = feasible & (gaps > 0).all((-2, -1))
    if feasible.ndim:
        return LocalOptimality(feasible, locally, globally, solution.neighbors, gap, solution)
    return LocalOptimality(bool(feasible), bool(locally), bool(globally), solution.neighbors, float(gap), solution)

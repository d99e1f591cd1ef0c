"""Which kind of max-margin direction a run has found, with the evidence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fastmm.arrays import IntArray
from fastmm.descent import Trajectory
from fastmm.problem import Problem
from fastmm.theory.correlation import correlation
from fastmm.theory.optimality import LocalOptimality, local_optimality

KINDS = ("global", "local", "neither", "unsaturated", "infeasible", "tie")


@dataclass(frozen=True, eq=False)
class Classification:
    """Where a run, or a batch of runs with the leading dimensions ``...``, has gone.

    Attributes
    ----------
    kind : str or ndarray of str, shape (...)
        "unsaturated": some input has not settled on a token, so the selection means little. "infeasible": no vector
        separates the selection. "tie": the smallest score gap is exactly 0. "global", "local": a GMM or another LMM
        direction. "neither": a neighbor has a larger score.
    saturation, correlation : float or ndarray, shape (...)
        ``min_i max_t`` of the weights, and the cosine of p with the selection's max-margin direction (NaN if
        infeasible).
    selected : ndarray of int, shape (..., n)
    min_score_gap : float or ndarray, shape (...)
    optimality : LocalOptimality
        With the certificate of the program in its ``.solution.certificate``.
    """

    kind: Any
    saturation: Any
    correlation: Any
    selected: IntArray
    min_score_gap: Any
    optimality: LocalOptimality


def classify(
    problem: Problem, run: Trajectory, *, saturation: float = 0.999, threads: int | None = None
) -> Classification:
    """Whether runs of p found a global, a local or no max-margin direction.

    Parameters
    ----------
    problem : Problem
        Whose scores judge: the run's own problem, or the same data with another head.
    run : Trajectory
        Runs in p.
    saturation : float
        Least ``min_i max_t`` of the attention weights to take the selection seriously, in (0, 1].
    threads : int, optional

    Returns
    -------
    Classification

    Raises
    ------
    NotSolvedError
        When an ATT-SVM is neither certified nor proved infeasible.
    TypeError, ValueError
        For other arguments, and runs that have no p.

    Notes
    -----
    One ATT-SVM a run, in one batch. The paper, section 3 and Appendix E.

    Examples
    --------
    >>> import fastmm as mm
    >>> problem = mm.Problem([[[-0.1, 1.0], [1.0, 0.0], [0.0, 0.0]]], [1.0], [0.9, 1.09])
    >>> run = mm.descend(problem, p0=[[0.0, 1.0], [0.0, -1.0], [9.0, -9.0]], steps=1000)
    >>> mm.theory.classify(problem, run).kind.tolist()
    ['global', 'local', 'local']
    >>> mm.theory.classify(problem, mm.descend(problem, steps=1)).kind
    'unsaturated'
    """
    if not isinstance(run, Trajectory):
        raise TypeError(f"run: got {type(run).__name__}; allowed: a fastmm.Trajectory")
    if run.p is None:
        raise ValueError(f"run: got a run of {run.train}; allowed: one with a query p")
    if isinstance(saturation, bool) or not isinstance(saturation, int | float) or not 0 < saturation <= 1:
        raise ValueError(f"saturation: got {saturation!r}; allowed: a number in (0, 1]")
    found = local_optimality(problem, run.selected, threads=threads)
    gap, feasible = np.asarray(found.min_score_gap), np.asarray(found.feasible)
    w = np.where(feasible[..., None], found.solution.w, 0.0)  # the zero vector has no direction: NaN
    kind = np.select(
        [np.asarray(run.saturation) < saturation, ~feasible, gap == 0, gap < 0, np.asarray(found.globally_optimal)],
        ["unsaturated", "infeasible", "tie", "neither", "global"],
        "local",
    )
    return Classification(
        kind if kind.ndim else str(kind),
        run.saturation,
        correlation(run.p, w),
        run.selected,
        found.min_score_gap,
        found,
    )

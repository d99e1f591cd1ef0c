"""What a run of gradient descent has arrived at, with the evidence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fastmm.arrays import IntArray
from fastmm.problem import Problem
from fastmm.theory.correlation import correlation
from fastmm.theory.optimality import LocalOptimality, local_optimality

VERDICTS = ("global", "local", "tie", "neither", "infeasible", "unsaturated")


@dataclass(frozen=True, eq=False)
class Verdict:
    """What one run, or each of a batch with the leading dimensions ``...``, has arrived at.

    Attributes
    ----------
    kind : str, or ndarray of str, shape (...)
        "unsaturated": some input has not settled on a token. Else, of the tokens with the largest weights,
        "infeasible": no vector separates them; "global": they have the best scores and no neighbor as good;
        "local": locally optimal, not globally; "tie": some neighbor has exactly the score of a selected token and none
        a larger one; "neither": some neighbor has a larger score.
    selected : ndarray of int, shape (..., n)
        The tokens with the largest weights.
    saturation : float or ndarray, shape (...)
        ``min_i max_t`` of the weights.
    correlation : float or ndarray, shape (...)
        Of the run's p with the max-margin vector of these tokens; NaN where infeasible.
    min_score_gap : float or ndarray, shape (...)
        Smallest score of a selected token minus that of a neighbor; inf without neighbors, NaN where infeasible.
    optimality : LocalOptimality
        With the certified answer of the ATT-SVM.
    """

    kind: Any
    selected: IntArray
    saturation: Any
    correlation: Any
    min_score_gap: Any
    optimality: LocalOptimality


def classify(problem: Problem, run: Any, *, saturated: float = 0.999, threads: int | None = None) -> Verdict:
    """Decides what a run of gradient descent in p has arrived at.

    Parameters
    ----------
    problem : Problem
    run : Trajectory
        A run on this problem whose p was trained, or given.
    saturated : float
        The saturation from which a run counts as settled, above 0 and at most 1.
    threads : int, optional
        For the ATT-SVMs; see `fastmm.config.resolve_threads`.

    Returns
    -------
    Verdict

    Raises
    ------
    TypeError, ValueError
        For arguments of another kind, runs in W, a threshold outside (0, 1].
    NotSolvedError
        When an ATT-SVM ends neither with a certified answer nor with a proof of infeasibility.

    Notes
    -----
    Scores are compared exactly as computed. A selection with the best scores whose neighbor ties with it is a "tie":
    its program is then that over sets of tokens (`fastmm.att_svm_sets`).

    References
    ----------
    Tarzanagh, Li, Zhang, Oymak, "Max-Margin Token Selection in Attention Mechanism", NeurIPS 2023, definition 2.

    Examples
    --------
    >>> import fastmm as mm
    >>> problem = mm.Problem([[[1, 0], [0, 0]], [[-2, 1], [0, 0]]], [1, 1], [1, 3])
    >>> runs = mm.descend(problem, p0=[[0, 0], [4, 0]], steps=1000)
    >>> mm.theory.classify(problem, runs).kind.tolist()
    ['global', 'local']
    """
    if not isinstance(problem, Problem):
        raise TypeError(f"problem: got {type(problem).__name__}; allowed: a Problem")
    for name in ("p", "selected", "saturation"):
        if not hasattr(run, name):
            raise TypeError(f"run: got {type(run).__name__}; allowed: a Trajectory, as `fastmm.descend` returns")
    if run.p is None:
        raise ValueError("run: got one in W; allowed: runs in p (of W, classify W'z)")
    if isinstance(saturated, bool) or not isinstance(saturated, int | float) or not 0 < saturated <= 1:
        raise ValueError(f"saturated: got {saturated!r}; allowed: a number above 0 and at most 1")
    found = local_optimality(problem, run.selected, threads=threads)
    near = np.asarray(correlation(run.p, np.where(np.isfinite(found.solution.w), found.solution.w, 0.0)))
    gap = np.asarray(found.min_score_gap)
    conditions = [
        ~(np.asarray(run.saturation) >= saturated),
        ~np.asarray(found.feasible),
        gap < 0,
        gap == 0,
        np.asarray(found.globally_optimal),
    ]
    kind = np.select(conditions, ["unsaturated", "infeasible", "neither", "tie", "global"], "local")
    single = kind.ndim == 0
    return Verdict(
        str(kind) if single else kind,
        run.selected,
        run.saturation,
        float(near) if single else near,
        found.min_score_gap,
        found,
    )

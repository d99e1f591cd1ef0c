"""The conditions of Lemma 2 and of Theorems 1 to 6, as lists of checks."""

from __future__ import annotations

from typing import Any

import numpy as np

from fastmm import losses
from fastmm.arrays import FloatArray
from fastmm.losses import Loss
from fastmm.margin import att_svm, label_svm
from fastmm.problem import Problem
from fastmm.theory.assumptions import (
    RANK,
    Check,
    assumption_a,
    assumption_b,
    assumption_c,
    distinct_scores,
    general_position,
    unique_optimum,
)
from fastmm.theory.lipschitz import smoothness
from fastmm.theory.optimality import local_optimality
from fastmm.theory.padding import keys_of, values_of
from fastmm.theory.single import single, single_selection


def separable(problem: Problem, selected: Any = None) -> Check:
    """Whether the ATT-SVM of a selection (by default the optimal tokens) is feasible, and its margin.

    Examples
    --------
    >>> import fastmm as mm
    >>> mm.theory.separable(mm.Problem([[[1.0, 0.0], [0.0, 0.0]]], [1.0], [1.0, 0.5])).numbers
    {'margin': 1.0}
    """
    single("separable", problem)
    chosen = problem.optimal if selected is None else single_selection("separable", problem, selected)
    found = local_optimality(problem, chosen)
    return Check("ATT-SVM feasible", bool(found.feasible), {"margin": float(found.solution.margin)})


def lemma2(problem: Problem) -> Check:
    """Lemma 2: unique optimal tokens, labels +1 and v in the range of W' make the optimal tokens separable.

    The witness is ``p = (W')^+ v``, for which ``K p = X v``: the logits are the scores. The claim needs positive
    labels; with mixed ones it fails. A problem without W has ``W = I`` if its keys are its tokens.

    Returns
    -------
    Check
        ``.numbers`` has the witness "p", the smallest difference of logits it leaves ("separation"), and the
        "residual" of v against the range of W'.

    Examples
    --------
    >>> import fastmm as mm
    >>> check = mm.theory.lemma2(mm.Problem([[[1.0, 0.0], [0.0, 0.0]]], [1.0], [1.0, 0.5]))
    >>> check.ok, check.numbers["p"].tolist()
    (True, [1.0, 0.5])
    """
    single("lemma2", problem)
    v = problem.v.astype(np.float64)
    if problem.W is not None and problem.Z is None:
        W = problem.W.astype(np.float64)
    elif problem.K is problem.X:
        W = np.eye(problem.d)
    else:
        raise ValueError(
            "problem: has keys of its own; allowed in lemma2: keys made by a W, or keys that are the tokens"
        )
    p: FloatArray = np.linalg.pinv(W.T) @ v
    residual = float(np.linalg.norm(W.T @ p - v) / max(float(np.linalg.norm(v)), np.finfo(float).tiny))
    real = np.broadcast_to(problem.real_tokens, (problem.n, problem.T))
    logits = keys_of(problem) @ p
    own = np.take_along_axis(logits, problem.optimal[:, None], axis=1)
    others = real & (np.arange(problem.T) != problem.optimal[:, None])
    separation = float(np.where(others, own - logits, np.inf).min(initial=np.inf))
    ok = bool(np.all(problem.Y > 0)) and residual <= RANK and unique_optimum(problem).ok and separation > 0
    return Check("Lemma 2", ok, {"p": p, "separation": separation, "residual": residual})


def theorem_conditions(
    problem: Problem,
    theorem: int,
    selected: Any = None,
    *,
    loss: str | Loss = "logistic",
    lr: float | None = None,
) -> list[Check]:
    """The conditions of Theorems 1 to 6 on a problem, one check each; all must hold.

    Parameters
    ----------
    problem : Problem
        A single one.
    theorem : {1, 2, 3, 4, 5, 6}
    selected : array_like of int, shape (n,), optional
        Of Theorems 3 to 6; the optimal tokens by default.
    loss : {"logistic", "exponential", "correlation"}
    lr : float, optional
        Constant step of the gradient descent of Theorems 2 and 3; without it the largest admissible one is taken.

    Returns
    -------
    list of Check

    Raises
    ------
    TypeError, ValueError
        For other arguments.

    Notes
    -----
    Not checkable here and left out: that radii and cones are "large" or "suitable" (see `cone`), and the growth
    condition of r against R of Theorems 5 and 6, whose printed form was not available to us.

    Examples
    --------
    >>> import fastmm as mm
    >>> problem = mm.Problem([[[1.0, 0.0], [0.0, 0.0]]], [1.0], [1.0, 0.5])
    >>> [check.name for check in mm.theory.theorem_conditions(problem, 2) if check]
    ['Assumption A', 'Assumption B', 'one input', 'ATT-SVM feasible', 'step size']
    """
    single("theorem_conditions", problem)
    if isinstance(theorem, bool) or theorem not in range(1, 7):
        raise ValueError(f"theorem: got {theorem!r}; allowed: 1 to 6")
    kind = losses.get(loss)
    chosen = problem.optimal if selected is None else single_selection("theorem_conditions", problem, selected)
    checks = [assumption_a(problem, kind)]
    if theorem == 1:
        checks += [unique_optimum(problem), separable(problem)]
    elif theorem == 2:
        one = Check("one input", problem.n == 1, {"n": problem.n})
        checks += [assumption_b(problem), one, separable(problem), _step_size(problem, kind, lr)]
    elif theorem == 3:
        found = local_optimality(problem, chosen)
        local = Check("locally optimal", bool(found.locally_optimal), {"min_score_gap": float(found.min_score_gap)})
        checks += [local, _step_size(problem, kind, lr)]
    elif theorem == 4:
        checks += [distinct_scores(problem), general_position(problem, chosen)]
    else:
        logistic = Check("logistic loss", kind.name == "logistic", {"loss": kind.name})
        checks += [logistic, separable(problem, chosen), assumption_c(problem, chosen, support_only=theorem == 6)]
        if theorem == 6:
            checks.append(_relaxed(problem, chosen))
    return checks


def _step_size(problem: Problem, loss: Loss, lr: float | None) -> Check:
    largest = float(smoothness(problem, "paper", loss).largest_step)
    lr = largest if lr is None else float(lr)
    return Check("step size", 0 < lr <= largest, {"lr": lr, "largest": largest})


def _relaxed(problem: Problem, selected: Any) -> Check:
    """The relaxed ATT-SVM: margin 1 for inputs on the label margin, 0 for the others."""
    X = values_of(problem)
    found = label_svm(np.take_along_axis(X, selected[:, None, None], axis=1)[:, 0], problem.Y, throw=False)
    if not found.optimal:
        return Check("relaxed ATT-SVM feasible", False, {"margin": 0.0})
    relaxed = att_svm(problem.K, selected, relaxed=~found.neighbors, lengths=problem.lengths, throw=False)
    return Check("relaxed ATT-SVM feasible", bool(relaxed.optimal), {"margin": float(relaxed.margin)})

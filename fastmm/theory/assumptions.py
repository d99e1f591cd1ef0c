"""The paper's assumptions, as checks that answer yes or no with the numbers behind it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np

from fastmm import losses
from fastmm.losses import Loss
from fastmm.margin import label_svm
from fastmm.problem import Problem
from fastmm.theory.lipschitz import slope_bounds
from fastmm.theory.padding import keys_of, values_of
from fastmm.theory.single import single, single_selection

TIE = 1e-12  # scores closer than this, relative to the largest, count as one in Assumption B
RANK = 1e-9  # singular values below this, relative to the largest, count as 0
_MOST_SUBSETS = 200_000


@dataclass(frozen=True)
class Check:
    """Whether a condition holds, and the numbers that say so.

    Attributes
    ----------
    name : str
    ok : bool
    numbers : dict
    evidence : str
        How it was decided: "exact", or "sampled" where only a failure is a proof.
    """

    name: str
    ok: bool
    numbers: dict[str, Any] = field(default_factory=dict)
    evidence: str = "exact"

    def __bool__(self) -> bool:
        return self.ok


def assumption_a(problem: Problem, loss: str | Loss = "logistic") -> Check:
    """Assumption A: on the range [-B, B] of the margins the loss decreases strictly and its slope is Lipschitz.

    Examples
    --------
    >>> import fastmm as mm
    >>> mm.theory.assumption_a(mm.Problem([[[1.0], [0.0]]], [1.0], [1.0]), "correlation").numbers
    {'B': 1.0, 'M1': 1.0, 'M0': 0.0, 'least_slope': 1.0}
    """
    single("assumption_a", problem)
    least, M1, M0 = (float(part) for part in slope_bounds(problem, losses.get(loss)))
    B = float(np.nanmax(np.abs(problem.scores), initial=0))
    ok = least > 0 and math.isfinite(M1) and math.isfinite(M0)
    return Check("Assumption A", ok, {"B": B, "M1": M1, "M0": M0, "least_slope": least})


def assumption_b(problem: Problem) -> Check:
    """Assumption B: in every input all tokens but the optimal one share one score, which is smaller.

    Examples
    --------
    >>> import fastmm as mm
    >>> mm.theory.assumption_b(mm.Problem([[[2.0], [0.0], [0.0]]], [1.0], [1.0])).ok
    True
    """
    single("assumption_b", problem)
    spread, gap = 0.0, math.inf
    scale = float(np.nanmax(np.abs(problem.scores), initial=0))
    for row, real in zip(problem.scores, np.broadcast_to(problem.real_tokens, problem.scores.shape), strict=True):
        own = np.sort(row[real])
        if len(own) > 1:
            spread, gap = max(spread, float(own[-2] - own[0])), min(gap, float(own[-1] - own[-2]))
    return Check("Assumption B", spread <= TIE * scale and gap > 0, {"spread": spread, "gap": gap})


def unique_optimum(problem: Problem) -> Check:
    """Whether every input has one best token, and by how much it is the best (inf where it is alone).

    Examples
    --------
    >>> import fastmm as mm
    >>> mm.theory.unique_optimum(mm.Problem([[[2.0], [0.5]]], [1.0], [1.0])).numbers
    {'gap': 1.5}
    """
    single("unique_optimum", problem)
    ordered = np.sort(np.where(problem.real_tokens, problem.scores, -np.inf), axis=-1)
    gap = float((ordered[..., -1] - ordered[..., -2]).min(initial=np.inf)) if problem.T > 1 else math.inf
    return Check("unique optimal tokens", gap > 0, {"gap": gap})


def distinct_scores(problem: Problem) -> Check:
    """Whether no two tokens of an input have the same score (a condition of Theorem 4).

    Examples
    --------
    >>> import fastmm as mm
    >>> mm.theory.distinct_scores(mm.Problem([[[2.0], [0.5], [0.5]]], [1.0], [1.0])).ok
    False
    """
    single("distinct_scores", problem)
    ordered = np.sort(np.where(problem.real_tokens, problem.scores, np.inf), axis=-1)
    steps = np.where(np.isfinite(ordered[..., 1:]), ordered[..., 1:] - ordered[..., :-1], np.inf)
    least = float(steps.min(initial=np.inf))
    return Check("distinct scores", least > 0, {"least_difference": least})


def general_position(problem: Problem, selected: Any) -> Check:
    """Whether every min(d_k, rows) of the differences ``k_i,selected - k_it`` are linearly independent.

    That is decided exactly for up to 200,000 subsets of rows, else on as many random ones (evidence "sampled").

    Examples
    --------
    >>> import fastmm as mm
    >>> problem = mm.Problem([[[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]], [1.0], [1.0, 0.5])
    >>> mm.theory.general_position(problem, [0]).ok
    True
    """
    selected = single_selection("general_position", problem, selected)
    keys = keys_of(problem)
    own = np.take_along_axis(keys, selected[:, None, None], axis=1)
    keep = np.broadcast_to(problem.real_tokens, (problem.n, problem.T)) & (np.arange(problem.T) != selected[:, None])
    rows = (own - keys)[keep]
    size = min(problem.d_k, len(rows))
    if size == 0:
        return Check("general position", True, {"rows": len(rows), "subsets": 0, "least_singular_value": math.inf})
    count = math.comb(len(rows), size)
    exact = count <= _MOST_SUBSETS
    if exact:
        subsets = np.array(list(combinations(range(len(rows)), size)))
    else:
        rng = np.random.default_rng(0)
        subsets = np.array([rng.choice(len(rows), size, replace=False) for _ in range(2000)])
    values = np.linalg.svd(rows[subsets], compute_uv=False)
    scale = np.where(values[:, 0] > 0, values[:, 0], 1.0)
    least = float((values[:, -1] / scale).min())
    numbers = {"rows": len(rows), "subsets": len(subsets), "least_singular_value": least}
    return Check("general position", least > RANK, numbers, "exact" if exact else "sampled")


def assumption_c(
    problem: Problem, selected: Any, *, support_only: bool = False, samples: int = 400, seed: int = 0
) -> Check:
    """Assumption C: mixing other tokens into the selected ones lowers the label margin in proportion.

    ``Gamma(s) <= Gamma - nu max_i (1 - s_i,selected)`` for some ``nu > 0``, where Gamma(s) is the label margin of the
    pooled tokens ``X_i' s_i``. The smallest ratio over random weights s near the selection and further away bounds nu
    from above; a nonpositive one refutes the assumption, a positive one is evidence only. The paper's exact form was
    not available to us.

    Parameters
    ----------
    problem : Problem
    selected : array_like of int, shape (n,)
    support_only : bool
        Mix only inputs on the label margin, as Theorem 6 needs.
    samples, seed : int

    Examples
    --------
    >>> import fastmm as mm
    >>> problem = mm.Problem([[[0.0], [1.0]], [[0.0], [-1.0]]], [1.0, -1.0], [1.0])
    >>> round(mm.theory.assumption_c(problem, [1, 1]).numbers["nu"], 6)
    1.0
    """
    selected = single_selection("assumption_c", problem, selected)
    n, T = problem.n, problem.T
    X = values_of(problem)
    chosen = np.take_along_axis(X, selected[:, None, None], axis=1)[:, 0]
    whole = label_svm(chosen, problem.Y, throw=False)
    if not whole.optimal:
        return Check("Assumption C", False, {"Gamma": 0.0, "nu": 0.0})
    inputs = np.flatnonzero(whole.neighbors) if support_only else np.arange(n)
    rng = np.random.default_rng(seed)
    moved = np.zeros((samples, n))
    for k in range(samples):  # one, two or all inputs, from little to much
        some = rng.choice(inputs, size=min(len(inputs), (1, 2, len(inputs))[k % 3]), replace=False)
        moved[k, some] = rng.random(len(some)) * 10.0 ** -rng.integers(0, 4)
    others = np.broadcast_to(problem.real_tokens, (n, T)) & (np.arange(T) != selected[:, None])
    share = rng.exponential(size=(samples, n, T)) * others
    total = share.sum(-1, keepdims=True)
    share = np.divide(share, total, out=np.zeros_like(share), where=total > 0)
    moved = np.where(others.any(-1), moved, 0.0)
    pooled = (1 - moved)[..., None] * chosen + moved[..., None] * np.einsum("snt,ntd->snd", share, X)
    found = label_svm(pooled, problem.Y, throw=False)
    margin = np.where(found.optimal, found.margin, 0.0)
    most = moved.max(-1)
    ratio = (whole.margin - margin)[most > 0] / most[most > 0]
    nu = float(ratio.min(initial=np.inf))
    return Check("Assumption C", nu > 1e-9, {"Gamma": float(whole.margin), "nu": nu}, "sampled")


def assumption_d(problem: Problem, loss: str | Loss = "logistic", delta: float = 1.0) -> Check:
    """Assumption D (mixing hurts) for the linear head: smaller total weight off the optimal tokens, smaller risk.

    For every ``delta > 0`` there is a ``rho < 0`` such that ``log q_max(p) <= (1 + delta) log q_max(p') + rho`` implies
    ``L(p) < L(p')``, q_i the weight off the optimal tokens of input i. For a linear head and a strictly decreasing
    loss ``rho = log(c m / (n C M))`` serves for all of them: c, C are the smallest and largest score gaps, m, M the
    bounds of ``|ell'|``. The derivation is ours; the paper's printed form was not available.

    Examples
    --------
    >>> import fastmm as mm
    >>> check = mm.theory.assumption_d(mm.Problem([[[2.0], [0.0]]], [1.0], [1.0]), "correlation")
    >>> check.ok, check.numbers["rho"]
    (True, 0.0)
    """
    single("assumption_d", problem)
    if not delta > 0:
        raise ValueError(f"delta: got {delta!r}; allowed: a positive number")
    best = np.where(problem.real_tokens, problem.scores, -np.inf).max(-1, keepdims=True)
    gaps = best - problem.scores
    gaps = gaps[np.broadcast_to(problem.real_tokens, gaps.shape) & (gaps > 0)]
    if not gaps.size:
        return Check("Assumption D", False, {"rho": math.nan, "least_gap": math.nan, "largest_gap": math.nan})
    least, largest, _ = (float(part) for part in slope_bounds(problem, losses.get(loss)))
    c, C = float(gaps.min()), float(gaps.max())
    rho = math.log(c * least / (problem.n * C * largest)) if least > 0 else -math.inf
    return Check("Assumption D", math.isfinite(rho), {"rho": rho, "least_gap": c, "largest_gap": C})

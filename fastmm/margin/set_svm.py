"""ATT-SVM with sets of optimal tokens: exact by branch and bound over the token each input selects."""

from __future__ import annotations

import heapq
import itertools
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from fastmm import arrays, integers
from fastmm.arrays import BoolArray, FloatArray, IntArray
from fastmm.errors import InfeasibleError, NotSolvedError, Status
from fastmm.margin.active_set import solve
from fastmm.margin.least_norm import RowProgram
from fastmm.margin.program import Options

TIE = 1e-9  # relative difference of norms that counts as a tie
_SATISFIED = 1e-9


@dataclass(frozen=True, eq=False)
class SetSolution:
    """One minimiser.

    Attributes
    ----------
    w : ndarray, shape (d,)
    selected : ndarray of int64, shape (n,)
        The optimal token of each input that stands furthest above the tokens outside its set.
    margin : float
        ``1 / ||w||``.
    dual : ndarray, shape (n, T)
        Multipliers of the rows ``w'(k_selected - k_t) >= 1`` that determine w, 0 for all others.
    """

    w: FloatArray
    selected: IntArray
    margin: float
    dual: FloatArray


@dataclass(frozen=True, eq=False, repr=False)
class SetMargin:
    """Answer of `att_svm_sets`, for one program or a batch with the leading dimensions ``...``.

    Attributes
    ----------
    w : ndarray, shape (..., d)
        The first minimiser, or the best point found where a limit was hit (then `gap` says how good it is); NaN where
        there is none.
    margin : float or ndarray, shape (...)
        ``1 / ||w||``; infinite for ``w = 0``.
    selected : ndarray of int64, shape (..., n)
        The token each input selects at w; -1 where there is no w.
    solutions : list of SetSolution
        All minimisers, those of equal norm (to 1e-9) included, in the order of `selected`. For a batch a list of such
        lists, one a program in C order.
    status : Status or ndarray of int8, shape (...)
        optimal, infeasible for every choice of tokens, or why the search ended early.
    nodes : int or ndarray of int64, shape (...)
        Relaxed programs solved.
    gap : float or ndarray, shape (...)
        Norm of w over the lower bound of all norms, minus 1: 0 when the search was complete, NaN without a point.
    """

    w: FloatArray
    margin: Any
    selected: IntArray
    solutions: list[Any]
    status: Any
    nodes: Any
    gap: Any

    def __repr__(self) -> str:
        if isinstance(self.status, Status):
            return f"<SetMargin {self.status.name}: {len(self.solutions)} solutions, {self.nodes} nodes>"
        good = int(np.sum(self.status == Status.optimal))
        return f"<SetMargin batch {self.status.shape}: {good} optimal, {int(np.sum(self.nodes))} nodes>"


def att_svm_sets(
    K: Any,
    sets: Any,
    lengths: Any = None,
    *,
    max_nodes: int = 100_000,
    time_limit: float | None = None,
    threads: int | None = None,
    throw: bool = True,
) -> SetMargin:
    """Solves ``min ||w||`` where each input has an optimal token that beats all others by 1 (ATT-SVM').

    ``max over a in O_i of min over b not in O_i of w'(k_ia - k_ib) >= 1`` for every input i. With several optimal
    tokens the feasible set is a union of polyhedra, one for each choice of a token an input, and there may be several
    minimisers.

    Parameters
    ----------
    K : array_like, shape (..., n, T, d)
        Keys.
    sets : array_like of bool, shape (..., n, T)
        The optimal tokens of each input, at least one; what stands behind its length is not read.
    lengths : array_like of int, shape (..., n), optional
        Lengths of sequences shorter than T.
    max_nodes : int
        Relaxed programs each search may solve.
    time_limit : float, optional
        Seconds for the whole call.
    threads : int, optional
        For the children of a node; the answer has the same bits for any number.
    throw : bool
        Whether to raise when a search does not end with an answer, or to return it with its status.

    Returns
    -------
    SetMargin

    Raises
    ------
    InfeasibleError, NotSolvedError
        With ``throw=True``, when no choice of tokens is feasible, or a limit was hit; ``.result`` has what was found.
    TypeError
        For complex and object arrays, and sets that are not booleans.
    ValueError
        For shapes that do not fit, an input without optimal token, NaN or infinity outside the padding.

    Notes
    -----
    A node fixes the token of some inputs; the others are left out, which bounds the norm from below. The open node of
    least bound is taken first. If its point already satisfies every input, it is a minimiser: no other point of the
    node is as short. Else the input violated most is branched on. Cost: one small program a node; the nodes are few
    when few inputs are in doubt, at worst the product of the sizes of the sets.

    References
    ----------
    Tarzanagh, Li, Zhang, Oymak, "Max-Margin Token Selection in Attention Mechanism", NeurIPS 2023, section 3.3 and
    Theorem 8.

    Examples
    --------
    >>> import fastmm as mm
    >>> K = [[[1.0, 0.0], [0.9, 0.9], [0.0, 0.0]], [[0.0, 1.0], [0.5, 0.6], [0.0, 0.0]]]
    >>> answer = mm.att_svm_sets(K, [[True, True, False]] * 2)
    >>> answer.w.round(6), answer.selected
    (array([0.111111, 1.      ]), array([1, 0]))
    """
    options = Options("auto", None, None, time_limit, threads, False)
    max_nodes = integers.as_count("max_nodes", max_nodes)
    keys, masks, real, batch = _read(K, sets, lengths)
    found = [_Search(k, o, r, options, max_nodes).run() for k, o, r in zip(keys, masks, real, strict=True)]
    result = _collect(found, batch, keys.shape[1], keys.shape[3])
    if throw:
        _check(result)
    return result


def _read(K: Any, sets: Any, lengths: Any) -> tuple[FloatArray, BoolArray, BoolArray, tuple[int, ...]]:
    """Keys (count, n, T, d) with 0 as padding, optimal tokens and real tokens (count, n, T)."""
    keys = arrays.floats("K", K, np.float64, ("n", "T", "d"), finite=False)
    n, T, d = keys.shape[-3:]
    if T == 0 or d == 0:
        raise ValueError(f"K: got shape {keys.shape}; allowed: (..., n, T, d) with T and d at least 1")
    masks = arrays.raw("sets", sets)
    if masks.dtype.kind != "b":
        raise TypeError(f"sets: got dtype {masks.dtype}; allowed: booleans, True for the optimal tokens")
    arrays.need_axes("sets", masks, ("n", "T"))
    arrays.need_shape("sets", masks, ("n", "T"), (n, T), "K")
    own = integers.as_lengths("lengths", lengths, n, T)
    own = np.full(n, T) if own is None else own
    batch = arrays.broadcast_batch([("K", keys.shape[:-3]), ("sets", masks.shape[:-2]), ("lengths", own.shape[:-1])])
    count = int(np.prod(batch))
    keys = np.broadcast_to(keys, (*batch, n, T, d)).reshape(count, n, T, d)
    real = np.arange(T) < np.broadcast_to(own, (*batch, n)).reshape(count, n, 1)
    keys = np.where(real[..., None], keys, 0.0)
    arrays.need_finite("K", keys)
    masks = np.broadcast_to(masks, (*batch, n, T)).reshape(count, n, T) & real
    bad = np.argwhere(~masks.any(axis=-1))
    if bad.size:
        place = [*np.unravel_index(bad[0, 0], batch), bad[0, 1]] if batch else [bad[0, 1]]
        raise ValueError(f"sets: entry {[int(k) for k in place]} has no optimal token; allowed: at least one an input")
    return keys, masks, real, batch


@dataclass(frozen=True)
class _Node:
    norm: float
    w: FloatArray
    dual: FloatArray  # (n, T)
    choice: IntArray  # (n,), -1 where open


class _Search:
    """Branch and bound for one program."""

    def __init__(self, keys: FloatArray, optimal: BoolArray, real: BoolArray, options: Options, max_nodes: int) -> None:
        self.n, self.T, self.d = keys.shape
        self.keys, self.optimal, self.other = keys, optimal, real & ~optimal
        self.options, self.max_nodes = options, max_nodes
        self.nodes = 0
        self.unsure: list[float] = []  # bounds of nodes whose programs could not be certified
        self.stopped: Status | None = None  # by a limit or an interrupt

    def run(self) -> tuple[list[SetSolution], Status, int, float]:
        """Minimisers (or the best point), status, nodes, gap."""
        choice = np.where(self.optimal.sum(axis=1) == 1, self.optimal.argmax(axis=1), -1)
        choice[~self.other.any(axis=1)] = -1  # nothing to beat
        order = itertools.count()  # ties in the heap are taken first come, first served
        heap = [(node.norm, next(order), node) for node in self._solve([choice], 0.0, None)]
        heapq.heapify(heap)
        found: list[_Node] = []
        best = np.inf
        while heap and heap[0][0] <= best * (1 + TIE):
            node = heap[0][2]
            worth = self._worth(node.w)
            worst = int(worth.argmin()) if self.n else 0
            if self.n == 0 or worth[worst] >= 1 - _SATISFIED:
                heapq.heappop(heap)
                found.append(node)
                best = min(best, node.norm)
                continue
            if self.nodes >= self.max_nodes:
                self.stopped = Status.max_iter
            if self.stopped is not None:
                break
            heapq.heappop(heap)
            children = []
            for token in np.flatnonzero(self.optimal[worst]):
                child = node.choice.copy()
                child[worst] = token
                children.append(child)
            for child_node in self._solve(children, node.norm, node.dual):
                if child_node.norm <= best * (1 + TIE):
                    heapq.heappush(heap, (child_node.norm, next(order), child_node))
        status = Status.optimal if self.stopped is None else self.stopped
        lowest = min([best, *self.unsure, *(entry[0] for entry in heap[:1])])
        if status == Status.optimal and any(bound <= best * (1 + TIE) for bound in self.unsure):
            status = Status.ill_conditioned
        if not found:
            complete = status == Status.optimal
            return [], Status.infeasible if complete else status, self.nodes, np.nan
        gap = 0.0 if status == Status.optimal or best == 0 else best / lowest - 1 if lowest > 0 else np.inf
        return self._distinct(found, best), status, self.nodes, gap

    def _worth(self, w: FloatArray) -> FloatArray:
        """By how much the best optimal token of each input beats all others; infinite where there are none."""
        return np.asarray(self._standing(w).max(axis=1))

    def _standing(self, w: FloatArray) -> FloatArray:
        logits = self.keys @ w
        rival = np.where(self.other, logits, -np.inf).max(axis=1)
        with np.errstate(invalid="ignore"):
            return np.where(self.optimal, logits - rival[:, None], -np.inf)

    def _solve(self, choices: list[IntArray], bound: float, dual: FloatArray | None) -> list[_Node]:
        """The relaxed programs of several nodes in one call; infeasible ones are left out."""
        count = len(choices)
        self.nodes += count
        A = np.zeros((count, self.n, self.T, self.d))
        b = np.full((count, self.n, self.T), -1.0)  # a zero row with -1 on the right: never active
        for k, choice in enumerate(choices):
            for i in np.flatnonzero(choice >= 0):
                A[k, i] = np.where(self.other[i][:, None], self.keys[i, choice[i]] - self.keys[i], 0.0)
                b[k, i, self.other[i]] = 1.0
        rows = self.n * self.T
        program = RowProgram(A.reshape(count, rows, self.d), b.reshape(count, rows), None, None)
        own = Options("auto", None, None, None, self.options.threads, False)
        if self.options.time_limit is not None:
            left = max(self.options.seconds_left, 1e-9)
            own = Options("auto", None, None, left, self.options.threads, False, begun=time.monotonic())
        start = None if dual is None else np.ascontiguousarray(np.broadcast_to(dual.reshape(rows), (count, rows)))
        answer = solve(program, own, start)
        found = []
        for k, choice in enumerate(choices):
            if answer.status[k] == Status.optimal:
                norm = float(1 / answer.margin[k]) if answer.margin[k] else np.inf
                found.append(_Node(norm, answer.w[k], answer.dual[k].reshape(self.n, self.T), choice))
            elif answer.status[k] != Status.infeasible:
                self.unsure.append(bound)
                if answer.status[k] != Status.ill_conditioned:  # time, or an interrupt, which counts as max_iter
                    self.stopped = Status(int(answer.status[k]))
        return found

    def _distinct(self, found: list[_Node], best: float) -> list[SetSolution]:
        """The minimisers without repetition, by the tokens they select."""
        kept: list[SetSolution] = []
        for node in found:
            if node.norm > best * (1 + TIE):
                continue
            if any(np.linalg.norm(node.w - other.w) <= 1e-7 * best for other in kept):
                continue
            standing = np.where(self.other.any(axis=1, keepdims=True), self._standing(node.w), self.optimal)
            selected = np.where(node.choice >= 0, node.choice, standing.argmax(axis=1))
            margin = 1 / node.norm if node.norm else np.inf
            kept.append(SetSolution(node.w, selected.astype(np.int64), margin, node.dual))
        return sorted(kept, key=lambda solution: solution.selected.tolist())


def _collect(found: list[Any], batch: tuple[int, ...], n: int, d: int) -> SetMargin:
    w = np.full((len(found), d), np.nan)
    selected = np.full((len(found), n), -1, np.int64)
    margin = np.full(len(found), np.nan)
    for k, (solutions, *_) in enumerate(found):
        if solutions:
            w[k], selected[k], margin[k] = solutions[0].w, solutions[0].selected, solutions[0].margin
    solutions = [entry[0] for entry in found]
    status = np.array([entry[1] for entry in found], np.int8).reshape(batch)
    nodes = np.array([entry[2] for entry in found], np.int64).reshape(batch)
    gap = np.array([entry[3] for entry in found], float).reshape(batch)
    if not batch:
        return SetMargin(w[0], float(margin[0]), selected[0], solutions[0], Status(int(status)), int(nodes), float(gap))
    return SetMargin(
        w.reshape(*batch, d), margin.reshape(batch), selected.reshape(*batch, n), solutions, status, nodes, gap
    )


def _check(result: SetMargin) -> None:
    status = np.array(result.status, np.int64, ndmin=1).reshape(-1)
    failed = [int(code) for code in status.tolist() if code != Status.optimal]
    if not failed:
        return
    codes = sorted(set(failed))
    if codes == [Status.infeasible]:
        raise InfeasibleError(
            f"att_svm_sets: {len(failed)} of {status.size} programs are infeasible for every choice of optimal tokens. "
            "Pass throw=False to get all answers with a status each.",
            result,
        )
    names = ", ".join(Status(code).name for code in codes)
    raise NotSolvedError(
        f"att_svm_sets: {len(failed)} of {status.size} searches ended without an answer ({names}): raise max_nodes or "
        "time_limit; `.result.gap` says how far the best point can be from the least norm. Pass throw=False to get it.",
        result,
    )

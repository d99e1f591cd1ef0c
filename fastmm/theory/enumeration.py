"""All locally optimal selections of a problem, by a search over prefixes that cuts what cannot be separated."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from fastmm import _core, integers
from fastmm.arrays import BoolArray, IntArray
from fastmm.config import resolve_threads
from fastmm.errors import Status
from fastmm.margin import MaxMargin
from fastmm.margin.attention_svm import AttProgram
from fastmm.problem import Problem
from fastmm.theory.single import single

_CHUNK = 256  # prefixes extended together: enough for the batch solver, few enough that a small budget finds leaves


@dataclass(frozen=True, eq=False)
class LocalDirection:
    """One locally optimal selection and its max-margin direction.

    Attributes
    ----------
    selected : ndarray of int, shape (n,)
    solution : MaxMargin
        Answer of its ATT-SVM.
    globally_optimal : bool
        Whether every selected token has the largest score of its input, ties included.
    min_score_gap : float
        Smallest score of a selected token minus that of a neighbor; inf without neighbors.
    """

    selected: IntArray
    solution: MaxMargin
    globally_optimal: bool
    min_score_gap: float


@dataclass(frozen=True)
class Pruned:
    """What a search decided without looking at every selection; numbers of selections are exact integers.

    Attributes
    ----------
    infeasible, scores : int
        Selections in the subtrees cut because their first tokens cannot be separated, and because no selected token
        in them has a competitor with a smaller score.
    unexplored : int
        Selections left when the budget ran out.
    undecided : int
        Selections whose program is neither certified nor proved infeasible.
    programs : int
        Max-margin programs solved.
    """

    infeasible: int
    scores: int
    unexplored: int
    undecided: int
    programs: int


class LocalDirections(list[LocalDirection]):
    """The list of locally optimal directions, best total score first.

    Attributes
    ----------
    feasible : int
        Selections found that can be separated.
    complete : bool
        Whether every selection of the problem has been decided.
    pruned : Pruned
    """

    feasible: int
    complete: bool
    pruned: Pruned


def locally_optimal_directions(
    problem: Problem, *, budget: int = 1_000_000, threads: int | None = None
) -> LocalDirections:
    """All locally optimal max-margin (LMM) directions of one problem.

    Parameters
    ----------
    problem : Problem
        A single one; its keys and scores are used.
    budget : int
        Most max-margin programs to solve. Whatever is found before it runs out is returned, with ``complete`` False;
        so it is after Ctrl-C.
    threads : int, optional
        See `fastmm.config.resolve_threads`; the answer is the same for any.

    Returns
    -------
    LocalDirections
        A list of `LocalDirection` with ``.complete``, ``.pruned`` and ``.feasible``.

    Raises
    ------
    TypeError, ValueError
        For an argument that is no Problem, a batch of problems, and a budget that is not a positive integer.

    Notes
    -----
    Selections are built input by input. A prefix is cut when its own program is proved infeasible: more inputs only
    add rows. So is one that no completion gives a selected token with a lower-scored competitor: the solution is a
    combination of its neighbors' rows, all of which must have lower scores. Single tokens and pairs of inputs are
    decided first, so that most candidates are refused by a table. The separable selections are the vertices of the
    Minkowski sum of the inputs' hulls: of the order of ``(n T)^(d-1)``, not ``T^n``, in d dimensions. Cost: one small
    program a separable prefix and candidate token.

    References
    ----------
    Tarzanagh, Li, Zhang, Oymak, "Max-Margin Token Selection in Attention Mechanism", NeurIPS 2023, definition 2.

    Examples
    --------
    >>> import fastmm as mm
    >>> problem = mm.Problem([[[-0.1, 1.0], [1.0, 0.0], [0.0, 0.0]]], [1.0], [0.9, 1.09])
    >>> found = mm.theory.locally_optimal_directions(problem)
    >>> [record.selected.tolist() for record in found], found.complete, found.pruned.infeasible
    ([[0], [1]], True, 0)
    """
    single("locally_optimal_directions", problem)
    return _Search(problem, integers.as_count("budget", budget), resolve_threads(threads)).run()


class _Search:
    """Depth first over chunks of prefixes; tokens of higher score come first, so that the best directions do."""

    def __init__(self, problem: Problem, budget: int, threads: int) -> None:
        self.problem, self.budget, self.threads = problem, budget, threads
        self.n, self.T = problem.n, problem.T
        self.real = np.broadcast_to(problem.real_tokens, (self.n, self.T))
        self.scores = np.where(self.real, problem.scores, -np.inf)
        self.order = np.argsort(-self.scores, axis=-1, kind="stable")
        lowest = np.where(self.real, self.scores, np.inf).min(-1, keepdims=True)
        self.beats: BoolArray = self.real & (self.scores > lowest)  # has a competitor with a smaller score
        self.counts = self.real.sum(-1).tolist()
        self.below = [1] * (self.n + 1)  # selections of the inputs from i on
        for i in reversed(range(self.n)):
            self.below[i] = self.below[i + 1] * self.counts[i]
        self.rows = self.counts != [1] * self.n
        self.keys = np.ascontiguousarray(problem.K.reshape(self.n, self.T, problem.d_k))
        self.lengths = None if problem.lengths is None else problem.lengths.reshape(self.n)
        self.infeasible = self.by_score = self.undecided = self.programs = self.feasible = 0
        self.found: list[tuple[IntArray, dict[str, Any], float]] = []

    def run(self) -> LocalDirections:
        stack = [np.zeros((1, 0), np.int64)]
        unexplored, before = 0, self._counts()
        try:
            alone = self._alone()
            self.together = self._pairs(alone)
            while stack:
                before = self._counts()
                unexplored += self._step(stack, alone)
        except KeyboardInterrupt:  # what the step in hand has counted is counted as unexplored instead
            self._count_again(before)
            unexplored += sum(len(prefixes) * self.below[prefixes.shape[1]] for prefixes in stack)
        return self._result(unexplored)

    def _step(self, stack: list[IntArray], alone: BoolArray) -> int:
        """The prefixes on top of the stack make way for those they begin; how many selections the budget forbids."""
        prefixes = stack[-1]
        depth = prefixes.shape[1]
        unexplored, more = 0, []
        if self.programs >= self.budget:
            unexplored = len(prefixes) * self.below[depth]
        elif len(prefixes) > _CHUNK:
            more = [prefixes[_CHUNK:], prefixes[:_CHUNK]]
        elif depth == self.n:  # no inputs at all
            self._decide(prefixes)
        else:
            candidates = self._extend(prefixes, alone)
            room = self.budget - self.programs
            unexplored = len(candidates[room:]) * self.below[depth + 1]
            kept = self._decide(candidates[:room]) if len(candidates) else candidates
            if depth + 1 < self.n and len(kept):
                more = [kept]
        stack[-1:] = more
        return unexplored

    def _counts(self) -> tuple[int, int, int, int, int]:
        return self.infeasible, self.by_score, self.undecided, self.feasible, len(self.found)

    def _count_again(self, counts: tuple[int, int, int, int, int]) -> None:
        self.infeasible, self.by_score, self.undecided, self.feasible, found = counts
        del self.found[found:]

    def _alone(self) -> BoolArray:
        """Tokens (n, T) that are not proved inseparable from the others of their input."""
        alone: BoolArray = self.real.copy()
        if self.n > 1:
            inputs, tokens = np.nonzero(self.real)
            alone[inputs, tokens] = self._possible(np.arange(self.n)[:, None], inputs, tokens[:, None])
        return alone

    def _pairs(self, alone: BoolArray) -> dict[tuple[int, int], BoolArray]:
        """For inputs j < i, tokens (T, T) that are not proved inseparable together; empty when it would not pay."""
        tokens = [np.flatnonzero(own) for own in alone]
        pairs = list(combinations(range(self.n), 2))
        sizes = [len(tokens[j]) * len(tokens[i]) for j, i in pairs]
        if self.n < 3 or sum(sizes) > self.budget // 4:
            return {}
        both = np.concatenate(
            [np.stack(np.meshgrid(tokens[j], tokens[i], indexing="ij"), -1).reshape(-1, 2) for j, i in pairs]
        )
        which = np.repeat(np.arange(len(pairs)), sizes)
        table = np.zeros((len(pairs), self.T, self.T), dtype=bool)
        table[which, both[:, 0], both[:, 1]] = self._possible(np.array(pairs), which, both)
        return dict(zip(pairs, table, strict=True))

    def _extend(self, prefixes: IntArray, alone: BoolArray) -> IntArray:
        """Candidates (count, depth + 1) that neither the tables nor the scores refuse."""
        depth = prefixes.shape[1]
        allowed = np.broadcast_to(alone[depth], (len(prefixes), self.T)).copy()
        if self.together:
            for j in range(depth):
                allowed &= self.together[j, depth][prefixes[:, j]]
        self.infeasible += (len(prefixes) * self.counts[depth] - int(allowed.sum())) * self.below[depth + 1]
        if self.rows and not self.beats[depth + 1 :].any():
            lost = allowed & ~self.beats[depth]
            if depth:
                lost &= ~self.beats[np.arange(depth), prefixes].any(-1, keepdims=True)
            self.by_score += int(lost.sum()) * self.below[depth + 1]
            allowed &= ~lost
        order = self.order[depth]
        row, place = np.nonzero(allowed[:, order])
        return np.concatenate([prefixes[row], order[place][:, None]], axis=1)

    def _decide(self, candidates: IntArray) -> IntArray:
        """Those that are not proved inseparable; whole selections are judged and noted."""
        depth = candidates.shape[1]
        if depth < self.n and depth <= (2 if self.together else 1):
            return candidates  # the tables have decided them
        raw = self._solve(np.arange(depth)[None], np.zeros(len(candidates), np.int64), candidates)
        status = raw["status"]
        infeasible = status == Status.infeasible
        self.infeasible += int(infeasible.sum()) * self.below[depth]
        if depth == self.n:
            solved = status == Status.optimal
            self.feasible += int(solved.sum())
            self.undecided += int((~solved & ~infeasible).sum())
            own = np.take_along_axis(self.scores[None], candidates[..., None], axis=-1)
            neighbors = raw["neighbors"].reshape(len(candidates), self.n, self.T)
            gaps = np.where(neighbors, own - np.where(self.real, self.scores, 0), np.inf)
            gap = gaps.min((-2, -1), initial=np.inf)
            for k in np.flatnonzero(solved & (gap > 0)):
                own_raw = {name: value[k : k + 1] for name, value in raw.items() if isinstance(value, np.ndarray)}
                self.found.append((candidates[k], own_raw, float(gap[k])))
        return np.asarray(candidates[~infeasible])

    def _possible(self, inputs: IntArray, which: IntArray, selected: IntArray) -> BoolArray:
        possible: BoolArray = self._solve(inputs, which, selected)["status"] != Status.infeasible
        return possible

    def _solve(self, inputs: IntArray, which: IntArray, selected: IntArray) -> dict[str, Any]:
        """Programs of the inputs ``inputs[which]`` by the compiled batch solver, without a public call's checks."""
        self.programs += len(selected)
        lengths = None if self.lengths is None else np.ascontiguousarray(self.lengths[inputs[which]])
        settings = _core.MarginSettings(threads=self.threads)
        chosen = np.ascontiguousarray(selected, np.int64)
        block = np.ascontiguousarray(which, np.int64)
        raw = _core.att_svm(np.ascontiguousarray(self.keys[inputs]), block, chosen, None, lengths, settings)
        if raw["interrupted"]:
            raise KeyboardInterrupt
        return raw

    def _result(self, unexplored: int) -> LocalDirections:
        best = self.scores.max(-1)
        inputs = np.arange(self.n)
        found = LocalDirections()
        for selected, raw, gap in sorted(self.found, key=lambda item: -self.scores[inputs, item[0]].sum()):
            solution = MaxMargin.from_raw(raw, (), (self.n, self.T), (self.problem.d_k,), AttProgram.solver)
            solution.remember(AttProgram(self.problem.K, selected, None, self.problem.lengths))
            globally = bool(np.all(self.scores[inputs, selected] == best))
            found.append(LocalDirection(selected, solution, globally, gap))
        found.feasible = self.feasible
        found.complete = not (unexplored or self.undecided)
        found.pruned = Pruned(self.infeasible, self.by_score, unexplored, self.undecided, self.programs)
        return found

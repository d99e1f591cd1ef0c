"""All locally optimal max-margin directions of a problem: an exact search over selections of tokens."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from fastmm.arrays import IntArray
from fastmm.errors import Status
from fastmm.margin import MaxMargin, att_svm
from fastmm.problem import Problem
from fastmm.theory.optimality import local_optimality

_PROGRAMS = 20_000  # solved in one call: bounds the memory


class LocalDirection(NamedTuple):
    """One locally optimal selection and its direction.

    Attributes
    ----------
    selected : ndarray of int, shape (n,)
    solution : MaxMargin
        Answer of its ATT-SVM; ``solution.direction`` is the direction.
    globally_optimal : bool
        Whether every selected token has the largest score of its input, ties included.
    min_score_gap : float
        Smallest score of a selected token minus that of a neighbor of it; inf without neighbors.
    """

    selected: IntArray
    solution: MaxMargin
    globally_optimal: bool
    min_score_gap: float


class LocalDirections(list[LocalDirection]):
    """The locally optimal directions found: the globally optimal ones first, then by margin.

    Attributes
    ----------
    complete : bool
        Whether these are all there are: False when the budget ran out, or when a program could be neither solved nor
        refuted.
    pruned : int
        Selections of all tokens that were ruled out without a program of their own, because some of their inputs
        cannot be separated together.
    feasible : int
        Selections that can be separated, among those that were reached.
    programs : int
        Max-margin programs solved.
    """

    def __init__(
        self, found: Iterable[LocalDirection], complete: bool, pruned: int, feasible: int, programs: int
    ) -> None:
        super().__init__(found)
        self.complete, self.pruned, self.feasible, self.programs = complete, pruned, feasible, programs

    def __repr__(self) -> str:
        own = ", ".join(str(tuple(each.selected.tolist())) for each in self)
        rest = "complete" if self.complete else "not complete"
        return f"<LocalDirections [{own}]: {rest}, {self.feasible} feasible, {self.pruned} pruned>"


def locally_optimal_directions(
    problem: Problem, *, budget: int = 1_000_000, threads: int | None = None
) -> LocalDirections:
    """Finds every locally optimal selection of tokens with its max-margin direction.

    Parameters
    ----------
    problem : Problem
        One problem, no batch.
    budget : int
        Max-margin programs to solve at most.
    threads : int, optional
        See `fastmm.config.resolve_threads`; the answer is the same for any.

    Returns
    -------
    LocalDirections
        A list of `LocalDirection`. Its ``complete`` says whether the search came to its end.

    Raises
    ------
    TypeError, ValueError
        For an argument that is no Problem, a batch, a budget that is not a positive integer.

    Notes
    -----
    Inputs are added one after the other, those with the fewest possible tokens first. A choice for some of them that
    cannot be separated rules out all its continuations, which are counted, not visited. In low dimension few choices
    survive: at most about ``(n T^2)^(d-1)``, the cells that the differences of keys cut the sphere into, whereas
    ``T^n`` is the number of all. A program is solved for each token added to each survivor, whole levels at a time.

    References
    ----------
    Tarzanagh, Li, Zhang, Oymak, "Max-Margin Token Selection in Attention Mechanism", NeurIPS 2023, definition 2.

    Examples
    --------
    >>> import fastmm as mm
    >>> problem = mm.Problem([[[1, 0], [0, 0]], [[-2, 1], [0, 0]]], [1, 1], [1, 3])
    >>> found = mm.theory.locally_optimal_directions(problem)
    >>> [(each.selected.tolist(), each.globally_optimal) for each in found], found.complete
    ([([0, 0], True), ([0, 1], False)], True)
    """
    if not isinstance(problem, Problem):
        raise TypeError(f"problem: got {type(problem).__name__}; allowed: a Problem")
    if problem.batch_shape:
        raise ValueError(f"problem: got a batch of shape {problem.batch_shape}; allowed: one problem")
    if isinstance(budget, bool) or not hasattr(budget, "__index__") or int(budget) < 1:
        raise ValueError(f"budget: got {budget!r}; allowed: a positive integer")
    search = _Search(problem, int(budget), threads)
    selections = search.run()
    decided = local_optimality(problem, selections, threads=threads)
    order = np.flatnonzero(decided.locally_optimal)
    best = np.asarray(decided.globally_optimal)[order]
    order = order[np.lexsort((-np.asarray(decided.solution.margin)[order], ~best))]
    found = [_record(problem, selections[k], threads) for k in order]
    return LocalDirections(found, search.complete, search.pruned, len(selections), search.programs)


def _record(problem: Problem, selected: IntArray, threads: int | None) -> LocalDirection:
    own = local_optimality(problem, selected, threads=threads)
    return LocalDirection(selected, own.solution, bool(own.globally_optimal), float(own.min_score_gap))


class _Search:
    """Choices for more and more inputs, as far as the budget goes."""

    def __init__(self, problem: Problem, budget: int, threads: int | None) -> None:
        self.problem, self.budget, self.threads = problem, budget, threads
        lengths = problem.lengths
        self.lengths = np.full(problem.n, problem.T) if lengths is None else np.asarray(lengths)
        self.programs, self.pruned, self.complete = 0, 0, True

    def run(self) -> IntArray:
        """The feasible selections of all inputs, in the problem's order."""
        single = [self._survivors(np.array([i]), np.arange(self.lengths[i])[:, None]) for i in range(self.problem.n)]
        order = np.argsort([len(own) for own in single], kind="stable")
        self.pruned = 0  # counted anew, along the order that is taken
        chosen = np.zeros((1, 0), dtype=np.int64)
        for level, i in enumerate(order):
            rest = math.prod(int(self.lengths[j]) for j in order[level + 1 :])
            self.pruned += len(chosen) * (int(self.lengths[i]) - len(single[i])) * rest
            grown = np.hstack([np.repeat(chosen, len(single[i]), axis=0), np.tile(single[i], (len(chosen), 1))])
            chosen = grown if level == 0 else self._survivors(order[: level + 1], grown)
            self.pruned += (len(grown) - len(chosen)) * rest if level + 1 < len(order) else 0
        whole = np.empty_like(chosen)
        whole[:, order] = chosen
        return whole[np.lexsort(whole.T[::-1])] if self.problem.n else whole

    def _survivors(self, inputs: IntArray, choices: IntArray) -> IntArray:
        """Those choices (rows) for some inputs that can be separated, or whose program is not decided."""
        affordable = max(0, self.budget - self.programs)
        if len(choices) > affordable:
            self.complete = False
            choices = choices[:affordable]
        keys, lengths = self.problem.K[inputs], None if self.problem.lengths is None else self.lengths[inputs]
        kept = [choices[:0]]
        for begin in range(0, len(choices), _PROGRAMS):
            part = choices[begin : begin + _PROGRAMS]
            status = np.asarray(att_svm(keys, part, lengths=lengths, threads=self.threads, throw=False).status)
            undecided = (status != Status.optimal) & (status != Status.infeasible)
            self.complete = self.complete and not undecided.any()
            self.programs += len(part)
            kept.append(part[status != Status.infeasible])
        return np.concatenate(kept)

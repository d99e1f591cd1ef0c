"""Large ATT-SVMs: a working set of rows, grown by passes over the keys that never build the other rows.

Each pass works out the margins of all tokens at the present point, at the price of reading the keys once, and adds the
worst token of each of the worst inputs to the rows of a small program, which the compiled active set solves from where
it was. The norm of its solution grows with every pass, so no set of rows comes back, and the passes end: with a point
that all rows hold at, or with a small program that is infeasible, as then is the whole.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fastmm import _core
from fastmm.arrays import FloatArray, IntArray
from fastmm.config import resolve_threads
from fastmm.errors import Status
from fastmm.margin.certificate import ON_MARGIN, TOLERANCE
from fastmm.margin.least_norm import RowProgram
from fastmm.margin.program import Options, starting

if TYPE_CHECKING:
    from fastmm.margin.attention_svm import AttProgram

# Entries (rows times d) of a program from which passes are faster than the active set on all rows; see bench/.
LARGE = 400_000

_ADDED = 256  # rows a pass at most, and one an input: with more the small programs take longer than passes
_KEPT = 10  # rows that are kept for each dimension, active or not
_CHUNK = 1 << 22  # entries of keys that are widened to doubles at a time
_WORTH = 0.01  # of what a certificate allows: rows that fall short by less are not added
_ULPS = 64.0  # rounding of a dot product, in units of the last place of |k||w|: what screening leaves to exact rows


class _Search(NamedTuple):
    """What a pass finds: margins less right-hand sides, inf where there is no row, and how wrong they may be."""

    slack: FloatArray
    blur: float


def solve(program: AttProgram, options: Options, start_dual: FloatArray | None = None) -> dict[str, Any]:
    """All programs of a batch of large ones, as arrays like those of the compiled solver."""
    start = starting(options.start, program) if start_dual is None else (start_dual, None)
    answers: list[dict[str, Any]] = []
    for index in range(program.count):
        try:
            answer = _solve_one(program, index, options, *start)
        except KeyboardInterrupt:
            answer = {"interrupted": True}
        if answer["interrupted"]:
            break
        answers.append(answer)
    interrupted = len(answers) < program.count
    unsolved = _blank(program.n * program.T, Status.max_iter, np.full(program.d, np.nan), 0)
    answers += [unsolved] * (program.count - len(answers))
    return {name: np.stack([answer[name] for answer in answers]) for name in unsolved} | {"interrupted": interrupted}


def _blank(rows: int, status: int, w: FloatArray, steps: int) -> dict[str, Any]:
    """An answer without multipliers."""
    return {
        "status": np.int8(status),
        "point": w,
        "dual": np.zeros(rows),
        "neighbors": np.zeros(rows, bool),
        "farkas": np.zeros(rows),
        "equality_dual": np.zeros(0),
        "equality_farkas": np.zeros(0),
        "residuals": np.full(3, np.nan),
        "steps": np.int64(steps),
        "interrupted": False,
    }


def _solve_one(
    program: AttProgram, index: int, options: Options, dual: FloatArray | None, point: FloatArray | None
) -> dict[str, Any]:
    keys = _Keys(program, index, resolve_threads(options.threads))
    w: FloatArray = np.zeros(program.d)
    if point is not None and np.isfinite(point[index]).all():
        w = _scaled(keys, point[index])
    places: IntArray = np.zeros(0, np.int64)
    multipliers: FloatArray = np.zeros(0)
    if dual is not None:
        places = np.flatnonzero(np.nan_to_num(dual[index]) > 0) if keys.fit(dual[index]) else places
        multipliers = np.asarray(dual[index][places])
    raw: dict[str, Any] = {}
    steps, norm = 0, -1.0
    if len(places):
        w, raw, multipliers = _inner(keys, places, multipliers, options, steps)
        steps += int(raw["steps"][0])
    while True:
        status = int(raw["status"][0]) if raw else Status.optimal
        if status != Status.optimal or (raw and bool(raw["interrupted"])):
            return keys.failed(raw, places, w, steps)
        search = keys.search(w)
        worst = keys.worst(search, w)
        fresh = worst[~np.isin(worst, places)]
        if raw and not len(fresh):
            fresh = keys.overlooked(search, places, w)
            if not len(fresh):
                return keys.certified(raw, places, multipliers, w, search, steps)
        if not raw and not len(fresh):  # the start already separates, or there are no rows: solve what is tight there
            fresh = keys.tightest(search)
        own = float(w @ w)
        # when they become too many, rows that do not matter leave, unless the norm has not grown since the last pass
        crowded = len(places) > _KEPT * program.d + _ADDED and own > norm
        keep = multipliers > 0 if crowded else np.ones(len(places), bool)
        norm = max(norm, own) if raw else norm
        places = np.concatenate([places[keep], fresh])
        multipliers = np.concatenate([multipliers[keep], np.zeros(len(fresh))])
        if (options.max_iter is not None and steps >= options.max_iter) or options.seconds_left <= 0:
            stop = Status.time_limit if options.seconds_left <= 0 else Status.max_iter
            return _blank(program.n * program.T, stop, w, steps)
        w, raw, multipliers = _inner(keys, places, multipliers, options, steps)
        steps += int(raw["steps"][0])


def _inner(
    keys: _Keys, places: IntArray, multipliers: FloatArray, options: Options, steps: int
) -> tuple[FloatArray, dict[str, Any], FloatArray]:
    """The program of some rows, begun from multipliers."""
    left = None if options.max_iter is None else max(1, int(options.max_iter) - steps)
    small = RowProgram(*keys.rows(places), None, None)
    raw = small.native(replace(options, start=None, max_iter=left).settings(small, multipliers[None]))
    return raw["point"][0], raw, raw["dual"][0]


def _scaled(keys: _Keys, point: FloatArray) -> FloatArray:
    """A direction brought to the size at which its worst row has margin 1, or left alone where it separates nothing."""
    search = keys.search(point)
    tight = search.slack + keys.right[:, None]
    worst = float(np.where(np.isfinite(search.slack) & (keys.right[:, None] > 0), tight, np.inf).min(initial=np.inf))
    return point / worst if 0 < worst < np.inf else point


class _Keys:
    """The keys of one program, and what can be asked about its rows without building them."""

    def __init__(self, program: AttProgram, index: int, threads: int) -> None:
        self.tokens = program._tokens[program._block[index]]
        self.n, self.T, self.d = self.tokens.shape
        self.selected = program._selected[index]
        self.lengths = None if program._lengths is None else program._lengths[index]
        self.real = program.real(index)
        relaxed = None if program._relaxed is None else program._relaxed[index]
        self.right = np.ones(self.n) if relaxed is None else np.where(relaxed, 0.0, 1.0)
        self.chosen = self.tokens[np.arange(self.n), self.selected].astype(np.float64)
        self.threads = threads
        self.largest = max((self._size(part) for part in self._parts()), default=0.0)

    def _parts(self) -> list[slice]:
        step = max(1, _CHUNK // (self.T * self.d))
        return [slice(begin, begin + step) for begin in range(0, self.n, step)]

    def _own(self, part: slice) -> tuple[FloatArray, IntArray | None]:
        keys = self.tokens[part]
        return keys.astype(np.float64, copy=False), None if self.lengths is None else self.lengths[part]

    def _size(self, part: slice) -> float:
        """A bound of the norms of some keys."""
        keys, lengths = self._own(part)
        real = True if lengths is None else (np.arange(self.T) < lengths[:, None])[..., None]
        high, low = (find(keys, initial=0.0, where=real) for find in (np.max, np.min))
        return float(np.sqrt(self.d) * max(high, -low))

    def fit(self, dual: FloatArray) -> bool:
        """Whether multipliers stand at rows only."""
        return bool(np.isfinite(dual).all() and not (dual[~self.real.ravel()] > 0).any())

    def rows(self, places: IntArray) -> tuple[FloatArray, FloatArray]:
        """Some rows in full, and their right-hand sides."""
        i, t = np.divmod(places, self.T)
        return self.chosen[i] - self.tokens[i, t], self.right[i]

    def search(self, w: FloatArray) -> _Search:
        """One pass: the slack of every row, screened; rows near their bounds are to be worked out in full."""
        logits = np.empty((self.n, self.T))
        first = np.zeros(1, np.int64)
        for part in self._parts():
            keys, lengths = self._own(part)
            ones = np.ones((1, len(keys)))
            own, index = (None, None) if lengths is None else (np.ascontiguousarray(lengths[None]), first)
            found = _core.scores(keys[None], first, ones, first, w[None], first, own, index, self.threads)
            logits[part] = found.reshape(len(keys), self.T)
        at = logits[np.arange(self.n), self.selected]
        slack = np.where(self.real, at[:, None] - logits - self.right[:, None], np.inf)
        blur = _ULPS * np.finfo(np.float64).eps * 2 * self.largest * float(np.linalg.norm(w))
        return _Search(slack, blur)

    def _exact(self, places: IntArray, w: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Slack of some rows from their differences, what they may lack, and what counts as lying on the margin."""
        A, b = self.rows(places)
        sizes = np.linalg.norm(A, axis=1) * float(np.linalg.norm(w))
        scale = np.where(b > 0, np.abs(b), sizes)
        return A @ w - b, TOLERANCE * scale, ON_MARGIN * scale

    def worst(self, search: _Search, w: FloatArray) -> IntArray:
        """The most violated row of each of the most violated inputs, at most `_ADDED`, in the order of the inputs."""
        least = search.slack.min(axis=1, initial=np.inf)
        suspects = np.flatnonzero(least < search.blur)
        if len(suspects) > _ADDED:
            suspects = suspects[np.argsort(least[suspects], kind="stable")[:_ADDED]]
        places = np.sort(suspects * self.T + search.slack[suspects].argmin(axis=1))
        slack, lacking, _ = self._exact(places, w)
        return places[slack < -_WORTH * lacking]

    def tightest(self, search: _Search) -> IntArray:
        """The tightest row of each of the tightest inputs."""
        least = search.slack.min(axis=1, initial=np.inf)
        inputs = np.argsort(least, kind="stable")[:_ADDED]
        inputs = np.sort(inputs[np.isfinite(least[inputs])])
        return np.asarray(inputs * self.T + search.slack[inputs].argmin(axis=1))

    def _near(self, search: _Search, places: IntArray, w: FloatArray) -> IntArray:
        """Rows that may lie on their margins or fall short of them, as far as screening can tell."""
        width = 2 * ON_MARGIN * max(1.0, 2 * self.largest * float(np.linalg.norm(w)) if not self.right.all() else 0.0)
        return np.union1d(np.flatnonzero(search.slack.ravel() <= width + search.blur), places).astype(np.int64)

    def overlooked(self, search: _Search, places: IntArray, w: FloatArray) -> IntArray:
        """Rows outside the working set that fall short, hidden so far by the rounding of the screening."""
        near = self._near(search, places, w)
        near = near[~np.isin(near, places)]
        slack, lacking, _ = self._exact(near, w)
        short = np.argsort(slack, kind="stable")[:_ADDED]
        return np.sort(near[short[slack[short] < -lacking[short]]])

    def certified(
        self, raw: dict[str, Any], places: IntArray, multipliers: FloatArray, w: FloatArray, search: _Search, steps: int
    ) -> dict[str, Any]:
        """The answer, judged by all rows."""
        near = self._near(search, places, w)
        slack, lacking, on_margin = self._exact(near, w)
        short = slack < 0
        with np.errstate(divide="ignore"):  # a zero row that asks for less than nothing: inf
            violation = float(np.max(-slack[short] / (lacking[short] / TOLERANCE), initial=0.0))
        primal = max(violation, float(raw["residuals"][0, 0]))
        neighbors = np.zeros(self.n * self.T, bool)
        neighbors[near[slack <= on_margin]] = True
        status = Status.optimal if primal <= TOLERANCE else Status.ill_conditioned
        out = _blank(self.n * self.T, status, w, steps)
        if status == Status.optimal:
            out["dual"][places] = multipliers
            out["neighbors"] = neighbors
        out["residuals"] = np.array([primal, *raw["residuals"][0, 1:]])
        return out

    def failed(self, raw: dict[str, Any], places: IntArray, w: FloatArray, steps: int) -> dict[str, Any]:
        """The rows of the working set have no answer: nor have all."""
        out = _blank(self.n * self.T, int(raw["status"][0]), w, steps)
        out["farkas"][places] = raw["farkas"][0]
        out["residuals"] = raw["residuals"][0]
        out["interrupted"] = bool(raw["interrupted"])
        return out

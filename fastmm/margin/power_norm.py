"""Programs of least entrywise l_p norm, 1 < p < inf: a barrier path and Newton's method on the active rows."""

from __future__ import annotations

import numbers
from typing import Any, NamedTuple

import numpy as np

from fastmm.arrays import FloatArray
from fastmm.errors import Status
from fastmm.margin.certificate import ON_MARGIN, TOLERANCE
from fastmm.margin.program import Options, Program

_MOST_STEPS = 500
_ACCURATE = 1e-12


def as_power(value: Any) -> float:
    """p of an l_p norm."""
    good = isinstance(value, numbers.Real) and not isinstance(value, bool) and 1 < float(value) < np.inf
    if not good:
        raise ValueError(f"norm: got {value!r}; allowed: p of an l_p norm, 1 < p < inf")
    return float(value)


def refine(program: Program, raw: dict[str, Any], options: Options) -> None:
    """Replaces the answers of least Euclidean norm in `raw` by those of least l_p norm, with residuals and norms.

    The certificate, with ``φ(w) = sign(w)|w|^{p-1}`` the gradient of ``||w||_p^p / p``: rows satisfied, ``λ >= 0``,
    ``φ(w) = A'λ`` and ``b·λ = ||w||_p^p``, relative as for the Euclidean norm. Then no w is shorter.
    """
    p = program.norm
    raw["norm"] = np.full(program.count, np.nan)
    for place in np.flatnonzero(raw["status"] == Status.optimal):
        index = int(place)
        start = raw["point"][index].copy()
        size = float(np.linalg.norm(start))
        if size == 0:
            raw["norm"][index] = 0.0
            continue
        rows = program.rows(index)
        # scaled to an answer of size 1; rows that ask for nothing are satisfied by 0 and stay
        search = _Search(rows.A * size, rows.b, p, options)
        with np.errstate(all="ignore"):
            point, steps, status = search.run(start / size)
        raw["steps"][index] += steps
        raw["dual"][index] = 0.0
        raw["neighbors"][index] = False
        raw["status"][index] = status
        if point is None:
            continue
        raw["point"][index] = point.w * size
        raw["residuals"][index] = point.primal, point.stationarity, point.gap
        if status != Status.optimal:
            continue
        raw["norm"][index] = _length(point.w, p) * size
        raw["dual"][index, rows.place] = point.dual * size**p
        slack, unit = search.slacks(point.w)
        raw["neighbors"][index, rows.place] = slack <= ON_MARGIN * unit
        if not np.isfinite(raw["dual"][index]).all():
            raw["status"][index] = Status.ill_conditioned


class _Point(NamedTuple):
    w: FloatArray
    dual: FloatArray
    primal: float
    stationarity: float
    gap: float

    @property
    def worst(self) -> float:
        worst = max(self.primal, self.stationarity, self.gap)
        return np.inf if np.isnan(worst) else worst


def _length(w: FloatArray, p: float) -> float:
    most = np.abs(w).max(initial=0.0)
    return float(most * np.sum(np.abs(w / most) ** p) ** (1 / p)) if most > 0 else 0.0


def _power(x: FloatArray, exponent: float) -> FloatArray:
    result: FloatArray = np.sign(x) * np.abs(x) ** exponent
    return result


class _Search:
    """One program ``min ||w||_p s.t. A w >= b``."""

    def __init__(self, A: FloatArray, b: FloatArray, p: float, options: Options) -> None:
        self.A, self.b, self.p, self.q, self.options = A, b, p, p / (p - 1), options
        self.row_norm = np.array([_length(a, self.q) for a in A])
        self.steps = 0

    def slacks(self, w: FloatArray) -> tuple[FloatArray, FloatArray]:
        """``A w - b`` and the unit of each row."""
        unit = np.where(self.b != 0, np.abs(self.b), self.row_norm * _length(w, self.p))
        return self.A @ w - self.b, unit

    def judge(self, w: FloatArray, dual: FloatArray) -> _Point:
        """The point with its residuals."""
        slack, unit = self.slacks(w)
        short = np.maximum(-slack, 0)
        primal = np.max(np.divide(short, unit, out=np.where(short > 0, np.inf, 0.0), where=unit > 0), initial=0)
        slope = _power(w, self.p - 1)
        size = np.abs(self.A).T @ dual + np.abs(slope)
        value, bound = np.sum(np.abs(w) ** self.p), self.b @ dual
        gap = np.abs(bound - value) / (np.abs(self.b) @ dual + value)
        return _Point(w, dual, float(primal), float(np.max(np.abs(slope - self.A.T @ dual)) / size.max()), float(gap))

    def run(self, start: FloatArray) -> tuple[_Point | None, int, Status]:
        """The best point, Newton steps, status."""
        m = len(self.b)
        inside = None if self.p < 2 else self._inside(start)
        if self.p >= 2 and inside is None:
            return None, self.steps, Status.ill_conditioned
        x = self._first_dual() if inside is None else inside
        best: _Point | None = None
        mu, next_finish = 1.0 / m, 1e-4
        while True:
            x, ended = self._center(x, mu)
            w, dual = self._pair(x, mu)
            found = self.judge(w, dual)
            best = found if best is None or found.worst < best.worst else best
            value = np.sum(np.abs(w) ** self.p)
            if m * mu <= next_finish * value:
                next_finish *= 0.01
                done = self._finish(w, dual)
                best = done if done is not None and done.worst < best.worst else best
            if best.worst <= _ACCURATE or m * mu < 1e-13 * value:
                break
            if ended is not None:
                return best, self.steps, Status.optimal if best.worst <= TOLERANCE else ended
            mu *= 0.1
        return best, self.steps, Status.optimal if best.worst <= TOLERANCE else Status.ill_conditioned

    def _first_dual(self) -> FloatArray:
        """Multipliers that are inside, and in balance with the point they make when that asks for any."""
        dual = 1 / np.maximum(np.linalg.norm(self.A, axis=1), 1e-300) / len(self.b)
        value = np.sum(np.abs(self.A.T @ dual) ** self.q)
        bound = self.b @ dual
        balance = (bound / value) ** (1 / (self.q - 1)) if bound > 0 and value > 0 else 1.0
        return np.asarray(dual * balance)

    def _inside(self, start: FloatArray) -> FloatArray | None:
        """A point that satisfies all rows with room to spare: the least Euclidean one of rows moved inward."""
        from fastmm.margin.active_set import solve
        from fastmm.margin.least_norm import RowProgram

        size = np.linalg.norm(self.A, axis=1)
        for room in (0.3, 1e-2, 1e-4):
            right = self.b + room * np.where(self.b > 0, self.b, size * np.linalg.norm(start))
            answer = solve(RowProgram(self.A, right, None, None), Options(throw=False))
            if answer.optimal:
                return np.asarray(answer.w)
        return None

    def _pair(self, x: FloatArray, mu: float) -> tuple[FloatArray, FloatArray]:
        """Point and multipliers: for p < 2 the path is one of multipliers, else of points."""
        if self.p < 2:
            return _power(self.A.T @ x, self.q - 1), x
        dual: FloatArray = mu / (self.A @ x - self.b)
        return x, dual

    def _objective(self, x: FloatArray, mu: float) -> float:
        if self.p < 2:
            smooth = np.sum(np.abs(self.A.T @ x) ** self.q) / self.q - self.b @ x
            room = x
        else:
            smooth, room = np.sum(np.abs(x) ** self.p) / self.p, self.A @ x - self.b
        return float(smooth - mu * np.log(room).sum()) if np.all(room > 0) else np.inf

    def _center(self, x: FloatArray, mu: float) -> tuple[FloatArray, Status | None]:
        """Damped Newton to the point of the barrier path; a status when a limit ended it."""
        A, b, p, q = self.A, self.b, self.p, self.q
        for _ in range(100):
            if self.options.seconds_left <= 0:
                return x, Status.time_limit
            most = _MOST_STEPS if self.options.max_iter is None else int(self.options.max_iter)
            if self.steps >= most:
                return x, Status.max_iter
            if p < 2:
                v = A.T @ x
                gradient = A @ _power(v, q - 1) - b - mu / x
                H = (A * ((q - 1) * np.abs(v) ** (q - 2))) @ A.T + np.diag(mu / x**2)
            else:
                slack = A @ x - b
                gradient = _power(x, p - 1) - A.T @ (mu / slack)
                H = np.diag((p - 1) * np.abs(x) ** (p - 2)) + (A.T * (mu / slack**2)) @ A
            diagonal = np.diag(H).copy()
            diagonal[diagonal == 0] = 1.0  # a variable that no row has, at 0: it stays there
            scale = 1 / np.sqrt(diagonal)
            step = -scale * np.linalg.lstsq(H * scale[:, None] * scale, scale * gradient, rcond=1e-15)[0]
            decrease = float(-gradient @ step)
            if not decrease > 0.01 * mu:
                return x, None
            move = step if p < 2 else A @ step
            room = x if p < 2 else A @ x - b
            length = min(1.0, 0.95 * float(np.min(np.where(move < 0, room / -move, np.inf), initial=np.inf)))
            now = self._objective(x, mu)
            while not self._objective(x + length * step, mu) <= now - 1e-4 * length * decrease:
                length /= 2
                if length < 1e-12:
                    return x, None
            x = x + length * step
            self.steps += 1
        return x, None

    def _finish(self, w: FloatArray, dual: FloatArray) -> _Point | None:
        """Newton's method on the rows whose multiplier outweighs their slack; None when these are the wrong ones."""
        slack, unit = self.slacks(w)
        active = dual * unit / max(float((dual * unit).max()), 1e-300) > slack / np.where(unit > 0, unit, 1.0)
        if not active.any():
            return None
        A, b, weights, point = self.A[active], self.b[active], dual[active], w
        best: _Point | None = None
        for _ in range(12):
            if self.p < 2:
                v = A.T @ weights
                J = (A * ((self.q - 1) * np.abs(v) ** (self.q - 2))) @ A.T
                weights = weights + np.linalg.lstsq(J, b - A @ _power(v, self.q - 1), rcond=1e-14)[0]
                point = _power(A.T @ weights, self.q - 1)
            else:
                d, k = len(point), len(b)
                J = np.block([[np.diag((self.p - 1) * np.abs(point) ** (self.p - 2)), -A.T], [A, np.zeros((k, k))]])
                left = np.concatenate([A.T @ weights - _power(point, self.p - 1), b - A @ point])
                move = np.linalg.lstsq(J, left, rcond=1e-14)[0]
                point, weights = point + move[:d], weights + move[d:]
            self.steps += 1
            if not np.isfinite(weights).all():
                return best
            full = np.zeros(len(dual))
            full[active] = np.where(weights >= -1e-13 * np.abs(weights).max(), np.maximum(weights, 0), weights)
            if (full < 0).any():
                continue
            found = self.judge(point, full)
            if best is None or found.worst < best.worst:
                best = found
            elif best.worst <= _ACCURATE:
                break
        return best

"""MaxMargin: the answer of a max-margin program or of a batch of them."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from fastmm.arrays import FloatArray
from fastmm.errors import InfeasibleError, NotSolvedError, Status
from fastmm.margin.certificate import Certificate

if TYPE_CHECKING:
    from fastmm.margin.program import Program


@dataclass(frozen=True, eq=False, repr=False)
class MaxMargin:
    """Solution of one max-margin program, or of a batch with the leading dimensions ``...``; always float64.

    Attributes
    ----------
    w : ndarray, shape (..., d), or (..., d_q, d) for `weight_svm`
        The vector or matrix of least norm that satisfies all rows; NaN where there is no certified answer.
    direction : ndarray, shape of w
        ``w / ||w||``, the Euclidean or Frobenius norm whatever norm was minimised; NaN where w is 0 or NaN.
    margin : float or ndarray, shape (...)
        ``1 / ||w||`` in the norm that was minimised; infinite for ``w = 0``, NaN without an answer.
    dual : ndarray, shape of the rows
        Multipliers ``λ >= 0`` with ``w = A'λ`` (plus ``E'ν``), 0 without an answer. Where several sets of multipliers
        exist, any one of them. For the nuclear norm, ``A'λ`` has the spectral norm 1 and λ the sum ``||w||``. The
        shape of the rows is (..., n, T) for `att_svm` and `weight_svm`, (..., n) for `label_svm` and (..., m) for
        `min_norm`.
    neighbors : ndarray of bool, shape of the rows
        Rows on the margin, ``a'w <= b + 1e-8 |b|`` (for ``b = 0``: ``<= 1e-8 ||a|| ||w||``), found by their margin and
        not by their multiplier. False at selected tokens and padding.
    status : Status or ndarray of int8, shape (...)
        How the program ended.
    optimal : bool or ndarray of bool, shape (...)
        True where the certificate holds.
    certificate : Certificate
        Residuals recomputed from the rows; NaN where there was nothing to judge.
    farkas : ndarray, shape of the rows
        Where infeasible, weights ``y >= 0`` of rows in conflict: ``A'y = 0`` and ``b·y > 0``; else 0.
    best : ndarray, shape of w
        The last point reached: `w` itself where optimal, else a point that breaks some rows. NaN for programs of an
        interrupted or timed-out batch that were never begun.
    dual_equality, farkas_equality : ndarray, shape (..., k)
        The same as `dual` and `farkas` for equality rows; their signs are free.
    iterations : int or ndarray of int64, shape (...)
        Changes of the active set (OSQP's own iterations and the steps of an interior point besides).
    solver : str
        Name of the solver that was used.

    Examples
    --------
    >>> import fastmm as mm
    >>> mm.min_norm([[2.0, 1.0], [1.0, 2.0]], 1.0)
    <MaxMargin optimal: margin 2.12132, 2 neighbors, 2 iterations of active-set>
    """

    w: FloatArray
    direction: FloatArray
    margin: Any
    dual: FloatArray
    neighbors: Any
    status: Any
    optimal: Any
    certificate: Certificate
    farkas: FloatArray
    best: FloatArray
    dual_equality: FloatArray
    farkas_equality: FloatArray
    iterations: Any
    solver: str

    @classmethod
    def from_raw(
        cls,
        raw: dict[str, Any],
        batch: tuple[int, ...],
        row_shape: tuple[int, ...],
        point_shape: tuple[int, ...],
        solver: str,
    ) -> MaxMargin:
        """From flat arrays as the compiled solver returns them, one entry or row a program.

        An entry "norm" holds norms of the solutions other than the Euclidean one.
        """
        status = raw["status"].reshape(batch)
        best = raw["point"].reshape(*batch, *point_shape)  # shapes with a zero extent included
        optimal = status == Status.optimal
        w = np.where(optimal.reshape(*batch, *(1 for _ in point_shape)), best, np.nan)
        norm, direction = _polar(w, len(point_shape))
        if "norm" in raw:
            norm = np.where(optimal, raw["norm"].reshape(batch), np.nan)
        with np.errstate(divide="ignore"):
            margin = 1.0 / norm
        primal, stationarity, gap = np.moveaxis(raw["residuals"], -1, 0).reshape(3, *batch)
        residuals = (primal, stationarity, gap, np.where(np.isnan(primal), np.nan, 0.0))
        rows = {name: raw[name].reshape(*batch, *row_shape) for name in ("dual", "neighbors", "farkas")}
        k = raw["equality_dual"].shape[-1]
        iterations = raw["steps"].reshape(batch)
        single = not batch
        return cls(
            w=w,
            direction=direction,
            margin=float(margin) if single else margin,
            status=Status(int(status)) if single else status,
            optimal=bool(optimal) if single else optimal,
            certificate=Certificate(*(float(part) if single else part for part in residuals)),
            best=best,
            dual_equality=raw["equality_dual"].reshape(*batch, k),
            farkas_equality=raw["equality_farkas"].reshape(*batch, k),
            iterations=int(iterations) if single else iterations,
            solver=solver,
            **rows,
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MaxMargin):
            return NotImplemented
        return all(_same(getattr(self, field.name), getattr(other, field.name)) for field in fields(self))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<MaxMargin {self._summary()}>"

    def _summary(self) -> str:
        if isinstance(self.status, Status):
            work = f"{self.iterations} iterations of {self.solver}"
            if not self.optimal:
                return f"{self.status.name}: {work}"
            return f"optimal: margin {self.margin:g}, {int(np.sum(self.neighbors))} neighbors, {work}"
        counts = Counter(self.status.ravel().tolist())
        parts = ", ".join(f"{counts[code]} {Status(code).name}" for code in sorted(counts))
        return (
            f"batch {self.status.shape}: {parts or 'empty'}; {int(np.sum(self.iterations))} iterations of {self.solver}"
        )

    def remember(self, program: Program) -> None:
        """Keeps the program of an answer that has infeasible parts, for `conflict` and messages."""
        if np.any(np.asarray(self.status) == Status.infeasible):
            object.__setattr__(self, "_program", program)

    def conflict(self, index: Any = ()) -> list[tuple[int, ...]]:
        """The rows of an infeasible program that cannot hold together, none of which can be spared.

        Parameters
        ----------
        index : int or tuple of int
            The element of a batch; not needed for a single program.

        Returns
        -------
        list of tuple
            The place of each row among those of `dual`: (input, token) for `att_svm` and `weight_svm`, (input,) for
            `label_svm`, (row,) for `min_norm`; empty for a conflict among equality rows alone. There can be other such
            sets; it is not always one of fewest rows.

        Raises
        ------
        ValueError
            When the program is not infeasible.

        Notes
        -----
        Each row of the Farkas vector's support is left out in turn and stays out if the rest is still infeasible: one
        small program a row. Equality rows are always kept.

        Examples
        --------
        >>> import fastmm as mm
        >>> mm.min_norm([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]], 1.0, throw=False).conflict()
        [(0,), (2,)]
        """
        from fastmm.margin.conflict import irreducible

        status = np.asarray(self.status)
        place = index if isinstance(index, tuple) else (index,)
        if len(place) != status.ndim:
            raise ValueError(f"index: got {index!r}; allowed: one element of the batch {status.shape}")
        if status[place] != Status.infeasible:
            raise ValueError(f"conflict: the program has the status {Status(int(status[place])).name}, not infeasible")
        program: Program = self._program  # type: ignore[attr-defined]
        flat = int(np.ravel_multi_index(place, status.shape)) if place else 0
        rows = irreducible(program.rows(flat), self.farkas[place].ravel())
        return [tuple(int(k) for k in np.unravel_index(row, program.row_shape)) for row in rows]

    def _conflict_text(self, place: tuple[int, ...]) -> str:
        """Names the rows of the Farkas vector."""
        program: Program | None = getattr(self, "_program", None)
        rows = np.flatnonzero(self.farkas[place].ravel()).tolist()
        if program is None or not rows:
            return ""
        more = ", ..." if len(rows) > 12 else ""
        return f" In conflict: {program.describe(rows[:12])}{more}."

    def check(self, program: str, interrupted: bool) -> None:
        """Raises InfeasibleError or NotSolvedError unless every program has a certified answer."""
        self._raise(program, np.asarray(self.status) != Status.optimal, interrupted)

    def check_decided(self, program: str) -> None:
        """Raises NotSolvedError unless every program is either certified or proved infeasible."""
        status = np.asarray(self.status)
        self._raise(program, (status != Status.optimal) & (status != Status.infeasible), False)

    def _raise(self, program: str, failed: Any, interrupted: bool) -> None:
        if not failed.any():
            return
        status = np.asarray(self.status)
        codes = sorted({int(code) for code in status[failed]})
        error = InfeasibleError if codes == [Status.infeasible] else NotSolvedError
        advice = " ".join(f"{Status(code).name}: {Status(code).advice}" for code in codes)
        stopped = " The batch was interrupted; programs not begun count as max_iter." if interrupted else ""
        conflict = ""
        for first in np.argwhere(failed & (status == Status.infeasible))[:1]:
            conflict = self._conflict_text(tuple(first.tolist()))
        if status.ndim == 0:
            raise error(f"{program}: no certified answer.{stopped} {advice}{conflict}", self)
        places = np.argwhere(failed)
        shown = ", ".join(str(tuple(place.tolist()) if status.ndim > 1 else place[0].item()) for place in places[:5])
        more = ", ..." if len(places) > 5 else ""
        raise error(
            f"{program}: {len(places)} of {status.size} programs have no certified answer (elements {shown}{more})."
            f"{stopped} {advice}{conflict} Pass throw=False to get all answers with a status each.",
            self,
        )


def _polar(w: FloatArray, axes: int) -> tuple[FloatArray, FloatArray]:
    """Norm and direction over the last axes without overflow or underflow; NaN direction for 0."""
    flat = w.reshape(*w.shape[: w.ndim - axes], math.prod(w.shape[w.ndim - axes :]))
    power = np.frexp(np.abs(flat).max(-1, initial=0))[1]
    near_one = np.ldexp(flat, -power[..., None])
    norm = np.sqrt((near_one * near_one).sum(-1))
    with np.errstate(invalid="ignore", over="ignore"):
        direction = near_one / norm[..., None]
        return np.ldexp(norm, power), direction.reshape(w.shape)


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, Certificate | str):
        return bool(a == b)
    return np.array_equal(a, b, equal_nan=np.asarray(a).dtype.kind == "f")

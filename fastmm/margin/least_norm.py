"""The vector of least norm under any linear constraints."""

from __future__ import annotations

from typing import Any

import numpy as np

from fastmm import _core, arrays
from fastmm.margin.active_set import solve
from fastmm.margin.certificate import equality_rows, right_side
from fastmm.margin.power_norm import as_power
from fastmm.margin.program import Options, Program, Rows
from fastmm.margin.result import MaxMargin


def min_norm(
    A: Any,
    b: Any,
    E: Any = None,
    e: Any = None,
    *,
    norm: float = 2,
    solver: str = "auto",
    start: Any = None,
    max_iter: int | None = None,
    time_limit: float | None = None,
    threads: int | None = None,
    throw: bool = True,
) -> MaxMargin:
    """Solves ``min 1/2 ||w||²  s.t.  A w >= b,  E w = e``.

    Parameters
    ----------
    A : array_like, shape (..., m, d)
        Rows of the inequalities; m may be 0, rows may be zero, repeated or of any scale.
    b : array_like, shape (..., m), or a scalar
        Right-hand sides, any real numbers; a scalar (or 0-d array) counts for all rows.
    E : array_like, shape (..., k, d), optional
        Rows of the equalities.
    e : array_like, shape (..., k), or a scalar, optional
    norm, solver, start, max_iter, time_limit, threads, throw
        As in `att_svm`; multipliers to start from have the shape (..., m).

    Returns
    -------
    MaxMargin
        With `dual`, `neighbors` and `farkas` of shape (..., m), and `dual_equality` and `farkas_equality` of shape
        (..., k); always float64. Where no row asks for more than ``w = 0`` gives, that is the answer, with margin inf.
        A zero row with ``b <= 0`` is inert (a neighbor when ``b = 0``); with ``b > 0`` it makes the program infeasible.

    Raises
    ------
    InfeasibleError, NotSolvedError
        With ``throw=True``, when a program is infeasible, or ends without a certified answer; ``.result`` has all.
    TypeError
        For complex and object arrays.
    ValueError
        For shapes that do not fit, NaN or infinity, one of E and e without the other, or equality rows with a norm
        other than 2.

    Notes
    -----
    A row counts relative to its own right-hand side: an answer satisfies ``a'w >= b - 1e-9 |b|`` for each. Cost: about
    ``m d + d q`` operations a step, q the rows active by then. Memory: a copy of one program's rows and at most
    ``min(m + k, d)`` vectors of length d a thread.

    References
    ----------
    Goldfarb, Idnani, "A numerically stable dual method for solving strictly convex quadratic programs", 1983.

    Examples
    --------
    >>> import fastmm as mm
    >>> answer = mm.min_norm([[1.0, 1.0], [1.0, -2.0]], [1.0, 0.0])
    >>> answer.w
    array([0.66666667, 0.33333333])
    >>> answer.certificate.ok
    True
    >>> mm.min_norm([[1.0], [-1.0]], 1.0, throw=False).status.name
    'infeasible'
    """
    options = Options(solver, start, max_iter, time_limit, threads, throw)
    program = RowProgram(A, b, E, e)
    program.norm = as_power(norm)
    if program.norm != 2 and program.equalities:
        raise ValueError(f"E: got equality rows with norm={norm!r}; allowed: with norm=2 only")
    return solve(program, options)


class RowProgram(Program):
    """Validated rows."""

    name = "min_norm"

    def __init__(self, A: Any, b: Any, E: Any, e: Any) -> None:
        rows = arrays.floats("A", A, np.float64, ("m", "d"))
        m, d = rows.shape[-2:]
        if d == 0:
            raise ValueError(f"A: got shape {rows.shape}; allowed: (..., m, d) with d at least 1")
        right = right_side("b", b, m, "A")
        equal, goal = equality_rows(E, e, d)
        k = equal.shape[-2]
        named = [("A", rows.shape[:-2]), ("b", right.shape[:-1]), ("E", equal.shape[:-2]), ("e", goal.shape[:-1])]
        self.batch = arrays.broadcast_batch(named)
        self.row_shape, self.d = (m,), d
        self.equalities = k
        self._rows, self._block = arrays.blocks(rows, 2, self.batch)
        self._equal, self._equal_block = arrays.blocks(equal, 2, self.batch)
        self._right = np.ascontiguousarray(np.broadcast_to(right, (*self.batch, m))).reshape(self.count, m)
        self._goal = np.ascontiguousarray(np.broadcast_to(goal, (*self.batch, k))).reshape(self.count, k)

    def native(self, settings: _core.MarginSettings) -> dict[str, Any]:
        """All programs solved by the compiled active set."""
        return _core.min_norm(
            self._rows, self._block, self._right, self._equal, self._equal_block, self._goal, settings
        )

    def rows(self, index: int) -> Rows:
        """The rows of one program of the flattened batch."""
        A, E = self._rows[self._block[index]], self._equal[self._equal_block[index]]
        return Rows(A, self._right[index], E, self._goal[index], np.arange(len(A), dtype=np.int64))

"""ATT-SVM: the vector of least norm that separates the selected key of each input from its other keys."""

from __future__ import annotations

from typing import Any

import numpy as np

from fastmm import _core, arrays
from fastmm.arrays import BoolArray, FloatArray
from fastmm.margin import passes
from fastmm.margin.active_set import solve
from fastmm.margin.passes import LARGE
from fastmm.margin.power_norm import as_power
from fastmm.margin.program import Options, Rows
from fastmm.margin.result import MaxMargin
from fastmm.margin.tokens import TokenProgram


def att_svm(
    K: Any,
    selected: Any,
    relaxed: Any = None,
    lengths: Any = None,
    *,
    norm: float = 2,
    solver: str = "auto",
    start: Any = None,
    max_iter: int | None = None,
    time_limit: float | None = None,
    threads: int | None = None,
    throw: bool = True,
) -> MaxMargin:
    """Solves ``min ||w||  s.t.  w'(k_i,selected - k_it) >= 1`` for all inputs i and their other tokens t.

    Parameters
    ----------
    K : array_like, shape (..., n, T, d)
        Keys. float32 keys are widened exactly before they are subtracted; all arithmetic is float64.
    selected : array_like of int, shape (..., n)
        The selected token of each input, counted from 0.
    relaxed : array_like of bool, shape (..., n), optional
        Inputs whose rows only ask for ``>= 0``.
    lengths : array_like of int, shape (..., n), optional
        Lengths of sequences shorter than T; what stands behind them is never read.
    norm : float
        p of the entrywise l_p norm to minimise, ``1 < p < inf``. Other than 2, an answer of least Euclidean norm is
        found first (which decides feasibility), then a barrier path in NumPy and Newton's method on the active rows
        follow; the multipliers are those of ``||w||_p^p / p``: ``sign(w)|w|^{p-1} = A'λ``, and the margin is
        ``1 / ||w||_p``.
    solver : {"auto", "active-set", "osqp"}
        "auto" is the compiled active set; programs with ``n (T-1) d >= 400 000`` are solved by it on a working set of
        rows, which grows by passes over the keys (measured: faster from there on). "osqp" runs OSQP and finishes its
        answer by the active set.
    start : MaxMargin, or array_like, shape (..., d) or (..., n, T), optional
        A previous answer, a point such as the direction of a run, or multipliers: rows that look active there are tried
        first. An array that fits both shapes is read as points. The answer never depends on it, only the time.
    max_iter : int, optional
        Changes of the active set a program may take; by default enough for any that can be solved.
    time_limit : float, optional
        Seconds for the whole call, set-up included.
    threads : int, optional
        See `fastmm.config.resolve_threads`; the answer has the same bits for any number.
    throw : bool
        Whether to raise when a program has no certified answer, or to return it with its status.

    Returns
    -------
    MaxMargin
        With `dual`, `neighbors` and `farkas` of shape (..., n, T), 0 or False at the selected tokens and the padding.
        No rows at all (``n = 0``, or one token an input) is a program too: ``w = 0``, margin inf. Ctrl-C ends the batch
        early: programs not begun then have the status max_iter and a `best` of NaN.

    Raises
    ------
    InfeasibleError, NotSolvedError
        With ``throw=True``, when a program is infeasible, or ends without a certified answer; ``.result`` has all.
    TypeError
        For complex and object arrays.
    ValueError
        For shapes that do not fit, indices outside the sequences, NaN or infinity outside the padding.

    Notes
    -----
    Cost: about ``n T d + d q`` operations for each of the steps, which are one to three times as many as the q rows
    active at the end. Memory: the rows of one program and ``min(n (T-1), d)`` vectors of length d a thread. Large
    programs cost a reading of the keys for each of some ten passes, and ``10 d + 512`` rows and two numbers a token of
    memory.

    References
    ----------
    Tarzanagh, Li, Zhang, Oymak, "Max-Margin Token Selection in Attention Mechanism", NeurIPS 2023, (ATT-SVM).
    Goldfarb, Idnani, "A numerically stable dual method for solving strictly convex quadratic programs", 1983.

    Examples
    --------
    >>> import fastmm as mm
    >>> answer = mm.att_svm([[[1.0, 0.0], [0.0, 0.0]], [[0.0, 2.0], [0.0, 0.0]]], [0, 0])
    >>> answer.w
    array([1. , 0.5])
    >>> answer.neighbors
    array([[False,  True],
           [False,  True]])
    """
    options = Options(solver, start, max_iter, time_limit, threads, throw)
    program = AttProgram(K, selected, relaxed, lengths)
    program.norm = as_power(norm)
    return solve(program, options)


class AttProgram(TokenProgram):
    """Validated keys and selections; the rows are built by the compiled solver."""

    name = "att_svm"

    def __init__(self, K: Any, selected: Any, relaxed: Any, lengths: Any) -> None:
        loose = None if relaxed is None else _as_mask("relaxed", relaxed)
        others = [] if loose is None else [("relaxed", loose.shape[:-1])]
        self._read("K", K, selected, lengths, arrays.working_dtype(("K", K)), others)
        if loose is not None:
            arrays.need_shape("relaxed", loose, ("n",), (self.n,), "the number of inputs")
        self.d = self._width
        self._relaxed = None if loose is None else self._whole(loose)

    def solved(self, options: Options, start_dual: FloatArray | None) -> tuple[dict[str, Any], str]:
        """Programs of so many rows that they had better not all be built are solved with a working set of them."""
        if self.count and self.n * (self.T - 1) * self.d >= LARGE:
            return passes.solve(self, options, start_dual), "working set"
        return super().solved(options, start_dual)

    def native(self, settings: _core.MarginSettings) -> dict[str, Any]:
        """All programs solved by the compiled active set."""
        return _core.att_svm(self._tokens, self._block, self._selected, self._relaxed, self._lengths, settings)

    def rows(self, index: int) -> Rows:
        """The rows of one program of the flattened batch."""
        i, t = np.nonzero(self.real(index))
        right = np.ones(len(i)) if self._relaxed is None else np.where(self._relaxed[index][i], 0.0, 1.0)
        place = np.asarray(i * self.T + t, np.int64)
        return Rows(self.differences(index)[i, t], right, np.zeros((0, self.d)), np.zeros(0), place)


def _as_mask(name: str, value: Any) -> BoolArray:
    mask = arrays.raw(name, value)
    if mask.dtype.kind != "b":
        raise ValueError(f"{name}: got dtype {mask.dtype}; allowed: booleans, one for each input")
    arrays.need_axes(name, mask, ("n",))
    return mask

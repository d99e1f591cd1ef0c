"""ATT-SVM: the vector of least norm that separates the selected key of each input from its other keys."""

from __future__ import annotations

from typing import Any

import numpy as np

from fastmm import _core, arrays
from fastmm.arrays import BoolArray, FloatArray, IntArray
from fastmm.margin.active_set import solve
from fastmm.margin.program import Options, Program, Rows
from fastmm.margin.result import MaxMargin


def att_svm(
    K: Any,
    selected: Any,
    relaxed: Any = None,
    lengths: Any = None,
    *,
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
    solver : {"auto", "active-set", "osqp"}
        "auto" is the compiled active set. "osqp" runs OSQP and finishes its answer by the active set.
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
    active at the end. Memory: the rows of one program and ``min(n (T-1), d)`` vectors of length d a thread.

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
    return solve(AttProgram(K, selected, relaxed, lengths), options)


class AttProgram(Program):
    """Validated keys and selections; the rows are built by the compiled solver."""

    name = "att_svm"

    def __init__(self, K: Any, selected: Any, relaxed: Any, lengths: Any) -> None:
        dtype = arrays.working_dtype(("K", K))
        keys = arrays.floats("K", K, dtype, ("n", "T", "d"), finite=False)
        n, T, d = keys.shape[-3:]
        if T == 0 or d == 0:
            raise ValueError(f"K: got shape {keys.shape}; allowed: (..., n, T, d) with T and d at least 1")
        own = arrays.as_lengths("lengths", lengths, n, T)
        arrays.need_finite("K", keys, None if own is None else _longest(own, keys))
        tokens = arrays.as_selected("selected", selected, n, T, own)
        loose = None if relaxed is None else _as_mask("relaxed", relaxed, n)
        named = [("K", keys.shape[:-3]), ("selected", tokens.shape[:-1])]
        if own is not None:
            named.append(("lengths", own.shape[:-1]))
        if loose is not None:
            named.append(("relaxed", loose.shape[:-1]))
        self.batch = arrays.broadcast_batch(named)
        self.row_shape, self.d, self.n, self.T = (n, T), d, n, T
        self._keys, self._block = arrays.blocks(keys, 3, self.batch)
        self._selected = self._whole(tokens)
        self._lengths = None if own is None else self._whole(own)
        self._relaxed = None if loose is None else self._whole(loose)

    def _whole(self, value: Any) -> Any:
        """(..., n) for each program of the flattened batch; these are small beside the keys."""
        return np.ascontiguousarray(np.broadcast_to(value, (*self.batch, self.n))).reshape(self.count, self.n)

    def native(self, settings: _core.MarginSettings) -> dict[str, Any]:
        """All programs solved by the compiled active set."""
        return _core.att_svm(self._keys, self._block, self._selected, self._relaxed, self._lengths, settings)

    def rows(self, index: int) -> Rows:
        """The rows of one program of the flattened batch."""
        keys = self._keys[self._block[index]].astype(np.float64)
        inputs, tokens = np.indices((self.n, self.T))
        chosen = self._selected[index][:, None]
        real = tokens != chosen
        if self._lengths is not None:
            real &= tokens < self._lengths[index][:, None]
        i, t = inputs[real], tokens[real]
        right = np.ones(len(i)) if self._relaxed is None else np.where(self._relaxed[index][i], 0.0, 1.0)
        differences = keys[i, chosen[i, 0]] - keys[i, t]
        return Rows(differences, right, np.zeros((0, self.d)), np.zeros(0), np.asarray(i * self.T + t, np.int64))


def _as_mask(name: str, value: Any, n: int) -> BoolArray:
    mask = arrays.raw(name, value)
    if mask.dtype.kind != "b":
        raise ValueError(f"{name}: got dtype {mask.dtype}; allowed: booleans, one for each input")
    arrays.need_axes(name, mask, ("n",))
    arrays.need_shape(name, mask, ("n",), (n,), "the number of inputs")
    return mask


def _longest(lengths: IntArray, keys: FloatArray) -> IntArray:
    """Lengths of the blocks of keys as stored: of programs that share a block the longest counts."""
    own = keys.shape[:-2]
    batch = arrays.broadcast_batch([("lengths", lengths.shape[:-1]), ("K", own[:-1])])
    whole = np.broadcast_to(lengths, (*batch, own[-1]))
    extra = len(batch) - len(own) + 1
    shared = tuple(range(extra)) + tuple(
        extra + axis for axis, extent in enumerate(own[:-1]) if extent == 1 and batch[extra + axis] != 1
    )
    return np.asarray(whole.max(axis=shared, keepdims=True, initial=1).reshape(own), np.int64)

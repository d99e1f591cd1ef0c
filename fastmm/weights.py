"""Softmax and attention weights."""

from __future__ import annotations

from typing import Any

import numpy as np

from fastmm import _core, arrays, integers
from fastmm.arrays import FloatArray
from fastmm.config import resolve_threads
from fastmm.problem import Problem


def softmax(logits: Any, lengths: Any = None) -> FloatArray:
    """Softmax along the last axis, right to 4 units in the last place over the whole double range.

    Parameters
    ----------
    logits : array_like, shape (..., T)
        Finite numbers; ``-inf`` masks an entry. A row of masks only gives zeros.
    lengths : array_like of int, shape (...), optional
        Lengths of rows shorter than T; what stands behind them is never read and gets weight 0.

    Returns
    -------
    ndarray, shape (..., T)
        float32 for float32 logits, else float64.

    Raises
    ------
    ValueError
        For NaN or +inf among the logits, or a length outside 1..T.

    Notes
    -----
    The difference of each logit to the largest is kept with its rounding error, the sum is compensated.

    Examples
    --------
    >>> import fastmm as mm
    >>> mm.softmax([0.0, 0.0, -1e30])
    array([0.5, 0.5, 0. ])
    """
    return _softmax(logits, lengths, logarithm=False)


def log_softmax(logits: Any, lengths: Any = None) -> FloatArray:
    """Logarithm of the softmax along the last axis; accurate where the softmax itself underflows or rounds to 1.

    Parameters
    ----------
    logits : array_like, shape (..., T)
        Finite numbers; ``-inf`` masks an entry. A row of masks only gives ``-inf``.
    lengths : array_like of int, shape (...), optional
        Lengths of rows shorter than T; what stands behind them is never read and gets ``-inf``.

    Returns
    -------
    ndarray, shape (..., T)
        float32 for float32 logits, else float64.

    Raises
    ------
    ValueError
        For NaN or +inf among the logits, or a length outside 1..T.

    Examples
    --------
    >>> import fastmm as mm
    >>> mm.log_softmax([0.0, 2872.0])
    array([-2872.,     0.])
    """
    return _softmax(logits, lengths, logarithm=True)


def _softmax(logits: Any, lengths: Any, *, logarithm: bool) -> FloatArray:
    x = arrays.floats("logits", logits, arrays.working_dtype(("logits", logits)), ("T",), finite=False)
    T = x.shape[-1]
    if T == 0:
        raise ValueError(f"logits: got shape {x.shape}; allowed: (..., T) with T at least 1")
    own = None
    if lengths is not None:
        # one row more than lengths has axes: a length for each row
        own = integers.as_lengths("lengths", np.expand_dims(arrays.raw("lengths", lengths), -1), 1, T)
        if own is not None:
            rows = x.shape[:-1]
            if arrays.broadcast_batch([("logits", rows), ("lengths", own.shape[:-1])]) != rows:
                raise ValueError(f"lengths: got shape {own.shape[:-1]}; allowed: at most one for each row {rows}")
            own = np.ascontiguousarray(np.broadcast_to(own[..., 0], rows)).reshape(-1)
    return _core.softmax(x.reshape(-1, T), own, logarithm).reshape(x.shape)


def attention(K: Any, p: Any, lengths: Any = None, *, threads: int | None = None) -> FloatArray:
    """Attention weights ``softmax(K_i p)`` of every input.

    Parameters
    ----------
    K : array_like, shape (..., n, T, d_k)
        Keys.
    p : array_like, shape (..., d_k)
        The trainable query; leading dimensions broadcast with those of `K`.
    lengths : array_like of int, shape (..., n), optional
        Lengths of sequences shorter than T; padding is never read and gets weight 0.
    threads : int, optional
        Number of threads; see `fastmm.config.resolve_threads`.

    Returns
    -------
    ndarray, shape (..., n, T)
        float32 when all arrays are float32, else float64.

    Raises
    ------
    TypeError, ValueError
        For input that `Problem` would refuse, or when a logit leaves the double range.

    Examples
    --------
    >>> import fastmm as mm
    >>> mm.attention([[[1.0, 0.0], [1.0, 0.0]]], [5.0, 1.0])
    array([[0.5, 0.5]])
    """
    dtype = arrays.working_dtype(("K", K), ("p", p))
    K = arrays.floats("K", K, dtype, ("n", "T", "d_k"), finite=False)
    arrays.need_extents("K", K, ("n", "T", "d_k"))
    ones = np.ones(K.shape[-3], dtype=dtype)
    # a problem whose values are a column of zeros: the keys are checked in one place
    problem = Problem(np.zeros((*K.shape[-3:-1], 1), dtype=dtype), ones, ones[:1], K=K, lengths=lengths)
    return attention_of(problem, p, threads)


def attention_of(problem: Problem, p: Any, threads: int | None = None) -> FloatArray:
    """Attention weights of a problem at p (..., d_k), shape (..., n, T)."""
    call = PointCall(problem, p)
    keys = arrays.blocks(problem.K, 3, call.batch)
    weights = _core.attention(*keys, *call.p, *call.lengths, resolve_threads(threads))
    if np.isnan(weights).any():
        raise ValueError("p: the logits K p leave the range of double precision; allowed: a smaller p")
    return weights.reshape(*call.batch, problem.n, problem.T)


def attention_by_queries(problem: Problem, queries: FloatArray, threads: int | None = None) -> FloatArray:
    """Attention weights ``softmax(X_i q_i)`` with a query (..., n, d) for each input, shape (..., n, T)."""
    n, T = problem.n, problem.T
    batch = arrays.broadcast_batch([("problem", problem.batch_shape), ("queries", queries.shape[:-2])])

    def by_input(array: Any, core: int) -> tuple[Any, Any]:
        blocks, index = arrays.blocks(array, core, batch)
        return blocks.reshape(-1, *blocks.shape[2:]), (index[:, None] * n + np.arange(n)).reshape(-1)

    keys, key_index = by_input(problem.X, 3)
    own = (None, None)
    if problem.lengths is not None:
        lengths, length_index = by_input(problem.lengths, 1)
        own = (lengths[:, None], length_index)
    points = by_input(np.ascontiguousarray(queries, dtype=np.float64), 2)
    weights = _core.attention(keys[:, None], key_index, *points, *own, resolve_threads(threads))
    if np.isnan(weights).any():
        raise ValueError("W: the logits X W' z leave the range of double precision; allowed: a smaller W")
    return weights.reshape(*batch, n, T)


class PointCall:
    """Arguments of a compiled call at a point p: the batch, p as blocks of doubles, and the lengths."""

    def __init__(self, problem: Problem, p: Any) -> None:
        point = arrays.floats("p", p, np.float64, ("d_k",))
        arrays.need_shape("p", point, ("d_k",), (problem.d_k,), "the keys")
        self.problem = problem
        self.batch = arrays.broadcast_batch([("problem", problem.batch_shape), ("p", point.shape[:-1])])
        self.p = arrays.blocks(point, 1, self.batch)
        self.lengths = arrays.length_blocks(problem.lengths, self.batch)

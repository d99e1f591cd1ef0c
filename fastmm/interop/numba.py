"""The compiled gradient kernels, callable from users' own Numba functions: no interpreter on the way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import llvmlite.binding
import numba
import numpy as np
from numba.core import types
from numba.core.errors import TypingError
from numba.extending import overload

from fastmm import _core

__all__ = ["CORRELATION", "EXPONENTIAL", "LOGISTIC", "gradient_p", "gradient_pv"]

LOGISTIC, EXPONENTIAL, CORRELATION = range(3)

# Compiled code that Numba keeps on disk asks for the entries by these names in the next process; one that takes other
# arguments gets another name.
_SUFFIX = "_1"


def _entry(name: str, arguments: int) -> Any:
    """A C entry as a Numba function: a loss number and sizes, then addresses; returns a risk."""
    llvmlite.binding.add_symbol(name + _SUFFIX, _core.c_entries()[name])
    return types.ExternalFunction(name + _SUFFIX, types.float64(*[types.int64] * arguments))


_of_p = _entry("fastmm_gradient_p", 11)
_of_pv = _entry("fastmm_gradient_pv", 17)


def gradient_p(
    K: Any, scores: Any, p: Any, gradient: Any, direction: Any, loss: int = LOGISTIC, lengths: Any = None
) -> NoReturn:
    """Risk, gradient and direction of steepest descent in p of one problem; to be called inside ``numba.njit``.

    Parameters
    ----------
    K : ndarray of float64, shape (n, T, d), C-contiguous
        Keys.
    scores : ndarray of float64, shape (n, T), C-contiguous
        Scores with the labels included, ``Y_i x_it·v`` (`Problem.scores`).
    p : ndarray of float64, shape (d,)
    gradient, direction : ndarray of float64, shape (d,)
        Filled: the gradient of the risk, and its unit vector with the sign turned, which never underflows (zeros where
        the gradient is exactly zero).
    loss : int
        `LOGISTIC`, `EXPONENTIAL` or `CORRELATION` of this module.
    lengths : ndarray of int64, shape (n,), optional
        Numbers of tokens; what is behind them is not read.

    Returns
    -------
    risk : float
        NaN when logits leave the double range.
    log_norm : float
        Logarithm of the gradient's norm; -inf where it is exactly zero.

    Raises
    ------
    ValueError
        From compiled code: for shapes that do not fit and lengths outside 1..T.
    numba.core.errors.TypingError
        While compiling: for arrays that are not float64, C-contiguous and of these numbers of axes.
    TypeError
        When it is called from Python: use `fastmm.loss_and_grad` there.

    Notes
    -----
    One pass over the keys, in the thread that calls: put the parallel loop around it (``numba.prange`` over problems).
    Each thread keeps the scratch space of the last shape it met. Values are taken as they are: NaN in gives NaN out.
    The caller's function may be cached by Numba (``cache=True``) when this module is imported before it runs.
    Formulas: `fastmm.reference.descent_direction`.

    Examples
    --------
    >>> import numba, numpy as np
    >>> import fastmm.interop.numba as kernels
    >>> @numba.njit
    ... def descend(K, scores, p, steps, lr):
    ...     gradient, direction = np.empty_like(p), np.empty_like(p)
    ...     for _ in range(steps):
    ...         kernels.gradient_p(K, scores, p, gradient, direction)
    ...         p += lr * direction
    ...     return p
    >>> descend(np.array([[[1.0, 0.0], [0.0, 0.0]]]), np.array([[1.0, 0.0]]), np.zeros(2), 10, 0.5)
    array([5., 0.])
    """
    _only_compiled("gradient_p")


def gradient_pv(
    K: Any,
    X: Any,
    Y: Any,
    p: Any,
    v: Any,
    gradient_in_p: Any,
    direction_p: Any,
    gradient_v: Any,
    direction_v: Any,
    loss: int = LOGISTIC,
    lengths: Any = None,
) -> NoReturn:
    """Risk, gradients and directions in p and in the head v of one problem; to be called inside ``numba.njit``.

    Parameters
    ----------
    K, p, loss, lengths
        As for `gradient_p`.
    X : ndarray of float64, shape (n, T, d_v), C-contiguous
        Values; keys that are values, passed as the same array, are read once.
    Y : ndarray of float64, shape (n,)
        Labels.
    v : ndarray of float64, shape (d_v,)
    gradient_in_p, direction_p : ndarray of float64, shape (d,)
        Filled, as by `gradient_p`.
    gradient_v, direction_v : ndarray of float64, shape (d_v,)
        Filled.

    Returns
    -------
    risk, log_norm_p, log_norm_v : float

    Raises
    ------
    ValueError, numba.core.errors.TypingError, TypeError
        As from `gradient_p`.

    Examples
    --------
    >>> import numba, numpy as np
    >>> import fastmm.interop.numba as kernels
    >>> @numba.njit
    ... def risk(X, Y, p, v):
    ...     a, b, c, d = np.empty_like(p), np.empty_like(p), np.empty_like(v), np.empty_like(v)
    ...     return kernels.gradient_pv(X, X, Y, p, v, a, b, c, d, kernels.CORRELATION)[0]
    >>> risk(np.array([[[1.0, 0.0], [0.0, 0.0]]]), np.ones(1), np.zeros(2), np.array([1.0, 0.0]))
    -0.5
    """
    _only_compiled("gradient_pv")


def _only_compiled(name: str) -> NoReturn:
    raise TypeError(
        f"fastmm.interop.numba.{name} was called from Python; allowed: calls from functions compiled by numba.njit "
        "(from Python call fastmm.loss_and_grad)"
    )


def _need(name: str, given: Any, ndim: int, dtype: Any) -> None:
    """Refuses, while a caller is compiled, what has not this type: a C entry sees an address only."""
    fits = isinstance(given, types.Array) and given.dtype == dtype and given.ndim == ndim and given.layout == "C"
    if not fits:
        raise TypingError(f"{name}: got {given}; allowed: a C-contiguous array of {dtype} with {ndim} axes")


def _need_inputs(lengths: Any, **given: Any) -> None:
    for name, (array, ndim) in given.items():
        _need(name, array, ndim, types.float64)
    if not (lengths is None or isinstance(lengths, types.Omitted | types.NoneType)):
        _need("lengths", lengths, 1, types.int64)


def _need_outputs(**given: Any) -> None:
    for name, array in given.items():
        _need(name, array, 1, types.float64)
        if not array.mutable:
            raise TypingError(f"{name}: got a read-only array; allowed: one that can be filled")


@numba.njit(nogil=True)
def _check(K: Any, p: Any, gradient: Any, direction: Any, loss: int, lengths: Any) -> int:
    """Refuses shapes that do not fit the keys; the address of the lengths, 0 without them."""
    n, T, d = K.shape
    if n < 1 or T < 1:
        raise ValueError("K: got no inputs or no tokens; allowed: at least one of each")
    if len(p) != d or len(gradient) != d or len(direction) != d:
        raise ValueError("p, its gradient and its direction: their length is not d, that of the keys")
    if loss < 0 or loss > 2:
        raise ValueError("loss: allowed: LOGISTIC, EXPONENTIAL, CORRELATION")
    if lengths is None:  # decided while compiling
        return 0
    if len(lengths) != n:
        raise ValueError("lengths: want one an input")
    for length in lengths:
        if length < 1 or length > T:
            raise ValueError("lengths: allowed: from 1 to the number of tokens T")
    return int(lengths.ctypes.data)


@numba.njit(nogil=True)
def _run_p(K: Any, scores: Any, p: Any, gradient: Any, direction: Any, loss: int, lengths: Any) -> tuple[float, float]:
    own = _check(K, p, gradient, direction, loss, lengths)
    n, T, d = K.shape
    if scores.shape != (n, T):
        raise ValueError("scores: its shape is not (n, T), that of the keys")
    log_norm = np.empty(1)
    risk = _of_p(
        loss, n, T, d, K.ctypes.data, scores.ctypes.data, own, p.ctypes.data, gradient.ctypes.data,
        direction.ctypes.data, log_norm.ctypes.data,
    )  # fmt: skip
    return risk, log_norm[0]


@overload(gradient_p, strict=False)  # annotations are for readers
def _gradient_p(
    K: Any, scores: Any, p: Any, gradient: Any, direction: Any, loss: Any = LOGISTIC, lengths: Any = None
) -> Callable[..., tuple[float, float]]:
    _need_inputs(lengths, K=(K, 3), scores=(scores, 2), p=(p, 1))
    _need_outputs(gradient=gradient, direction=direction)
    return lambda K, scores, p, gradient, direction, loss=LOGISTIC, lengths=None: _run_p(
        K, scores, p, gradient, direction, loss, lengths
    )


@numba.njit(nogil=True)
def _run_pv(
    K: Any, X: Any, Y: Any, p: Any, v: Any, gradient_in_p: Any, direction_p: Any, gradient_v: Any,
    direction_v: Any, loss: int, lengths: Any,
) -> tuple[float, float, float]:  # fmt: skip
    own = _check(K, p, gradient_in_p, direction_p, loss, lengths)
    n, T, d = K.shape
    if X.shape[0] != n or X.shape[1] != T:
        raise ValueError("X: its inputs or tokens are not as many as those of the keys")
    d_v = X.shape[2]
    if len(Y) != n:
        raise ValueError("Y: want one label an input")
    if len(v) != d_v or len(gradient_v) != d_v or len(direction_v) != d_v:
        raise ValueError("v, gradient_v, direction_v: their length is not d_v, that of the values")
    log_norms = np.empty(2)
    risk = _of_pv(
        loss, n, T, d, d_v, K.ctypes.data, X.ctypes.data, Y.ctypes.data, own, p.ctypes.data, v.ctypes.data,
        gradient_in_p.ctypes.data, direction_p.ctypes.data, log_norms.ctypes.data, gradient_v.ctypes.data,
        direction_v.ctypes.data, log_norms.ctypes.data + 8,
    )  # fmt: skip
    return risk, log_norms[0], log_norms[1]


@overload(gradient_pv, strict=False)
def _gradient_pv(
    K: Any, X: Any, Y: Any, p: Any, v: Any, gradient_in_p: Any, direction_p: Any, gradient_v: Any,
    direction_v: Any, loss: Any = LOGISTIC, lengths: Any = None,
) -> Callable[..., tuple[float, float, float]]:  # fmt: skip
    _need_inputs(lengths, K=(K, 3), X=(X, 3), Y=(Y, 1), p=(p, 1), v=(v, 1))
    _need_outputs(gradient_in_p=gradient_in_p, direction_p=direction_p, gradient_v=gradient_v, direction_v=direction_v)
    return lambda K, X, Y, p, v, gradient_in_p, direction_p, gradient_v, direction_v, loss=LOGISTIC, lengths=None: (
        _run_pv(K, X, Y, p, v, gradient_in_p, direction_p, gradient_v, direction_v, loss, lengths)
    )

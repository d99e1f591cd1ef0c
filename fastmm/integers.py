"""Integers of the user: lengths of sequences, selected tokens, step numbers, counts."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from fastmm.arrays import IntArray, need_axes, need_shape, raw


def as_lengths(name: str, value: Any, n: int, T: int) -> IntArray | None:
    """Lengths of the sequences, or None when every sequence is full.

    Parameters
    ----------
    name : str
        The argument, for messages.
    value : array_like of int, shape (..., n), or None
    n, T : int
        Inputs, and tokens of a full sequence.

    Returns
    -------
    ndarray of int64, shape (..., n), or None

    Raises
    ------
    TypeError, ValueError
        For other shapes, what is no integer, and lengths outside 1..T.
    """
    if value is None:
        return None
    lengths = _integers(name, value, ("n",))
    need_shape(name, lengths, ("n",), (n,), "the number of inputs")
    bad = np.argwhere((lengths < 1) | (lengths > T))
    if bad.size:
        place = tuple(int(k) for k in bad[0])
        raise ValueError(f"{name}: entry {list(place)} is {lengths[place]}; allowed: 1..{T} tokens")
    return None if np.all(lengths == T) else lengths


def as_selected(name: str, value: Any, n: int, T: int, lengths: IntArray | None) -> IntArray:
    """Token indices, counted from 0 and inside each sequence.

    Parameters
    ----------
    name : str
        The argument, for messages.
    value : array_like of int, shape (..., n)
    n, T : int
        Inputs, and tokens of a full sequence.
    lengths : ndarray of int64, shape (..., n), or None

    Returns
    -------
    ndarray of int64, shape (..., n), C-contiguous
        Broadcast with the lengths.

    Raises
    ------
    TypeError, ValueError
        For other shapes, what is no integer, and indices outside a sequence.
    """
    selected = _integers(name, value, ("n",))
    need_shape(name, selected, ("n",), (n,), "the number of inputs")
    own = np.asarray(T) if lengths is None else lengths
    try:
        selected, own = np.broadcast_arrays(selected, own)
    except ValueError:
        raise ValueError(f"{name}: shape {selected.shape} does not broadcast with lengths {own.shape}") from None
    bad = np.argwhere((selected < 0) | (selected >= own))
    if bad.size:
        place = tuple(int(k) for k in bad[0])
        raise ValueError(f"{name}: entry {list(place)} is {selected[place]}; allowed: 0..{own[place] - 1}")
    return np.ascontiguousarray(selected)


def as_count(name: str, value: Any) -> int:
    """A positive integer, of Python, NumPy or anything with an index.

    Parameters
    ----------
    name : str
        The argument, for messages.
    value : object

    Returns
    -------
    int

    Raises
    ------
    ValueError
        For everything else, booleans included.
    """
    try:
        count = 0 if isinstance(value, bool) else operator.index(value)
    except TypeError:
        count = 0
    if count < 1:
        raise ValueError(f"{name}: got {value!r}; allowed: a positive integer")
    return count


def as_steps(name: str, value: Any) -> IntArray:
    """A vector of integers.

    Parameters
    ----------
    name : str
        The argument, for messages.
    value : array_like of int, shape (R,)

    Returns
    -------
    ndarray of int64, shape (R,)

    Raises
    ------
    TypeError, ValueError
    """
    steps = _integers(name, value, ("R",))
    if steps.ndim != 1:
        raise ValueError(f"{name}: got shape {steps.shape}; allowed: (R,)")
    return steps


def _integers(name: str, value: Any, axes: Sequence[str]) -> IntArray:
    array = raw(name, value)
    need_axes(name, array, axes)
    if array.dtype.kind == "b":
        raise ValueError(f"{name}: got booleans; allowed: integers")
    if array.dtype.kind == "f":
        if array.size:
            raise ValueError(f"{name}: got dtype {array.dtype}; allowed: integers (no rounding is done here)")
    elif array.dtype.kind == "u" and array.size and int(array.max()) > np.iinfo(np.int64).max:
        raise ValueError(f"{name}: has an entry beyond 2**63; allowed: token counts")
    return np.require(array.astype(np.int64, copy=False), requirements=["C", "A"])

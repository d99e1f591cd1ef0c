"""The only place, with `integers`, for dtype, order, shape, finiteness and copies of user input."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fastmm import _core

FloatArray = npt.NDArray[np.floating[Any]]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]


def raw(name: str, value: Any) -> npt.NDArray[Any]:
    """Any array-like as a NumPy array of booleans, integers or floats of at most 8 bytes; nothing is converted yet.

    Parameters
    ----------
    name : str
        The argument, for messages.
    value : array_like
        Torch tensors too, with a gradient or on a device.

    Returns
    -------
    ndarray
        Not copied where NumPy need not.

    Raises
    ------
    TypeError, ValueError
        For complex and other dtypes, masked entries, rows of several lengths.
    """
    if hasattr(value, "detach") and hasattr(value, "cpu"):  # a torch tensor, perhaps with a gradient or on a device
        value = value.detach().cpu()
    if isinstance(value, np.ma.MaskedArray):
        if np.ma.is_masked(value):
            raise ValueError(f"{name}: has masked entries; allowed: plain arrays (pad and pass lengths=)")
        value = value.data
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise ValueError(
            f"{name}: cannot be read as one array ({error}); pad shorter rows and pass lengths="
        ) from error
    kind = array.dtype.kind
    if kind == "c":
        raise TypeError(f"{name}: got complex numbers; allowed: real numbers (take .real if the rest is 0)")
    if kind not in "biuf":
        raise TypeError(f"{name}: got dtype {array.dtype}; allowed: real numbers (convert with .astype(float))")
    if kind == "f" and array.dtype.itemsize > 8:
        raise TypeError(f"{name}: got dtype {array.dtype}; allowed: up to float64 (.astype(numpy.float64))")
    return array


def working_dtype(*named: tuple[str, Any]) -> np.dtype[Any]:
    """float32 when every array given is float32, else float64; lists, scalars and None have no say."""
    found = {raw(name, value).dtype.newbyteorder("=") for name, value in named if hasattr(value, "dtype")}
    return np.dtype(np.float32) if found == {np.dtype(np.float32)} else np.dtype(np.float64)


def floats(name: str, value: Any, dtype: npt.DTypeLike, axes: Sequence[str], *, finite: bool = True) -> FloatArray:
    """A native, aligned, C-contiguous float array with the named trailing axes; input of that form is not copied.

    Parameters
    ----------
    name : str
        The argument, for messages.
    value : array_like
    dtype : float32 or float64
    axes : sequence of str
        Names of the trailing axes it must have.
    finite : bool
        Whether NaN and infinity are refused.

    Returns
    -------
    ndarray of `dtype`
        float16 and integers are widened exactly.

    Raises
    ------
    TypeError, ValueError
        As `raw`; for too few axes, an integer that has no exact double, numbers too large for `dtype`.
    """
    array = raw(name, value)
    need_axes(name, array, axes)
    if array.dtype.kind in "iu" and array.dtype.itemsize == 8 and array.size:
        widest = 2**53
        if int(array.max()) > widest or int(array.min()) < -widest:
            raise ValueError(
                f"{name}: has integers beyond 2**53, not exact in float64; allowed: smaller ones or floats"
            )
    with np.errstate(over="ignore"):  # what is too large for float32 becomes infinite and is refused as such
        # ascontiguousarray would turn a 0-d array into a 1-d one
        out = np.require(array, dtype=np.dtype(dtype), requirements=["C", "A"])
    if finite:
        need_finite(name, out)
    return out


def need_axes(name: str, array: npt.NDArray[Any], axes: Sequence[str]) -> None:
    """Refuses an array with fewer axes than named.

    Parameters
    ----------
    name : str
        The argument, for messages.
    array : ndarray
    axes : sequence of str

    Raises
    ------
    ValueError
    """
    if array.ndim < len(axes):
        raise ValueError(f"{name}: got shape {array.shape}; allowed: (..., {', '.join(axes)})")


def need_extents(name: str, array: npt.NDArray[Any], axes: Sequence[str]) -> None:
    """Refuses trailing axes without entries.

    Parameters
    ----------
    name : str
        The argument, for messages.
    array : ndarray
        With the named axes last.
    axes : sequence of str

    Raises
    ------
    ValueError
    """
    for axis, extent in zip(axes, array.shape[array.ndim - len(axes) :], strict=True):
        if extent == 0:
            raise ValueError(
                f"{name}: got shape {array.shape}; allowed: (..., {', '.join(axes)}) with {axis} at least 1"
            )


def need_shape(name: str, array: npt.NDArray[Any], axes: Sequence[str], extents: Sequence[int], source: str) -> None:
    """Refuses trailing extents that differ from those of another argument.

    Parameters
    ----------
    name : str
        The argument, for messages.
    array : ndarray
    axes : sequence of str
    extents : sequence of int
        What the named axes must have.
    source : str
        The other argument, for messages.

    Raises
    ------
    ValueError
    """
    if array.shape[array.ndim - len(extents) :] != tuple(extents):
        wanted = ", ".join(f"{axis}={extent}" for axis, extent in zip(axes, extents, strict=True))
        raise ValueError(f"{name}: got shape {array.shape}; allowed: (..., {wanted}) to match {source}")


def need_finite(name: str, array: FloatArray, lengths: IntArray | None = None) -> None:
    """Refuses NaN and infinity, naming the first.

    Parameters
    ----------
    name : str
        The argument, for messages.
    array : ndarray, C-contiguous
        With `lengths` of shape (..., n, T, d).
    lengths : ndarray of int64, shape (..., n), optional
        Padding behind them is not read.

    Raises
    ------
    ValueError
    """
    if array.size == 0:
        return
    if lengths is None:
        where = _core.first_nonfinite(array.reshape(1, -1), array.size, 1)
    else:
        T, d = array.shape[-2:]
        own = np.ascontiguousarray(np.broadcast_to(lengths, array.shape[:-2])).reshape(-1)
        where = _core.first_nonfinite(array.reshape(own.size, T * d), T, d, own)
    if where >= 0:
        place = tuple(int(k) for k in np.unravel_index(where, array.shape))
        raise ValueError(f"{name}: entry {list(place)} is {array[place]}; allowed: finite numbers")


def as_labels(name: str, value: Any, dtype: npt.DTypeLike) -> FloatArray:
    """Labels: real numbers other than 0, usually -1 and +1.

    Parameters
    ----------
    name : str
        The argument, for messages.
    value : array_like, shape (..., n)
    dtype : float32 or float64

    Returns
    -------
    ndarray of `dtype`, shape (..., n)

    Raises
    ------
    TypeError, ValueError
        As `floats`; for booleans and zeros.
    """
    array = raw(name, value)
    if array.dtype.kind == "b":
        raise ValueError(f"{name}: got booleans; allowed: labels -1 and +1 (write 2*{name} - 1)")
    labels = floats(name, array, dtype, ("n",))
    bad = np.argwhere(labels == 0)
    if bad.size:
        raise ValueError(f"{name}: entry {bad[0].tolist()} is 0; allowed: -1 and +1 (0/1 labels: write 2*{name} - 1)")
    return labels


def broadcast_batch(named: Sequence[tuple[str, tuple[int, ...]]]) -> tuple[int, ...]:
    """The common batch shape of several arguments.

    Parameters
    ----------
    named : sequence of (str, tuple of int)
        Names and batch shapes.

    Returns
    -------
    tuple of int

    Raises
    ------
    ValueError
        Where they do not broadcast.
    """
    try:
        return np.broadcast_shapes(*(shape for _, shape in named))
    except ValueError:
        text = ", ".join(f"{name} {shape}" for name, shape in named)
        raise ValueError(f"batch dimensions do not broadcast together: {text}") from None


def blocks(array: npt.NDArray[Any], core: int, batch_shape: tuple[int, ...]) -> tuple[npt.NDArray[Any], IntArray]:
    """The array's blocks without broadcasting copies, and for each element of the batch the block that is its own.

    Parameters
    ----------
    array : ndarray
    core : int
        Number of trailing axes of one block.
    batch_shape : tuple of int
        That the leading axes broadcast to.

    Returns
    -------
    blocks : ndarray, shape (count, *core)
    index : ndarray of int64, shape (batch,)
        Into the blocks.
    """
    own = array.shape[: array.ndim - core]
    count = math.prod(own)
    flat = array.reshape(count, *array.shape[array.ndim - core :])
    index = np.broadcast_to(np.arange(count, dtype=np.int64).reshape(own), batch_shape)
    return flat, np.ascontiguousarray(index).reshape(-1)


def length_blocks(lengths: IntArray | None, batch_shape: tuple[int, ...]) -> tuple[IntArray | None, IntArray | None]:
    """Lengths as blocks for a compiled call, or a pair of None when every sequence is full."""
    return (None, None) if lengths is None else blocks(lengths, 1, batch_shape)

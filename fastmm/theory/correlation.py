"""Correlation of two vectors: the cosine of the angle between them."""

from __future__ import annotations

from typing import Any

import numpy as np

from fastmm import arrays
from fastmm.arrays import FloatArray


def correlation(a: Any, b: Any) -> Any:
    """``a·b / (||a|| ||b||)`` along the last axis.

    Parameters
    ----------
    a, b : array_like, shape (..., d)
        Vectors; the leading dimensions broadcast together. Any scale: 1e-300 and 1e300 are fine.

    Returns
    -------
    float or ndarray, shape (...)
        Numbers in [-1, 1], float64; NaN where a or b is the zero vector, which has no direction. Parallel vectors give
        1 or -1 to a few units in the last place.

    Raises
    ------
    TypeError
        For complex and object arrays.
    ValueError
        For vectors of different lengths, NaN or infinity.

    Examples
    --------
    >>> import fastmm as mm
    >>> mm.correlation([3e-200, 4e-200], [-3e200, -4e200])
    -1.0
    >>> mm.correlation([0.0, 0.0], [1.0, 0.0])
    nan
    """
    x = arrays.floats("a", a, np.float64, ("d",))
    y = arrays.floats("b", b, np.float64, ("d",))
    arrays.need_shape("b", y, ("d",), x.shape[-1:], "a")
    arrays.broadcast_batch([("a", x.shape[:-1]), ("b", y.shape[:-1])])
    x, y = _near_one(x), _near_one(y)
    with np.errstate(invalid="ignore"):  # 0 / 0 is the NaN that is wanted
        # one root of the product of two rounded sums: equal vectors give exactly 1
        cosine = (x * y).sum(-1) / np.sqrt((x * x).sum(-1) * (y * y).sum(-1))
    cosine = np.clip(cosine, -1.0, 1.0)
    return float(cosine) if cosine.ndim == 0 else cosine


def _near_one(x: FloatArray) -> FloatArray:
    """The vectors times powers of two that bring their largest entry into [1/2, 1)."""
    power = np.frexp(np.abs(x).max(-1, initial=0, keepdims=True))[1]
    return np.asarray(np.ldexp(x, -power))

"""Broadcasting of leading dimensions in operators that take a batch: the axes of vmap, sums over stretched axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def aligned(arguments: Sequence[Any], in_dims: Sequence[int | None], cores: Sequence[int]) -> list[Any]:
    """Arguments of a vmap rule with the new axis in front of all leading ones, so that they broadcast in one call.

    `cores` are the numbers of trailing axes that are not part of the batch; an argument may be None.
    """
    given = list(zip(arguments, in_dims, cores, strict=True))
    leading = [0 if x is None else x.ndim - core - (dim is not None) for x, dim, core in given]
    most = max(leading)
    return [
        x if dim is None else _with_axes(x.movedim(dim, 0), most - own)
        for (x, dim, _), own in zip(given, leading, strict=True)
    ]


def _with_axes(x: Any, count: int) -> Any:
    """The same with axes of extent 1 behind the first."""
    return x.reshape(x.shape[0], *[1] * count, *x.shape[1:])


def sum_to(x: Any, shape: Sequence[int]) -> Any:
    """Sums over the axes along which an argument of this shape was broadcast."""
    more = x.ndim - len(shape)
    stretched = [more + k for k, extent in enumerate(shape) if extent == 1 and x.shape[more + k] != 1]
    axes = [*range(more), *stretched]
    return x.sum(axes).reshape(shape) if axes else x

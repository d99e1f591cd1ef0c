"""Broadcasting of leading dimensions, for operators that take a batch: the axes of vmap, and sums over stretched ones."""

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
        x if dim is None else x.movedim(dim, 0)[(slice(None), *[None] * (most - own))]
        for (x, dim, _), own in zip(given, leading, strict=True)
    ]


def sum_to(x: Any, shape: Sequence[int]) -> Any:
    """Sums over the axes along which an argument of this shape was broadcast."""
    more = x.ndim - len(shape)
    stretched = [more + k for k, extent in enumerate(shape) if extent == 1 and x.shape[more + k] != 1]
    axes = [*range(more), *stretched]
    return x.sum(axes).reshape(shape) if axes else x

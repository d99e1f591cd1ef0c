"""Grid: the axes of a scan and its cells."""

from __future__ import annotations

import hashlib
import inspect
import itertools
import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

RESERVED = ("trial", "status", "seconds", "statistic", "outcome")

Clean = Callable[[str, Any], Any]


@dataclass(frozen=True)
class Grid:
    """Values for each axis, and settings that all cells share.

    Attributes
    ----------
    axes : dict of list
        The values along each dimension, in the order given.
    fixed : dict
        The settings with one value.
    """

    axes: dict[str, list[Any]]
    fixed: dict[str, Any]

    @classmethod
    def of(cls, grid: Any, clean: Clean, defaults: Mapping[str, Any]) -> Grid:
        """Reads what a user wrote: single values are shared, lists (also ranges and arrays) become dimensions."""
        if not isinstance(grid, Mapping):
            raise TypeError(
                f"grid: got {type(grid).__name__}; allowed: a mapping of names to values or lists of values"
            )
        axes: dict[str, list[Any]] = {}
        fixed: dict[str, Any] = {}
        for name, value in grid.items():
            if not isinstance(name, str) or not name.isidentifier() or name in RESERVED:
                raise ValueError(f"grid: got the name {name!r}; allowed: identifiers other than {', '.join(RESERVED)}")
            if not isinstance(value, list | tuple | range | np.ndarray) or (
                isinstance(value, np.ndarray) and value.ndim == 0
            ):
                fixed[name] = clean(name, _plain(value))
                continue
            if isinstance(value, np.ndarray) and value.ndim != 1:
                raise ValueError(f"grid: {name} has shape {value.shape}; allowed: one value or a list of values")
            values = [clean(name, _plain(one)) for one in value]
            if not values:
                raise ValueError(f"grid: {name} has no values; allowed: at least one")
            labels = [label(one) for one in values]
            for k, one in enumerate(labels):
                if one in labels[:k]:
                    raise ValueError(f"grid: {name} has {one!r} twice; allowed: distinct values")
            axes[name] = values
        missing = {name: value for name, value in defaults.items() if name not in axes and name not in fixed}
        return cls(axes, fixed | {name: clean(name, value) for name, value in missing.items()})

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of values along each axis."""
        return tuple(len(values) for values in self.axes.values())

    @property
    def size(self) -> int:
        """Number of cells."""
        return math.prod(self.shape)

    def cells(self) -> Iterator[tuple[tuple[int, ...], dict[str, Any]]]:
        """Place and settings of each cell, the last axis fastest; made one at a time."""
        places = itertools.product(*(range(extent) for extent in self.shape))
        return ((place, self.at(place)) for place in places)

    def at(self, place: tuple[int, ...]) -> dict[str, Any]:
        """The settings of one cell."""
        chosen = {name: values[k] for (name, values), k in zip(self.axes.items(), place, strict=True)}
        return self.fixed | chosen

    def coordinates(self) -> dict[str, list[Any]]:
        """The values along each axis as numbers, or as text if one of them is no number."""
        out = {}
        for name, values in self.axes.items():
            labels = [label(value) for value in values]
            kinds = {type(one) for one in labels}
            numbers = kinds <= {int, float} or kinds == {bool}
            out[name] = labels if numbers else [one if isinstance(one, str) else json.dumps(one) for one in labels]
        return out

    def described(self) -> dict[str, Any]:
        """Axes and shared settings as JSON has them."""
        return {
            "axes": {name: [label(value) for value in values] for name, values in self.axes.items()},
            "fixed": {name: label(value) for name, value in self.fixed.items()},
        }


def identity(cell: Mapping[str, Any]) -> str:
    """The text that names a cell, whatever grid it stands in."""
    return json.dumps({name: label(value) for name, value in cell.items()}, sort_keys=True)


def label(value: Any) -> Any:
    """A value as JSON has it: numbers, text and None as they are, infinities by name, anything else by its own name."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return {str(name): label(one) for name, one in value.items()}
    if callable(value) and hasattr(value, "__qualname__"):
        return function_name(value)
    text = repr(value)
    if " at 0x" in text:
        raise ValueError(
            f"grid: {text} has no name that lasts; allowed: numbers, text, functions, objects with a repr of their own"
        )
    return text


def function_name(function: Any) -> str:
    """Module, name and a hash of the source of a function: other code is another function."""
    try:
        code: bytes = inspect.getsource(function).encode()
    except (OSError, TypeError):  # typed at a prompt, or compiled
        code = getattr(getattr(function, "__code__", None), "co_code", b"")
    return f"{function.__module__}:{function.__qualname__}#{hashlib.sha256(code).hexdigest()[:12]}"


def _plain(value: Any) -> Any:
    """NumPy scalars as Python has them; float32 is widened exactly."""
    return (
        value.item() if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and not value.ndim) else value
    )

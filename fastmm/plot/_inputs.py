"""What the pictures have in common: points of a run, axes of their own, lists of names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fastmm.plot.house_style import new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def need_one_each(count: int, of: str, **lists: Sequence[str] | None) -> None:
    """Refuses a list of names or colours that has not one entry for each thing drawn."""
    for name, given in lists.items():
        if given is not None and len(given) != count:
            raise ValueError(f"{name}: got {len(given)}; allowed: {count}, one a {of}")


def points_of(run: Any) -> npt.NDArray[np.float64]:
    """The recorded iterates of a run, or an array as it is."""
    if hasattr(run, "steps_done"):
        if run.history is None:
            raise ValueError("run: has no history; allowed: runs made with descend(..., record=1)")
        run = run.history.p
    return np.asarray(run, dtype=float)


def own_axes(xlabel: str, ylabel: str) -> Axes:
    """Axes on a new figure, for callers who bring none."""
    ax = new_figure(4.6, 4.2).add_subplot()
    ax.set(xlabel=xlabel, ylabel=ylabel)
    return ax

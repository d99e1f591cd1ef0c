"""Maps of the plane: where gradient descent ends, by its starting point."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fastmm.plot._inputs import own_axes
from fastmm.plot.house_style import COLORS, style
from fastmm.plot.plane import rays, tokens

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Paler than the lines drawn over them, in the order of the selections; what is not decided stays grey.
_TINTS = ("vermillion", "blue", "green", "purple", "orange", "sky")
_PALE, _UNDECIDED = 0.45, "#D9DCE0"


class BasinArtists(NamedTuple):
    """What `basin` has drawn."""

    image: Any
    rays: list[Any]
    tokens: list[Any]


def basin(found: Any, ax: Axes | None = None, *, labels: bool = True, show_tokens: bool = True) -> BasinArtists:
    """Draw a map of basins: starting points coloured by the selection that their run reaches.

    Parameters
    ----------
    found : Basins
        From `fastmm.theory.basins`.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default a new figure in the house style.
    labels : bool
        A legend with the selections and their shares of the starting points.
    show_tokens : bool
        Draw the keys, those with the best scores filled.

    Returns
    -------
    BasinArtists
        The image, the max-margin directions as dashed rays, and the artists of the keys.

    Examples
    --------
    >>> import fastmm as mm
    >>> problem = mm.Problem([[[1, 0], [0, 0]], [[-2, 1], [0, 0]]], [1, 1], [1, 3])
    >>> drawn = mm.plot.basin(mm.theory.basins(problem, resolution=20))
    >>> len(drawn.rays)
    2
    """
    if ax is None:
        with style():
            return basin(found, own_axes("$p_1$", "$p_2$"), labels=labels, show_tokens=show_tokens)
    from matplotlib.colors import to_rgb

    count = len(found.selected)
    strong = [COLORS[_TINTS[k % len(_TINTS)]] for k in range(count)]
    palette = np.array([*(_PALE * np.array(to_rgb(color)) + 1 - _PALE for color in strong), to_rgb(_UNDECIDED)])
    half_x, half_y = (_half_step(values) for values in (found.x, found.y))
    extent = (found.x[0] - half_x, found.x[-1] + half_x, found.y[0] - half_y, found.y[-1] + half_y)
    image = ax.imshow(
        palette[found.labels], origin="lower", extent=extent, interpolation="nearest", aspect="equal", zorder=0
    )
    ax.grid(visible=False)
    ax.set(xlim=extent[:2], ylim=extent[2:])
    lines = rays(found.solutions.w, ax, colors=strong, linewidth=1.6) if count else []
    dots = tokens(found.problem, ax, labels=False, color=COLORS["ink"]) if show_tokens else []
    if labels:
        _legend(ax, found, palette)
    return BasinArtists(image, lines, dots)


def _half_step(values: Any) -> float:
    return float(values[1] - values[0]) / 2 if len(values) > 1 else 0.5


def _legend(ax: Axes, found: Any, palette: Any) -> None:
    from matplotlib.patches import Patch

    names = [
        f"{'GMM' if best else 'LMM'} ({', '.join(map(str, own))}): {share:.1%}"
        for own, best, share in zip(found.selected.tolist(), found.globally_optimal, found.share, strict=True)
    ]
    rest = 1 - float(found.share.sum())
    if rest > 0:
        names.append(f"not decided: {rest:.1%}")
    handles = [Patch(color=color) for color in (palette if rest > 0 else palette[:-1])]
    # below the axes: nothing of the map is hidden
    ax.legend(handles, names, loc="upper center", bbox_to_anchor=(0.5, -0.17), ncols=2, fontsize=8.5, handlelength=1.2)

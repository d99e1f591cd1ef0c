"""The two-panel picture that Figures 1(a), (b) and (c) share: the keys with the starts, and the paths."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fastmm import plot
from fastmm.arrays import FloatArray
from fastmm.problem import Problem

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STEPS_DRAWN = 200


class Ray(NamedTuple):
    """A max-margin direction to draw: the vector, its name in the legend and its colour."""

    w: FloatArray
    label: str
    color: str


class Note(NamedTuple):
    """A text beside a key: its place, what it says, and the shift in points (to the left when negative)."""

    place: FloatArray
    text: str
    shift: tuple[float, float]


def plane_picture(
    problem: Problem,
    points: FloatArray,
    rays: Sequence[Ray],
    path_colors: Sequence[str],
    neighbors: Any,
    notes: Sequence[Note],
    titles: tuple[str, str],
    near: tuple[tuple[float, float], tuple[float, float]],
    far: tuple[tuple[float, float], tuple[float, float]],
) -> Figure:
    """Keys, starts and first steps on the left; the first 200 steps on the right; one legend below both.

    Parameters
    ----------
    problem : Problem
        With keys in the plane.
    points : ndarray, shape (R, m, 2)
        The paths, every step.
    rays : sequence of Ray
    path_colors : sequence of str
        One a path.
    neighbors : ndarray of bool, shape (n, T)
        Keys to ring: the SVM-neighbours of the selected tokens.
    notes : sequence of Note
        Texts beside keys; without any, each key carries its token number.
    titles : (str, str)
    near, far : ((float, float), (float, float))
        Limits of both axes in either panel.

    Returns
    -------
    matplotlib.figure.Figure
    """
    from matplotlib.lines import Line2D

    figure = plot.new_figure(10.4, 5.6)
    left, right = figure.subplots(1, 2)
    for ax, title, limits, every in ((left, titles[0], near, 5), (right, titles[1], far, 10)):
        ax.set(title=title, xlabel="$p_1$", ylabel="$p_2$", xlim=limits[0], ylim=limits[1])
        ax.set_aspect("equal", adjustable="box")
        plot.rays([ray.w for ray in rays], ax, colors=[ray.color for ray in rays])
        plot.paths(points, ax, arrows=every, colors=path_colors, linewidth=1.5, alpha=0.85)
    left.set(xlabel="$p_1$ (keys: $k_1$)", ylabel="$p_2$ (keys: $k_2$)")
    plot.tokens(problem, left, neighbors=neighbors, labels=not notes, color=plot.COLORS["ink"])
    for place, text, shift in notes:
        side = "right" if shift[0] < 0 else "left"
        left.annotate(text, place, shift, textcoords="offset points", ha=side, va="center", zorder=6)

    dash = {"linestyle": (0, (5, 3)), "linewidth": 1.5}
    handles = [Line2D([], [], color=ray.color, label=ray.label, **dash) for ray in rays]
    seen = dict.fromkeys(path_colors)
    start = {"marker": "o", "mfc": "white", "mew": 1.5, "ms": 5.5}
    handles += [Line2D([], [], color=color, label="path from its start", **start) for color in list(seen)[:1]]
    dot = {"linestyle": "none", "marker": "o", "mec": "white"}
    handles += [
        Line2D([], [], color=plot.COLORS["ink"], ms=7, label="key with the best score", **dot),
        Line2D([], [], color=plot.COLORS["muted"], ms=7, label="other keys", **dot),
        Line2D(
            [], [], color=plot.COLORS["ink"], ms=10, mfc="none", label="SVM-neighbour of the GMM", **dot | {"mec": "k"}
        ),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=3, columnspacing=2.2, handlelength=2.6)
    return figure


def equal_limits(points: FloatArray, margin: float = 0.06) -> tuple[tuple[float, float], tuple[float, float]]:
    """Limits of both axes that hold all points with a margin, for a panel with equal aspect."""
    flat = np.asarray(points, dtype=float).reshape(-1, 2)
    low, high = flat.min(axis=0), flat.max(axis=0)
    pad = margin * float((high - low).max())
    (x0, y0), (x1, y1) = low - pad, high + pad
    return (float(x0), float(x1)), (float(y0), float(y1))

"""The picture of paths to max-margin directions: keys and starts on the left, paths and convergence on the right."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fastmm import plot
from fastmm.arrays import BoolArray, FloatArray
from fastmm.problem import Problem
from fastmm.theory import correlation

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Every step that is drawn, then a few more on the way to the last one, for the claims and the inset.
STEPS_DRAWN, STEPS = 200, 20000
RECORD = np.unique(np.r_[np.arange(STEPS_DRAWN + 1), 1000, 5000, np.geomspace(STEPS_DRAWN, STEPS, 60).astype(int)])
Limits = tuple[tuple[float, float], tuple[float, float]]


class Ray(NamedTuple):
    """A max-margin direction to draw: the vector, its name in the legend and its colour."""

    w: FloatArray
    label: str
    color: str


class Note(NamedTuple):
    """A text beside a point: the place, the words, and the shift in points (to the left when negative)."""

    place: FloatArray
    text: str
    shift: tuple[float, float]


class Layout(NamedTuple):
    """What differs between the three pictures: titles and limits of the two panels, and the box of the inset."""

    titles: tuple[str, str]
    near: Limits
    far: Limits
    inset: tuple[float, float, float, float]


def plane_picture(
    problem: Problem,
    run: Any,
    rays: Sequence[Ray],
    ends: Sequence[int],
    neighbors: BoolArray,
    notes: Sequence[Note],
    layout: Layout,
) -> Figure:
    """Keys, starts and first steps on the left; the first 200 steps on the right, with the gap to the limit inset.

    Parameters
    ----------
    problem : Problem
        With keys in the plane.
    run : Trajectory
        Recorded at every one of the first 200 steps, and later.
    rays : sequence of Ray
    ends : sequence of int
        For each path the ray it ends at, which gives it its colour.
    neighbors : ndarray of bool, shape (n, T)
        Keys to ring: the SVM-neighbours of the selected tokens.
    notes : sequence of Note
    layout : Layout

    Returns
    -------
    matplotlib.figure.Figure
    """
    figure = plot.new_figure(10.4, 5.9, layout="none")  # equal axes of a fixed size
    figure.subplots_adjust(left=0.065, right=0.985, bottom=0.2, top=0.94, wspace=0.15)
    left, right = figure.subplots(1, 2)
    colors = [rays[end].color for end in ends]
    points = run.history.p[: STEPS_DRAWN + 1]
    for ax, title, limits, every, width in zip(
        (left, right), layout.titles, (layout.near, layout.far), (5, 10), (1.6, 1.0), strict=True
    ):
        ax.set(title=title, xlabel="$p_1$", ylabel="$p_2$", xlim=limits[0], ylim=limits[1])
        ax.set_aspect("equal", adjustable="box")
        plot.rays([ray.w for ray in rays], ax, colors=[ray.color for ray in rays])
        plot.paths(points, ax, arrows=every, colors=colors, linewidth=width, alpha=0.85)
    left.set(xlabel="$p_1$  (keys: first coordinate)", ylabel="$p_2$  (keys: second coordinate)")
    best = np.arange(problem.T) == problem.optimal[:, None]
    labels = problem.n > 1 and best | neighbors
    plot.tokens(problem, left, neighbors=neighbors, labels=labels, color=plot.COLORS["ink"])
    for note in notes:
        plot.note(left, *note)
    _inset(right, layout.inset, run, np.array([rays[end].w for end in ends]), colors)
    _legend(figure, rays, colors[0], problem.n)
    return figure


def _inset(ax: Axes, box: tuple[float, float, float, float], run: Any, targets: FloatArray, colors: list[str]) -> None:
    """How far each path is from the direction of its own colour, both axes logarithmic."""
    from matplotlib.patches import Rectangle

    x, y, width, height = box
    paper = (x - 0.11, y - 0.13), width + 0.12, height + 0.2
    ax.add_patch(Rectangle(*paper, transform=ax.transAxes, color="white", lw=0, zorder=1))  # above the grid
    small = ax.inset_axes(box)
    gaps = 1 - correlation(run.history.p[1:], targets)
    for curve, color in zip(plot.curves(run.history.steps[1:], gaps, small, linewidth=1.1), colors, strict=True):
        curve.set_color(color)
    small.set(xlabel="step", ylabel="")
    small.set_title("1 - correlation with its ray", fontsize=9, fontweight="normal", pad=4)
    small.tick_params(labelsize=8, pad=1.5)
    small.minorticks_off()
    small.xaxis.labelpad = 0


def _legend(figure: Figure, rays: Sequence[Ray], path_color: str, n: int) -> None:
    from matplotlib.legend_handler import HandlerTuple
    from matplotlib.lines import Line2D

    dash: dict[str, Any] = {"linestyle": (0, (5, 3)), "linewidth": 1.5}
    handles: list[Any] = [Line2D([], [], color=ray.color, **dash) for ray in rays]
    names = [ray.label for ray in rays]
    handles.append(Line2D([], [], color=path_color, marker="o", mfc="white", mew=1.5, ms=5.5))
    names.append("start and path")
    for shade, name in (("ink", "key with the best score"), ("muted", "other keys")):
        dots: dict[str, Any] = {"linestyle": "none", "mec": "white", "ms": 7, "color": plot.COLORS[shade]}
        handles.append(tuple(Line2D([], [], marker=plot.MARKERS[i], **dots) for i in range(n)))
        names.append(name if n == 1 else f"{name} of inputs {', '.join(map(str, range(n)))}")
    handles.append(Line2D([], [], linestyle="none", marker="o", ms=10, mfc="none", mec=plot.COLORS["ink"]))
    names.append("SVM-neighbour of the GMM")
    handler = {tuple: HandlerTuple(ndivide=None, pad=0.3)}
    figure.legend(handles, names, loc="lower center", ncols=3, columnspacing=2.2, handlelength=2.8, handler_map=handler)

"""Pictures in the plane of p: paths of runs, tokens, max-margin rays, notes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fastmm.plot._inputs import need_one_each, own_axes, points_of
from fastmm.plot.house_style import COLORS, MARKERS, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class PathArtists(NamedTuple):
    """What `paths` has drawn: a line, a start marker and the arrow heads, one of each a path."""

    lines: list[Any]
    starts: list[Any]
    arrows: list[Any]


def paths(
    run: Any,
    ax: Axes | None = None,
    *,
    arrows: int = 10,
    colors: Sequence[str] | None = None,
    labels: Sequence[str] | None = None,
    **line: Any,
) -> PathArtists:
    """Draw the paths of p in the plane, with their starts and arrows along the way.

    Parameters
    ----------
    run : Trajectory or array_like, shape (R, ..., 2)
        A run that was recorded, or the points themselves, recording axis first.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default a new figure in the house style.
    arrows : int
        An arrow head every so many recorded points; 0 for none.
    colors, labels : sequence of str, optional
        One a path.
    **line
        Passed to every line, such as ``linewidth``.

    Returns
    -------
    PathArtists

    Raises
    ------
    ValueError
        If the points are not in the plane, or colours or labels do not match the paths.

    Examples
    --------
    >>> import numpy as np
    >>> from fastmm import plot
    >>> drawn = plot.paths(np.cumsum(np.ones((30, 2, 2)), axis=0), labels=["one", "two"])
    >>> [line.get_label() for line in drawn.lines]
    ['one', 'two']
    """
    points = points_of(run)
    if points.ndim < 2 or points.shape[-1] != 2:
        raise ValueError(f"run: got points of shape {points.shape}; allowed: (R, ..., 2), that is p in the plane")
    points = points.reshape(len(points), -1, 2)
    count = points.shape[1]
    need_one_each(count, "path", colors=colors, labels=labels)
    if ax is None:
        with style():
            ax = own_axes("$p_1$", "$p_2$")
            ax.set_aspect("equal", adjustable="datalim")
            return paths(points, ax, arrows=arrows, colors=colors, labels=labels, **line)
    drawn = PathArtists([], [], [])
    for k in range(count):
        own = points[:, k]
        keywords: dict[str, Any] = {
            "color": colors[k] if colors is not None else None,
            "label": labels[k] if labels else None,
        } | line
        (path,) = ax.plot(own[:, 0], own[:, 1], **keywords)
        color = path.get_color()
        drawn.lines.append(path)
        drawn.starts.extend(ax.plot(*own[0], "o", ms=5.5, mfc="white", mec=color, mew=1.5, zorder=4))
        if arrows:
            drawn.arrows.append(_arrow_heads(ax, own, arrows, color, path.get_linewidth()))
    return drawn


def _arrow_heads(ax: Axes, path: Any, every: int, color: Any, width: float) -> Any:
    """Heads without shafts, one artist for all of a path."""
    places = path[every - 1 : -1 : every]
    steps = path[every::every] - places
    length = (1.5 + 3 * width) / 72  # inches
    shape: dict[str, Any] = {"width": length / 6, "headlength": 6, "headaxislength": 6, "headwidth": 4.4}
    size: dict[str, Any] = {"angles": "xy", "units": "inches", "scale_units": "inches", "scale": 1 / length}
    norms = np.hypot(*steps.T)
    units = np.divide(steps, norms[:, None], out=np.zeros_like(steps), where=norms[:, None] > 0)
    return ax.quiver(*places.T, *units.T, color=color, pivot="middle", zorder=3, **shape, **size)


def tokens(
    keys: Any,
    ax: Axes | None = None,
    *,
    selected: Any = None,
    neighbors: Any = None,
    labels: Any = True,
    color: str = COLORS["vermillion"],
) -> list[Any]:
    """Draw the keys of a problem in the plane: one marker shape an input, the selected tokens in colour.

    Parameters
    ----------
    keys : Problem or array_like, shape (n, T, 2)
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default a new figure in the house style.
    selected : array_like of int, shape (n,), optional
        Tokens to fill with `color`; by default those with the largest score when a Problem is given.
    neighbors : array_like of bool, shape (n, T), optional
        Tokens to ring, such as ``MaxMargin.neighbors``.
    labels : bool or array_like of bool, shape (n, T)
        Write the token's number beside it; an array says beside which tokens.
    color : str

    Returns
    -------
    list of artists
        Markers first, input by input, then rings, then texts.

    Raises
    ------
    ValueError
        If the keys are not in the plane or come as a batch.

    Examples
    --------
    >>> from fastmm import plot
    >>> artists = plot.tokens([[[0.0, 1.0], [1.0, 0.0]]], selected=[0])
    >>> [text.get_text() for text in artists[-2:]]
    ['0', '1']
    """
    if hasattr(keys, "optimal"):
        selected = keys.optimal if selected is None else selected
        keys = keys.K
    keys = np.asarray(keys, dtype=float)
    if keys.ndim != 3 or keys.shape[-1] != 2:
        raise ValueError(f"keys: got shape {keys.shape}; allowed: (n, T, 2), one problem with keys in the plane")
    if ax is None:
        with style():
            ax = own_axes("$k_1$", "$k_2$")
            ax.set_aspect("equal", adjustable="datalim")
            return tokens(keys, ax, selected=selected, neighbors=neighbors, labels=labels, color=color)
    chosen = np.zeros(keys.shape[:2], dtype=bool)
    if selected is not None:
        chosen[np.arange(len(keys)), np.asarray(selected)] = True
    ringed = np.zeros_like(chosen) if neighbors is None else np.asarray(neighbors, dtype=bool)
    artists: list[Any] = []
    for i, own in enumerate(keys):
        faces = [color if c else COLORS["muted"] for c in chosen[i]]
        artists.append(
            ax.scatter(
                own[:, 0], own[:, 1], s=38, c=faces, marker=MARKERS[i % len(MARKERS)], ec="white", lw=0.8, zorder=5
            )
        )
    x, y = keys[ringed].T
    artists.append(ax.scatter(x, y, s=120, facecolors="none", edgecolors=COLORS["ink"], lw=1.1, zorder=5))
    artists += [note(ax, keys[i, t], f"{t}", (7, 4)) for i, t in np.argwhere(np.broadcast_to(labels, chosen.shape))]
    return artists


def note(ax: Axes, place: Any, text: str, shift: tuple[float, float]) -> Any:
    """Write a text beside a point, haloed in white so that lines behind it do not hurt.

    Parameters
    ----------
    ax : matplotlib.axes.Axes
    place : array_like, shape (2,)
    text : str
    shift : (float, float)
        In points; the text ends there when it shifts to the left, begins there otherwise.

    Returns
    -------
    matplotlib.text.Annotation
    """
    from matplotlib.patheffects import withStroke

    halo = [withStroke(linewidth=2.5, foreground="white")]
    keywords: dict[str, Any] = {
        "ha": "right" if shift[0] < 0 else "left",
        "va": "center",
        "zorder": 6,
        "path_effects": halo,
    }
    return ax.annotate(text, place, shift, textcoords="offset points", clip_on=True, **keywords)


def rays(
    directions: Any,
    ax: Axes | None = None,
    *,
    labels: Sequence[str] | None = None,
    colors: Sequence[str] | None = None,
    **line: Any,
) -> list[Any]:
    """Draw directions as dashed rays from the origin to beyond the edge of the axes, without moving its limits.

    Parameters
    ----------
    directions : array_like, shape (..., 2)
        Such as ``MaxMargin.direction``.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default a new figure in the house style.
    labels, colors : sequence of str, optional
        One a direction.
    **line
        Passed to every line.

    Returns
    -------
    list of matplotlib.lines.Line2D

    Examples
    --------
    >>> from fastmm import plot
    >>> len(plot.rays([[1.0, 0.0], [0.0, 2.0]]))
    2
    """
    directions = np.asarray(directions, dtype=float)
    if directions.ndim < 1 or directions.shape[-1] != 2:
        raise ValueError(f"directions: got shape {directions.shape}; allowed: (..., 2)")
    directions = directions.reshape(-1, 2)
    need_one_each(len(directions), "direction", colors=colors, labels=labels)
    if ax is None:
        with style():
            ax = own_axes("$p_1$", "$p_2$")
            ax.set(aspect="equal", xlim=(-1, 1), ylim=(-1, 1))
            return rays(directions, ax, labels=labels, colors=colors, **line)
    limits = ax.get_xlim(), ax.get_ylim()
    far = 2 * np.abs(limits).max()
    lines: list[Any] = []
    for k, direction in enumerate(directions):
        end = far * direction / np.hypot(*direction)
        keywords: dict[str, Any] = {
            "linestyle": (0, (5, 3)),
            "linewidth": 1.3,
            "zorder": 1.8,
            "scalex": False,
            "scaley": False,
        } | line
        keywords |= {"color": colors[k] if colors else None, "label": labels[k] if labels else None}
        lines += ax.plot([0, end[0]], [0, end[1]], **keywords)
    ax.set(xlim=limits[0], ylim=limits[1])
    return lines

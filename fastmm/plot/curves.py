"""Curves of runs against the number of steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fastmm.plot._inputs import need_one_each, own_axes, points_of
from fastmm.plot.house_style import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def convergence(
    run: Any, target: Any, ax: Axes | None = None, *, labels: Sequence[str] | None = None, **line: Any
) -> list[Any]:
    """Draw ``1 - correlation`` of a run with a direction against the steps, both axes logarithmic.

    Parameters
    ----------
    run : Trajectory
        With a history.
    target : array_like, shape (..., d) or MaxMargin
        The direction expected in the limit.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default a new figure in the house style.
    labels : sequence of str, optional
        One a problem of the batch.
    **line
        Passed to every line.

    Returns
    -------
    list of matplotlib.lines.Line2D
        One a problem of the batch.

    Examples
    --------
    >>> import fastmm as mm
    >>> problem = mm.Problem([[[1.0, 0.5], [0.0, 0.0]]], [1.0], [1.0, 0.0])
    >>> run = mm.descend(problem, steps=100, record=10)
    >>> len(mm.plot.convergence(run, mm.att_svm(problem.K, problem.optimal)))
    1
    """
    from fastmm.theory import correlation

    points = points_of(run)
    gaps = 1 - np.asarray(correlation(points, getattr(target, "w", target)))
    return curves(run.history.steps, gaps, ax, labels=labels, **line)


def curves(
    steps: npt.ArrayLike,
    values: npt.ArrayLike,
    ax: Axes | None = None,
    *,
    labels: Sequence[str] | None = None,
    ylabel: str = "1 - correlation",
    **line: Any,
) -> list[Any]:
    """Draw positive values against steps, both axes logarithmic; what is not positive is left out.

    Parameters
    ----------
    steps : array_like, shape (R,)
    values : array_like, shape (R, ...)
        One curve for each entry of the trailing axes.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default a new figure in the house style.
    labels : sequence of str, optional
        One a curve.
    ylabel : str
    **line
        Passed to every line.

    Returns
    -------
    list of matplotlib.lines.Line2D

    Examples
    --------
    >>> from fastmm import plot
    >>> (curve,) = plot.curves([1, 10, 100], [1e-1, 1e-3, 1e-5])
    >>> curve.axes.get_xscale()
    'log'
    """
    if ax is None:
        with style():
            return curves(steps, values, own_axes("", ""), labels=labels, ylabel=ylabel, **line)
    steps = np.asarray(steps)
    table = np.asarray(values, dtype=float).reshape(len(steps), -1)
    need_one_each(table.shape[1], "curve", labels=labels)
    shown = steps > 0
    table = np.where(table > 0, table, np.nan)
    lines: list[Any] = []
    for k in range(table.shape[1]):
        lines += ax.plot(steps[shown], table[shown, k], label=labels[k] if labels else None, **line)
    ax.set(xscale="log", yscale="log", xlabel="step", ylabel=ylabel)
    return lines

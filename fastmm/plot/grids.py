"""Pictures of scans: heat maps over two axes, curves with bands over one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fastmm.plot._inputs import own_axes
from fastmm.plot.house_style import MARKERS, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_NUMBERS = 120  # cells of a heat map whose numbers are written out


def scan(
    data: Any,
    variable: str,
    x: str | None = None,
    y: str | None = None,
    *,
    hue: str | None = None,
    statistic: str = "mean",
    ax: Axes | None = None,
) -> Any:
    """Draw one variable of a scan: a heat map over two axes, or curves over one with their 95 % intervals.

    Parameters
    ----------
    data : xarray.Dataset
        What `fastmm.scan` returns, a store opened by xarray, or `fastmm.scans.summarise` of it.
    variable : str
    x, y : str, optional
        Axes of the grid. With `y` a heat map is drawn, without it curves. By default the axes of the grid, in order:
        one axis gives a curve, two a heat map.
    hue : str, optional
        An axis whose values get a curve each.
    statistic : str
        "mean" (curves get the band from low to high), "median" (the band from q25 to q75), or any other of
        `summarise`, without a band.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default a new figure in the house style.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    ValueError
        For unknown names, and when an axis of the grid is left over: select one of its values first.

    Examples
    --------
    >>> import fastmm as mm
    >>> data = mm.scan("converge", {"n": [2, 3], "T": 3, "d": [2, 5]}, trials=4, seed=0, progress=False)
    >>> mm.plot.scan(data, "saturated", x="d", hue="n").get_xlabel()
    'd'
    """
    if ax is None:
        with style():
            return scan(data, variable, x, y, hue=hue, statistic=statistic, ax=own_axes("", ""))
    from fastmm.scans import summarise

    if "statistic" not in data.dims:
        if variable not in data.data_vars or variable == "status":
            raise ValueError(f"variable: got {variable!r}; allowed: {_names(data)}")
        data = summarise(data[[variable, "status"]])
    if variable not in data.data_vars or variable == "outcomes":
        raise ValueError(f"variable: got {variable!r}; allowed: {_names(data)}")
    table = data[variable]
    axes = [str(name) for name in table.dims if name != "statistic"]
    if x is None and axes:
        x = next((name for name in axes if name not in (y, hue)), None)
        if y is None and hue is None and len(axes) == 2:
            y = axes[1]
    used = [name for name in (x, y, hue) if name is not None]
    if sorted(used) != sorted(axes) or not used:
        raise ValueError(
            f"x, y, hue: got {used}; allowed: each axis of the grid once, {axes} (select values of others)"
        )
    names = list(table.statistic.values)
    statistic = "q50" if statistic == "median" else statistic
    if statistic not in names:
        raise ValueError(f"statistic: got {statistic!r}; allowed: {', '.join(names)}, median")
    if y is not None:
        _heat_map(ax, table.sel(statistic=statistic).transpose(y, x), statistic)
    else:
        _curves(ax, table, str(x), hue, statistic)
    return ax


def _names(data: Any) -> str:
    return ", ".join(str(name) for name in data.data_vars if name not in ("status", "outcomes"))


def _heat_map(ax: Axes, table: Any, statistic: str) -> None:
    values = table.values
    image = ax.imshow(values, origin="lower", aspect="auto", cmap="viridis", interpolation="nearest")
    y, x = table.dims
    ax.set(xlabel=x, ylabel=y, title=f"{_text(table.name)}, {_text(statistic)}")
    ax.set_xticks(range(table.sizes[x]), [str(value) for value in table[x].values])
    ax.set_yticks(range(table.sizes[y]), [str(value) for value in table[y].values])
    ax.grid(False)
    if ax.figure is not None:
        ax.figure.colorbar(image, ax=ax)
    if values.size <= _MOST_NUMBERS:
        finite = values[np.isfinite(values)]
        middle = (finite.min() + finite.max()) / 2 if finite.size else 0.0
        for (row, column), value in np.ndenumerate(values):
            color = "white" if value < middle else "black"
            ax.text(column, row, f"{value:.3g}", ha="center", va="center", color=color, fontsize=8)


def _curves(ax: Axes, table: Any, x: str, hue: str | None, statistic: str) -> None:
    band = {"mean": ("low", "high"), "q50": ("q25", "q75")}.get(statistic)
    labels = table[x].values
    numbers = labels.dtype.kind in "iuf"
    places = labels if numbers else np.arange(labels.size)
    for k in range(table.sizes[hue] if hue else 1):
        rows = table.isel({hue: k}) if hue else table
        label = f"{hue} = {table[hue].values[k]}" if hue else None
        (line,) = ax.plot(
            places, rows.sel(statistic=statistic), marker=MARKERS[k % len(MARKERS)], markersize=5, label=label
        )
        if band:
            ends = (rows.sel(statistic=name) for name in band)
            ax.fill_between(places, *ends, color=line.get_color(), alpha=0.18, linewidth=0)
    if not numbers:
        ax.set_xticks(places, [str(value) for value in labels])
    elif labels.size > 2 and labels.min() > 0 and labels.max() >= 50 * labels.min():
        ax.set_xscale("log")
    what = {"low": "95 % interval of the mean", "q25": "quartiles"}
    ax.set(xlabel=x, ylabel=f"{_text(table.name)}, {_text(statistic)}")
    if band:
        ax.set_title(f"Bands: {what[band[0]]}")
    if hue:
        ax.legend()


def _text(name: Any) -> str:
    return {"q50": "median"}.get(str(name), str(name).replace("_", " "))

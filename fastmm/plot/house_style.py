"""The house style of all pictures: colours, markers, fonts and figures without global state."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# The colours of Okabe and Ito, told apart by all kinds of colour vision; `muted` and `ink` are for all that is context.
COLORS = {
    "vermillion": "#D55E00",
    "blue": "#0072B2",
    "green": "#009E73",
    "purple": "#CC79A7",
    "orange": "#E69F00",
    "sky": "#56B4E9",
    "muted": "#8A8F98",
    "ink": "#22262B",
}
_CYCLE = [COLORS[name] for name in ("blue", "vermillion", "green", "purple", "orange", "sky")]
MARKERS = "os^Dv<>P"

_STYLE: dict[str, Any] = {
    "axes.axisbelow": True,
    "axes.edgecolor": "#5B616A",
    "axes.grid": True,
    "axes.labelcolor": COLORS["ink"],
    "axes.labelsize": 10,
    "axes.linewidth": 0.8,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlepad": 8,
    "axes.titlesize": 10.5,
    "axes.titleweight": "bold",
    "figure.constrained_layout.h_pad": 0.06,
    "figure.constrained_layout.w_pad": 0.08,
    "figure.facecolor": "white",
    "font.family": ["DejaVu Sans"],
    "font.size": 9.5,
    "grid.color": "#E3E6EA",
    "grid.linewidth": 0.7,
    "legend.fontsize": 9.5,
    "legend.frameon": False,
    "lines.linewidth": 1.7,
    "lines.solid_capstyle": "round",
    "mathtext.fontset": "dejavusans",
    "pdf.fonttype": 42,
    "savefig.dpi": 200,
    "svg.hashsalt": "fastmm",
    "text.color": COLORS["ink"],
    "xtick.color": "#5B616A",
    "xtick.labelcolor": COLORS["ink"],
    "xtick.labelsize": 9,
    "ytick.color": "#5B616A",
    "ytick.labelcolor": COLORS["ink"],
    "ytick.labelsize": 9,
}


@contextmanager
def style() -> Iterator[None]:
    """The house style, while the block runs; Matplotlib's own settings are untouched afterwards.

    Examples
    --------
    >>> from fastmm import plot
    >>> with plot.style():
    ...     figure = plot.new_figure(4, 3)
    """
    import matplotlib as mpl
    from cycler import cycler

    settings: Any = _STYLE | {"axes.prop_cycle": cycler(color=_CYCLE)}
    with mpl.rc_context(settings):
        yield


def new_figure(width: float, height: float, layout: str = "constrained") -> Figure:
    """An empty figure that belongs to no window and to no global list of figures.

    Parameters
    ----------
    width, height : float
        In inches.
    layout : str
        Matplotlib's layout engine; "none" to place axes by hand.

    Returns
    -------
    matplotlib.figure.Figure
        With the Agg canvas; notebooks display it, ``.savefig`` stores it.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout=layout)  # type: ignore[arg-type]
    FigureCanvasAgg(figure)
    return figure

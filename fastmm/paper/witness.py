"""Witness: a theorem's data, hypotheses and conclusion, checked by running it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fastmm import plot
from fastmm.arrays import FloatArray
from fastmm.paper.claims import Claim
from fastmm.paper.result import Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from fastmm.theory import Check


@dataclass(frozen=True)
class Witness(Result):
    """A result of the paper, witnessed: ``.ok``, ``.table`` and ``.figure()``, as for a figure."""

    @property
    def table(self) -> list[dict[str, Any]]:
        """One row a claim: id, claim, source, relation, expected, measured, tolerance, ok."""
        return [claim.to_dict() for claim in self.claims]


def hypotheses(name: str, checks: Iterable[Check]) -> list[Claim]:
    """One claim for each condition of a theorem."""
    return [
        Claim(
            f"{name}.{check.name}", f"Hypothesis: {check.name}.", "Hypotheses of the theorem [S]", "=", True, check.ok
        )
        for check in checks
    ]


def angles(points: Any) -> FloatArray:
    """Angles of points in the plane, in degrees, shape (...)."""
    points = np.asarray(points)
    return np.asarray(np.degrees(np.arctan2(points[..., 1], points[..., 0])))


def lines(
    title: str,
    axes: tuple[str, str],
    series: Sequence[tuple[str, Any, Any]],
    *,
    level: tuple[str, float] | None = None,
    scales: tuple[str, str] = ("log", "linear"),
) -> Callable[[], Figure]:
    """A function that draws curves (label, x, y), y (x, k) for k curves of a kind, with a dashed line at the limit."""

    def draw() -> Figure:
        figure = plot.new_figure(6.4, 4.0)
        ax = figure.add_subplot()
        for k, (label, x, y) in enumerate(series):
            y = np.asarray(y).reshape(len(x), -1)
            labels = [label, *["_"] * (y.shape[1] - 1)]  # an underscore hides a curve from the legend
            ax.plot(x, y, color=f"C{k}", marker="o" if np.size(x) < 12 else "", label=labels)
        if level is not None:
            ax.axhline(level[1], linestyle="--", color="0.35", label=level[0])
        ax.set(title=title, xlabel=axes[0], ylabel=axes[1], xscale=scales[0], yscale=scales[1])
        radii = np.asarray(series[0][1])
        if len(radii) < 12:  # a path: its radii are the ticks
            ax.set_xticks(radii, [f"{radius:g}" for radius in radii])
            ax.minorticks_off()
        if len(series) > 4:
            ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
        else:
            ax.legend()
        return figure

    return draw

"""Result: what a figure of the paper gives back, namely its data, its claims and its picture."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from fastmm.arrays import FloatArray
from fastmm.paper.claims import Claim
from fastmm.problem import Problem

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def after(run: Any, step: int) -> FloatArray:
    """The points p of a run after so many steps, which must be among the recorded ones."""
    (index,) = np.flatnonzero(run.history.steps == step)
    points: FloatArray = run.history.p[index]
    return points


@dataclass(frozen=True)
class Result:
    """A figure of the paper, rebuilt.

    Attributes
    ----------
    name : str
        Its key in ``mm.paper.FIGURES``.
    title, caption : str
        What it is, and what the picture shows.
    problem : Problem or None
        None where there are many.
    runs : dict of Trajectory
        The runs behind the picture, by name.
    claims : tuple of Claim
        What the paper says, checked.
    """

    name: str
    title: str
    caption: str
    problem: Problem | None
    runs: dict[str, Any]
    claims: tuple[Claim, ...]
    draw: Callable[[], Figure] = field(repr=False)

    @property
    def ok(self) -> bool:
        """Whether every claim holds, or fails for a known reason."""
        return all(claim.accepted for claim in self.claims)

    def figure(self) -> Figure:
        """The picture, newly drawn in the house style."""
        from fastmm import plot

        with plot.style():
            return self.draw()

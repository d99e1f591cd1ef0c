"""Maps of the starting points: which max-margin direction gradient descent finds from where, by data and by rule."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fastmm import plot
from fastmm.paper import data
from fastmm.paper.claims import Claim
from fastmm.paper.result import Result
from fastmm.theory import Basins, basins

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# The piece of the plane shown of each: x, then y.
_FIGURE_1B = ((-2.0, 2.0), (-2.5, 1.5))
_FIGURE_1C = ((-3.0, 3.0), (-3.0, 3.0))
_TWO_STARTS = ((-4.0, 6.0), (-4.0, 6.0))
# Rules, their step sizes and their names; constant steps have no scale of their own and get the paper's 1.
_RULES = {
    "normalized": (0.1, "normalised steps"),
    "gradient": (1.0, "constant step size"),
    "sign": (0.1, "sign descent"),
    "adam": (0.1, "Adam"),
}


def basin_maps(resolution: int = 200) -> Result:
    """Every starting point of a piece of the plane, coloured by the direction its normalised run finds.

    Parameters
    ----------
    resolution : int
        Starting points along each axis of each of the three maps; 1000 gives a million runs a map.

    Returns
    -------
    Result

    References
    ----------
    Data of Tarzanagh, Li, Zhang, Oymak, NeurIPS 2023, Figures 1(b), 1(c); the maps are ours.

    Examples
    --------
    >>> import fastmm as mm
    >>> mm.paper.basin_maps(resolution=40).ok
    True
    """
    problems = (data.one_input(0.0), data.many_inputs(), data.two_starts())
    maps = [
        basins(experiment.problem, *box, resolution=resolution)
        for experiment, box in zip(problems, (_FIGURE_1B, _FIGURE_1C, _TWO_STARTS), strict=True)
    ]
    one, three, two = maps
    source = "Figure 1 and the n = T = d = 2 counterexample [N]"
    claims = (
        _found("figure1b", "Figure 1(b): the selections found", one, [[0], [1]]),
        _found("figure1c", "Figure 1(c): the selections found", three, [[0, 0, 0]]),
        _found("two_starts", "Two inputs of two tokens: the selections found", two, [[0, 0], [0, 1]]),
        Claim(
            "basin_maps.figure1c.share",
            "Figure 1(c): the global direction is found from everywhere.",
            source,
            "=",
            1.0,
            float(three.share.sum()),
        ),
        Claim(
            "basin_maps.starts",
            "Two inputs: ten starts lie in the basins they should, or in the same cell of the grid.",
            source,
            "=",
            True,
            _lie_in(two, problems[2].starts, [0] * 7 + [1] * 3),
        ),
        Claim(
            "basin_maps.starts1b",
            "Figure 1(b): so do its six.",
            source,
            "=",
            True,
            _lie_in(one, problems[0].starts, [0] * 4 + [1] * 2),
        ),
    )
    titles = ("Figure 1(b): one input", "Figure 1(c): three inputs", "Two inputs of two tokens")
    caption = (
        "Every point is a start of normalised gradient descent, 1000 steps of length 0.1; its colour says which "
        "max-margin direction (dashed) the run finds. Dots are keys, those with the best scores filled."
    )
    return Result("basin_maps", "Basins", caption, one.problem, {}, claims, lambda: _row(maps, titles))


def basin_rules(resolution: int = 100) -> Result:
    """The map of Figure 1(b) for four rules of descent: which direction is found depends on the rule.

    Parameters
    ----------
    resolution : int
        Starting points along each axis of each map.

    Returns
    -------
    Result

    Examples
    --------
    >>> import fastmm as mm
    >>> mm.paper.basin_rules(resolution=20).ok
    True
    """
    problem = data.one_input(0.0).problem
    maps = [basins(problem, *_FIGURE_1B, resolution=resolution, rule=rule, lr=lr) for rule, (lr, _) in _RULES.items()]
    claims = tuple(
        Claim(
            f"basin_rules.{rule}",
            f"{name.capitalize()}: every run ends at a locally optimal selection.",
            "Theorem 3, and 4 for paths [S]",
            "=",
            1.0,
            float(found.share.sum()),
        )
        for (rule, (_, name)), found in zip(_RULES.items(), maps, strict=True)
    )
    caption = (
        "Starts on the data of Figure 1(b), coloured by the direction found after 1000 steps. The theorems are about "
        "gradient descent; sign descent and Adam follow other norms and find the global direction more often here."
    )
    titles = [name[0].upper() + name[1:] for _, name in _RULES.values()]
    return Result("basin_rules", "Basins by rule", caption, problem, {}, claims, lambda: _row(maps, titles))


def _found(name: str, text: str, found: Basins, selections: list[list[int]]) -> Claim:
    source = "Figure 1 and the n = T = d = 2 counterexample [N]"
    return Claim(f"basin_maps.{name}", f"{text}, the global one first.", source, "=", selections, found.selected)


def _lie_in(found: Basins, points: Any, labels: Sequence[int]) -> bool:
    """Whether each point has its label at a corner of its cell of the grid: a border may run through the cell."""
    columns = np.clip(np.searchsorted(found.x, points[:, 0], side="right"), 1, len(found.x) - 1)
    rows = np.clip(np.searchsorted(found.y, points[:, 1], side="right"), 1, len(found.y) - 1)
    corners = [found.labels[rows - up, columns - left] for up in (0, 1) for left in (0, 1)]
    return bool((np.array(corners) == np.array(labels)).any(axis=0).all())


def _row(maps: Sequence[Basins], titles: Sequence[str]) -> Figure:
    figure = plot.new_figure(3.6 * len(maps) + 0.4, 4.4)
    for ax, found, title in zip(figure.subplots(1, len(maps)), maps, titles, strict=True):
        plot.basin(found, ax)
        ax.set(title=title, xlabel="$p_1$", ylabel="$p_2$")
    return figure

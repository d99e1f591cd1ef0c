"""Appendix E at scale: what gradient descent selects in random instances, and how often it is optimal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fastmm import plot
from fastmm.arrays import BoolArray, FloatArray
from fastmm.paper.claims import Claim
from fastmm.paper.result import Result
from fastmm.plot import COLORS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INSTANCES, QUICK = 10_000, 200  # a cell
WIDTHS, STEPS, SEED = (2, 4, 6, 8, 10), (200, 2000, 20000), 0
REPLICA = (0.40, 0.90, 1.00, 1.00, 1.00)  # saturated, of 60 instances a width [N]
MIDDLE = STEPS.index(2000)


@dataclass(frozen=True)
class Share:
    """Shares of successes with 95 % Wilson intervals, each an array over the widths (and step counts)."""

    value: FloatArray
    low: FloatArray
    high: FloatArray

    @classmethod
    def of(cls, hits: BoolArray, among: BoolArray) -> Share:
        """The share of hits among some of the trials, which are the last axis; NaN where there are none."""
        from scipy.stats import binomtest

        count, total = (hits & among).sum(-1), among.sum(-1)
        out = np.full((*count.shape, 3), np.nan)
        for place in np.ndindex(count.shape):
            if total[place]:
                found = binomtest(int(count[place]), int(total[place])).proportion_ci(method="wilson")
                out[place] = count[place] / total[place], found.low, found.high
        return cls(*np.moveaxis(out, -1, 0))


def random_instances(instances: int = INSTANCES, *, progress: bool = False, threads: int | None = None) -> Result:
    """Random instances of four inputs with six tokens in 2 to 10 dimensions: where normalised descent goes.

    The paper does not print its settings. Ours: tokens and head uniform on the sphere, keys the tokens, random labels,
    p(0) = 0, normalised steps of 0.1; a run is saturated when the largest weight of each input is at least 0.999; its
    selection is the largest weights. Intervals are 95 %, Wilson's.

    Parameters
    ----------
    instances : int
        For each width and number of steps. 10,000 took 180 s on two slow cores.
    progress : bool
        Show a bar.
    threads : int, optional

    Returns
    -------
    Result

    References
    ----------
    Tarzanagh, Li, Zhang, Oymak, NeurIPS 2023, appendix E.

    Examples
    --------
    >>> import fastmm as mm
    >>> mm.paper.random_instances(100).ok
    True
    """
    from fastmm.scans import scan

    grid = {"n": 4, "T": 6, "d": list(WIDTHS), "steps": list(STEPS), "generator": "sphere", "lr": 0.1}
    data = scan("converge", grid, trials=instances, seed=SEED, progress=progress, threads=threads)
    if not data.attrs["complete"]:
        raise KeyboardInterrupt
    values: dict[str, Any] = {
        str(name): np.asarray(data[name].transpose("d", "steps", "trial")) for name in data.data_vars
    }
    solved = values["status"] == 0
    saturated = values["saturated"] & solved
    everything = np.ones_like(saturated)
    negative = values["min_score_gap"] < 0
    shares = {
        "saturated": Share.of(saturated, everything),
        "locally optimal, of the saturated": Share.of(values["locally_optimal"], saturated),
        "globally optimal": Share.of(values["globally_optimal"], everything),
        "negative": Share.of(negative, saturated),
    }

    def draw() -> Figure:
        return _picture(shares, values["min_score_gap"][:, -1][saturated[:, -1]], values["correlation"], saturated)

    caption = (
        f"{instances} random instances for each width and number of steps (n = 4, T = 6). Left: shares after "
        f"{STEPS[-1]} normalised steps, with 95 % bands. Middle: smallest score gap of the selected tokens to their "
        "SVM neighbours in saturated runs of all widths; left of zero a neighbour is better, the outer bars hold what "
        "lies beyond. Right: how often a neighbour is better against the number of steps, and the runs' mean distance "
        "from their max-margin directions."
    )
    claims = _claims(instances, shares, values, saturated, negative & saturated, solved)
    return Result("random_instances", "Random instances", caption, None, {"scan": data}, tuple(claims), draw)


def _claims(
    instances: int, shares: dict[str, Share], values: dict[str, Any], saturated: Any, negative: Any, solved: Any
) -> list[Claim]:
    source, replica = "Appendix E [S]", "Replica of appendix E, 60 instances a width [N]"
    middle = saturated[1:, MIDDLE]
    cosines = [float(x[own].mean()) for x, own in zip(values["correlation"][1:, MIDDLE], middle, strict=True)]
    still = values["correlation"][:, -1][negative[:, -1]]
    often = negative.sum((0, 2)) / saturated.sum((0, 2))
    rises = np.diff(shares["globally optimal"].value[:, -1])
    return [
        Claim(
            "random_instances.correlation",
            "Mean correlation with the selection's max-margin direction, saturated runs of 2000 steps, d = 4 to 10.",
            source,
            ">=",
            0.997,
            cosines,
        ),
        Claim(
            "random_instances.negative",
            f"Share of saturated runs with a better neighbour after {STEPS[-1]} steps, all widths: under 1 %.",
            source,
            "in",
            [0.0, 0.01],
            float(often[-1]),
            known="met from d = 6 on; at d = 2 and 4 some runs come to rest at finite stationary points.",
        ),
        Claim(
            "random_instances.negative.wide",
            "The same for d = 6 to 10.",
            source,
            "in",
            [0.0, 0.01],
            float(negative[2:, -1].sum() / saturated[2:, -1].sum()),
        ),
        Claim(
            "random_instances.falls",
            f"The share is lower after {STEPS[-1]} steps than after {STEPS[0]}, all widths together.",
            source,
            "=",
            True,
            bool(often[-1] < often[0]),
        ),
        Claim(
            "random_instances.near",
            "Mean correlation in these runs, all widths (1 if there are none).",
            source,
            ">=",
            0.99,
            float(still.mean()) if still.size else 1.0,
            known="such runs at d = 4 and more are further from their direction than the paper reports.",
        ),
        Claim(
            "random_instances.gmm",
            "The share that reaches the global direction grows with d: smallest increase, d = 2 to 10.",
            source,
            ">=",
            0.0,
            float(rises.min()),
            2 * np.sqrt(0.5 / instances),  # two standard errors of a difference, at most
        ),
        Claim(
            "random_instances.saturated",
            "Share of saturated runs after 2000 steps, d = 2, 4, 6, 8, 10 (three standard errors of the replica).",
            replica,
            "=",
            REPLICA,
            shares["saturated"].value[:, MIDDLE],
            3 * np.sqrt(0.24 / 60),
        ),
        Claim(
            "random_instances.feasible",
            "Every selection can be separated, by a certified vector.",
            replica,
            "=",
            True,
            bool(solved.all()),
        ),
    ]


def _picture(shares: dict[str, Share], gaps: FloatArray, correlation: FloatArray, saturated: BoolArray) -> Figure:
    figure = plot.new_figure(12.6, 4.2)
    left, middle, right = figure.subplots(1, 3)
    for name, color in (
        ("saturated", "blue"),
        ("locally optimal, of the saturated", "green"),
        ("globally optimal", "vermillion"),
    ):
        _band(left, WIDTHS, shares[name], (slice(None), -1), COLORS[color], name)
    left.set(title="Shares against the width", xlabel="d", ylabel="share", xticks=WIDTHS, ylim=(0, 1.03))
    left.legend(loc="center right", fontsize=8)

    edges = np.linspace(-0.4, 1.0, 71)
    shown = np.clip(gaps[np.isfinite(gaps)], edges[0], edges[-1])
    _, _, bars = middle.hist(shown, bins=edges, color=COLORS["blue"])
    for bar, edge in zip(bars, edges, strict=False):
        if edge < -1e-12:
            bar.set_color(COLORS["vermillion"])
    middle.set(
        title="Smallest score gap", xlabel="score gap to the SVM neighbours", ylabel="saturated runs", yscale="log"
    )

    negative = shares["negative"]
    for k, d in enumerate(WIDTHS):
        _band(right, STEPS, negative, (k, slice(None)), f"C{k}", f"d = {d}")
    right.axhline(0.01, color=COLORS["muted"], linestyle=":", label="1 %")
    error = [1 - correlation[:, s][saturated[:, s]].mean() for s in range(len(STEPS))]
    right.plot(STEPS, error, color=COLORS["ink"], linestyle="--", label="1 - mean correlation")
    right.set(title="A better neighbour", xlabel="normalised steps", ylabel="share", xscale="log", yscale="log")
    right.legend(fontsize=7.5, ncols=2)
    return figure


def _band(ax: Axes, x: Sequence[int], share: Share, part: Any, color: str, label: str) -> None:
    """A curve with its interval; zeros, which a logarithmic axis cannot show, are left out."""
    value, low, high = (own[part].copy() for own in (share.value, share.low, share.high))
    ax.fill_between(x, low, high, color=color, alpha=0.15, linewidth=0)
    ax.plot(x, np.where(value > 0, value, np.nan), color=color, marker="o", markersize=4, label=label)

"""Comparison of losses: whom they move first, a token of high score or one of low score, and by how much."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fastmm import plot
from fastmm.arrays import FloatArray
from fastmm.descent import descend
from fastmm.margin import att_svm
from fastmm.paper.claims import Claim
from fastmm.paper.data import high_scores
from fastmm.paper.result import Result
from fastmm.plot import COLORS
from fastmm.theory import correlation

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STEPS, STEPS_DRAWN = 20000, 200
RECORD = np.unique(np.r_[np.arange(STEPS_DRAWN + 1), 1000, STEPS])
LOSSES = {"correlation": "green", "logistic": "vermillion", "exponential": "blue"}
PICKED = (2.0, 5.0, 10.0)  # scores C whose offsets the digest lists
LISTED = {
    "correlation": [0.34657, 0.80472, 1.15129],
    "logistic": [-0.06026, -1.04201, -3.1921],
    "exponential": [-0.1534, -1.1953, -3.3487],
}


def loss_comparison() -> Result:
    """Two inputs, one with a token of score C: the losses agree on the direction, but not on the way.

    All runs end in the direction (1, 0). The second coordinate of p, which favours the first input when positive,
    tends to a number that depends on the loss: ``log(C l'(C) / l'(1)) / 2``.

    Returns
    -------
    Result
        With a run of all eleven problems for each loss.

    References
    ----------
    Tarzanagh, Li, Zhang, Oymak, NeurIPS 2023, figure on loss functions.

    Examples
    --------
    >>> import fastmm as mm
    >>> mm.paper.loss_comparison().ok
    True
    """
    problem = high_scores()
    scores = problem.scores[:, 0, 1]
    runs: dict[str, Any] = {
        name: descend(problem, steps=STEPS, lr=0.1, rule="normalized", loss=name, record=RECORD) for name in LOSSES
    }
    source = "Loss comparison, closed form [N]"
    picked = np.isin(scores, PICKED)
    claims: list[Claim] = [
        Claim(
            "loss_comparison.p_mm",
            "Largest distance of the max-margin vector from (1, 0), over C.",
            source,
            "=",
            0,
            np.abs(att_svm(problem.K, problem.optimal).w - [1.0, 0.0]).max(),
            1e-9,
        )
    ]
    for name, run in runs.items():
        offsets = run.p[:, 1]
        claims += [
            Claim(
                f"loss_comparison.{name}",
                f"{name.capitalize()}: second coordinate of p for C = 2, 5, 10.",
                source,
                "=",
                LISTED[name],
                offsets[picked],
                1e-3,
            ),
            Claim(
                f"loss_comparison.{name}.all",
                f"{name.capitalize()}: its largest distance from the formula for C = 1, ..., 10, 100.",
                source,
                "=",
                0,
                np.abs(offsets - offset(name, scores)).max(),
                1e-3,
            ),
            Claim(
                f"loss_comparison.{name}.direction",
                f"{name.capitalize()}: correlation with (1, 0) after {STEPS} steps, for every C.",
                source,
                ">=",
                0.9997,
                correlation(run.p, [1.0, 0.0]),
                5e-5,
            ),
        ]

    def draw() -> Figure:
        return _picture(scores, runs)

    caption = (
        "Left: paths of p over 200 normalised steps for C = 2, 5, 10: the correlation loss turns to the input with the "
        "high score first, the others to the one with the low score. Right: where the second coordinate ends (marks) "
        "and the formula (lines)."
    )
    return Result("loss_comparison", "Comparison of losses", caption, problem, runs, tuple(claims), draw)


def offset(loss: str, scores: Any) -> FloatArray:
    """Limit of the second coordinate of p when the first input's token has this score and the second's has score 1."""
    scores = np.asarray(scores, dtype=float)
    if loss == "correlation":
        log_slope = np.zeros_like(scores)
    elif loss == "exponential":
        log_slope = 1 - scores
    else:
        log_slope = np.logaddexp(0, 1) - np.logaddexp(0, scores)  # of slopes relative to that at 1
    return np.asarray(0.5 * (np.log(scores) + log_slope))


def _picture(scores: FloatArray, runs: dict[str, Any]) -> Figure:
    figure = plot.new_figure(10.4, 4.6)
    left, right = figure.subplots(1, 2)
    grid = np.linspace(1, 10.4, 200)
    for name, color in LOSSES.items():
        for C, style in zip(PICKED, ("-", (0, (5, 2)), (0, (1.5, 1.5))), strict=True):
            (k,) = np.flatnonzero(scores == C)
            p = runs[name].history.p[: STEPS_DRAWN + 1, k]
            label = f"{name}, C = {C:g}" if PICKED[0] == C else f"C = {C:g}"
            left.plot(p[:, 0], p[:, 1], color=COLORS[color], linestyle=style, label=label)
        right.plot(grid, offset(name, grid), color=COLORS[color], linewidth=1.2)
        right.plot(scores[:-1], runs[name].p[:-1, 1], "o", color=COLORS[color], mec="white", label=name)
    left.axhline(0, color=COLORS["muted"], linewidth=0.8)
    left.set(title="Losses take different ways", xlabel="$p_1$", ylabel="$p_2$", xlim=(0, 20), ylim=(-5.4, 1.8))
    left.legend(loc="lower center", ncols=3, fontsize=8)
    right.set(
        title="Offsets agree with the formula", xlabel="score C of the first input's token", ylabel="limit of $p_2$"
    )
    right.legend(loc="lower left")
    return figure

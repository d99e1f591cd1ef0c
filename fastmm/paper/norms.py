"""Normalised against constant steps: probability of the optimal token and norm of p along one run of each rule."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fastmm import attention, plot
from fastmm.arrays import FloatArray
from fastmm.descent import descend
from fastmm.margin import att_svm
from fastmm.paper.claims import Claim
from fastmm.paper.data import many_inputs
from fastmm.paper.result import Result, after
from fastmm.theory import correlation

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

STEPS, STEPS_DRAWN = 1000, 200
START = 2  # the run from the origin is the one drawn


def step_rules() -> Result:
    """Gradient descent with normalised and with constant steps on the data of Figure 1(c).

    Returns
    -------
    Result
        With runs "normalized" (steps of length 0.1) and "gradient" (step size 1).

    Notes
    -----
    The probability is that of the optimal token, averaged over the three inputs.

    References
    ----------
    Tarzanagh, Li, Zhang, Oymak, NeurIPS 2023, the figures on gradient and normalised gradient descent.

    Examples
    --------
    >>> import fastmm as mm
    >>> mm.paper.step_rules().ok
    True
    """
    problem, starts = many_inputs()
    normalized: Any = descend(problem, p0=starts, steps=STEPS, lr=0.1, rule="normalized", record=1)
    gradient: Any = descend(problem, p0=starts, steps=STEPS, lr=1.0, rule="gradient", record=1)
    w = att_svm(problem.K, problem.optimal).w

    def probability(run: Any, *steps: int) -> list[float]:
        return [_probability(problem.K, after(run, step)[START]) for step in steps]

    def norm(run: Any, *steps: int) -> list[float]:
        return [float(np.linalg.norm(after(run, step)[START])) for step in steps]

    source = "Normalised against constant steps [N]"
    claims = (
        Claim(
            "step_rules.normalized.probability",
            "Normalised steps: probability of the optimal token after 20, 50 and 100 of them.",
            source,
            "=",
            [0.7516, 0.9931, 1.0],
            probability(normalized, 20, 50, 100),
            1e-3,
        ),
        Claim(
            "step_rules.normalized.norm",
            "Normalised steps: norm of p after 200, about 0.1 a step.",
            source,
            "=",
            [19.9],
            norm(normalized, 200),
            0.05,
        ),
        Claim(
            "step_rules.gradient.probability",
            "Constant steps: probability of the optimal token after 50, 100, 199 and 999 of them.",
            source,
            "=",
            [0.8177, 0.9338, 0.9719, 0.9950],
            probability(gradient, 50, 100, 199, 999),
            1e-3,
        ),
        Claim(
            "step_rules.gradient.norm",
            "Constant steps: norm of p after 50, 100, 199 and 999, flattening as the gradient vanishes.",
            source,
            "=",
            [2.287, 3.156, 3.850, 5.239],
            norm(gradient, 50, 100, 199, 999),
            1e-3,
        ),
        Claim(
            "step_rules.gradient.corr",
            "Constant steps: correlation with p_mm after 1000, over the six starts.",
            source,
            "in",
            (0.981, 0.987),
            correlation(gradient.p, w),
            5e-4,
        ),
        Claim(
            "step_rules.normalized.corr",
            "Normalised steps: correlation with p_mm after 1000, over the six starts.",
            source,
            ">=",
            0.99977,
            correlation(normalized.p, w),
            5e-6,
        ),
    )

    def draw() -> Figure:
        figure = plot.new_figure(10.4, 4.3)
        left, right = figure.subplots(1, 2)
        runs = (
            (normalized, "normalised steps of length 0.1", "vermillion"),
            (gradient, "constant step size 1", "blue"),
        )
        for run, label, color in runs:
            steps = run.history.steps[: STEPS_DRAWN + 1]
            p = run.history.p[: STEPS_DRAWN + 1, START]
            style: dict[str, Any] = {"color": plot.COLORS[color], "label": label, "linewidth": 2}
            if color == "blue":
                style["linestyle"] = (0, (6, 2))
            left.plot(steps, _probability(problem.K, p), **style)
            right.plot(steps, np.linalg.norm(p, axis=-1), **style)
        _finish(left, "Normalised steps select the token at once", "attention on the optimal token (mean)")
        _finish(right, "Constant steps starve as the gradient vanishes", "norm of $p$")
        left.set_ylim(0, 1.04)
        right.set(ylim=(0, 20.8), yticks=range(0, 21, 5))
        handles, names = left.get_legend_handles_labels()
        figure.legend(handles, names, loc="outside lower center", ncols=2, columnspacing=2.5, handlelength=3)
        return figure

    caption = (
        "Both runs start at the origin on the data of Figure 1(c). Left: attention weight of the optimal token, mean "
        "of the three inputs. Right: norm of p."
    )
    by_name = {"normalized": normalized, "gradient": gradient}
    return Result("step_rules", "Normalised and constant steps", caption, problem, by_name, claims, draw)


def _probability(K: FloatArray, p: FloatArray) -> Any:
    """Attention weight of token 0, averaged over the inputs; of shape (...) for points p of shape (..., d)."""
    return attention(K, p)[..., 0].mean(axis=-1)


def _finish(ax: Axes, title: str, ylabel: str) -> None:
    ax.set(title=title, xlabel="step", ylabel=ylabel, xlim=(0, STEPS_DRAWN), xticks=range(0, STEPS_DRAWN + 1, 50))

"""Figure 3: attention weights and head trained together, and the margin problems that each of them solves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fastmm import attention, plot
from fastmm.arrays import FloatArray
from fastmm.descent import descend
from fastmm.margin import MaxMargin, att_svm, label_svm
from fastmm.paper.claims import Claim
from fastmm.paper.data import joint_inputs
from fastmm.paper.result import Result
from fastmm.plot import COLORS
from fastmm.problem import Problem
from fastmm.theory import correlation

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STEPS, STEPS_DRAWN = 2000, 200
SELECTED = (1, 1, 1)  # the token that is not the origin, in every input
SOURCE = "Joint training, Figure 3 [N]"


class Joint(NamedTuple):
    """A joint run and the directions it is compared with."""

    problem: Problem
    run: Any
    tight: MaxMargin  # all tokens beat the others by 1
    loose: MaxMargin  # the third input's tokens only by 0
    head: MaxMargin

    def points(self, name: str, *steps: int) -> FloatArray:
        """Recorded values of p or v after so many steps."""
        return np.asarray(self.run.history.parameters[name][list(steps)])


def figure3a() -> Result:
    """Figure 3(a): all inputs are support vectors of the head, and attention follows the ATT-SVM.

    Returns
    -------
    Result
        With run "joint": 2000 normalised steps of length 0.1 in p and in v.

    References
    ----------
    Tarzanagh, Li, Zhang, Oymak, NeurIPS 2023, Figure 3(a), Theorem 5.

    Examples
    --------
    >>> import fastmm as mm
    >>> mm.paper.figure3a().ok
    True
    """
    joint = _train(relaxed=False)
    claims = (
        *_vectors("figure3a", joint, [4 / 3, 1 / 3], 0.944444),
        Claim("figure3a.labels", "Label margins.", SOURCE, "=", [1, 1, 1], _label_margins(joint), 1e-9),
        Claim(
            "figure3a.p",
            "Correlation of p with p_mm after 50, 100 and 199 steps.",
            SOURCE,
            "=",
            [0.99875, 0.99939, 0.99984],
            correlation(joint.points("p", 50, 100, 199), joint.tight.w),
            1e-5,
        ),
        Claim(
            "figure3a.v",
            "Correlation of v with v_mm after 50, 100 and 199 steps.",
            SOURCE,
            "=",
            [0.99995, 0.99977, 0.99994],
            correlation(joint.points("v", 50, 100, 199), joint.head.w),
            1e-5,
        ),
    )
    titles = ("(a) Every input is a support vector", "Attention and head find their max-margin directions")
    right = "how far p and v are from the max-margin directions."
    return _result("a", joint, claims, titles, right, {"$p_{mm}$": joint.tight})


def figure3b() -> Result:
    """Figure 3(b): one input is no support vector of the head, and attention follows the relaxed ATT-SVM.

    Returns
    -------
    Result
        With run "joint": 2000 normalised steps of length 0.1 in p and in v.

    Notes
    -----
    Which limit p has depends on how fast v grows beside it; here both norms grow by 0.1 a step, for ever, because the
    direction of the gradient does not underflow. In loops where v stalls, p later turns to the other direction.

    References
    ----------
    Tarzanagh, Li, Zhang, Oymak, NeurIPS 2023, Figure 3(b), Theorem 6.

    Examples
    --------
    >>> import fastmm as mm
    >>> mm.paper.figure3b().ok
    True
    """
    joint = _train(relaxed=True)
    claims = (
        *_vectors("figure3b", joint, [5 / 4, 1 / 4], 0.8125),
        Claim("figure3b.labels", "Label margins.", SOURCE, "=", [1, 1, 1.5], _label_margins(joint), 1e-9),
        Claim(
            "figure3b.relaxed",
            "Correlation of p with the relaxed solution after 100 and 199 steps.",
            SOURCE,
            "=",
            [0.99914, 0.99984],
            correlation(joint.points("p", 100, 199), joint.loose.w),
            3e-5,
        ),
        Claim(
            "figure3b.tight",
            "Correlation of p with p_mm, which it leaves.",
            SOURCE,
            "=",
            [0.98789, 0.98396],
            correlation(joint.points("p", 100, 199), joint.tight.w),
            3e-4,
        ),
        Claim(
            "figure3b.v",
            "Correlation of v with v_mm after 100 and 199 steps.",
            SOURCE,
            "=",
            [1.0, 1.0],
            correlation(joint.points("v", 100, 199), joint.head.w),
            5e-5,
        ),
    )
    titles = ("(b) The third input is no support vector", "Attention takes the relaxed direction")
    right = "how far p is from the relaxed and from the tight direction, and v from its own."
    return _result("b", joint, claims, titles, right, {"$p_{relax}$": joint.loose, "$p_{mm}$": joint.tight})


def figure3c() -> Result:
    """Figure 3(c): along the run of Figure 3(a), attention selects the tokens and the head fits the labels.

    Returns
    -------
    Result

    References
    ----------
    Tarzanagh, Li, Zhang, Oymak, NeurIPS 2023, Figure 3(c).

    Examples
    --------
    >>> import fastmm as mm
    >>> mm.paper.figure3c().ok
    True
    """
    joint = _train(relaxed=False)
    softmax, logistic = _probabilities(joint)
    claims = (
        Claim(
            "figure3c.softmax",
            "Mean attention on the selected tokens after 50, 100 and 199 steps.",
            SOURCE,
            "=",
            [0.9316, 0.9982, 1.0],
            softmax[[50, 100, 199]],
            1e-4,
        ),
        Claim(
            "figure3c.logistic",
            "Mean logistic probability of the labels after 50, 100 and 199 steps.",
            SOURCE,
            "=",
            [0.9885, 0.9999, 1.0],
            logistic[[50, 100, 199]],
            1e-4,
        ),
    )

    def draw() -> Figure:
        figure = plot.new_figure(6.4, 4.0)
        ax = figure.subplots()
        steps = joint.run.history.steps[: STEPS_DRAWN + 1]
        for values, label, color in (
            (softmax, "attention on the selected token", "vermillion"),
            (logistic, r"logistic probability $1/(1+e^{-Y f})$", "blue"),
        ):
            ax.plot(steps, values[: STEPS_DRAWN + 1], color=COLORS[color], label=label, linewidth=2)
        ax.set(title="(c) Both probabilities reach one", xlabel="step", ylabel="mean over the inputs")
        ax.set(xlim=(0, STEPS_DRAWN), ylim=(0, 1.04))
        ax.legend(loc="lower right")
        return figure

    caption = (
        "Mean attention weight of the selected tokens and mean probability of the right label along the joint run."
    )
    return Result("figure3c", "Figure 3(c)", caption, joint.problem, {"joint": joint.run}, claims, draw)


def _train(relaxed: bool) -> Joint:
    problem = joint_inputs(relaxed)
    run = descend(problem, p0=[0.0, -1.0], steps=STEPS, lr=0.1, rule="normalized", train="pv", record=1)
    spared = [False, False, True]
    return Joint(
        problem,
        run,
        att_svm(problem.K, SELECTED),
        att_svm(problem.K, SELECTED, relaxed=spared),
        label_svm(problem.X[:, 1], problem.Y),
    )


def _result(
    letter: str,
    joint: Joint,
    claims: tuple[Claim, ...],
    titles: tuple[str, str],
    right: str,
    targets: dict[str, MaxMargin],
) -> Result:
    """Figure 3(a) or (b)."""
    caption = (
        "Left: the tokens (filled: label 1, open: label -1) and the first 200 steps of p and v, an arrow every 10. "
        f"Right: {right}"
    )
    title, runs = f"Figure 3({letter})", {"joint": joint.run}
    return Result(
        f"figure3{letter}", title, caption, joint.problem, runs, claims, lambda: _picture(joint, titles, targets)
    )


def _vectors(figure: str, joint: Joint, tight: list[float], objective: float) -> tuple[Claim, ...]:
    w = joint.tight.w
    return (
        Claim(f"{figure}.p_mm", "Max-margin vector of attention.", SOURCE, "=", tight, w, 1e-9),
        Claim(f"{figure}.objective", "Half its squared norm.", SOURCE, "=", objective, 0.5 * float(w @ w), 5e-7),
        Claim(f"{figure}.p_relax", "The relaxed one.", SOURCE, "=", [1, 0], joint.loose.w, 1e-9),
        Claim(f"{figure}.v_mm", "Max-margin vector of the head.", SOURCE, "=", [0, 1], joint.head.w, 1e-9),
    )


def _label_margins(joint: Joint) -> FloatArray:
    return np.asarray(joint.problem.Y * (joint.problem.X[:, 1] @ joint.head.w))


def _probabilities(joint: Joint) -> tuple[FloatArray, FloatArray]:
    """Means over the inputs at every recorded step."""
    problem = joint.problem
    weights = np.asarray(attention(problem.K, joint.run.history.parameters["p"]))
    pooled = np.einsum("rit,itd->rid", weights, problem.X)
    margins = problem.Y * np.einsum("rid,rd->ri", pooled, joint.run.history.parameters["v"])
    return weights[..., 1].mean(-1), (1 / (1 + np.exp(-margins))).mean(-1)


def _picture(joint: Joint, titles: tuple[str, str], targets: dict[str, MaxMargin]) -> Figure:
    """The plane with tokens and both paths; the gaps to the directions."""
    figure = plot.new_figure(10.4, 4.9)
    left, right = figure.subplots(1, 2)
    left.set(title=titles[0], xlabel="first coordinate", ylabel="second coordinate", xlim=(-2.5, 20), ylim=(-2.5, 20))
    left.set(aspect="equal", xticks=range(0, 21, 5), yticks=range(0, 21, 5))
    names = {
        "p_mm": (joint.tight, "$p_{mm}$", "orange"),
        "p_relax": (joint.loose, "$p_{relax}$", "green"),
        "v_mm": (joint.head, "$v_{mm}$", "sky"),
    }
    for margin, label, color in names.values():
        plot.rays([margin.w], left, colors=[COLORS[color]], labels=[label])
    for name, color in (("p", "vermillion"), ("v", "blue")):
        points = joint.run.history.parameters[name][: STEPS_DRAWN + 1, None]
        plot.paths(points, left, colors=[COLORS[color]], labels=[f"${name}$"], arrows=10)
    places = joint.problem.X[:, 1]
    for sign, face in ((1.0, COLORS["ink"]), (-1.0, "white")):
        own = places[sign == joint.problem.Y]
        left.scatter(*own.T, s=34, c=face, ec=COLORS["ink"], zorder=5)
    left.legend(loc="center right")

    steps = joint.run.history.steps[1:]
    for name, margin in targets.items():
        gap = 1 - np.asarray(correlation(joint.run.history.parameters["p"][1:], margin.w))
        color = COLORS["vermillion" if margin is next(iter(targets.values())) else "orange"]
        plot.curves(steps, gap, right, labels=[f"$p$ from {name}"], color=color)
    gap = 1 - np.asarray(correlation(joint.run.history.parameters["v"][1:], joint.head.w))
    plot.curves(steps, gap, right, labels=["$v$ from $v_{mm}$"], color=COLORS["blue"])
    right.set(title=titles[1], ylim=(1e-7, 3))
    right.legend(loc="lower left")
    return figure

"""Figures 1(a) and 1(b): one input of three tokens, and a global and a local max-margin direction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fastmm.arrays import FloatArray
from fastmm.descent import descend
from fastmm.margin import att_svm
from fastmm.paper.claims import Claim
from fastmm.paper.data import Experiment, one_input
from fastmm.paper.panels import RECORD, STEPS, Layout, Note, Ray, plane_picture
from fastmm.paper.result import Result, after
from fastmm.plot import COLORS
from fastmm.theory import correlation, local_optimality

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SELECTIONS = np.array([[0], [1], [2]])


def figure1a() -> Result:
    """Figure 1(a): with the two lesser scores equal, every start ends at the global max-margin direction.

    Returns
    -------
    Result
        With the claims of the figure and of Theorem 2 on the same data.

    References
    ----------
    Tarzanagh, Li, Zhang, Oymak, NeurIPS 2023, Figure 1(a) and Theorem 2.

    Examples
    --------
    >>> import fastmm as mm
    >>> mm.paper.figure1a().ok
    True
    """
    experiment = one_input(0.9)
    run = descend(experiment.problem, p0=experiment.starts, steps=STEPS, lr=0.1, rule="normalized", record=RECORD)
    plain: Any = descend(experiment.problem, p0=experiment.starts, steps=20000, lr=1.0, rule="gradient", record=100)
    w = att_svm(experiment.problem.K, SELECTIONS).w
    corr = {step: correlation(after(run, step), w[0]) for step in (1000, 5000, 20000)}
    theorem = "Theorem 2 (Figure 1(a)) [N]"
    claims = [
        Claim(
            "figure1a.starts",
            "All six starts end at the GMM: correlation with p_mm(0) after 1000 normalised steps.",
            "Figure 1(a), Theorem 2 [N]",
            ">=",
            0.9997,
            corr[1000],
            5e-5,
        ),
        Claim("figure1a.5000", "The same after 5000 steps.", theorem, ">=", 0.99998, corr[5000], 5e-6),
        Claim("figure1a.20000", "The same after 20,000 steps.", theorem, ">=", 0.999999, corr[20000], 5e-7),
        Claim(
            "figure1a.norm",
            "The norm of p keeps growing by the step length: near 100 after 1000 steps of 0.1, from every start.",
            theorem,
            "in",
            (98.0, 102.0),
            np.linalg.norm(after(run, 1000), axis=-1),
        ),
        Claim(
            "figure1a.plain.norm",
            "Plain gradient steps grow only like the logarithm: norm of p after 20,000 steps of 1 from the origin.",
            theorem,
            "=",
            6.57,
            plain.norm[2],
            5e-3,
        ),
        Claim(
            "figure1a.plain.corr",
            "Correlation with p_mm(0) after these plain steps, over the six starts.",
            theorem,
            "in",
            (0.963, 0.981),
            correlation(plain.p, w[0]),
            5e-4,
        ),
        Claim(
            "figure1a.plain.loss",
            "The loss falls along every plain run, at each of its recorded steps.",
            "Theorem 2 [S]",
            "=",
            True,
            bool((np.diff(plain.history.loss, axis=0) < 0).all()),
        ),
        *_margin_claims(w, experiment),
        *_role_claims("figure1a", experiment, [True, False, False]),
    ]
    titles = ("(a) Tokens 1 and 2 tie in score", "Every path turns to the GMM")
    shifts = ((22, 0), (4, 12), (12, -12))
    return _result("figure1a", experiment, {"normalized": run, "gradient": plain}, w, claims, titles, shifts)


def figure1b() -> Result:
    """Figure 1(b): with distinct scores, two of the six starts end at a local max-margin direction.

    Returns
    -------
    Result

    References
    ----------
    Tarzanagh, Li, Zhang, Oymak, NeurIPS 2023, Figure 1(b) and Theorem 3.

    Examples
    --------
    >>> import fastmm as mm
    >>> mm.paper.figure1b().ok
    True
    """
    experiment = one_input(0.0)
    run = descend(experiment.problem, p0=experiment.starts, steps=STEPS, lr=0.1, rule="normalized", record=RECORD)
    w = att_svm(experiment.problem.K, SELECTIONS).w
    source = "Figure 1(b), Theorem 3 [N]"
    claims = [
        Claim(
            "figure1b.selected",
            "Starts 1, 0.5, 0 and -0.5 select token 0 (GMM); -1 and -1.5 select token 1 (LMM).",
            source,
            "=",
            [0, 0, 0, 0, 1, 1],
            run.weights.argmax(axis=-1)[:, 0],
        ),
        Claim(
            "figure1b.gmm",
            "Correlation of the first four starts with p_mm(0) after 1000 normalised steps.",
            source,
            ">=",
            0.99999,
            correlation(after(run, 1000)[:4], w[0]),
            5e-6,
        ),
        Claim(
            "figure1b.lmm",
            "Correlation of the last two starts with p_mm(1) after 1000 normalised steps.",
            source,
            ">=",
            0.99996,
            correlation(after(run, 1000)[4:], w[1]),
            5e-6,
        ),
        *_role_claims("figure1b", experiment, [True, True, False]),
    ]
    titles = ("(b) All three scores differ", "Four starts find the GMM, two the LMM")
    shifts = ((-9, 0), (4, -13), (-11, 0))
    return _result("figure1b", experiment, {"normalized": run}, w, claims, titles, shifts)


def _margin_claims(w: FloatArray, experiment: Experiment) -> list[Claim]:
    """The max-margin vectors of all three selections, their norms and their margins."""
    keys = experiment.problem.K[0]
    code, check = "Figure 1(a), solver log of the authors' code [C]", "ATT-SVM of Figure 1(a), (b) [N]"
    vectors = [[-0.0990099, 0.9900990], [1.0, 0.0], [-1.0, -1.1]]
    norms = [0.9950372, 1.0, 1.4866069]
    margins = [[1.09901, 1.0], [1.1, 1.0], [1.0, 1.0]]
    found = [np.delete(keys[t] - keys, t, axis=0) @ w[t] for t in range(3)]
    half = 0.5 * float(w[0] @ w[0])
    return [
        Claim("figure1a.p_mm", "Max-margin vectors p_mm of tokens 0, 1 and 2.", check, "=", vectors, w, 5e-8),
        Claim("figure1a.norms", "Their norms.", check, "=", norms, np.linalg.norm(w, axis=-1), 5e-8),
        Claim("figure1a.margins", "Margins of each token over the two others.", check, "=", margins, found, 5e-6),
        Claim("figure1a.objective", "Half the squared norm of p_mm(0).", code, "=", 0.4950495, half, 5e-8),
    ]


def _role_claims(name: str, experiment: Experiment, locally_optimal: list[bool]) -> list[Claim]:
    found = local_optimality(experiment.problem, SELECTIONS)
    return [
        Claim(
            f"{name}.global",
            "Only token 0 is globally optimal (GMM); tokens 0, 1, 2.",
            "Figure 1, definition of GMM [S]",
            "=",
            [True, False, False],
            found.globally_optimal,
        ),
        Claim(
            f"{name}.local",
            "Tokens 0 and 1 give LMM directions, token 2 never does."
            if locally_optimal[1]
            else "Token 1 ties with its SVM-neighbour, so only token 0 gives an LMM direction.",
            "Figure 1, definition of LMM [N]",
            "=",
            locally_optimal,
            found.locally_optimal,
        ),
    ]


def _result(
    name: str,
    experiment: Experiment,
    runs: dict[str, Any],
    w: FloatArray,
    claims: list[Claim],
    titles: tuple[str, str],
    shifts: tuple[tuple[float, float], ...],
) -> Result:
    problem, run = experiment.problem, runs["normalized"]
    local = bool(local_optimality(problem, SELECTIONS).locally_optimal[1])
    role = "locally optimal (LMM)" if local else "not locally optimal (tie)"
    rays = [
        Ray(w[0], "$p_{mm}(0)$, globally optimal (GMM)", COLORS["vermillion"]),
        Ray(w[1], f"$p_{{mm}}(1)$, {role}", COLORS["blue"]),
    ]
    neighbors = att_svm(problem.K, [0]).neighbors
    layout = Layout(titles, ((-1.3, 2.0), (-1.8, 1.5)), ((-5.5, 22.0), (-4.0, 23.5)), (0.46, 0.5, 0.5, 0.4))

    def draw() -> Figure:
        texts = [f"token {t}, score {score:g}" for t, score in enumerate(problem.scores[0])]
        notes = [Note(*note) for note in zip(problem.K[0], texts, shifts, strict=True)]
        return plane_picture(problem, run, rays, run.weights.argmax(axis=-1)[:, 0], neighbors, notes, layout)

    caption = (
        "Left: keys, starts and first steps, an arrow every 5. Right: the first 200 normalised steps, an arrow every "
        "10, and how far each path is from the direction of its colour."
    )
    return Result(name, f"Figure 1({name[-1]})", caption, problem, runs, tuple(claims), draw)

"""Figure 1(c): three inputs of seven tokens, where every start ends at the one max-margin direction there is."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from fastmm.descent import descend
from fastmm.margin import att_svm
from fastmm.paper.claims import Claim
from fastmm.paper.data import many_inputs, many_tokens
from fastmm.paper.panels import RECORD, STEPS, Layout, Note, Ray, plane_picture
from fastmm.paper.result import Result, after
from fastmm.paper.torch_random import TorchGenerator
from fastmm.plot import COLORS
from fastmm.theory import correlation, local_optimality

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def figure1c() -> Result:
    """Figure 1(c): three inputs; all six starts end at the global max-margin direction, the only local one.

    Returns
    -------
    Result

    Notes
    -----
    The local optimality of all 7^3 = 343 selections of tokens is decided, not sampled. The authors' code solves the
    margin program with the score as a third coordinate; the last number of its log checks the data end to end.

    References
    ----------
    Tarzanagh, Li, Zhang, Oymak, NeurIPS 2023, Figure 1(c).

    Examples
    --------
    >>> import fastmm as mm
    >>> mm.paper.figure1c().ok
    True
    """
    problem, starts = many_inputs()
    run = descend(problem, p0=starts, steps=STEPS, lr=0.1, rule="normalized", record=RECORD)
    gmm = att_svm(problem.K, problem.optimal)
    lifted = att_svm(many_tokens(), problem.optimal)
    selections = np.array(list(product(range(problem.T), repeat=problem.n)))
    found = local_optimality(problem, selections)
    active = np.argwhere(gmm.neighbors)

    data, svm = "Data of Figure 1(c) [N]", "ATT-SVM of Figure 1(c) [N]"
    claims = (
        Claim(
            "figure1c.torch",
            "Torch's generator at seed 0, without torch: randn(3).",
            "torch.randn [N]",
            "=",
            [1.5409961, -0.2934289, -2.1787894],
            TorchGenerator(0).randn(3),
            2e-6,
        ),
        Claim(
            "figure1c.tokens",
            "The key of token 0 of each of the three inputs.",
            data,
            "=",
            [[0.774832, -0.230472], [0.688981, -0.068272], [0.942066, 0.010501]],
            problem.K[:, 0],
            1e-6,
        ),
        Claim("figure1c.p_mm", "Max-margin vector.", svm, "=", [0.844626, 0.171122], gmm.w, 1e-6),
        Claim("figure1c.norm", "Its norm.", svm, "=", 0.861787, np.linalg.norm(gmm.w), 1e-6),
        Claim("figure1c.direction", "Its direction.", svm, "=", [0.980087, 0.198567], gmm.direction, 1e-6),
        Claim("figure1c.active", "Its active pairs (input, token).", svm, "=", [[0, 6], [1, 5]], active),
        Claim(
            "figure1c.multipliers",
            "Their multipliers.",
            svm,
            "=",
            [0.445061, 0.297615],
            gmm.dual[gmm.neighbors],
            1e-6,
        ),
        Claim(
            "figure1c.lifted",
            "Max-margin vector with the score as third coordinate.",
            svm,
            "=",
            [0.712363, 0.144326, 0.313189],
            lifted.w,
            1e-6,
        ),
        Claim(
            "figure1c.objective",
            "Half its squared norm, as in the log of the authors' notebook.",
            "Log of the notebook [C]",
            "=",
            0.31319,
            0.5 * float(lifted.w @ lifted.w),
            5e-6,
        ),
        Claim(
            "figure1c.objective.digits",
            "The same, with two more digits.",
            svm,
            "=",
            0.3131888,
            0.5 * float(lifted.w @ lifted.w),
            5e-8,
        ),
        Claim(
            "figure1c.feasible",
            "Selections of tokens that can be separated, of 343.",
            svm,
            "=",
            11,
            int(found.feasible.sum()),
        ),
        Claim(
            "figure1c.local",
            "The only locally optimal selection is (0, 0, 0).",
            svm,
            "=",
            [[0, 0, 0]],
            selections[found.locally_optimal],
        ),
        Claim(
            "figure1c.starts",
            "All six starts end at the GMM: correlation with p_mm after 1000 normalised steps.",
            "Figure 1(c) [N]",
            ">=",
            0.99977,
            correlation(after(run, 1000), gmm.w),
            5e-6,
        ),
    )

    def draw() -> Figure:
        rays = [Ray(gmm.w, "$p_{mm}$, globally optimal (GMM)", COLORS["vermillion"])]
        titles = ("(c) Three inputs of seven tokens", "The GMM is the only LMM: all paths find it")
        layout = Layout(titles, ((-1.8, 1.5), (-1.5, 1.8)), ((-3.0, 22.0), (-8.0, 17.0)), (0.12, 0.58, 0.5, 0.34))
        notes = [
            Note(np.array([-1.0, 1.42]), "tokens 1, 2, 3", (0, 0)),
            Note(np.array([-0.9, -1.0]), "tokens 4, 5, 6", (0, 0)),
        ]
        return plane_picture(problem, run, rays, [0] * 6, gmm.neighbors, notes, layout)

    caption = (
        "Left: the keys of all tokens (circles, squares and triangles for the three inputs), the starts and the first "
        "steps, an arrow every 5. Right: the first 200 normalised steps, an arrow every 10, and how far each path is "
        "from the max-margin direction."
    )
    return Result("figure1c", "Figure 1(c)", caption, problem, {"normalized": run}, claims, draw)

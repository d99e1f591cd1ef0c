"""Two inputs of two tokens: the start decides which max-margin direction gradient descent finds."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from fastmm.descent import descend
from fastmm.margin import att_svm
from fastmm.paper import data
from fastmm.paper.claims import Claim
from fastmm.paper.panels import RECORD, STEPS, Layout, Note, Ray, plane_picture
from fastmm.paper.result import Result
from fastmm.plot import COLORS
from fastmm.theory import correlation, local_optimality

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def two_starts() -> Result:
    """With n = T = d = 2 gradient descent finds the global or a local max-margin direction, as it starts.

    Returns
    -------
    Result

    Notes
    -----
    The theorem that gradient descent finds the global direction from everywhere needs a single input; these two show
    that it fails with two, although all tokens that are not optimal have equal scores. The paper's own data for its
    picture are not known: these are a replica.

    References
    ----------
    Tarzanagh, Li, Zhang, Oymak, NeurIPS 2023, appendix on experiments, figure with n = T = d = 2.

    Examples
    --------
    >>> import fastmm as mm
    >>> mm.paper.two_starts().ok
    True
    """
    problem, starts = data.two_starts()
    run: Any = descend(problem, p0=starts, steps=STEPS, lr=0.1, rule="normalized", record=RECORD)
    gmm, lmm = att_svm(problem.K, [0, 0]), att_svm(problem.K, [0, 1])
    selections = np.array(list(product(range(2), repeat=2)))
    found = local_optimality(problem, selections)

    source = "n = T = d = 2 counterexample [N]"
    claims = (
        Claim("two_starts.gmm", "Max-margin vector of the best tokens (0, 0).", source, "=", [1, 3], gmm.w, 1e-9),
        Claim("two_starts.lmm", "Max-margin vector of the tokens (0, 1).", source, "=", [1, 0], lmm.w, 1e-9),
        Claim(
            "two_starts.local",
            "The locally optimal selections are these two.",
            source,
            "=",
            [[0, 0], [0, 1]],
            selections[found.locally_optimal],
        ),
        Claim(
            "two_starts.neighbours",
            "The second has no SVM-neighbour in input 1: nothing holds it back.",
            source,
            "=",
            [False, False],
            lmm.neighbors[1],
        ),
        Claim(
            "two_starts.to_gmm",
            "From seven starts: correlation with the global direction after 20000 steps.",
            source,
            ">=",
            1.0,
            correlation(run.p[:7], gmm.w),
            5e-7,
        ),
        Claim(
            "two_starts.to_lmm",
            "From the three others: correlation with the local direction.",
            source,
            ">=",
            1.0,
            correlation(run.p[7:], lmm.w),
            5e-7,
        ),
    )

    def draw() -> Figure:
        rays = [
            Ray(gmm.w, "$p_{mm}(0, 0)$, globally optimal (GMM)", COLORS["vermillion"]),
            Ray(lmm.w, "$p_{mm}(0, 1)$, locally optimal (LMM)", COLORS["blue"]),
        ]
        titles = ("Two inputs of two tokens", "The start decides between two directions")
        layout = Layout(titles, ((-3.0, 5.0), (-2.6, 5.4)), ((-4.0, 24.0), (-6.0, 22.0)), (0.53, 0.6, 0.42, 0.32))
        notes = [Note(np.array([0.0, 0.0]), "token 1 of both", (-8, -10))]
        return plane_picture(problem, run, rays, [0] * 7 + [1] * 3, gmm.neighbors, notes, layout)

    caption = (
        "Left: the keys, the ten starts and the first steps, an arrow every 5. Right: the first 200 normalised steps, "
        "an arrow every 10, and how far each path is from the direction it ends at."
    )
    return Result("two_starts", "Two starts, two directions", caption, problem, {"normalized": run}, claims, draw)

"""Witnesses of Theorems 1, 4, 5 and 6: where regularization paths go."""

from __future__ import annotations

from functools import partial
from operator import mul

import numpy as np

from fastmm import attention
from fastmm.arrays import FloatArray
from fastmm.margin import att_svm, label_svm
from fastmm.paper.claims import Claim
from fastmm.paper.data import joint_inputs, one_input, two_starts
from fastmm.paper.witness import Witness, angles, hypotheses, lines
from fastmm.problem import Problem
from fastmm.theory import (
    joint_regularization_path,
    local_regularization_path,
    regularization_path,
    theorem_conditions,
)

ANGLE = 0.05  # degrees


def theorem1_witness() -> Witness:
    """Theorem 1: the regularization path tends to the global max-margin direction."""
    problem, _ = one_input(0.0)
    radii = [5.0, 10.0, 20.0, 40.0, 80.0]
    path = regularization_path(problem, [*radii, 1e4])
    other = regularization_path(two_starts().problem, [2.0, 5.0, 10.0, 20.0])
    target = float(angles(att_svm(problem.K, problem.optimal).w))
    source = "Theorem 1 on Figure 1(b) [N]"
    claims = [
        *hypotheses("theorem1", theorem_conditions(problem, 1)),
        Claim("theorem1.target", "Angle of p_mm, degrees.", source, "=", 95.711, target, 5e-4),
        Claim(
            "theorem1.angles",
            "Angles of the path at R = 5, 10, 20, 40, 80.",
            source,
            "=",
            [98.19, 97.26, 96.33, 95.81, 95.71],
            angles(path.p[:-1]),
            ANGLE,
        ),
        Claim(
            "theorem1.proved", "No point of the balls is better, proved.", "Theorem 1 [D]", "=", "proved", path.status
        ),
        Claim("theorem1.far", "Angle at R = 10,000.", "Theorem 1 [S]", "=", target, float(angles(path.p[-1])), 1e-3),
        Claim(
            "theorem1.norm",
            "The path has the norm R.",
            source,
            "=",
            [1.0] * 6,
            np.linalg.norm(path.p, axis=-1) / path.radii,
            1e-9,
        ),
        Claim(
            "theorem1.two",
            "n = T = d = 2 example at R = 2, 5, 10, 20.",
            "Theorem 1 [N]",
            "=",
            [84.15, 75.30, 73.15, 72.35],
            angles(other.p),
            ANGLE,
        ),
    ]
    series = [("path", radii, angles(path.p[:-1]))]
    draw = lines("Theorem 1: the regularization path", ("R", "angle, degrees"), series, level=("p_mm", target))
    return Witness("theorem1", "Theorem 1", "Angle of the path against R.", problem, {}, tuple(claims), draw)


def theorem4_witness() -> Witness:
    """Theorem 4: local paths converge to their axis for LMM directions only."""
    problem, _ = one_input(0.0)
    gmm = float(angles(att_svm(problem.K, problem.optimal).w))
    radii = [10.0, 20.0, 40.0, 80.0, 160.0]
    expected = {"LMM": (0.0, [1.40, 1.40, 0.126, 0.004, 0.0]), "GMM": (gmm, [1.40, 0.618, 0.098, 0.004, 0.0])}
    expected |= {f"{angle:g}": (float(angle), [1.403] * 5) for angle in (20, 45, -30, 120)}
    claims = hypotheses("theorem4", theorem_conditions(problem, 4, [1]))
    series, others = [], []
    for name, (angle, want) in expected.items():
        q = [np.cos(np.radians(angle)), np.sin(np.radians(angle))]
        path = local_regularization_path(problem, radii, q, eps=3e-4, least=5.0)
        away = np.abs(angles(path.p) - angle)
        what = f"the {name} direction" if name in ("LMM", "GMM") else f"{name} degrees, no LMM direction"
        text = f"Degrees from {what} at R = 10, 20, 40, 80, 160."
        claims.append(Claim(f"theorem4.{name}", text, "Theorem 4 on Figure 1(b) [N]", "=", want, away, ANGLE))
        if name in ("LMM", "GMM"):
            series.append((name, radii, away))
        else:
            others.append(away)
    series.append(("20°, 45°, -30°, 120°", radii, np.stack(others, -1)))
    draw = lines("Theorem 4: local paths", ("R", "angle from the axis, degrees"), series)
    caption = "Angle between each cone's axis and the path within it: it vanishes for LMM directions only."
    return Witness("theorem4", "Theorem 4", caption, problem, {}, tuple(claims), draw)


def theorem5_witness() -> Witness:
    """Theorem 5: with all labels' inputs on the margin the joint path tends to both max-margin directions."""
    problem = joint_inputs(relaxed=False)
    radii = [4.0, 8.0, 12.0, 16.0]
    path = joint_regularization_path(problem, radii)
    target = float(angles(att_svm(problem.K, [1, 1, 1]).w))
    head = float(angles(label_svm(problem.X[:, 1], problem.Y).w))
    source = "Theorem 5 on Figure 3(a) [N]"
    claims = [
        *hypotheses("theorem5", theorem_conditions(problem, 5, [1, 1, 1])),
        Claim("theorem5.target", "Angles of p_mm and v_mm.", source, "=", [14.036, 90.0], [target, head], 5e-4),
        Claim(
            "theorem5.p",
            "Angle of p at R = 4, 8, 12, 16, r = R.",
            source,
            "=",
            [11.77, 12.19, 12.66, 12.96],
            angles(path.p),
            ANGLE,
        ),
        Claim("theorem5.v", "Angle of v.", source, "=", [87.80, 88.65, 89.05, 89.27], angles(path.v), ANGLE),
    ]
    series = [("p", radii, angles(path.p))]
    draw = lines("Theorem 5: the joint path", ("R", "angle of p, degrees"), series, level=("p_mm", target))
    return Witness("theorem5", "Theorem 5", "Angle of p against R, with r = R.", problem, {}, tuple(claims), draw)


def theorem6_witness() -> Witness:
    """Theorem 6: an input off the label margin is relaxed, if the head grows fast enough."""
    problem = joint_inputs(relaxed=True)
    ratios = [0.25, 0.5, 1.0, 2.0, 4.0]
    paths = [joint_regularization_path(problem, [4.0, 8.0, 16.0], partial(mul, ratio)) for ratio in ratios]
    ends = [float(angles(path.p[-1])) for path in paths]
    support = label_svm(problem.X[:, 1], problem.Y).neighbors
    relaxed = att_svm(problem.K, [1, 1, 1], relaxed=~support)
    far = label_margins(problem, paths[3].p[-1], paths[3].v[-1])
    claims = [
        *hypotheses("theorem6", theorem_conditions(problem, 6, [1, 1, 1])),
        Claim("theorem6.p_relax", "The relaxed solution.", "Figure 3(b) [N]", "=", [1.0, 0.0], relaxed.w, 1e-12),
        Claim(
            "theorem6.ratios",
            "Angle of p at R = 16 for r/R = 1/4, 1/2, 1, 2, 4: relaxed (0) only if r grows fast enough.",
            "Theorem 6 on Figure 3(b) [N]",
            "=",
            [9.33, 6.64, 1.74, 0.001, 0.0],
            ends,
            ANGLE,
        ),
        Claim(
            "theorem6.margin",
            "Label margin of the input off the margin, in units of v_mm, r = 2 R, R = 16.",
            "Theorem 6 [S]",
            ">=",
            1.0,
            far[~support],
        ),
    ]
    series = [(f"r = {ratio:g} R", path.radii, angles(path.p)) for ratio, path in zip(ratios, paths, strict=True)]
    draw = lines("Theorem 6: relaxed if r grows fast", ("R", "angle of p, degrees"), series, level=("p_relax", 0.0))
    caption = "Angle of p against R for five ratios of the two radii."
    return Witness("theorem6", "Theorem 6", caption, problem, {}, tuple(claims), draw)


def label_margins(problem: Problem, p: FloatArray, v: FloatArray) -> FloatArray:
    """Label margins at (p, v), divided by ``||v|| / ||v_mm||``."""
    pooled = (attention(problem.K, p)[..., None] * problem.X).sum(-2)
    size = float(np.linalg.norm(label_svm(problem.X[:, 1], problem.Y).w))
    return np.asarray(problem.Y * (pooled @ v) * size / np.linalg.norm(v))

"""Witnesses of Lemmas 1 and 2, Theorems 2 and 3 and the counterexample: where gradient descent goes."""

from __future__ import annotations

import numpy as np

from fastmm.arrays import FloatArray
from fastmm.descent import Trajectory, descend
from fastmm.margin import att_svm
from fastmm.paper.claims import Claim
from fastmm.paper.data import one_input, two_starts
from fastmm.paper.witness import Witness, hypotheses, lines
from fastmm.problem import Problem
from fastmm.theory import (
    classify,
    cone,
    correlation,
    lemma2,
    locally_optimal_directions,
    separable,
    smoothness,
    theorem_conditions,
)


def path_of(run: Trajectory) -> FloatArray:
    """The recorded points p of a run, (records, ..., d_k)."""
    assert run.history is not None
    assert run.history.p is not None
    return run.history.p


def lemma1_witness() -> Witness:
    """Lemma 1: training W with one fixed query u is training p, for plain and normalised steps."""
    rng = np.random.default_rng(0)
    X, v, u = rng.standard_normal((4, 5, 3)), rng.standard_normal(3), rng.standard_normal(3)
    Y, p0, steps = [1.0, -1.0, 1.0, 1.0], rng.standard_normal(3), 200
    size = float(np.linalg.norm(u))
    by_p, by_W = Problem(X, Y, v), Problem(X, Y, v, Z=u)
    claims, series = [], []
    for rule, lr, power in (("gradient", 0.1, 2), ("normalized", 0.1, 1)):
        run_p = descend(by_p, p0=p0, steps=steps, lr=lr, rule=rule, record=1)
        W0 = np.outer(u, p0) / size**2
        run_W = descend(by_W, W0=W0, steps=steps, lr=lr / size**power, rule=rule, train="W", record=1)
        path, matrices = path_of(run_p), np.asarray(run_W.history.W if run_W.history else None)
        error = np.abs(np.swapaxes(matrices, -1, -2) @ u - path).max(-1)
        scale = float(np.abs(path).max())
        values = np.linalg.svd(matrices[-1], compute_uv=False)
        claims += [
            Claim(
                f"lemma1.{rule}",
                f"W(t)' u = p(t) along {steps} {rule} steps: largest difference, relative to the largest entry of p.",
                "Lemma 1 [S]",
                "=",
                0.0,
                float(error.max()) / scale,
                1e-12,
            ),
            Claim(
                f"lemma1.{rule}.rank",
                f"W has rank one after {steps} {rule} steps: second singular value over the first.",
                "Lemma 1 [S]",
                "=",
                0.0,
                float(values[1] / values[0]),
                1e-12,
            ),
        ]
        series.append((rule, np.arange(1, steps + 1), np.maximum(error[1:], 1e-18)))
    draw = lines("Lemma 1: W'u follows p", ("step", "largest difference"), series, scales=("log", "log"))
    return Witness("lemma1", "Lemma 1", "Difference of W'u and p along both runs.", by_p, {}, tuple(claims), draw)


def lemma2_witness() -> Witness:
    """Lemma 2: with positive labels and v in the range of W' the optimal tokens can be separated."""
    rng = np.random.default_rng(0)
    good, margins, error = 0, [], 0.0
    for _ in range(200):
        W = rng.standard_normal((5, 3)) @ rng.standard_normal((3, 5))
        problem = Problem(rng.standard_normal((4, 6, 5)), np.ones(4), W.T @ rng.standard_normal(5), W=W)
        check, found = lemma2(problem), separable(problem)
        good += bool(check.ok and found.ok)
        margins.append(found.numbers["margin"])
        scores = problem.X @ problem.v
        error = max(error, float(np.abs(problem.K @ check.numbers["p"] - scores).max() / np.abs(scores).max()))
    mixed = 0
    for _ in range(200):
        labels = rng.choice([-1.0, 1.0], 4)
        mixed += not separable(Problem(rng.standard_normal((4, 6, 2)), labels, rng.standard_normal(2))).ok
    claims = (
        Claim("lemma2.feasible", "Separable, of 200 random problems (rank-3 W, d = 5).", "Lemma 2 [S]", "=", 200, good),
        Claim(
            "lemma2.witness",
            "The witness gives the scores: K p = X v, relative.",
            "Lemma 2 [S]",
            "=",
            0.0,
            error,
            1e-10,
        ),
        Claim(
            "lemma2.labels",
            "Mixed labels are not covered: inseparable of 200 with random ones (n = 4, T = 6, d = 2).",
            "Lemma 2 [N]",
            "in",
            [155, 185],
            mixed,
        ),
    )
    draw = lines(
        "Lemma 2: margins of 200 random problems",
        ("problem, by margin", "margin of the optimal tokens"),
        [("margin", np.arange(1, 201), np.sort(margins))],
        scales=("linear", "log"),
    )
    return Witness("lemma2", "Lemma 2", "Margins of the optimal tokens, sorted.", problem, {}, claims, draw)


def theorem2_witness() -> Witness:
    """Theorem 2: one input and equal lesser scores; every start reaches the GMM direction."""
    problem, starts = one_input(0.9)
    steps = [1000, 5000, 20000]
    record = np.unique(np.geomspace(1, 20000, 60).astype(int).tolist() + steps)
    run = descend(problem, p0=starts, steps=20000, record=record)
    w = att_svm(problem.K, problem.optimal).w
    cosines = np.asarray(correlation(path_of(run), w))
    source = "Theorem 2 [S]"
    claims = hypotheses("theorem2", theorem_conditions(problem, 2))
    for step, bound in zip(steps, (0.9997, 0.99998, 0.999999), strict=True):
        claims.append(
            Claim(
                f"theorem2.{step}",
                f"Correlation with p_mm from all six starts after {step} normalised steps.",
                "Theorem 2 on Figure 1(a) [N]",
                ">=",
                bound,
                cosines[record == step][0],
                5e-7,
            )
        )
    plain = descend(
        problem, p0=starts, steps=20000, lr=smoothness(problem, "tight").largest_step, rule="gradient", record=record
    )
    assert plain.history is not None
    falls = np.diff(plain.history.loss, axis=0).max() <= 0
    sizes = np.linalg.norm(path_of(plain), axis=-1)
    grows = (sizes[-1] > sizes[record == 5000][0]).all()
    cosine = np.asarray(correlation(path_of(plain), w))
    turns = (cosine[-1] > cosine[record == 1000][0]).all()
    claims += [
        Claim("theorem2.monotone", "Plain steps 1/L_tight never raise the risk.", source, "=", True, bool(falls)),
        Claim("theorem2.norm", "Their norm is larger after 20000 than after 5000.", source, "=", True, bool(grows)),
        Claim("theorem2.turn", "Their correlation grows from 1000 to 20000.", source, "=", True, bool(turns)),
    ]
    series = [(f"start {start[1]:g}", record, 1 - cosines[:, k]) for k, start in enumerate(starts)]
    draw = lines("Theorem 2: all starts reach the GMM", ("step", "1 - correlation"), series, scales=("log", "log"))
    caption = "Distance of six normalised runs from the max-margin direction."
    return Witness("theorem2", "Theorem 2", caption, problem, {"normalized": run}, tuple(claims), draw)


def theorem3_witness() -> Witness:
    """Theorem 3: from inside the cone of a local direction runs stay and converge to it."""
    problem, _ = one_input(0.0)
    around = cone(problem, [1])
    starts = 40.0 * around.sample(64)  # from about this norm on the gradient points into the cone at its edge
    run = descend(problem, p0=starts, steps=20000, record="log")
    assert run.history is not None
    cosines = np.asarray(correlation(run.history.p, around.direction))
    claims = hypotheses("theorem3", theorem_conditions(problem, 3, [1]))
    source = "Theorem 3 on Figure 1(b) [N]"
    claims += [
        Claim("theorem3.mu", "Admissible mu.", source, "=", 3.094e-4, around.mu, 5e-8),
        Claim("theorem3.angle", "Half-angle, degrees.", source, "=", 1.43, np.degrees(around.half_angle), 5e-3),
        Claim(
            "theorem3.alignment",
            "Least cosine of -grad and p_mm on the cone at R = 2, 5, 10: no stationary point.",
            source,
            "=",
            [0.969, 0.996, 0.9985],
            [around.least_alignment(radius) for radius in (2.0, 5.0, 10.0)],
            6e-4,
        ),
        Claim(
            "theorem3.stays",
            "64 runs from the cone at norm 40 never leave it.",
            "Theorem 3 [S]",
            "=",
            True,
            bool(np.all(cosines[1:] >= 1 - around.mu)),
        ),
        Claim(
            "theorem3.limit",
            "and their correlation with p_mm after 20000.",
            "Theorem 3 [S]",
            ">=",
            0.999999,
            cosines[-1],
        ),
    ]
    worst = 1 - cosines.min(-1)
    draw = lines(
        "Theorem 3: runs stay in the cone",
        ("step", "1 - correlation, worst of 64 runs"),
        [("runs", run.history.steps[1:], np.maximum(worst[1:], 1e-17))],
        level=("edge of the cone", around.mu),
        scales=("log", "log"),
    )
    caption = "Distance of the worst run from the local direction, and the cone's edge."
    return Witness("theorem3", "Theorem 3", caption, problem, {"normalized": run}, tuple(claims), draw)


def counterexample_witness() -> Witness:
    """n = T = d = 2: with two inputs Assumption B does not stop runs from ending at a direction that is only local."""
    problem, starts = two_starts()
    found = locally_optimal_directions(problem)
    run = descend(problem, p0=starts, steps=20000, record="log")
    plain = descend(problem, p0=starts, steps=20000, lr=smoothness(problem, "paper").largest_step, rule="gradient")
    kinds = classify(problem, run)
    want = ["global"] * 7 + ["local"] * 3
    assert run.history is not None
    source = "n = T = d = 2 counterexample [N]"
    vectors = [record.solution.w for record in found]
    nearer = np.asarray(correlation(plain.p, vectors[0])) > np.asarray(correlation(plain.p, vectors[1]))
    claims = (
        Claim("counterexample.all", "Its LMM selections.", source, "=", [[0, 0], [0, 1]], [r.selected for r in found]),
        Claim("counterexample.p_mm", "Their vectors.", source, "=", [[1.0, 3.0], [1.0, 0.0]], vectors, 1e-12),
        Claim("counterexample.basins", "Where ten normalised runs end.", source, "=", want, kinds.kind),
        Claim("counterexample.corr", "Their correlation there.", source, ">=", 1.0, kinds.correlation, 5e-7),
        Claim(
            "counterexample.plain",
            "Plain steps of 1/L_p = 0.01108 keep the basins: nearer to the GMM.",
            source,
            "=",
            [kind == "global" for kind in want],
            nearer,
        ),
    )
    steps = run.history.steps[1:]
    cosines = np.asarray(correlation(path_of(run)[1:], vectors[0]))
    series = [("seven starts", steps, cosines[:, :7]), ("three starts", steps, cosines[:, 7:])]
    draw = lines("Two inputs: seven starts reach the GMM, three do not", ("step", "correlation with the GMM"), series)
    caption = "Correlation of ten normalised runs with the global max-margin direction."
    return Witness(
        "counterexample", "n = T = d = 2 counterexample", caption, problem, {"normalized": run}, claims, draw
    )

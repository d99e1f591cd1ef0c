"""Cones, smoothness constants, assumptions and conditions: the numbers of the paper's data, and the definitions."""

import numpy as np
import pytest

import fastmm as mm
from fastmm.paper.data import joint_inputs, many_inputs, one_input, two_starts

theory = mm.theory


def test_cones_of_figure_one_b():
    """delta, mu and the half-angle, and how well minus the gradient follows the axis at the cone's radii."""
    problem, _ = one_input(0.0)
    local, best = theory.cone(problem, [1]), theory.cone(problem, [0])
    assert local.delta == pytest.approx(0.05, abs=1e-12)
    assert local.mu == pytest.approx(3.094e-4, abs=5e-8)
    assert np.degrees(local.half_angle) == pytest.approx(1.43, abs=5e-3)
    assert best.delta == pytest.approx(0.0495, abs=5e-5)
    assert best.mu == pytest.approx(3.06e-4, abs=5e-7)
    for radius, cosine in ((2.0, 0.969), (5.0, 0.996), (10.0, 0.9985)):
        assert local.least_alignment(radius) == pytest.approx(cosine, abs=6e-4)
    assert local.contains(7.0 * local.direction, radius=5.0)
    assert not local.contains(3.0 * local.direction, radius=5.0)
    assert not local.contains([1.0, 1.0])


def test_cone_bounds_hold():
    """Margins on the cone stay in their intervals, samples lie in it, beyond the theory's R nothing is stationary."""
    rng = np.random.default_rng(2)
    checked = finite = 0
    for seed in range(12):
        problem = mm.Problem(rng.standard_normal((2, 4, 3)), np.ones(2), rng.standard_normal(3))
        for record in theory.locally_optimal_directions(problem):
            around = theory.cone(problem, record.selected)
            points = around.sample(500, seed)
            assert around.contains(points * (1 - 1e-6) + 1e-6 * around.direction).all()
            scaled = points * np.linalg.norm(record.solution.w)
            own = np.take_along_axis(problem.K, record.selected[:, None, None], axis=1)
            margins = ((own - problem.K) @ scaled.T).transpose(2, 0, 1)
            near = margins[:, record.solution.neighbors]
            assert near.min() >= 0.5 - 1e-9
            assert near.max() <= 1.5 + 1e-9
            others = ~record.solution.neighbors & (np.arange(4) != record.selected[:, None])
            if others.any():
                assert margins[:, others].min() >= 1 + around.delta - 1e-9
            if np.isfinite(around.theory_radius):
                finite += 1
                assert around.least_alignment(around.theory_radius) > 0
                assert around.sampled_radius() <= 1.01 * around.theory_radius
            checked += 1
    assert checked > 10
    assert finite > 5


def test_no_cone_where_there_is_no_lmm():
    """A selection with a better neighbor: the alignment stays negative; an inseparable one raises."""
    problem, _ = one_input(0.0)
    assert theory.cone(problem, [2]).theory_radius == np.inf
    assert theory.cone(problem, [2]).least_alignment(50.0) < 0
    keys = [[[0.0, 0.0], [1.0, 0.0], [-1.0, 0.0]]]
    with pytest.raises(mm.InfeasibleError):
        theory.cone(mm.Problem(keys, [1.0], [1.0, 1.0]), [0])
    with pytest.raises(ValueError, match="nothing to separate"):
        theory.cone(mm.Problem([[[1.0]]], [1.0], [1.0]), [0])


@pytest.mark.parametrize("loss", ["logistic", "exponential", "correlation"])
def test_smoothness_bounds_the_curvature(loss):
    """Both constants exceed the Hessian's norm at random points, and the tight one is the smaller."""
    rng = np.random.default_rng(3)
    X, Y, v = rng.standard_normal((40, 3, 4, 3)), rng.choice([-1.0, 1.0, 2.0], (40, 3)), rng.standard_normal((40, 3))
    problem = mm.Problem(X, Y, v)
    tight, paper = (theory.smoothness(problem, bound, loss).constant for bound in ("tight", "paper"))
    largest = np.zeros(40)
    for scale in (0.1, 0.5, 1.0, 2.0):
        p = scale * rng.standard_normal((3, 1, 40, 3))
        hessian = mm.hessian_vector(problem, p, np.eye(3)[:, None], loss)
        found = np.linalg.norm(np.moveaxis(hessian, 1, -1), 2, axis=(-2, -1))
        largest = np.maximum(largest, found.max(0))
    assert (largest > 0).all()
    assert (largest <= tight).all()
    assert (tight <= paper).all()


def test_padding_does_not_count():
    """A padded problem has the constants of the short one."""
    short = mm.Problem([[[1.0, 2.0], [0.5, 0.0]]], [1.0], [1.0, 1.0])
    padded = mm.Problem([[[1.0, 2.0], [0.5, 0.0], [np.nan, np.nan]]], [1.0], [1.0, 1.0], lengths=[2])
    for bound in ("tight", "paper"):
        a, b = (theory.smoothness(problem, bound).constant for problem in (short, padded))
        assert a == pytest.approx(b, rel=1e-14)
    with pytest.raises(ValueError, match="bound: got 'loose'; allowed: paper, tight"):
        theory.smoothness(short, "loose")


def test_assumptions_on_the_papers_data():
    """B holds in Figures 1(a), 1(c) and the counterexample and fails in 1(b); C has nu = 1/2 in 3(a), 0 in 3(b)."""
    assert theory.assumption_b(one_input(0.9).problem)
    assert not theory.assumption_b(one_input(0.0).problem)
    assert theory.assumption_b(many_inputs().problem)
    assert theory.assumption_b(two_starts().problem)
    tight = theory.assumption_c(joint_inputs(relaxed=False), [1, 1, 1])
    assert tight.ok
    assert tight.numbers["Gamma"] == pytest.approx(1.0, abs=1e-12)
    assert tight.numbers["nu"] == pytest.approx(0.5, abs=0.02)
    loose = theory.assumption_c(joint_inputs(relaxed=True), [1, 1, 1])
    assert not loose.ok
    assert loose.numbers["nu"] == pytest.approx(0.0, abs=1e-9)
    assert theory.assumption_c(joint_inputs(relaxed=True), [1, 1, 1], support_only=True).numbers["nu"] == pytest.approx(
        0.5, abs=0.02
    )


def test_assumption_d_implies_a_smaller_risk():
    """Pairs of points whose weights off the optimal tokens differ as required have the risks in that order."""
    problem = many_inputs().problem
    check = theory.assumption_d(problem)
    assert check.ok
    assert check.numbers["rho"] <= 0
    rng = np.random.default_rng(0)
    p = rng.standard_normal((300, 2)) * 10 ** rng.uniform(-1, 1.3, (300, 1))
    weights = mm.attention(problem.K, p)
    log_q = np.log((weights.sum(-1) - weights[..., 0]).max(-1))
    risk = mm.loss_and_grad(problem, p).loss
    ordered = log_q[:, None] <= 2 * log_q + check.numbers["rho"] - 1e-9
    assert ordered.sum() > 100
    assert (risk[:, None] < risk)[ordered].all()


def test_assumption_b_wants_a_best_token_and_skips_padding():
    """Tied best tokens fail; padding, even NaN, is not looked at; one token has nothing to be compared with."""
    tied = theory.assumption_b(mm.Problem([[[1.0], [1.0], [0.0]]], [1.0], [1.0]))
    assert not tied
    assert tied.numbers["gap"] == 0
    ragged = mm.Problem([[[2.0], [1.0], [np.nan]], [[3.0], [np.nan], [np.nan]]], [1.0, 1.0], [1.0], lengths=[2, 1])
    found = theory.assumption_b(ragged)
    assert found
    assert found.numbers == {"spread": 0.0, "gap": 1.0}
    assert theory.assumption_b(mm.Problem([[[1.0]]], [1.0], [1.0])).numbers["gap"] == np.inf


def test_a_slope_that_underflows_is_not_strict():
    """Assumption A fails where the exponential loss has no slope left in doubles."""
    assert not theory.assumption_a(mm.Problem([[[1.0], [-1.0]]], [1.0], [800.0]), "exponential")
    assert theory.assumption_a(mm.Problem([[[1.0], [-1.0]]], [1.0], [2.0]), "exponential").numbers["M1"] == (
        pytest.approx(np.exp(2.0), rel=1e-14)
    )


def test_everything_a_neighbor_has_the_widest_cone():
    """Without other tokens delta is infinite and mu 1/32 for a unit key; in one dimension the cone is a half-line."""
    own = theory.cone(mm.Problem([[[1.0, 0.0], [0.0, 0.0]]], [1.0], [1.0, 0.0]), [0])
    assert own.delta == np.inf
    assert own.mu == 1 / 32
    line = theory.cone(mm.Problem([[[1.0], [0.0]]], [1.0], [1.0]), [0])
    np.testing.assert_array_equal(line.sample(3), 1.0)
    assert line.contains(2.0 * np.ones(1), radius=1.5)
    assert not line.contains(np.ones(1), radius=1.5)
    assert not line.contains(np.zeros(1))


def test_bad_arguments_are_named():
    """Not a problem, a batch, a selection of the wrong shape, points of the wrong length."""
    problem = one_input(0.0).problem
    batch = mm.Problem(np.ones((2, 1, 2, 2)), [1.0], [1.0, 0.0])
    for check in (theory.assumption_b, theory.lemma2, lambda it: theory.cone(it, [0])):
        with pytest.raises(TypeError, match="problem: got int; allowed: a"):
            check(1)
        with pytest.raises(ValueError, match=r"problem: got a batch \(2,\)"):
            check(batch)
    with pytest.raises(ValueError, match="selected: "):
        theory.cone(problem, [[0], [1]])
    with pytest.raises(ValueError, match="p: "):
        theory.cone(problem, [0]).contains([1.0, 2.0, 3.0])


def test_general_position():
    """Parallel rows are found out."""
    keys = [[[0.0, 0.0], [1.0, 1.0], [2.0, 2.0], [1.0, 0.0]]]
    problem = mm.Problem(keys, [1.0], [1.0, 1.0])
    assert not theory.general_position(problem, [0]).ok
    assert theory.general_position(one_input(0.0).problem, [1]).ok
    large = mm.Problem(np.random.default_rng(0).standard_normal((5, 9, 8)), np.ones(5), np.ones(8))
    assert theory.general_position(large, np.zeros(5, int)).evidence == "sampled"


def test_lemma_two():
    """200 problems with a W of rank 3 and v in its range are separable; mixed labels are not covered."""
    rng = np.random.default_rng(1)
    for _ in range(200):
        W = rng.standard_normal((5, 3)) @ rng.standard_normal((3, 5))
        problem = mm.Problem(rng.standard_normal((4, 6, 5)), np.ones(4), W.T @ rng.standard_normal(5), W=W)
        found = theory.lemma2(problem)
        assert found.ok
        assert theory.separable(problem).ok
        np.testing.assert_allclose(problem.K @ found.numbers["p"], problem.X @ problem.v, rtol=0, atol=1e-9)
    mixed = mm.Problem(rng.standard_normal((4, 6, 2)), [1.0, -1.0, 1.0, -1.0], rng.standard_normal(2))
    assert not theory.lemma2(mixed).ok
    outside = mm.Problem(rng.standard_normal((4, 6, 5)), np.ones(4), np.ones(5), W=np.diag([1.0, 0, 0, 0, 0]))
    assert not theory.lemma2(outside).ok


def test_theorem_conditions():
    """The theorems on the data the paper uses for them, and steps that are too long."""
    figure_a, figure_b = one_input(0.9).problem, one_input(0.0).problem
    assert all(theory.theorem_conditions(figure_b, 1))
    assert all(theory.theorem_conditions(figure_a, 2))
    assert [check.name for check in theory.theorem_conditions(figure_b, 2) if not check] == ["Assumption B"]
    assert [check.name for check in theory.theorem_conditions(figure_a, 2, lr=1.0) if not check] == ["step size"]
    assert [check.name for check in theory.theorem_conditions(many_inputs().problem, 2) if not check] == ["one input"]
    assert all(theory.theorem_conditions(figure_b, 3, [1]))
    assert not all(theory.theorem_conditions(figure_a, 3, [1]))
    assert all(theory.theorem_conditions(figure_b, 4, [1]))
    assert all(theory.theorem_conditions(joint_inputs(relaxed=False), 5, [1, 1, 1]))
    assert not all(theory.theorem_conditions(joint_inputs(relaxed=True), 5, [1, 1, 1]))
    assert all(theory.theorem_conditions(joint_inputs(relaxed=True), 6, [1, 1, 1]))
    with pytest.raises(ValueError, match="theorem: got 7; allowed: 1 to 6"):
        theory.theorem_conditions(figure_a, 7)

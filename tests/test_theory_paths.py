"""Regularization paths: objectives against plain sums, minima against grids and random points."""

import numpy as np
import pytest

import fastmm as mm
from fastmm.paper.data import many_inputs, one_input
from fastmm.theory.one_input import excess_gap

theory = mm.theory


@pytest.mark.parametrize("loss", ["logistic", "exponential", "correlation"])
def test_log_excess_is_the_excess(loss):
    """Where a plain difference has digits: against the risk minus its infimum."""
    rng = np.random.default_rng(0)
    problem = mm.Problem(rng.standard_normal((3, 4, 2)), [1.0, -1.0, 2.0], rng.standard_normal(2), lengths=[4, 2, 3])
    p = rng.standard_normal((50, 2)) * 3
    kind = mm.losses.get(loss)
    infimum = kind.value(np.nanmax(problem.scores, -1)).mean()
    want = mm.loss_and_grad(problem, p, loss=loss).loss - infimum
    np.testing.assert_allclose(np.exp(theory.log_excess(problem, p, loss)), want, rtol=1e-9)


@pytest.mark.parametrize("loss", ["logistic", "exponential", "correlation"])
def test_log_excess_far_out(loss):
    """At norm 1e4 it is minus the margin, where risks are equal to all digits; at one token it is -inf."""
    problem, _ = one_input(0.0)
    w = mm.att_svm(problem.K, [0]).direction
    near, far = theory.log_excess(problem, 1e4 * w, loss), theory.log_excess(problem, 2e4 * w, loss)
    assert near - far == pytest.approx(1e4 * mm.att_svm(problem.K, [0]).margin, rel=1e-9)
    assert theory.log_excess(mm.Problem([[[1.0]]], [1.0], [1.0]), [3.0], loss) == -np.inf


def test_path_minimises_over_the_ball():
    """No random point of the ball is better, in three dimensions; R = 1e4 reaches the max-margin direction."""
    rng = np.random.default_rng(1)
    problem = mm.Problem(rng.standard_normal((2, 3, 3)), np.ones(2), rng.standard_normal(3))
    path = theory.regularization_path(problem, [1.0, 5.0, 1e4], starts=32)
    assert path.status == "starts"
    for radius, low in zip(path.radii, path.log_excess, strict=True):
        points = rng.standard_normal((20000, 3))
        points *= radius * rng.random((20000, 1)) ** (1 / 3) / np.linalg.norm(points, axis=-1, keepdims=True)
        assert theory.log_excess(problem, points).min() >= low
    assert (np.linalg.norm(path.p, axis=-1) <= path.radii * (1 + 1e-12)).all()
    target = mm.att_svm(problem.K, problem.optimal)
    assert mm.correlation(path.p[-1], target.w) > 1 - 1e-6


def test_planar_path_of_three_inputs():
    """Figure 1(c)'s path is no worse than a grid of the ball ten times finer than its own."""
    problem = many_inputs().problem
    path = theory.regularization_path(problem, [4.0, 20.0], starts=8)
    assert path.status == "grid"
    assert np.isinf(path.gap).all()
    angles = np.radians(np.arange(0, 360, 0.01))
    units = np.stack([np.cos(angles), np.sin(angles)], -1)
    for radius, low in zip(path.radii, path.log_excess, strict=True):
        assert theory.log_excess(problem, radius * units).min() >= low - 1e-9
    np.testing.assert_allclose(np.linalg.norm(path.directions, axis=-1), 1.0)


@pytest.mark.parametrize("d", [2, 3, 6])
def test_paths_of_one_input_are_proved(d):
    """The gap is small at the minimiser, tells the truth elsewhere, and is inf where a second token has the say."""
    rng = np.random.default_rng(d)
    for _ in range(2):
        problem = mm.Problem(
            rng.standard_normal((1, 4, d)), [1.0], rng.standard_normal(d), K=rng.standard_normal((1, 4, d))
        )
        if not mm.att_svm(problem.K, problem.optimal, throw=False).optimal:
            continue
        size = np.linalg.norm(mm.att_svm(problem.K, problem.optimal).w)
        path = theory.regularization_path(problem, size * np.array([10.0, 100.0, 1e4]), starts=16)
        assert path.status == "proved"
        assert path.gap.max() < 1e-6
        points = rng.standard_normal((200, d))
        points *= 10 * size / np.linalg.norm(points, axis=-1, keepdims=True)
        least = path.log_excess[0]
        gaps = np.array([excess_gap(problem, point, 10 * size) for point in points])
        with np.errstate(divide="ignore"):
            allowed = theory.log_excess(problem, points) + np.log(np.clip(1 - gaps, 0, 1))
        assert (allowed <= least + 1e-6).all()
    near = theory.regularization_path(problem, [1e-3], starts=4)
    assert near.gap[0] == np.inf
    assert near.status != "proved"


def test_local_path_stays_in_its_cone():
    """In three dimensions: inside the set, and no random point of it has a smaller risk."""
    rng = np.random.default_rng(4)
    problem = mm.Problem(rng.standard_normal((2, 3, 3)), np.ones(2), rng.standard_normal(3))
    record = theory.locally_optimal_directions(problem)[0]
    q, eps = record.solution.direction, 1e-3
    path = theory.local_regularization_path(problem, [3.0], q, eps=eps, least=2.0, starts=16)
    (p,) = path.p
    assert 2.0 - 1e-12 <= np.linalg.norm(p) <= 3.0 + 1e-12
    assert mm.correlation(p, q) >= 1 - eps - 1e-12
    points = q + np.sqrt(2 * eps) * rng.uniform(-1, 1, (40000, 3))
    points = points[mm.correlation(points, q) >= 1 - eps]
    points *= rng.uniform(2, 3, (len(points), 1)) / np.linalg.norm(points, axis=-1, keepdims=True)
    assert len(points) > 1000
    assert mm.loss_and_grad(problem, points).loss.min() >= mm.loss_and_grad(problem, p).loss - 1e-9


def test_joint_path_is_feasible_and_best():
    """Figure 3(a) at R = 4: in both balls, and no random pair is better."""
    points = np.array([[1.0, 1.0], [1.0, -1.0], [0.5, 1.0]])
    problem = mm.Problem(np.stack([np.zeros((3, 2)), points], axis=1), [1.0, -1.0, 1.0], [0.0, 1.0])
    path = theory.joint_regularization_path(problem, [4.0], lambda R: R / 2, starts=4)
    assert np.linalg.norm(path.v[0]) <= 2 + 1e-12
    assert np.linalg.norm(path.p[0]) <= 4 + 1e-12
    rng = np.random.default_rng(0)
    v, p = rng.standard_normal((2, 20000, 2))
    v, p = (size * x / np.linalg.norm(x, axis=-1, keepdims=True) for size, x in ((2, v), (4, p)))
    assert mm.loss_and_grad(problem, p, v=v).loss.min() >= np.exp(path.log_risk[0]) - 1e-12


def test_bad_arguments():
    """Named, with what is allowed."""
    problem, _ = one_input(0.0)
    with pytest.raises(ValueError, match=r"radii: got .*; allowed: increasing positive numbers"):
        theory.regularization_path(problem, [2.0, 1.0])
    with pytest.raises(ValueError, match="starts: got 0"):
        theory.regularization_path(problem, [1.0], starts=0)
    with pytest.raises(ValueError, match=r"q: got .*; allowed: a nonzero vector of length 2"):
        theory.local_regularization_path(problem, [9.0], [0.0, 0.0], eps=0.1, least=1.0)
    with pytest.raises(ValueError, match="eps: got 1"):
        theory.local_regularization_path(problem, [9.0], [1.0, 0.0], eps=1, least=1.0)
    with pytest.raises(ValueError, match=r"radii: got 0.5; allowed: at least least=1.0"):
        theory.local_regularization_path(problem, [0.5], [1.0, 0.0], eps=0.1, least=1.0)
    with pytest.raises(ValueError, match="loss: got 'correlation'"):
        theory.joint_regularization_path(problem, [1.0], loss="correlation")

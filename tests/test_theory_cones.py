"""Cones around max-margin directions: the digest's numbers, and what their width promises."""

from __future__ import annotations

import numpy as np
import pytest

import fastmm as mm
from fastmm.paper.data import many_inputs, one_input, two_starts


def test_widths_of_figure_1b():
    problem = one_input(0.0).problem
    lmm, gmm = mm.theory.cone(problem, [1]), mm.theory.cone(problem, [0])
    np.testing.assert_allclose([lmm.delta, lmm.size], [0.05, 1.00499], atol=5e-6)
    np.testing.assert_allclose(lmm.mu, 3.094e-4, atol=5e-8)
    np.testing.assert_allclose(lmm.half_angle, 1.43, atol=5e-3)
    np.testing.assert_allclose([gmm.delta, gmm.size], [0.0495, 1.0], atol=5e-5)
    np.testing.assert_allclose(gmm.mu, 3.06e-4, atol=5e-7)
    np.testing.assert_allclose(lmm.direction, [1, 0], atol=1e-12)


def test_descent_points_along_the_axis_inside():
    """The least cosine over the cone of Figure 1(b)'s local direction at R = 2, 5, 10."""
    lmm = mm.theory.cone(one_input(0.0).problem, [1])
    found = lmm.alignment([2.0, 5.0, 10.0])
    np.testing.assert_allclose(found[:2], [0.969, 0.996], atol=6e-4)
    np.testing.assert_allclose(found[2], 0.9985, atol=6e-5)
    assert lmm.smallest_radius() < 2
    assert lmm.alignment(lmm.smallest_radius()) > 0


@pytest.mark.parametrize(("make", "selected"), [(two_starts, [0, 1]), (many_inputs, [0, 0, 0])])
def test_inside_margins_stay_where_the_width_says(make, selected):
    problem = make().problem
    own = mm.theory.cone(problem, selected)
    solution = own.optimality.solution
    points = own.sample(500, seed=1) / solution.margin
    assert np.all(own.contains(points * (1 - 1e-12)))
    np.testing.assert_allclose(np.linalg.norm(own.sample(500), axis=-1), 1, rtol=1e-12)
    rows = problem.K[np.arange(problem.n), selected][:, None] - problem.K
    margins = np.einsum("itd,sd->sit", rows, points)
    near = margins[:, own.optimality.neighbors]
    assert ((near >= 0.5) & (near <= 1.5)).all()
    real = np.arange(problem.T) != np.asarray(selected)[:, None]
    far = margins[:, real & ~own.optimality.neighbors]
    assert far.size == 0 or (far >= 1 + own.delta - 1e-9).all()


def test_runs_from_inside_stay_and_find_the_axis():
    problem = two_starts().problem
    own = mm.theory.cone(problem, [0, 1])
    start = 20 * own.sample(40, seed=2)
    run = mm.descend(problem, p0=start, steps=2000, lr=0.1, record=50)
    assert np.all(
        own.contains(run.history.p * 1.0) | (mm.correlation(run.history.p, own.direction) > 1 - own.mu - 1e-9)
    )
    assert (mm.correlation(run.p, own.direction) > 1 - own.mu / 10).all()


def test_everything_a_neighbor_has_the_widest_cone():
    own = mm.theory.cone(mm.Problem([[[1.0, 0.0], [0.0, 0.0]]], [1.0], [1.0, 0.0]), [0])
    assert own.delta == np.inf
    assert own.mu == 1 / 32
    line = mm.theory.cone(mm.Problem([[[1.0], [0.0]]], [1.0], [1.0]), [0])
    np.testing.assert_array_equal(line.sample(3), 1.0)
    assert line.contains(2.0 * np.ones(1), radius=1.5)
    assert not line.contains(np.ones(1), radius=1.5)
    assert not line.contains(np.zeros(1))


def test_bad_arguments_are_named():
    problem = one_input(0.0).problem
    with pytest.raises(TypeError, match="problem: got str; allowed: a Problem"):
        mm.theory.cone("b", [0])
    with pytest.raises(ValueError, match=r"tokens of shape \(2, 1\); allowed: one problem and \(n,\)"):
        mm.theory.cone(problem, [[0], [1]])
    inner = mm.Problem([[[1.0], [0.0], [-1.0]]], [1.0], [1.0])
    with pytest.raises(ValueError, match=r"selected: got \[1\], which cannot be separated"):
        mm.theory.cone(inner, [1])
    with pytest.raises(ValueError, match="nothing to separate"):
        mm.theory.cone(mm.Problem([[[1.0]]], [1.0], [1.0]), [0])
    with pytest.raises(ValueError, match="p: "):
        mm.theory.cone(problem, [0]).contains([1.0, 2.0, 3.0])

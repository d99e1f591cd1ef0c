"""All locally optimal directions against brute force, and verdicts on runs."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import fastmm as mm
from fastmm.paper.data import many_inputs, one_input, two_starts


def brute_force(problem):
    """Feasible selections and the locally optimal ones among all T^n."""
    lengths = [problem.T] * problem.n if problem.lengths is None else problem.lengths
    selections = np.array(list(product(*(range(length) for length in lengths))))
    found = mm.theory.local_optimality(problem, selections)
    return selections, found


@pytest.mark.parametrize("seed", range(40))
def test_the_search_finds_what_brute_force_finds(seed):
    random = np.random.default_rng([31, seed])
    n, T, d = random.integers(1, 5), random.integers(1, 5), random.integers(1, 4)
    X = random.standard_normal((n, T, d))
    if seed % 3 == 0:
        X = np.round(2 * X)  # equal keys, ties, degenerate programs
    lengths = random.integers(1, T + 1, n) if seed % 4 == 1 else None
    problem = mm.Problem(X, random.choice([-1.0, 1.0], n), random.standard_normal(d), lengths=lengths)
    selections, decided = brute_force(problem)
    found = mm.theory.locally_optimal_directions(problem)
    assert found.complete
    assert found.feasible == decided.feasible.sum()
    assert {tuple(each.selected) for each in found} == {tuple(own) for own in selections[decided.locally_optimal]}
    for each in found:
        (k,) = np.flatnonzero((selections == each.selected).all(-1))
        assert each.globally_optimal == decided.globally_optimal[k]
        assert each.min_score_gap == decided.min_score_gap[k]
        np.testing.assert_allclose(each.solution.w, decided.solution.w[k], rtol=1e-10, atol=1e-12)
        assert each.solution.certificate.ok
    assert found.pruned + found.feasible <= len(selections)


def test_figure_1c_has_eleven_feasible_selections_and_one_direction():
    found = mm.theory.locally_optimal_directions(many_inputs().problem)
    assert [each.selected.tolist() for each in found] == [[0, 0, 0]]
    assert found[0].globally_optimal
    assert found.feasible == 11
    assert found.complete
    assert found.programs < 343
    np.testing.assert_allclose(found[0].solution.direction, [0.980087, 0.198567], atol=1e-6)


def test_ten_trillion_selections_in_three_dimensions():
    random = np.random.default_rng(3)
    X = random.standard_normal((10, 20, 3))
    problem = mm.Problem(X, random.choice([-1.0, 1.0], 10), random.standard_normal(3))
    found = mm.theory.locally_optimal_directions(problem)
    assert found.complete
    assert found.pruned > 0.999 * 20**10
    assert len(found) > 1
    # every direction of a fine sample selects tokens that were found feasible: as many as it shows, at least
    sample = random.standard_normal((20000, 3))
    seen = np.unique((X @ sample.T).argmax(axis=1).T, axis=0)
    assert found.feasible >= len(seen)
    selected = {tuple(each.selected) for each in found}
    decided = mm.theory.local_optimality(problem, seen)
    assert decided.feasible.all()
    assert {tuple(own) for own in seen[decided.locally_optimal]} <= selected


def test_a_budget_that_runs_out_is_told():
    problem = many_inputs().problem
    some = mm.theory.locally_optimal_directions(problem, budget=30)
    assert not some.complete
    assert some.programs <= 30
    assert "not complete" in repr(some)


def test_threads_do_not_change_the_answer():
    problem = many_inputs().problem
    one, two = (mm.theory.locally_optimal_directions(problem, threads=count) for count in (1, 2))
    assert [each.selected.tolist() for each in one] == [each.selected.tolist() for each in two]
    np.testing.assert_array_equal(one[0].solution.w, two[0].solution.w)


def test_bad_arguments_of_the_search_are_named():
    with pytest.raises(TypeError, match="problem: got list; allowed: a Problem"):
        mm.theory.locally_optimal_directions([])
    with pytest.raises(ValueError, match=r"problem: got a batch of shape \(2,\); allowed: one problem"):
        mm.theory.locally_optimal_directions(mm.Problem(np.ones((2, 1, 2, 2)), [1.0], [1.0, 0.0]))
    for budget in (0, 1.5, True):
        with pytest.raises(ValueError, match=r"budget: got .*; allowed: a positive integer"):
            mm.theory.locally_optimal_directions(one_input(0.0).problem, budget=budget)


def test_runs_of_figure_1b_are_global_and_local():
    problem, starts = one_input(0.0)
    verdict = mm.theory.classify(problem, mm.descend(problem, p0=starts, steps=1000))
    assert verdict.kind.tolist() == ["global"] * 4 + ["local"] * 2
    assert (verdict.correlation > 0.9999).all()
    assert (verdict.saturation >= 0.999).all()
    assert verdict.optimality.solution.certificate.ok.all()
    single = mm.theory.classify(problem, mm.descend(problem, p0=starts[5], steps=1000))
    assert single.kind == "local"
    assert isinstance(single.correlation, float)


def test_every_other_verdict():
    problem, starts = two_starts()
    assert mm.theory.classify(problem, mm.descend(problem, p0=starts[0], steps=1)).kind == "unsaturated"
    # a point inside its hull with the largest weight cannot be selected for good: p is followed no further
    still = {"steps": 0, "rule": "gradient"}
    worse = mm.descend(problem, p0=[-50.0, 0.0], **still)
    assert worse.selected.tolist() == [1, 0]
    verdict = mm.theory.classify(problem, worse)
    assert verdict.kind == "neither"
    assert verdict.min_score_gap == -1
    tied = mm.Problem([[[1.0, 0.0, 1.0], [0.0, 0.0, 1.0]]], [1.0], [0.0, 0.0, 1.0], K=[[[1.0, 0.0], [0.0, 0.0]]])
    assert mm.theory.classify(tied, mm.descend(tied, p0=[50.0, 0.0], **still)).kind == "tie"
    twins = mm.Problem([[[1.0], [1.0]]], [1.0], [1.0])
    equal = mm.theory.classify(twins, mm.descend(twins, p0=[1.0], **still), saturated=0.5)
    assert equal.kind == "infeasible"
    assert np.isnan(equal.correlation)
    assert np.isnan(equal.min_score_gap)


def test_bad_arguments_of_verdicts_are_named():
    problem, _ = two_starts()
    run = mm.descend(problem, steps=5)
    with pytest.raises(TypeError, match="run: got ndarray; allowed: a Trajectory"):
        mm.theory.classify(problem, np.ones(2))
    with pytest.raises(TypeError, match="problem: got int"):
        mm.theory.classify(3, run)
    for bound in (0, 1.1, "much", True):
        with pytest.raises(ValueError, match=r"saturated: got .*; allowed: a number above 0 and at most 1"):
            mm.theory.classify(problem, run, saturated=bound)

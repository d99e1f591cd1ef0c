"""The search for locally optimal selections against the judgement of every selection."""

import numpy as np
import pytest

import fastmm as mm
from fastmm.paper.data import many_inputs
from fastmm.theory import enumeration

SHAPES = [(1, 3, 2), (1, 5, 3), (2, 2, 2), (2, 4, 3), (3, 3, 2), (3, 4, 4), (4, 2, 1), (4, 3, 2), (4, 3, 5)]


def random_problem(rng, shape, *, coarse=False, ragged=False):
    n, T, d = shape

    def draw(*extents):
        return rng.integers(-2, 3, extents).astype(float) if coarse else rng.standard_normal(extents)

    lengths = rng.integers(1, T + 1, n) if ragged else None
    return mm.Problem(draw(n, T, d), rng.choice([-1.0, 1.0], n), draw(d), lengths=lengths)


def all_selections(problem):
    counts = np.broadcast_to(problem.real_tokens, (problem.n, problem.T)).sum(-1)
    return np.array(list(np.ndindex(*counts)))


@pytest.mark.parametrize("coarse", [False, True], ids=["normal", "integer"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_equals_brute_force(shape, coarse):
    """Selections, gaps and solutions; integer keys bring duplicates, parallel rows and tied scores."""
    rng = np.random.default_rng([*shape, coarse])
    some = 0
    for trial in range(60):
        problem = random_problem(rng, shape, coarse=coarse, ragged=trial % 3 == 0)
        choices = all_selections(problem)
        want = mm.theory.local_optimality(problem, choices)
        got = mm.theory.locally_optimal_directions(problem)
        assert got.complete
        wanted = {tuple(choices[k]): k for k in np.flatnonzero(want.locally_optimal)}
        assert {tuple(record.selected) for record in got} == set(wanted)
        for record in got:
            k = wanted[tuple(record.selected)]
            assert record.min_score_gap == want.min_score_gap[k]
            assert record.globally_optimal == want.globally_optimal[k]
            np.testing.assert_array_equal(record.solution.w, want.solution.w[k])
            assert record.solution.optimal is True
        cut = got.pruned
        assert cut.unexplored == cut.undecided == 0
        assert got.feasible + cut.infeasible + cut.scores == len(choices)
        some += len(got)
    assert some > 0


def test_the_papers_three_inputs():
    """Figure 1(c): one LMM direction among 343 selections, and it is the GMM."""
    found = mm.theory.locally_optimal_directions(many_inputs().problem)
    (record,) = found
    assert found.complete
    assert record.selected.tolist() == [0, 0, 0]
    assert record.globally_optimal
    assert found.pruned.infeasible == 343 - 11
    assert found.feasible + found.pruned.scores == 11
    np.testing.assert_allclose(record.solution.w, [0.844626, 0.171122], atol=1e-6)


def test_ten_inputs_of_twenty_tokens():
    """10^13 selections in three dimensions are all decided."""
    rng = np.random.default_rng(0)
    problem = random_problem(rng, (10, 20, 3))
    found = mm.theory.locally_optimal_directions(problem)
    assert found.complete
    assert found.feasible + found.pruned.infeasible + found.pruned.scores == 20**10
    # every direction selects a separable selection: those that random directions hit are all among the leaves
    directions = rng.standard_normal((20000, 3))
    seen = np.unique(mm.theory.direction_optimality(problem, directions).selected, axis=0)
    assert 100 < len(seen) <= found.feasible
    judged = mm.theory.local_optimality(problem, seen)
    assert judged.feasible.all()
    listed = {tuple(record.selected) for record in found}
    for selected, local in zip(seen, judged.locally_optimal, strict=True):
        assert (tuple(selected) in listed) == local


def test_budget_tells_the_truth():
    """A search that is cut short says so, its counts add up, and what it lists is right."""
    problem = random_problem(np.random.default_rng(3), (6, 8, 10))
    part = mm.theory.locally_optimal_directions(problem, budget=8000)
    assert not part.complete
    assert part.pruned.programs <= 8000
    assert part.pruned.unexplored > 0
    cut = part.pruned
    assert part.feasible + cut.infeasible + cut.scores + cut.unexplored + cut.undecided == 8**6
    assert len(part) > 0
    judged = mm.theory.local_optimality(problem, [record.selected for record in part])
    assert judged.locally_optimal.all()
    tiny = mm.theory.locally_optimal_directions(problem, budget=1)
    assert not tiny.complete


@pytest.mark.parametrize("calls", [1, 2, 3, 5, 8])
def test_ctrl_c_returns_what_was_found(monkeypatch, calls):
    """What was found is kept, everything else counts as unexplored; no selection counts twice."""
    problem = random_problem(np.random.default_rng(5), (5, 6, 2))
    whole = mm.theory.locally_optimal_directions(problem)
    solve, left = enumeration._Search._solve, [calls]

    def interrupted(self, *arguments):
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        return solve(self, *arguments)

    monkeypatch.setattr(enumeration._Search, "_solve", interrupted)
    monkeypatch.setattr(enumeration, "_CHUNK", 4)
    part = mm.theory.locally_optimal_directions(problem)
    pruned = part.pruned
    assert not part.complete
    assert pruned.unexplored > 0
    assert part.feasible + pruned.infeasible + pruned.scores + pruned.unexplored + pruned.undecided == 6**5
    everything = {tuple(record.selected) for record in whole}
    assert {tuple(record.selected) for record in part} <= everything


def test_scores_cut():
    """Where all scores are equal nothing can be locally optimal, and nothing is solved beyond the tables."""
    problem = mm.Problem(np.eye(6).reshape(3, 2, 6), np.ones(3), np.ones(6))
    found = mm.theory.locally_optimal_directions(problem)
    assert found == []
    assert found.complete
    assert found.pruned.scores == 8
    # one token an input: nothing to separate, no neighbors, locally optimal by definition
    (record,) = mm.theory.locally_optimal_directions(mm.Problem(np.ones((2, 1, 3)), [1.0, 1.0], np.ones(3)))
    assert record.min_score_gap == np.inf


def test_threads_do_not_matter():
    """Same list, same bits."""
    problem = random_problem(np.random.default_rng(5), (4, 6, 3))
    one, two = (mm.theory.locally_optimal_directions(problem, threads=k) for k in (1, 2))
    assert one.pruned == two.pruned
    for a, b in zip(one, two, strict=True):
        np.testing.assert_array_equal(a.solution.w, b.solution.w)


def test_bad_arguments():
    """Named, with what is allowed."""
    problem = random_problem(np.random.default_rng(0), (2, 2, 2))
    with pytest.raises(TypeError, match=r"problem: got int"):
        mm.theory.locally_optimal_directions(3)
    with pytest.raises(ValueError, match=r"budget: got 0; allowed: a positive integer"):
        mm.theory.locally_optimal_directions(problem, budget=0)
    batch = mm.Problem(np.ones((5, 2, 2, 2)), np.ones(2), np.ones(2))
    with pytest.raises(ValueError, match=r"problem: got a batch \(5,\)"):
        mm.theory.locally_optimal_directions(batch)

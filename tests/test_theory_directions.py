"""Directional neighbors and the classification of runs."""

import numpy as np
import pytest

import fastmm as mm
from fastmm.paper.data import one_input


def test_max_margin_directions_have_the_neighbors_of_their_program():
    """For every separable selection of random problems."""
    rng = np.random.default_rng(0)
    problem = mm.Problem(rng.standard_normal((3, 4, 3)), np.ones(3), rng.standard_normal(3))
    choices = np.array(list(np.ndindex(4, 4, 4)))
    found = mm.theory.local_optimality(problem, choices)
    some = np.flatnonzero(found.feasible)
    assert len(some) > 10
    got = mm.theory.direction_optimality(problem, found.solution.w[some])
    np.testing.assert_array_equal(got.selected, choices[some])
    np.testing.assert_array_equal(got.neighbors, found.neighbors[some])
    np.testing.assert_array_equal(got.neighbor_optimal, found.locally_optimal[some])
    np.testing.assert_allclose(got.margin, found.solution.margin[some], rtol=1e-12)


def test_against_the_definition_in_loops():
    """Random directions, ragged inputs."""
    rng = np.random.default_rng(1)
    lengths = [3, 1, 2]
    problem = mm.Problem(rng.standard_normal((3, 3, 2)), [1.0, -1.0, 1.0], rng.standard_normal(2), lengths=lengths)
    for q in rng.standard_normal((50, 2)):
        got = mm.theory.direction_optimality(problem, q)
        u = q / np.linalg.norm(q)
        pairs = []
        for i, length in enumerate(lengths):
            logits = problem.X[i, :length] @ u
            top = int(np.argmax(logits))
            assert got.selected[i] == top
            pairs += [
                (logits[top] - logits[t], i, t, problem.scores[i, top] - problem.scores[i, t])
                for t in range(length)
                if t != top
            ]
        margin, i, t, gap = min(pairs)
        assert got.margin == pytest.approx(margin, rel=1e-12)
        assert np.argwhere(got.neighbors).tolist() == [[i, t]]
        assert got.min_score_gap == gap
        assert got.neighbor_optimal == (gap > 0)


def test_a_direction_that_does_not_separate():
    """Two equal logits: no neighbors and no verdict but no."""
    problem = mm.Problem([[[1.0, 0.0], [1.0, 1.0]]], [1.0], [1.0, 0.0])
    got = mm.theory.direction_optimality(problem, [1.0, 0.0])
    assert (got.separates, got.neighbor_optimal, got.margin) == (False, False, 0.0)
    assert np.isnan(got.min_score_gap)
    with pytest.raises(ValueError, match="q: got a zero vector"):
        mm.theory.direction_optimality(problem, [0.0, 0.0])
    with pytest.raises(ValueError, match=r"q: got shape \(3,\)"):
        mm.theory.direction_optimality(problem, [1.0, 0.0, 0.0])


def test_figure_one_b_runs():
    """The paper's starts: four reach the GMM, two the other LMM; the first steps are unsaturated."""
    problem, starts = one_input(0.0)
    found = mm.theory.classify(problem, mm.descend(problem, p0=starts))
    assert found.kind.tolist() == ["global"] * 4 + ["local"] * 2
    assert (found.correlation > 0.9999).all()
    np.testing.assert_allclose(found.min_score_gap, [1.0] * 4 + [0.9] * 2, rtol=1e-12)
    assert found.optimality.solution.certificate.ok.all()
    assert mm.theory.classify(problem, mm.descend(problem, steps=0)).kind == "unsaturated"


def test_the_other_kinds():
    """A tie, a neighbor with a larger score, and a selection that cannot be separated, by runs placed there."""
    problem, _ = one_input(0.9)
    far = mm.descend(problem, p0=[[300.0, 0.0], [-300.0, -300.0]], steps=0)
    assert mm.theory.classify(problem, far).kind.tolist() == ["tie", "neither"]
    # a token in the middle of two others can have all the weight for no p, but for a rounded one of two inputs
    keys = np.array([[[1.0, 0.0], [0.0, 0.0]], [[-1.0, 1e-3], [0.0, 0.0]], [[0.0, -1.0], [0.0, 0.0]]])
    problem = mm.Problem(keys, np.ones(3), [1.0, 1.0])
    run = mm.descend(problem, p0=[0.0, 0.0], steps=0)
    assert mm.theory.classify(problem, run, saturation=0.5).kind == "infeasible"


def test_saturated_runs_are_locally_optimal():
    """Runs of 5000 normalised steps at d = 4 and 8: exceptions are rare and their evidence is a small gap."""
    rng = np.random.default_rng(7)
    for d, least in ((4, 0.8), (8, 0.98)):
        X = rng.standard_normal((100, 4, 6, d))
        X /= np.linalg.norm(X, axis=-1, keepdims=True)
        v = rng.standard_normal((100, d))
        v /= np.linalg.norm(v, axis=-1, keepdims=True)
        problem = mm.Problem(X, rng.choice([-1.0, 1.0], (100, 4)), v)
        found = mm.theory.classify(problem, mm.descend(problem, steps=5000))
        saturated = found.kind != "unsaturated"
        assert saturated.mean() >= least
        assert not (found.kind == "infeasible").any()
        assert (found.kind == "neither").sum() <= 0.03 * saturated.sum()
        assert found.correlation[saturated].mean() > 0.998


def test_bad_arguments():
    """Named, with what is allowed."""
    problem, _ = one_input(0.0)
    with pytest.raises(TypeError, match="run: got float"):
        mm.theory.classify(problem, 1.0)
    with pytest.raises(ValueError, match=r"saturation: got 2; allowed: a number in \(0, 1\]"):
        mm.theory.classify(problem, mm.descend(problem, steps=1), saturation=2)
    queried = mm.Problem(problem.X, problem.Y, problem.v, Z=np.ones((1, 3)))
    with pytest.raises(ValueError, match="run: got a run of W"):
        mm.theory.classify(queried, mm.descend(queried, steps=1, train="W"))

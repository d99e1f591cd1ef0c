"""Local and global optimality of choices of tokens, on known cases and by enumeration."""

import json
import pickle
from pathlib import Path

import numpy as np
import pytest

import fastmm as mm

FOLDER = Path(__file__).parent / "cases"
CASES = {path.stem: json.loads(path.read_text()) for path in sorted(FOLDER.glob("class_*.json"))}


def of_kind(kind):
    return [name for name, case in CASES.items() if case["kind"] == kind]


def with_scores(scores, keys=None):
    """A problem whose scores are the ones given."""
    scores = np.array(scores, dtype=object).astype(float)
    return mm.Problem(scores[..., None], np.ones(scores.shape[-2]), [1.0], K=keys)


@pytest.mark.parametrize("name", of_kind("local_optimality"))
def test_known_choices(name):
    """Ties, neighbors without a multiplier, and an infeasible choice."""
    given, expect = CASES[name]["input"], CASES[name]["expect"]
    found = mm.theory.local_optimality(with_scores(given["scores"], given["K"]), given["alpha"])
    assert found.feasible == (expect["svm_status"] == "optimal")
    assert found.globally_optimal == expect["globally_optimal"]
    if not found.feasible:
        assert found.locally_optimal is False
        assert np.isnan(found.min_score_gap)
        assert not found.neighbors.any()
        return
    assert found.locally_optimal == expect["locally_optimal"]
    assert np.argwhere(found.neighbors).tolist() == sorted(expect["neighbours"])
    np.testing.assert_allclose(found.solution.w, expect["p"], rtol=1e-12)
    gaps = [given["scores"][i][given["alpha"][i]] - given["scores"][i][t] for i, t in expect["neighbours"]]
    assert found.min_score_gap == min(gaps)


@pytest.mark.parametrize("name", of_kind("argmax_selection"))
def test_optimal_tokens(name):
    """The first of tied tokens; NaN is refused."""
    given, expect = CASES[name]["input"], CASES[name]["expect"]
    if "raises" in expect:
        with pytest.raises(ValueError, match="nan"):
            with_scores(given["scores"])
        return
    problem = with_scores(given["scores"])
    assert problem.optimal.tolist() == expect["alpha"]
    assert np.flatnonzero(problem.tied).tolist() == expect["tied_sequences"]
    assert mm.theory.local_optimality(with_scores([[1.0]], [[[5.0]]]), [0]).min_score_gap == np.inf


def test_all_choices_of_a_problem_at_once():
    """Against the definition written out with the multipliers' independent margins, for all 3^3 choices."""
    rng = np.random.default_rng(4)
    X, v = rng.standard_normal((3, 3, 2)), rng.standard_normal(2)
    problem = mm.Problem(X, [1.0, -1.0, 1.0], v)
    choices = np.array(list(np.ndindex(3, 3, 3)))
    found = mm.theory.local_optimality(problem, choices)
    assert found.feasible.shape == (27,)
    assert 0 < found.feasible.sum() < 27
    for index, alpha in enumerate(choices):
        own = problem.scores[np.arange(3), alpha]
        assert found.globally_optimal[index] == np.array_equal(own, problem.scores.max(-1))
        if not found.feasible[index]:
            assert not found.locally_optimal[index]
            continue
        w = found.solution.w[index]
        margins = (X[np.arange(3), alpha][:, None] - X) @ w
        close = (np.abs(margins - 1) < 1e-9) & (np.arange(3) != alpha[:, None])
        np.testing.assert_array_equal(found.neighbors[index], close)
        gap = (own[:, None] - problem.scores)[close].min()
        assert found.min_score_gap[index] == gap
        assert found.locally_optimal[index] == (gap > 0)
    alone = mm.theory.local_optimality(problem, choices[3])
    assert isinstance(alone.feasible, bool)
    assert alone.min_score_gap == found.min_score_gap[3] or np.isnan(found.min_score_gap[3])


def test_the_globally_optimal_choice_is_locally_optimal():
    """Whenever it is feasible and unique (paper, section 3)."""
    rng = np.random.default_rng(0)
    problem = mm.Problem(rng.standard_normal((200, 4, 5, 8)), np.ones((200, 4)), rng.standard_normal((200, 8)))
    found = mm.theory.local_optimality(problem, problem.optimal)
    assert found.globally_optimal.all()
    assert found.feasible.sum() > 100
    np.testing.assert_array_equal(found.locally_optimal, found.feasible)


def test_padding_is_no_token():
    """Its scores and keys count for nothing."""
    X = np.array([[[1.0, 0.0], [0.0, 1.0], [np.nan, np.nan]]])
    problem = mm.Problem(X, [1.0], [1.0, 0.0], lengths=[2])
    found = mm.theory.local_optimality(problem, [0])
    assert found.locally_optimal
    assert found.globally_optimal
    assert found.min_score_gap == 1.0
    assert found == pickle.loads(pickle.dumps(found))


def test_bad_arguments():
    """Named, with what is allowed."""
    with pytest.raises(TypeError, match=r"problem: got list; allowed: a fastmm.Problem"):
        mm.theory.local_optimality([], [0])
    with pytest.raises(ValueError, match=r"selected: entry \[0\] is 2; allowed: 0..1"):
        mm.theory.local_optimality(with_scores([[1.0, 0.0]]), [2])

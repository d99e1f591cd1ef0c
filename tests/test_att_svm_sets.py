"""ATT-SVM' against enumeration, the numbers of Theorem 8's witness, several minimisers, and honest limits."""

from itertools import product

import numpy as np
import pytest
from margin_verify import exact_min_norm

import fastmm as mm

WITNESS = [[[1.0, 0.0], [0.9, 0.9], [0.0, 0.0]], [[0.0, 1.0], [0.5, 0.6], [0.0, 0.0]]]
TWO = [[True, True, False]] * 2


def enumerate_choices(K, sets, solve):
    """Least norm over all choices of one optimal token an input, and the choices that reach it."""
    K = np.asarray(K, float)
    answers = {}
    for choice in product(*(np.flatnonzero(own) for own in sets)):
        A = [K[i, a] - K[i, t] for i, a in enumerate(choice) for t in range(K.shape[1]) if not sets[i][t]]
        w = solve(np.array(A).reshape(-1, K.shape[2]))
        if w is not None:
            answers[choice] = np.array(w, float)
    if not answers:
        return np.inf, {}
    least = min(np.linalg.norm(w) for w in answers.values())
    return least, {c: w for c, w in answers.items() if np.linalg.norm(w) <= least * (1 + 1e-9)}


def by_rows(A):
    answer = mm.min_norm(A, 1.0, throw=False)
    return answer.w if answer.optimal else None


def test_witness_of_theorem_8():
    result = mm.att_svm_sets(WITNESS, TWO)
    np.testing.assert_allclose(result.w, [1 / 9, 1], rtol=1e-14)
    assert np.isclose(result.margin**-2, 82 / 81, rtol=1e-14)
    assert result.selected.tolist() == [1, 0]
    assert len(result.solutions) == 1
    assert result.status == mm.Status.optimal
    assert result.gap == 0
    assert np.isclose(np.degrees(np.arctan2(*result.w[::-1])), 83.660, atol=1e-3)


@pytest.mark.parametrize("seed", range(12))
def test_enumeration(seed):
    """Feasible or not; the answer satisfies every input and no choice is shorter."""
    rng = np.random.default_rng(seed)
    n, T, d = 3, 4, 2
    K = rng.standard_normal((n, T, d))
    sets = rng.random((n, T)) < 0.5
    sets[np.arange(n), rng.integers(0, T, n)] = True
    result = mm.att_svm_sets(K, sets, throw=False)
    least, winners = enumerate_choices(K, sets, by_rows)
    if not winners:
        assert result.status == mm.Status.infeasible
        assert np.isnan(result.w).all()
        assert result.selected.tolist() == [-1] * n
        return
    assert np.isclose(np.linalg.norm(result.w), least, rtol=1e-10)
    assert any(np.allclose(result.w, w, atol=1e-10) for w in winners.values())
    logits = K @ result.w
    for i in range(n):
        if not sets[i].all():
            assert logits[i, sets[i]].max() - logits[i, ~sets[i]].max() >= 1 - 1e-9
            assert logits[i, result.selected[i]] - logits[i, ~sets[i]].max() >= 1 - 1e-9


@pytest.mark.parametrize("seed", range(6))
def test_small_integers_exactly(seed):
    """By rational arithmetic over every choice and every set of active rows."""
    rng = np.random.default_rng(seed)
    K = rng.integers(-2, 3, (2, 3, 2))
    sets = np.array([[True, True, False], [True, False, True]])
    least, winners = enumerate_choices(K, sets, lambda A: exact_min_norm(A.astype(int), np.ones(len(A), int)))
    result = mm.att_svm_sets(K, sets, throw=False)
    assert (result.status == mm.Status.optimal) == bool(winners)
    if winners:
        assert np.isclose(np.linalg.norm(result.w), least, rtol=1e-13)
        distinct = np.unique(np.round(list(winners.values()), 9), axis=0)
        assert len(result.solutions) == len(distinct)


def test_all_minimisers_are_reported():
    """Mirror images have the same norm: two for one input, four for two in different planes."""
    one = [[[1.0, 1.0], [1.0, -1.0], [0.0, 0.0]]]
    result = mm.att_svm_sets(one, [[True, True, False]])
    np.testing.assert_allclose([s.w for s in result.solutions], [[0.5, 0.5], [0.5, -0.5]], rtol=1e-14)
    assert [s.selected.tolist() for s in result.solutions] == [[0], [1]]
    both = np.zeros((2, 3, 4))
    both[0, :, :2], both[1, :, 2:] = one[0], one[0]
    result = mm.att_svm_sets(both, TWO)
    assert [s.selected.tolist() for s in result.solutions] == [[0, 0], [0, 1], [1, 0], [1, 1]]
    assert all(np.isclose(s.margin, 1.0, rtol=1e-14) for s in result.solutions)


def test_single_tokens_are_the_plain_program():
    rng = np.random.default_rng(1)
    K = rng.standard_normal((5, 4, 6))
    selected = (K @ rng.standard_normal(6)).argmax(-1)
    plain = mm.att_svm(K, selected)
    result = mm.att_svm_sets(K, np.arange(4) == selected[:, None])
    np.testing.assert_allclose(result.w, plain.w, atol=1e-13)
    np.testing.assert_allclose(result.solutions[0].dual, plain.dual, atol=1e-13)
    assert result.nodes == 1
    np.testing.assert_array_equal(result.selected, selected)


def test_batches_lengths_and_threads():
    rng = np.random.default_rng(2)
    K = rng.standard_normal((6, 3, 4, 5))
    sets = np.array([[True, True, False, False], [True, False, True, False], [True, False, False, False]])
    lengths = [4, 4, 2]
    K[:, 2, 2:] = np.nan
    batch = mm.att_svm_sets(K, sets, lengths, throw=False)
    assert batch.w.shape == (6, 5)
    assert batch.selected.shape == (6, 3)
    assert len(batch.solutions) == 6
    for k in range(6):
        alone = mm.att_svm_sets(K[k], sets, lengths, throw=False, threads=2)
        assert alone.w.tobytes() == batch.w[k].tobytes()
        assert alone.status == batch.status[k]
        assert alone.nodes == batch.nodes[k]
    assert "batch (6,)" in repr(batch)


def test_nothing_to_beat():
    result = mm.att_svm_sets(np.ones((2, 3, 2)), np.ones((2, 3), bool))
    assert not result.w.any()
    assert result.margin == np.inf
    assert result.selected.tolist() == [0, 0]
    assert mm.att_svm_sets(np.ones((0, 3, 2)), np.ones((0, 3), bool)).margin == np.inf


def test_limits_are_honest():
    """A search cut short says so, keeps its best point, and bounds what is missing."""
    rng = np.random.default_rng(4)
    K, sets = rng.standard_normal((8, 6, 12)), np.zeros((8, 6), bool)
    sets[:, :3] = True
    full = mm.att_svm_sets(K, sets)
    assert full.gap == 0
    cut = mm.att_svm_sets(K, sets, throw=False, max_nodes=1)
    assert cut.status == mm.Status.max_iter
    assert np.isnan(cut.gap) or cut.gap >= 0
    with pytest.raises(mm.NotSolvedError, match="max_nodes"):
        mm.att_svm_sets(K, sets, max_nodes=1)
    assert mm.att_svm_sets(K, sets, throw=False, time_limit=1e-9).status == mm.Status.time_limit
    with pytest.raises(mm.InfeasibleError, match="every choice"):
        mm.att_svm_sets(np.zeros((1, 2, 1)), [[True, False]])


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"sets": np.ones((2, 3))}, TypeError, "sets: got dtype float64; allowed: booleans"),
        ({"sets": np.ones((2, 4), bool)}, ValueError, r"sets: got shape \(2, 4\)"),
        ({"sets": [[True] * 3, [False] * 3]}, ValueError, r"sets: entry \[1\] has no optimal token"),
        ({"sets": [[False, True, False]] * 2, "lengths": [2, 1]}, ValueError, r"sets: entry \[1\] has no optimal"),
        ({"K": np.full((2, 3, 2), np.nan)}, ValueError, "K: entry"),
        ({"K": np.ones((3, 2))}, ValueError, r"K: got shape \(3, 2\)"),
        ({"max_nodes": 0}, ValueError, "max_nodes: got 0"),
        ({"max_nodes": True}, ValueError, "max_nodes: got True"),
    ],
)
def test_bad_input_is_named(change, error, message):
    with pytest.raises(error, match=message):
        mm.att_svm_sets(**{"K": np.ones((2, 3, 2)), "sets": np.ones((2, 3), bool), **change})

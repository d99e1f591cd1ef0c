"""Which rows are in conflict, and derivatives of solutions by the keys."""

import numpy as np
import pytest

import fastmm as mm


def feasible(A, b):
    return mm.min_norm(np.reshape(A, (-1, 2)), b, throw=False).optimal


def test_conflict_is_infeasible_and_irreducible():
    """Leaving out any one row makes the rest feasible."""
    for seed in range(8):
        A = np.random.default_rng(seed).standard_normal((12, 2))
        result = mm.min_norm(A, 1.0, throw=False)
        if result.optimal:
            continue
        rows = [row for (row,) in result.conflict()]
        assert not feasible(A[rows], 1.0)
        assert all(feasible(np.delete(A[rows], k, axis=0), 1.0) for k in range(len(rows)))


def test_conflict_names_inputs_and_tokens():
    K = np.array([[[1.0, 0.0], [0.0, 0.0]], [[0.0, 1.0], [0.0, 0.0]], [[-1.0, 0.0], [0.0, 0.0]]])
    result = mm.att_svm(K, [0, 0, 0], throw=False)
    assert result.conflict() == [(0, 1), (2, 1)]
    with pytest.raises(mm.InfeasibleError, match="inputs 0, 2: token 1 of input 0, token 1 of input 2"):
        mm.att_svm(K, [0, 0, 0])
    with pytest.raises(mm.InfeasibleError, match="In conflict: inputs 0, 2: token 1 of input 0"):
        mm.weight_svm(K, [[2.0]], [0, 0, 0])
    with pytest.raises(mm.InfeasibleError, match="In conflict: inputs 0, 2"):
        mm.label_svm(K[:, 0], [1, 1, 1])
    with pytest.raises(mm.InfeasibleError, match="In conflict: rows 0, 2"):
        mm.min_norm(K[:, 0], 1.0)
    assert mm.label_svm(K[:, 0], [1, 1, 1], throw=False).conflict() == [(0,), (2,)]


def test_conflict_of_a_batch_element():
    K = np.array([[[1.0], [0.0]], [[-1.0], [0.0]]])
    batch = mm.att_svm(K, [[0, 1], [0, 0]], throw=False)
    assert batch.conflict(1) == batch.conflict((1,)) == [(0, 1), (1, 1)]
    with pytest.raises(ValueError, match="has the status optimal"):
        batch.conflict(0)
    with pytest.raises(ValueError, match=r"index: got \(\)"):
        batch.conflict()
    with pytest.raises(mm.InfeasibleError, match="inputs 0, 1"):
        mm.att_svm(K, [[0, 1], [0, 0]])


def test_conflict_with_equality_rows():
    result = mm.min_norm([[1.0, 0.0], [0.0, 1.0]], 1.0, [[1.0, 0.0]], -1.0, throw=False)
    assert result.conflict() == [(0,)]
    assert mm.min_norm([[0.0, 1.0]], 1.0, [[1.0, 0.0], [1.0, 0.0]], [1.0, 2.0], throw=False).conflict() == []


def strict_problem(seed, relaxed=None):
    """Keys whose neighbors all have multipliers well away from 0."""
    rng = np.random.default_rng(seed)
    while True:
        K = rng.standard_normal((4, 5, 6))
        selected = (K @ rng.standard_normal(6)).argmax(-1)
        result = mm.att_svm(K, selected, relaxed)
        others = np.sort(result.dual[result.neighbors])
        if len(others) and others[0] > 1e-3:
            return K, selected, result


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("relaxed", [None, [True, False, False, True]])
def test_gradients_by_finite_differences(seed, relaxed):
    """Along random directions, for w and the margin together and apart."""
    K, selected, result = strict_problem(seed, relaxed)
    rng = np.random.default_rng(seed + 100)
    g, c = rng.standard_normal(6), rng.standard_normal()
    for grad_w, grad_margin in [(g, None), (None, c), (g, c)]:
        gradient = mm.margin_vjp(K, selected, result, grad_w, grad_margin)
        for _ in range(3):
            move, step = rng.standard_normal(K.shape), 1e-6
            ends = [mm.att_svm(K + sign * step * move, selected, relaxed) for sign in (1, -1)]
            found = 0.0
            if grad_w is not None:
                found += grad_w @ (ends[0].w - ends[1].w) / (2 * step)
            if grad_margin is not None:
                found += grad_margin * (ends[0].margin - ends[1].margin) / (2 * step)
            assert np.isclose(np.sum(gradient * move), found, rtol=1e-5, atol=1e-7)


def test_gradients_of_batches_and_of_no_answer():
    pairs = [strict_problem(seed) for seed in range(3)]
    K, selected = (np.array([pair[k] for pair in pairs]) for k in range(2))
    batch = mm.att_svm(K, selected)
    g = np.random.default_rng(0).standard_normal((3, 6))
    gradient = mm.margin_vjp(K, selected, batch, g, [1.0, 2.0, 3.0])
    for k in range(3):
        alone = mm.margin_vjp(K[k], selected[k], pairs[k][2], g[k], k + 1.0)
        np.testing.assert_allclose(gradient[k], alone, rtol=1e-12)
    none = mm.att_svm([[[1.0], [1.0]]], [0], throw=False)
    assert np.isnan(mm.margin_vjp([[[1.0], [1.0]]], [0], none, [1.0])).all()
    free = mm.att_svm([[[1.0]]], [0])
    assert not mm.margin_vjp([[[1.0]]], [0], free, [1.0], 1.0).any()


def test_gradients_of_bad_input():
    K = [[[2.0, 0.0], [0.0, 0.0]]]
    result = mm.att_svm(K, [0])
    with pytest.raises(ValueError, match="got neither"):
        mm.margin_vjp(K, [0], result)
    with pytest.raises(ValueError, match="result: has rows"):
        mm.margin_vjp([[[2.0], [0.0]]], [0], result, [1.0, 0.0])
    with pytest.raises(ValueError, match="do not broadcast"):
        mm.margin_vjp(K, [0], result, [1.0, 0.0, 0.0])

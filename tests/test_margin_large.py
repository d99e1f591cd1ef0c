"""Large ATT-SVMs by passes over the keys: the answers of the active set on all rows, and its statuses."""

from __future__ import annotations

import numpy as np
import pytest

import fastmm as mm
from fastmm.margin import attention_svm, passes


@pytest.fixture
def forced(monkeypatch):
    """Every program counts as large, and few rows are added a pass."""
    monkeypatch.setattr(attention_svm, "LARGE", 0)
    monkeypatch.setattr(passes, "_ADDED", 2)
    monkeypatch.setattr(passes, "_KEPT", 1)


def both(monkeypatch, *args, **kwargs):
    """The answer from all rows, and that from passes."""
    with monkeypatch.context() as own:
        own.setattr(attention_svm, "LARGE", 1 << 62)
        whole = mm.att_svm(*args, throw=False, **kwargs)
    answer = mm.att_svm(*args, throw=False, **kwargs)
    assert answer.solver == "working set"
    assert whole.solver != "working set"
    return whole, answer


def planted(n, T, d, seed):
    """Keys on the sphere and the tokens that a hidden direction selects."""
    random = np.random.default_rng(seed)
    K = random.standard_normal((n, T, d))
    K /= np.linalg.norm(K, axis=-1, keepdims=True)
    return K, (K @ random.standard_normal(d)).argmax(-1)


def same(whole, answer):
    assert answer.status == whole.status
    if whole.optimal:
        np.testing.assert_allclose(answer.w, whole.w, rtol=0, atol=1e-10 * np.linalg.norm(whole.w))
        np.testing.assert_array_equal(answer.neighbors, whole.neighbors)
        assert answer.certificate.ok
        assert not answer.farkas.any()


@pytest.mark.parametrize("seed", range(60))
def test_small_programs_have_the_same_answer(monkeypatch, forced, seed):
    """Feasible ones and others, ragged, relaxed, with equal and with far keys."""
    random = np.random.default_rng([7, seed])
    n, T, d = random.integers(1, 7, 3)
    K = random.standard_normal((n, T, d)) * 10.0 ** random.integers(-3, 4)
    if seed % 3:
        K = np.round(K)  # duplicates, zero rows, parallel rows
    if seed % 4 == 1:
        K += 1e4 * random.standard_normal(d)
    lengths = random.integers(1, T + 1, n) if seed % 2 else None
    relaxed = random.random(n) < 0.3 if seed % 5 == 0 else None
    own = np.full(n, T) if lengths is None else lengths
    u = random.standard_normal(d)
    selected = np.array([(K[i, : own[i]] @ u).argmax() for i in range(n)])
    if seed % 6 == 0:
        selected = random.integers(0, own)
    if lengths is not None:
        for i in range(n):
            K[i, lengths[i] :] = np.nan
    whole, answer = both(monkeypatch, K, selected, relaxed, lengths)
    same(whole, answer)
    if not whole.optimal:
        verify_farkas(K, selected, relaxed, own, answer.farkas)


def verify_farkas(K, selected, relaxed, lengths, y):
    """y >= 0, b·y > 0 and A'y = 0, from the data alone."""
    total, size, value = np.zeros(K.shape[-1]), np.zeros(K.shape[-1]), 0.0
    for i, t in zip(*np.nonzero(y), strict=True):
        assert t < lengths[i]
        assert t != selected[i]
        row = K[i, selected[i]] - K[i, t]
        total += y[i, t] * row
        size += y[i, t] * np.abs(row)
        value += y[i, t] * (0.0 if relaxed is not None and relaxed[i] else 1.0)
    assert (y >= 0).all()
    assert value > 0
    assert (np.abs(total) <= 1e-9 * size + 1e-300).all()


def test_a_large_one_is_certified_from_all_its_rows():
    K, selected = planted(1500, 24, 16, 3)
    answer = mm.att_svm(K, selected)
    assert answer.solver == "working set"
    rows = (K[np.arange(1500), selected][:, None] - K).reshape(-1, 16)
    real = (np.arange(24) != selected[:, None]).ravel()
    assert mm.certify(rows[real], 1.0, answer.w, answer.dual.ravel()[real]).ok
    margins = (rows @ answer.w).reshape(1500, 24)
    np.testing.assert_array_equal(answer.neighbors, (margins <= 1 + 1e-8) & real.reshape(1500, 24))


def test_threads_and_batch_give_the_same_bits():
    K, selected = planted(700, 20, 32, 4)
    one = mm.att_svm(K, selected, threads=1)
    assert one == mm.att_svm(K, selected, threads=2)
    pair = mm.att_svm(np.stack([K, K[::-1]]), np.stack([selected, selected[::-1]]), threads=2)
    np.testing.assert_array_equal(pair.w[0], one.w)
    np.testing.assert_array_equal(pair.dual[0], one.dual)
    assert pair.optimal.all()


def test_float32_keys_are_widened_exactly():
    K, selected = planted(800, 20, 32, 5)
    single = K.astype(np.float32)
    a, b = mm.att_svm(single, selected), mm.att_svm(single.astype(np.float64), selected)
    np.testing.assert_array_equal(a.w, b.w)


def test_a_start_saves_passes(monkeypatch):
    K, selected = planted(1000, 24, 24, 6)
    counts = []
    search = passes._Keys.search
    monkeypatch.setattr(passes._Keys, "search", lambda keys, w: counts.append(1) or search(keys, w))
    cold = mm.att_svm(K, selected)
    passes_cold = len(counts)
    for start, at_most in ((cold, 1), (cold.direction, 4), (cold.dual, 1)):
        counts.clear()
        warm = mm.att_svm(K, selected, start=start)
        assert len(counts) <= at_most < passes_cold
        np.testing.assert_allclose(warm.w, cold.w, rtol=0, atol=1e-11 * np.linalg.norm(cold.w))
        np.testing.assert_array_equal(warm.neighbors, cold.neighbors)


@pytest.mark.parametrize("start", [np.zeros(24), np.full(24, np.nan), -np.ones(24)])
def test_a_useless_start_does_no_harm(start):
    K, selected = planted(900, 24, 24, 8)
    np.testing.assert_allclose(mm.att_svm(K, selected, start=start).w, mm.att_svm(K, selected).w, rtol=1e-9)


def test_limits_have_their_statuses():
    K, selected = planted(1000, 24, 24, 6)
    few = mm.att_svm(K, selected, max_iter=3, throw=False)
    assert few.status == mm.Status.max_iter
    assert np.isnan(few.w).all()
    late = mm.att_svm(K, selected, time_limit=1e-9, throw=False)
    assert late.status == mm.Status.time_limit
    with pytest.raises(mm.NotSolvedError, match="max_iter"):
        mm.att_svm(K, selected, max_iter=3)


def test_an_interrupted_batch_keeps_the_answers_it_has(monkeypatch):
    K, selected = planted(900, 24, 24, 6)
    search, calls = passes._Keys.search, []

    def interrupted(keys, w):
        calls.append(keys)
        if len({id(own) for own in calls}) == 2:
            raise KeyboardInterrupt
        return search(keys, w)

    monkeypatch.setattr(passes._Keys, "search", interrupted)
    with pytest.raises(mm.NotSolvedError, match="interrupted") as caught:
        mm.att_svm(np.stack([K, K, K]), selected)
    result = caught.value.result
    assert result.optimal.tolist() == [True, False, False]
    assert result.certificate[0].ok
    assert np.isnan(result.best[1:]).all()


def test_an_infeasible_one_names_its_inputs():
    K, selected = planted(1000, 24, 24, 6)
    K[17] = K[400]  # the same keys with another token selected cannot both be separated
    selected[17] = (selected[400] + 1) % 24
    with pytest.raises(mm.InfeasibleError, match="inputs ") as caught:
        mm.att_svm(K, selected)
    verify_farkas(K, selected, None, np.full(1000, 24), caught.value.result.farkas)


def test_one_token_an_input_leaves_nothing_to_separate(forced):
    answer = mm.att_svm(np.ones((3, 1, 2)), [0, 0, 0])
    np.testing.assert_array_equal(answer.w, 0)
    assert answer.margin == np.inf
    assert mm.att_svm(np.ones((0, 4, 2)), np.zeros(0, int)).margin == np.inf

"""W-SVM with the nuclear norm: certified by weak duality in the test, ranks, and what is degenerate."""

import numpy as np
import pytest
from weight_helpers import CASES, notebook, rows_of, spherical, tokens_of_case, verify_nuclear

import fastmm as mm


def rank(W):
    singular = np.linalg.svd(W, compute_uv=False)
    return int(np.sum(singular > 1e-7 * singular[0]))


@pytest.mark.parametrize("name", [name for name in CASES if "nuclear_norm" in CASES[name]["expect"]])
def test_cases(name):
    """Values known exactly; one row may be active without a multiplier, one may stand there twice."""
    case = CASES[name]
    X, Z, selected = tokens_of_case(case)
    result = mm.weight_svm(X, Z, selected, norm="nuc")
    A, _, rows = rows_of(X, Z, selected)
    verify_nuclear(A, result, rows)
    assert np.isclose(1 / result.margin, case["expect"]["nuclear_norm"], rtol=1e-12)
    np.testing.assert_allclose(result.w, np.array(case["expect"]["one_W"], float).T, atol=1e-7)


@pytest.mark.parametrize(
    ("number", "value", "W", "singular"),
    [
        (1, 9.754810, [[0.48671, 0.46926], [7.00554, 6.75438]], [9.754810, 0]),
        (2, 1.872604, [[0.99375, -1.25966], [-0.13325, -0.25784]], [1.6091, 0.2636]),
    ],
)
def test_notebooks(number, value, W, singular):
    """The published figures to their digits; the first solution has rank one, that of the Frobenius norm two."""
    X, Z, selected = notebook(number)
    result = mm.weight_svm(X, Z, selected, norm="nuc")
    A, _, rows = rows_of(X, Z, selected)
    verify_nuclear(A, result, rows, 1e-12)
    assert np.isclose(1 / result.margin, value, rtol=2e-6)
    np.testing.assert_allclose(result.w.T, W, atol=2e-5)
    np.testing.assert_allclose(np.linalg.svd(result.w, compute_uv=False), singular, atol=5e-5)
    assert rank(mm.weight_svm(X, Z, selected).w) == 2


@pytest.mark.parametrize(
    ("n", "T", "d", "d_q", "count"),
    [(6, 8, 10, 10, 15), (10, 10, 20, 20, 3), (2, 2, 2, 2, 20), (5, 10, 4, 4, 10), (3, 4, 12, 2, 10), (12, 6, 3, 9, 5)],
)
def test_certified(n, T, d, d_q, count):
    """Far inside the contract, with a margin no larger and a rank no higher than for the Frobenius norm."""
    X, Z, selected = (np.array(part) for part in zip(*(spherical(s, n, T, d, d_q) for s in range(count)), strict=True))
    batch, frobenius = mm.weight_svm(X, Z, selected, "nuc", throw=False), mm.weight_svm(X, Z, selected, throw=False)
    np.testing.assert_array_equal(batch.status, frobenius.status)
    for k in np.flatnonzero(batch.optimal):
        A, _, rows = rows_of(X[k], Z[k], selected[k])
        single = mm.weight_svm(X[k], Z[k], selected[k], "nuc")
        verify_nuclear(A, single, rows, 1e-12)
        assert single.margin <= frobenius.margin[k] * (1 + 1e-12)
        assert rank(single.w) <= rank(frobenius.w[k])


def test_ranks_of_the_rank_study():
    """n=T=10: the mean rank of the nuclear solutions stays far below min(n, d), where that of the Frobenius norm is."""
    for d in (5, 10, 15):
        found = []
        for seed in range(6):
            X, Z, selected = spherical(100 + seed, 10, 10, d)
            pair = [mm.weight_svm(X, Z, selected, norm, throw=False) for norm in ("fro", "nuc")]
            if pair[0].optimal:
                found.append([rank(answer.w) for answer in pair])
        frobenius, nuclear = np.mean(found, axis=0)
        assert frobenius == min(10, d)
        assert nuclear < 0.8 * frobenius or d == 5


@pytest.mark.parametrize("copies", [2, 30])
def test_copies_of_rows(copies):
    """Repeated tokens and repeated inputs change nothing but how the multipliers are split."""
    X, Z, selected = spherical(11, 3, 3, 4)
    once = mm.weight_svm(X, Z, selected, "nuc")
    wide = np.concatenate([X, np.repeat(X[:, 2:], copies, axis=1)], axis=1)[:, :, :]
    wide[np.arange(3), 3:] = np.where(
        (selected == 2)[:, None, None], X[:, :1], X[:, 2:]
    )  # copies of a token that is not selected
    for X2, Z2, s2 in [
        (wide, Z, selected),
        (np.repeat(X, copies, 0), np.repeat(Z, copies, 0), np.repeat(selected, copies)),
    ]:
        result = mm.weight_svm(X2, Z2, s2, "nuc")
        A, _, rows = rows_of(X2, Z2, s2)
        verify_nuclear(A, result, rows)
        assert np.isclose(result.margin, once.margin, rtol=1e-9)


def test_one_input_and_one_feature():
    """In both cases the solution has rank one and is that of the Frobenius norm."""
    for X, Z, selected in (spherical(1, 1, 6, 5), spherical(2, 5, 3, 1, 3)):
        fro = mm.weight_svm(X, Z, selected, throw=False)
        nuc = mm.weight_svm(X, Z, selected, "nuc", throw=False)
        assert fro.status == nuc.status
        if fro.optimal:
            A, _, rows = rows_of(X, Z, selected)
            verify_nuclear(A, nuc, rows, 1e-13)
            np.testing.assert_allclose(nuc.w, fro.w, rtol=1e-13)


def test_several_solutions():
    """Rows e1 e1' and e2 e2' alone: every [[1, a], [b, 1]] with singular values that sum to 2 solves; one is given."""
    X = np.array([[[1.0, 0.0], [0.0, 0.0]], [[0.0, 1.0], [0.0, 0.0]]])
    result = mm.weight_svm(X, np.eye(2), [0, 0], "nuc")
    A, _, rows = rows_of(X, np.eye(2), [0, 0])
    verify_nuclear(A, result, rows)
    assert np.isclose(1 / result.margin, 2, rtol=1e-9)


@pytest.mark.parametrize("size", [1e-20, 1e-6, 1e6, 1e20])
def test_scales(size):
    """The value scales with the tokens, whole inputs may differ in size by the same factors."""
    X, Z, selected = spherical(9, 4, 4, 5)
    plain = mm.weight_svm(X, Z, selected, "nuc")
    scaled = mm.weight_svm(X * size, Z, selected, "nuc")
    assert np.isclose(scaled.margin / size, plain.margin, rtol=1e-9)
    Z[0] *= size
    X[1] *= size
    A, _, rows = rows_of(X, Z, selected)
    uneven = mm.weight_svm(X, Z, selected, "nuc", throw=False)
    assert uneven.status.name in ("optimal", "ill_conditioned")
    if uneven.optimal:
        verify_nuclear(A, uneven, rows)

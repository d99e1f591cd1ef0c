"""W-SVM with the Frobenius norm: known answers, the same program in whole rows, batches, degenerate input."""

import numpy as np
import pytest
from margin_verify import same_bits, verify
from weight_helpers import CASES, notebook, rows_of, spherical, tokens_of_case

import fastmm as mm


@pytest.mark.parametrize("name", [name for name in CASES if "fro" in name])
@pytest.mark.parametrize("solver", ["active-set", "osqp"])
def test_cases(name, solver):
    """Answers known in rational numbers; a non-symmetric one tells z' W x from x' W z."""
    case = CASES[name]
    X, Z, selected = tokens_of_case(case)
    result = mm.weight_svm(X, Z, selected, solver=solver)
    np.testing.assert_allclose(result.w, np.array(case["expect"]["W"]).T, atol=1e-15)
    A, b, rows = rows_of(X, Z, selected)
    verify(A, b, result, rows=rows)
    assert np.flatnonzero(rows(result.neighbors)).tolist() == case["expect"]["active_rows"]
    assert np.isclose(0.5 / result.margin**2, case["expect"]["objective_half_fro2"], rtol=1e-14)


@pytest.mark.parametrize(
    ("number", "norm", "W", "singular"),
    [
        (1, 8.685735, [[2.85363, -2.70286], [5.37136, 5.58049]], [7.7456, 3.9303]),
        (2, 1.526360, [[0.79255, -1.08647], [-0.63303, -0.34711]], None),
    ],
)
def test_notebooks(number, norm, W, singular):
    """The published figures, in their convention (x' W z) and to their digits; the data are float32 draws."""
    X, Z, selected = notebook(number)
    result = mm.weight_svm(X, Z, selected)
    assert np.isclose(1 / result.margin, norm, rtol=2e-6)
    np.testing.assert_allclose(result.w.T, W, atol=2e-4)
    if singular:
        np.testing.assert_allclose(np.linalg.svd(result.w, compute_uv=False), singular, atol=2e-4)


@pytest.mark.parametrize(
    ("n", "T", "d", "d_q"),
    [(6, 8, 10, 10), (3, 4, 12, 7), (9, 3, 4, 3), (2, 2, 30, 20), (12, 6, 5, 9), (1, 5, 6, 2), (7, 2, 1, 4)],
)
def test_agrees_with_whole_rows(n, T, d, d_q):
    """Fewer inputs than query dimensions, fewer rows than token dimensions, and neither."""
    for seed in range(5):
        X, Z, selected = spherical(seed, n, T, d, d_q)
        A, b, rows = rows_of(X, Z, selected)
        result = mm.weight_svm(X, Z, selected, throw=False)
        other = mm.min_norm(A, b, throw=False)
        assert result.status == other.status
        verify(A, b, result, rows=rows, opinion=False)
        if result.optimal:
            np.testing.assert_allclose(result.w.ravel(), other.w, atol=1e-12 * np.linalg.norm(other.w))
            assert max(result.certificate.primal, result.certificate.stationarity, result.certificate.gap) < 1e-12
            np.testing.assert_array_equal(rows(result.neighbors), other.neighbors)


@pytest.mark.parametrize("norm", ["fro", "nuc"])
def test_a_shared_query_gives_the_prompt_program(norm):
    """``W = u p' / ||u||²`` whatever the number of inputs, as one query or written out for each."""
    rng = np.random.default_rng(5)
    K, u = rng.standard_normal((4, 5, 6)), rng.standard_normal((1, 3))
    selected = (K @ rng.standard_normal(6)).argmax(-1)
    p = mm.att_svm(K, selected)
    result = mm.weight_svm(K, u, selected, norm)
    want = np.outer(u[0], p.w) / (u[0] @ u[0])
    np.testing.assert_allclose(result.w, want, atol=1e-14 * np.abs(want).max())
    np.testing.assert_array_equal(result.neighbors, p.neighbors)
    assert np.isclose(result.margin, p.margin * np.linalg.norm(u), rtol=1e-14)
    written = mm.weight_svm(K, np.repeat(u, 4, axis=0), selected, norm)
    np.testing.assert_allclose(written.w, want, atol=1e-13 * np.abs(want).max())


def test_frobenius_rank():
    """The solution is a sum of min(n, d) terms ``z δ'`` at most."""
    for n, d in [(3, 8), (8, 4)]:
        X, Z, selected = spherical(1, n, 5, d)
        singular = np.linalg.svd(mm.weight_svm(X, Z, selected).w, compute_uv=False)
        assert np.sum(singular > 1e-12 * singular[0]) <= min(n, d)


@pytest.mark.parametrize("norm", ["fro", "nuc"])
def test_batch_equals_loop(norm):
    """Feasible and infeasible programs mixed, in every bit, for any number of threads."""
    many = [spherical(seed, 3, 4, 4) for seed in range(40)]
    X, Z, selected = (np.array(part) for part in zip(*many, strict=True))
    selected[::3, 0] = 0
    X[::3, 0, 1] = X[::3, 0, 0]  # a copy of the selected token: 0 >= 1
    batch = mm.weight_svm(X, Z, selected, norm, throw=False)
    assert {0, 1} <= set(batch.status.tolist())
    for k in range(40):
        alone = mm.weight_svm(X[k], Z[k], selected[k], norm, throw=False)
        for name in ("w", "direction", "margin", "dual", "neighbors", "farkas", "best", "iterations", "status"):
            whole = np.asarray(getattr(batch, name))[k]
            assert np.asarray(getattr(alone, name)).astype(whole.dtype).tobytes() == whole.tobytes(), name
    same_bits(batch, mm.weight_svm(X, Z, selected, norm, throw=False, threads=3))


@pytest.mark.parametrize("norm", ["fro", "nuc"])
def test_leading_dimensions_broadcast(norm):
    X, Z, _ = spherical(2, 2, 3, 4)
    choices = np.array(list(np.ndindex(3, 3)))
    result = mm.weight_svm(X, Z, choices, norm, throw=False)
    assert result.w.shape == result.direction.shape == result.best.shape == (9, 4, 4)
    assert result.dual.shape == result.neighbors.shape == result.farkas.shape == (9, 2, 3)
    assert result.margin.shape == result.status.shape == (9,)
    np.testing.assert_array_equal(result.w[4], mm.weight_svm(X, Z, choices[4], norm, throw=False).w)
    assert "batch (9,)" in repr(result)
    several = mm.weight_svm(X, np.stack([Z, Z[::-1]])[:, None], choices, norm, throw=False)
    assert several.w.shape == (2, 9, 4, 4)
    np.testing.assert_array_equal(several.w[0], result.w)


@pytest.mark.parametrize("norm", ["fro", "nuc"])
def test_infeasible(norm):
    """One dimension and opposite rows, and three points that surround the origin: proved by the same weights."""
    around = [[[0.0, 0], [1, 0], [0, 1], [-1, -1]]], [[1.0, 2.0]], [0]
    for X, Z, selected in (tokens_of_case(CASES["wsvm_nuc_d1_infeasible"]), around):
        result = mm.weight_svm(X, Z, selected, norm, throw=False)
        A, b, rows = rows_of(X, Z, selected)
        assert result.status.name == "infeasible"
        verify(A, b, result, rows=rows)
        with pytest.raises(mm.InfeasibleError, match="weight_svm") as error:
            mm.weight_svm(X, Z, selected, norm)
        assert error.value.result == result


@pytest.mark.parametrize("norm", ["fro", "nuc"])
@pytest.mark.parametrize("shape", [(0, 3, 2), (3, 1, 2), (1, 1, 1)])
def test_nothing_to_separate(norm, shape):
    result = mm.weight_svm(np.zeros(shape), np.ones((shape[0], 5)), np.zeros(shape[0], int), norm)
    assert result.w.shape == (5, shape[2])
    assert not result.w.any()
    assert result.margin == np.inf
    assert np.isnan(result.direction).all()
    assert result.certificate.ok
    assert not result.neighbors.any()


@pytest.mark.parametrize("norm", ["fro", "nuc"])
def test_padding_is_not_read(norm):
    X, Z, selected = spherical(3, 3, 5, 4)
    selected = np.minimum(selected, 1)
    lengths = np.array([2, 5, 1])
    selected[2] = 0
    X[0, 2:] = np.nan
    X[2, 1:] = np.nan
    result = mm.weight_svm(X, Z, selected, norm, lengths, throw=False)
    A, b, rows = rows_of(X, Z, selected, lengths)
    assert not result.neighbors[2].any()
    assert not result.dual[2].any()
    if norm == "fro":
        verify(A, b, result, rows=rows)
    fewer = mm.weight_svm(X[:2], Z[:2], selected[:2], norm, lengths[:2])
    np.testing.assert_allclose(result.w, fewer.w, atol=1e-12 * np.abs(fewer.w).max())
    with pytest.raises(ValueError, match=r"X: entry \[0, 2, 0\] is nan"):
        mm.weight_svm(X, Z, selected, norm, [3, 5, 1])


def test_float32_is_widened_before_it_is_subtracted():
    X, Z, selected = spherical(4, 3, 4, 5)
    small = X.astype(np.float32)
    same_bits(mm.weight_svm(small, Z, selected), mm.weight_svm(small.astype(float), Z, selected))


def test_any_start_gives_the_answer():
    """A previous answer, a point, multipliers, and nonsense."""
    X, Z, selected = spherical(6, 4, 5, 6)
    cold = mm.weight_svm(X, Z, selected)
    for start in (cold, cold.w, cold.dual, -cold.w, np.ones((4, 5))):
        warm = mm.weight_svm(X, Z, selected, start=start)
        np.testing.assert_allclose(warm.w, cold.w, atol=1e-14 * np.abs(cold.w).max())
    assert mm.weight_svm(X, Z, selected, start=cold).iterations < cold.iterations
    with pytest.raises(ValueError, match=r"start: got shape \(3,\); allowed: .* a point \(..., 6, 6\)"):
        mm.weight_svm(X, Z, selected, start=np.ones(3))


@pytest.mark.parametrize("scale", [1e-30, 1e-8, 1e9, 1e30])
def test_scales(scale):
    """All tokens, or one feature of them: the second is beyond the bases, and the whole rows are taken."""
    X, Z, selected = spherical(7, 3, 4, 9)
    plain = mm.weight_svm(X, Z, selected)
    scaled = mm.weight_svm(X * scale, Z, selected)
    np.testing.assert_allclose(scaled.w * scale, plain.w, atol=1e-13 * np.abs(plain.w).max())
    X[..., 2] *= scale
    A, b, rows = rows_of(X, Z, selected)
    result, whole = mm.weight_svm(X, Z, selected, throw=False), mm.min_norm(A, b, throw=False)
    assert result.status == whole.status
    assert result.optimal or scale == 1e30
    if result.optimal:
        verify(A, b, result, rows=rows, opinion=False)


def test_sizes_out_of_range_are_not_called_solved():
    result = mm.weight_svm([[[1e200], [0.0]]], [[1e200]], [0], throw=False)
    assert result.status.name == "ill_conditioned"


@pytest.mark.parametrize("norm", ["fro", "nuc"])
@pytest.mark.parametrize("limit", [{"max_iter": 1}, {"time_limit": 1e-9}])
def test_limits_show_in_the_status(norm, limit):
    X, Z, selected = spherical(8, 6, 8, 10)
    result = mm.weight_svm(X, Z, selected, norm, throw=False, **limit)
    assert result.status.name in limit
    assert np.isnan(result.w).all()
    assert not result.dual.any()
    with pytest.raises(mm.NotSolvedError):
        mm.weight_svm(X, Z, selected, norm, **limit)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"norm": "l1"}, ValueError, "norm: got 'l1'; allowed: "),
        ({"norm": 1}, ValueError, "norm: got 1; allowed: "),
        ({"norm": "nuc", "solver": "osqp"}, ValueError, "solver: got 'osqp'; allowed: 'auto', 'interior-point'"),
        (
            {"solver": "interior-point"},
            ValueError,
            "solver: got 'interior-point'; allowed: 'auto', 'active-set', 'osqp'",
        ),
        ({"Z": np.ones((2, 4))}, ValueError, r"Z: got shape \(2, 4\); allowed: \(..., n=3, d_q\) or \(..., 1, d_q\)"),
        ({"Z": np.ones((3, 0))}, ValueError, r"Z: got shape \(3, 0\)"),
        ({"Z": np.ones(3)}, ValueError, r"Z: got shape \(3,\); allowed: \(..., n, d_q\)"),
        ({"Z": np.full((3, 2), np.nan)}, ValueError, r"Z: entry \[0, 0\] is nan"),
        ({"Z": np.ones((3, 2)) * 1j}, TypeError, "Z: got complex"),
        ({"X": np.ones((3, 4))}, ValueError, r"X: got shape \(3, 4\); allowed: \(..., n, T, d\)"),
        ({"X": np.ones((3, 4, 0))}, ValueError, r"X: got shape \(3, 4, 0\)"),
        ({"selected": [0, 1, 4]}, ValueError, r"selected: entry \[2\] is 4; allowed: 0..3"),
        ({"lengths": [0, 1, 1]}, ValueError, r"lengths: entry \[0\] is 0"),
        ({"Z": np.ones((2, 3, 2)), "X": np.ones((5, 3, 4, 2))}, ValueError, "batch dimensions do not broadcast"),
    ],
)
def test_bad_input_is_named(change, error, message):
    given = {"X": np.ones((3, 4, 2)), "Z": np.ones((3, 2)), "selected": [0, 0, 0], **change}
    with pytest.raises(error, match=message):
        mm.weight_svm(**given)

"""Programs of least l_p norm: duality checked in the test, published numbers, closed forms."""

import numpy as np
import pytest
from scipy.optimize import minimize
from weight_helpers import rows_of

import fastmm as mm

POWERS = [1.1, 1.25, 1.75, 2.5, 3, 6, 10]


def verify(A, b, w, dual, p, margin, tolerance=1e-9):
    """Weak duality: ``||w||_p >= max b·λ / ||A'λ||_q``, here with both sides feasible and equal."""
    q = p / (p - 1)
    assert np.all(A @ w >= b - tolerance * np.where(b != 0, np.abs(b), np.linalg.norm(A, axis=1) * np.linalg.norm(w)))
    assert np.all(dual >= 0)
    value = np.sum(np.abs(w) ** p) ** (1 / p)
    made = A.T @ dual
    assert abs(b @ dual / np.sum(np.abs(made) ** q) ** (1 / q) - value) <= tolerance * value
    shape = np.sign(made) * np.abs(made) ** (q - 1)
    np.testing.assert_allclose(w, shape, atol=1e-5 * np.abs(w).max())
    assert np.isclose(margin * value, 1, rtol=1e-12)


@pytest.mark.parametrize("p", POWERS)
def test_random_programs(p):
    for seed in range(3):
        rng = np.random.default_rng(seed)
        A = rng.standard_normal((20, 6))
        A *= np.sign(A @ rng.standard_normal(6))[:, None]
        b = np.ones(20) if seed else rng.uniform(-0.5, 2, 20)
        result = mm.min_norm(A, b, norm=p)
        verify(A, b, result.w, result.dual, p, result.margin)
        assert result.certificate.ok
        assert result.solver == "barrier"
        np.testing.assert_array_equal(result.neighbors, A @ result.w <= b + 1e-8 * np.abs(b))


@pytest.mark.parametrize("p", POWERS)
def test_one_row_in_closed_form(p):
    """``w = sign(a)|a|^{q-1} / ||a||_q^q``, the equality case of Hölder's inequality."""
    a = np.array([3.0, -4.0, 1.0, 0.0])
    q = p / (p - 1)
    result = mm.min_norm([a], 1.0, norm=p)
    np.testing.assert_allclose(result.w, np.sign(a) * np.abs(a) ** (q - 1) / np.sum(np.abs(a) ** q), rtol=1e-9)
    assert np.isclose(result.margin, np.sum(np.abs(a) ** q) ** (1 / q), rtol=1e-10)


def test_another_solver_agrees():
    rng = np.random.default_rng(7)
    K = rng.standard_normal((3, 4, 5))
    selected = (K @ rng.standard_normal(5)).argmax(-1)
    A = np.array([K[i, selected[i]] - K[i, t] for i in range(3) for t in range(4) if t != selected[i]])
    for p in (1.5, 3.0):
        result = mm.att_svm(K, selected, norm=p)
        other = minimize(
            lambda w, p=p: np.sum(np.abs(w) ** p),
            mm.att_svm(K, selected).w,
            constraints={"type": "ineq", "fun": lambda w: A @ w - 1},
            method="SLSQP",
            options={"ftol": 1e-14, "maxiter": 500},
        )
        np.testing.assert_allclose(result.w, other.x, atol=1e-4 * np.abs(other.x).max())
        assert result.dual.shape == (3, 4)


@pytest.mark.parametrize(
    ("p", "selected", "norm", "W", "head"),
    [
        (1.75, (1, 0), 0.25394, [[-0.0818, -0.06274], [-0.07767, 0.19851]], None),
        (2, (1, 0), 0.23613, [[-0.08392, -0.0675], [-0.07944, 0.19454]], (0.02551, 0.45918)),
        (3, (0, 0), 0.21018, [[0.10982, -0.03228], [-0.06664, 0.19687]], (-0.18315, 0.42125)),
    ],
)
def test_published_joint_example(p, selected, norm, W, head):
    """The matrices and heads of the mirror-descent paper's example, in its convention x' W z."""
    X = np.array([[[-2.7, 1.2], [1.4, 2.1], [1.3, -0.1]], [[0.4, -2.2], [-1.1, -0.4], [0.9, 0.1]]])
    result = mm.weight_svm(X, X[:, 0], selected, norm=p)
    assert np.isclose(1 / result.margin, norm, atol=1e-5)
    np.testing.assert_allclose(result.w.T, W, atol=2e-5)
    A, b, rows = rows_of(X, X[:, 0], selected)
    verify(A, b, result.w.ravel(), rows(result.dual), p, result.margin)
    if head:
        R = X[np.arange(2), selected]
        np.testing.assert_allclose(mm.label_svm(R, [1, -1], norm=p).w, head, atol=2e-5)


@pytest.mark.parametrize("p", [1.5, 4.0])
def test_relaxed_infeasible_and_empty(p):
    K = np.array([[[1.0, 0.5], [0.0, 0.0]], [[0.2, -1.0], [0.0, 0.0]]])
    relaxed = mm.att_svm(K, [0, 0], relaxed=[False, True], norm=p)
    A = K[:, 0]
    verify(A, np.array([1.0, 0.0]), relaxed.w, relaxed.dual[:, 1], p, relaxed.margin)
    with pytest.raises(mm.InfeasibleError):
        mm.min_norm([[1.0], [-1.0]], 1.0, norm=p)
    assert mm.att_svm([[[1.0]]], [0], norm=p).margin == np.inf


@pytest.mark.parametrize("p", [1.5, 4.0])
def test_batches_and_copies(p):
    rng = np.random.default_rng(3)
    A = np.abs(rng.standard_normal((4, 6, 3)))
    batch = mm.min_norm(A, 1.0, norm=p)
    for k in range(4):
        assert mm.min_norm(A[k], 1.0, norm=p).w.tobytes() == batch.w[k].tobytes()
    copied = mm.min_norm(np.concatenate([A[0], A[0], A[0]]), 1.0, norm=p)
    np.testing.assert_allclose(copied.w, batch.w[0], atol=1e-6)
    verify(np.concatenate([A[0]] * 3), np.ones(18), copied.w, copied.dual, p, copied.margin)
    np.testing.assert_allclose(mm.min_norm(1e6 * A[0], 1.0, norm=p).w * 1e6, batch.w[0], rtol=1e-6)


def test_limits_and_bad_input():
    A = np.abs(np.random.default_rng(4).standard_normal((9, 5)))
    assert mm.min_norm(A, 1.0, norm=3, throw=False, max_iter=6).status in (mm.Status.max_iter, mm.Status.optimal)
    assert mm.min_norm(A, 1.0, norm=3, throw=False, time_limit=1e-9).status == mm.Status.time_limit
    for bad in (1, 0.5, np.inf, np.nan, True, "two"):
        with pytest.raises(ValueError, match=r"norm: got .*; allowed: p of an l_p norm"):
            mm.min_norm(A, 1.0, norm=bad)
    with pytest.raises(ValueError, match="E: got equality rows with norm=3"):
        mm.min_norm(A, 1.0, A[:1], 1.0, norm=3)

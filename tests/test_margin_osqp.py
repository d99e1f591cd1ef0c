"""OSQP as a backend: quiet, finished by the active set, judged like any other."""

import numpy as np
import pytest
from margin_verify import att_rows, verify

import fastmm as mm


def test_agrees_with_the_active_set(capfd):
    """Same points and neighbors, and not a word printed."""
    rng = np.random.default_rng(0)
    K = rng.standard_normal((10, 4, 5, 6))
    selected = rng.integers(0, 5, (10, 4))
    own = mm.att_svm(K, selected, throw=False)
    other = mm.att_svm(K, selected, throw=False, solver="osqp")
    assert other.solver == "osqp"
    np.testing.assert_array_equal(own.status, other.status)
    np.testing.assert_allclose(own.w, other.w, rtol=1e-12, atol=1e-13)
    np.testing.assert_array_equal(own.neighbors, other.neighbors)
    assert (other.iterations > own.iterations).all()
    assert capfd.readouterr() == ("", "")


def test_one_program_of_each_kind():
    """Relaxed inputs, padding, equalities, labels."""
    K = np.array([[[1.0, 2.0], [0.0, 1.0], [np.nan, np.nan]], [[2.0, 0.0], [0.0, 0.0], [1.0, -2.0]]])
    A, b, rows = att_rows(K, [0, 0], [True, False], [2, 3])
    verify(A, b, mm.att_svm(K, [0, 0], [True, False], [2, 3], solver="osqp"), rows=rows)
    R, Y = np.array([[1.0, 0.5], [-1.0, 2.0]]), np.array([1.0, -1.0])
    verify(Y[:, None] * R, np.ones(2), mm.label_svm(R, Y, solver="osqp"))
    E, e = np.array([[1.0, 1.0, 1.0]]), np.array([1.0])
    A = np.array([[1.0, 0.0, -1.0], [0.0, 0.0, 0.0]])
    verify(A, np.array([2.0, -1.0]), mm.min_norm(A, [2.0, -1.0], E, e, solver="osqp"), E=E, e=e)
    assert mm.min_norm(np.zeros((0, 2)), np.zeros(0), solver="osqp").margin == np.inf


def test_same_bits_in_every_run():
    """Nothing is decided by the clock."""
    rng = np.random.default_rng(1)
    A = rng.standard_normal((40, 12)) + 0.5
    runs = [mm.min_norm(A, 1.0, solver="osqp") for _ in range(3)]
    assert runs[0] == runs[1] == runs[2]


@pytest.mark.parametrize("limit", [{"max_iter": 1}, {"time_limit": 1e-9}])
def test_limits(limit):
    """A limit of OSQP alone only means a worse start; the active set's limit is the answer's."""
    A = np.array([[1.0, -1.0], [1.0, 2.0], [0.0, 1.0], [3.0, -1.0], [-1.0, 3.0]])
    result = mm.min_norm(A, [-1.0, 4.0, 2.0, 3.0, 3.0], solver="osqp", throw=False, **limit)
    assert result.status.name in (*limit, "optimal")
    assert result.optimal == (not np.isnan(result.w).any())


def test_strided_rows_are_read_right():
    """OSQP itself reads strided vectors wrongly; contiguous float64 is what it gets."""
    wide = np.zeros((4, 6))
    wide[::2, ::2] = [[2.0, 1.0, 0.0], [1.0, 2.0, 0.0]]
    right = np.zeros(4)
    right[::2] = 1.0
    np.testing.assert_allclose(mm.min_norm(wide[::2, ::2], right[::2], solver="osqp").w, [1 / 3, 1 / 3, 0], rtol=1e-14)

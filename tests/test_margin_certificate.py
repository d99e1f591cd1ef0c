"""The certificate: agrees with the solver's own, refuses everything else, at any scale."""

import numpy as np
import pytest

import fastmm as mm

A = np.array([[2.0, 1.0], [1.0, 2.0], [3.0, 3.0]])
W, DUAL = np.array([1 / 3, 1 / 3]), np.array([1 / 9, 1 / 9, 0])


def test_agrees_with_the_solver_on_a_batch():
    """The compiled residuals and those of certify are the same up to the rounding both allow in plain sums."""
    rng = np.random.default_rng(5)
    rows, b = rng.standard_normal((50, 12, 5)), rng.uniform(-1, 1, (50, 12))
    rows[..., 0] += 2
    E, e = rng.standard_normal((50, 1, 5)), rng.standard_normal((50, 1))
    result = mm.min_norm(rows, b, E, e)
    own = result.certificate
    found = mm.certify(rows, b, result.w, result.dual, E, e, result.dual_equality)
    assert found.ok.all()
    for name in ("primal", "stationarity", "gap", "dual_sign"):
        np.testing.assert_allclose(getattr(own, name), getattr(found, name), rtol=0, atol=1e-12)
    fitted = mm.certify(rows, b, result.w, result.dual, E, e)  # multipliers of the equalities found by least squares
    assert fitted.ok.all()


@pytest.mark.parametrize("size", [1e-8, 1e-7, 1e-3])
def test_refuses_any_perturbation(size):
    """A point, a multiplier or a right-hand side off by more than the tolerance."""
    b = np.ones(3)
    assert mm.certify(A, b, W, DUAL).ok
    assert mm.certify(A, b, W * (1 - size), DUAL).primal == pytest.approx(size)
    assert not mm.certify(A, b, W * (1 - size), DUAL).ok
    assert not mm.certify(A, b, W * (1 + size), DUAL).ok
    assert not mm.certify(A, b, W, DUAL + np.array([size, 0, 0])).ok
    assert not mm.certify(A, b, W, DUAL * (1 + 4 * size)).ok
    assert not mm.certify(A, b * (1 + size), W, DUAL).ok


def test_a_negative_multiplier_is_not_ok():
    """However small, and reported relative to the largest."""
    found = mm.certify(A, 1.0, W, DUAL - np.array([0, 0, 1e-15]))
    assert found.dual_sign == pytest.approx(9e-15)
    assert not found.ok


def test_not_finite_is_not_ok():
    """NaN and infinite points and multipliers give NaN residuals instead of an exception."""
    for w, dual in ((W * np.nan, DUAL), (W + np.inf, DUAL), (W, DUAL * np.nan)):
        found = mm.certify(A, 1.0, w, dual)
        assert np.isnan(found.primal)
        assert not found.ok


@pytest.mark.parametrize("power", [-900, -400, 0, 400, 900])
def test_any_scale(power):
    """Rows and right-hand sides times the same power of two: the same residuals."""
    base = mm.certify(A, 1.0, W * 1.25, DUAL)
    found = mm.certify(np.ldexp(A, power), np.ldexp(1.0, power), W * 1.25, np.ldexp(DUAL, -power))
    assert found == base


def test_each_row_counts_relative_to_its_own_right_hand_side():
    """p_2 = 0 misses the second row wholly, though the violation is nothing beside the first row's numbers."""
    rows = [[1e-8, 0.0], [0.0, 1e8]]
    assert mm.certify(rows, 1.0, [1e8, 1e-8], [1e16, 1e-16]).ok
    assert mm.certify(rows, 1.0, [1e8, 0.0], [1e16, 0.0]).primal == 1.0


def test_products_lost_in_rounding_are_summed_exactly():
    """a'w - b is 2**-30 where a and w have entries of 1e8: plain sums give anything."""
    big = 2.0**27
    row = np.array([big + 1, -big, 1.0])
    w = np.array([big - 1, big, 2.0])  # (big**2 - 1) - big**2 + 2 = 1
    assert mm.certify([row], 1.0, w, [1.0]).primal == 0
    short = mm.certify([row], 1.0, [*w[:2], 2 - 2**-20], [1.0])
    assert short.primal == pytest.approx(2**-20, rel=1e-12)


def test_rows_with_zero_right_hand_side():
    """They count relative to |a| |w|; w = 0 and zero rows satisfy them exactly."""
    assert mm.certify([[1.0, 0.0], [0.0, 0.0]], 0.0, [0.0, 0.0], [0.0, 0.0]).ok
    found = mm.certify([[0.0, 3.0], [1.0, 0.0]], [0.0, 1.0], [1.0, -1e-3], [0.0, 1.0])
    assert found.primal == pytest.approx(1e-3, rel=1e-5)
    assert mm.certify([[0.0, 0.0]], 1.0, [1.0, 0.0], [0.0]).primal == 1.0


def test_broadcasts_and_checks_its_arguments():
    """Leading dimensions of all arguments."""
    found = mm.certify(A, 1.0, [W, 2 * W], DUAL)
    assert found.ok.tolist() == [True, False]
    assert found[0].ok
    assert mm.certify(A, np.ones((4, 1, 3)), [W, 2 * W], DUAL).ok.shape == (4, 2)
    with pytest.raises(ValueError, match=r"w: got shape \(3,\)"):
        mm.certify(A, 1.0, np.ones(3), DUAL)
    with pytest.raises(ValueError, match=r"dual: got shape \(2,\)"):
        mm.certify(A, 1.0, W, DUAL[:2])
    with pytest.raises(ValueError, match="do not broadcast"):
        mm.certify(A, np.ones((4, 3)), [W, W], DUAL)


def test_prints_a_small_table():
    """Four residuals and a verdict; a batch tells how many are certified."""
    text = str(mm.certify(A, 1.0, W * (1 - 1e-6), DUAL))
    assert text.splitlines()[0] == "primal        1.0e-06"
    assert text.splitlines()[-1] == "not certified (tolerance 1e-09)"
    batch = str(mm.certify(A, 1.0, [W, 2 * W], DUAL))
    assert batch.splitlines()[-1] == "1 of 2 certified; worst residuals above (tolerance 1e-09)"
    assert repr(mm.certify(A, 1.0, W, DUAL)).startswith("<Certificate primal ")

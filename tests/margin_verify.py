"""Judges of max-margin answers: everything is recomputed here from the rows, by other means than the solver's."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

import numpy as np
from scipy.optimize import nnls

import fastmm as mm

FEASIBLE = 1e-9  # the contract: of |b|, or of |a| |w| for b = 0
NEIGHBOR = 1e-8
OPINION = 1e-6  # least squares of the second solver squares the condition number


def one(value, dtype=float):
    """The flat array of a single program's rows."""
    return np.asarray(value, dtype=dtype).ravel()


def verify(A, b, result, *, E=None, e=None, rows=one, opinion=True):
    """Asserts all that an optimal or infeasible single answer claims; `rows` picks one entry for each row of A."""
    A, b = np.asarray(A, float), np.asarray(b, float)
    E, e = (np.zeros((0, A.shape[1])), np.zeros(0)) if E is None else (np.asarray(E, float), np.asarray(e, float))
    assert result.status in (mm.Status.optimal, mm.Status.infeasible), result
    if result.status == mm.Status.infeasible:
        verify_farkas(A, b, rows(result.farkas), E, e, one(result.farkas_equality))
        assert np.isnan(result.w).all()
        assert np.isnan(result.direction).all()
        assert np.isnan(result.margin)
        assert not np.any(result.dual)
        assert not np.any(result.neighbors)
        assert not result.optimal
        return
    w, dual, dual_equality = one(result.w), rows(result.dual), one(result.dual_equality)
    assert result.optimal
    assert not np.any(result.farkas)
    assert w.shape == A.shape[1:]
    assert dual.shape == b.shape
    slack, unit = exact_slacks(A, b, w)
    assert np.all(slack >= -FEASIBLE * unit)
    off, unit_e = exact_slacks(E, e, w)
    assert np.all(np.abs(off) <= FEASIBLE * unit_e)
    assert np.all(dual >= 0)
    made = A.T @ dual + E.T @ dual_equality
    size = np.abs(A).T @ dual + np.abs(E).T @ np.abs(dual_equality) + np.abs(w)
    assert np.all(np.abs(made - w) <= FEASIBLE * size.max(initial=0))
    value = b @ dual + e @ dual_equality
    assert abs(value - w @ w) <= FEASIBLE * (np.abs(b) @ dual + np.abs(e) @ np.abs(dual_equality) + w @ w)
    assert np.all(dual * slack <= 1e-9 * (w @ w) + 1e-300), "complementarity"
    np.testing.assert_array_equal(rows(result.neighbors).astype(bool), slack <= NEIGHBOR * unit)
    norm = np.linalg.norm(w)
    if norm == 0:
        assert result.margin == np.inf
        assert np.isnan(result.direction).all()
    else:
        assert np.isclose(result.margin * norm, 1, rtol=1e-14)
        np.testing.assert_allclose(one(result.direction) * norm, w, rtol=1e-14)
    assert mm.certify(A, b, w, dual, E, e, dual_equality).ok
    if opinion and not len(e):
        other = least_distance(A, b)
        if other is not None:
            np.testing.assert_allclose(w, other, atol=OPINION * max(norm, 1e-300), rtol=0)


def exact_slacks(A, b, w):
    """``A w - b`` in rational arithmetic, rounded once, and the unit of each row."""
    unit = np.where(b != 0, np.abs(b), np.linalg.norm(A, axis=1) * np.linalg.norm(w))
    point = [Fraction(float(x)) for x in w]
    if A.size > 3000:  # large and benign in the tests that come here
        return np.asarray(A.astype(np.longdouble) @ w.astype(np.longdouble) - b, float), unit
    slack = [
        float(sum((Fraction(float(x)) * y for x, y in zip(a, point, strict=True)), -Fraction(float(right))))
        for a, right in zip(A, b, strict=True)
    ]
    return np.array(slack, float).reshape(b.shape), unit


def verify_farkas(A, b, y, E=None, e=None, z=None):
    """``y >= 0``, ``b·y > 0`` and ``A'y = 0`` to 1e-9 of ``|A|'y`` in every column, by rational arithmetic."""
    if E is not None and len(E):
        A, b, y = (
            np.vstack([A, E, -E]),
            np.concatenate([b, e, -e]),
            np.concatenate([y, np.maximum(z, 0), np.maximum(-z, 0)]),
        )
    assert y.shape == b.shape
    assert np.all(y >= 0)
    used = np.flatnonzero(y)
    weights = [Fraction(float(x)) for x in y[used]]
    assert sum((Fraction(float(x)) * q for x, q in zip(b[used], weights, strict=True)), Fraction(0)) > 0
    for column in A[used].T:
        parts = [Fraction(float(x)) * q for x, q in zip(column, weights, strict=True)]
        assert abs(sum(parts, Fraction(0))) <= Fraction(1, 10**9) * sum(map(abs, parts), Fraction(0))


def least_distance(A, b):
    """Lawson and Hanson's LDP by non-negative least squares; None where its residual says nothing."""
    if not len(A):
        return np.zeros(A.shape[1])
    scale = np.linalg.norm(np.c_[A, b], axis=1)
    scale[scale == 0] = 1
    stacked = np.vstack([A.T / scale, b / scale])
    target = np.zeros(len(stacked))
    target[-1] = 1
    y, length = nnls(stacked, target, maxiter=50 * stacked.shape[1])
    if length < 1e-5:
        return None
    residual = stacked @ y - target
    return -residual[:-1] / residual[-1]


def exact_min_norm(A, b):
    """The answer in rational numbers by trying every set of active rows, or None when there is none."""
    A = [[Fraction(int(x)) for x in a] for a in A]
    b = [Fraction(int(x)) for x in b]
    d = len(A[0])
    for count in range(min(d, len(A)) + 1):
        for active in combinations(range(len(A)), count):
            gram = [[sum(x * y for x, y in zip(A[i], A[j], strict=True)) for j in active] for i in active]
            dual = _solve(gram, [b[i] for i in active])
            if dual is None or any(x < 0 for x in dual):
                continue
            w = [sum((x * A[i][j] for x, i in zip(dual, active, strict=True)), Fraction(0)) for j in range(d)]
            if all(sum(x * y for x, y in zip(a, w, strict=True)) >= right for a, right in zip(A, b, strict=True)):
                return w
    return None


def _solve(matrix, right):
    """Gauss elimination; None for a singular matrix."""
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    n = len(rows)
    for k in range(n):
        pivot = next((i for i in range(k, n) if rows[i][k] != 0), None)
        if pivot is None:
            return None
        rows[k], rows[pivot] = rows[pivot], rows[k]
        for i in range(n):
            if i != k:
                factor = rows[i][k] / rows[k][k]
                rows[i] = [x - factor * y for x, y in zip(rows[i], rows[k], strict=True)]
    return [rows[k][n] / rows[k][k] for k in range(n)]


def att_rows(K, selected, relaxed=None, lengths=None):
    """Difference rows of one ATT-SVM, and a function picking their entries from an (n, T) array."""
    K = np.asarray(K, float)
    n, T, _ = K.shape
    lengths = np.full(n, T) if lengths is None else lengths
    pairs = [(i, t) for i in range(n) for t in range(lengths[i]) if t != selected[i]]
    A = np.array([K[i, selected[i]] - K[i, t] for i, t in pairs]).reshape(len(pairs), K.shape[-1])
    b = np.array([0.0 if relaxed is not None and relaxed[i] else 1.0 for i, _ in pairs])

    def rows(value):
        value = np.asarray(value)
        assert value.shape == (n, T)
        return np.array([value[i, t] for i, t in pairs], dtype=value.dtype)

    return A, b, rows


def same_bits(first, second):
    """Asserts that two answers agree in every bit, NaN included."""
    for name in ("w", "direction", "margin", "dual", "neighbors", "status", "farkas", "best", "iterations"):
        a, b = np.asarray(getattr(first, name)), np.asarray(getattr(second, name))
        assert a.shape == b.shape, name
        assert a.dtype == b.dtype, name
        assert a.tobytes() == b.tobytes(), name

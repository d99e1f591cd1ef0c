"""W-SVMs to test with, and judges of their answers that share nothing with the solver."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

import fastmm as mm
from fastmm.paper.torch_random import TorchGenerator

CASES = {
    path.stem: json.loads(path.read_text()) for path in sorted((Path(__file__).parent / "cases").glob("wsvm_*.json"))
}


def spherical(seed, n, T, d, d_q=None):
    """Unit tokens and queries; the selected tokens have the best score under some head, so most are feasible."""
    rng = np.random.default_rng(seed)
    head = rng.standard_normal(d)
    X = rng.standard_normal((n, T, d))
    Z = rng.standard_normal((n, d_q or d))
    X /= np.linalg.norm(X, axis=-1, keepdims=True)
    Z /= np.linalg.norm(Z, axis=-1, keepdims=True)
    labels = np.sign(rng.standard_normal(n))
    return X, Z, (labels[:, None] * (X @ head)).argmax(-1)


def rows_of(X, Z, selected, lengths=None):
    """Whole rows ``vec(z δ')``, and a function that picks their entries from an (n, T) array."""
    X, Z = np.asarray(X, float), np.asarray(Z, float)
    n, T, d = X.shape
    Z = np.broadcast_to(Z, (n, Z.shape[-1]))
    lengths = np.full(n, T) if lengths is None else lengths
    pairs = [(i, t) for i in range(n) for t in range(lengths[i]) if t != selected[i]]
    A = np.array([np.outer(Z[i], X[i, selected[i]] - X[i, t]).ravel() for i, t in pairs])

    def rows(value):
        value = np.asarray(value)
        assert value.shape == (n, T)
        return np.array([value[i, t] for i, t in pairs], dtype=value.dtype)

    return A.reshape(len(pairs), Z.shape[-1] * d), np.ones(len(pairs)), rows


def verify_nuclear(A, result, rows, tolerance=1e-9):
    """The optimality of a nuclear-norm answer by weak duality: a feasible W and a feasible dual of the same value."""
    W, dual = result.w, rows(result.dual)
    assert result.status == mm.Status.optimal
    assert result.optimal
    assert result.certificate.ok
    assert W.ndim == 2
    values = A @ W.ravel()
    assert np.all(values >= 1 - tolerance)
    assert np.all(dual >= 0)
    assert np.linalg.norm((A.T @ dual).reshape(W.shape), 2) <= 1 + tolerance
    value = np.linalg.svd(W, compute_uv=False).sum()
    assert abs(dual.sum() - value) <= tolerance * value
    assert np.isclose(result.margin * value, 1, rtol=1e-13)
    np.testing.assert_allclose(result.direction, W / np.linalg.norm(W), rtol=1e-13)
    np.testing.assert_array_equal(rows(result.neighbors), values <= 1 + 1e-8)
    assert np.sum(result.neighbors) == np.sum(rows(result.neighbors))
    assert np.sum(result.dual != 0) == np.sum(dual != 0)
    assert not np.any(result.farkas)


def tokens_of_case(case):
    """A case's rows as inputs of two tokens, the first selected."""
    a, z = np.array(case["input"]["a"], float), np.array(case["input"]["z"], float)
    return np.stack([a, np.zeros_like(a)], axis=1), z, np.zeros(len(a), int)


def notebook(number):
    """The two visualisation notebooks: tokens, queries, selected tokens."""
    torch = TorchGenerator({1: 1, 2: 3}[number])
    head = torch.randn(2).astype(float)
    if number == 1:
        X = 0.3 * torch.randn(12).astype(float).reshape(2, 3, 2)
        X += np.array([[-1.0, 0.0], [1.0, 0.0]])[:, None]
    else:
        X = 0.5 * torch.randn(20).astype(float).reshape(2, 5, 2)
    Z = torch.randn(4).astype(float).reshape(2, 2)
    if number == 2:
        X[:, 1:] += (-1.0, 0.0)
        X[:, 0] = (1.0, 0.5), (1.0, -0.5)
    return X, Z / np.linalg.norm(Z, axis=1, keepdims=True), (X @ head).argmax(-1)

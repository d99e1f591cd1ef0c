"""The definition of every kernel in plain NumPy, one problem at a time: what all else is tested against."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from fastmm.arrays import FloatArray


class Loss(NamedTuple):
    """A decreasing loss of the margin, with the logarithm of minus its slope."""

    value: Callable[[Any], Any]
    slope: Callable[[Any], Any]
    curvature: Callable[[Any], Any]
    log_slope: Callable[[Any], Any]


def _logistic_slope(x: Any) -> Any:
    small = np.exp(-np.abs(x))
    return -np.where(np.asarray(x) >= 0, small, 1.0) / (1.0 + small)


def _logistic_curvature(x: Any) -> Any:
    small = np.exp(-np.abs(x))
    return small / (1.0 + small) ** 2


LOSSES = {
    "logistic": Loss(
        lambda x: np.maximum(-np.asarray(x), 0.0) + np.log1p(np.exp(-np.abs(x))),
        _logistic_slope,
        _logistic_curvature,
        lambda x: -np.maximum(x, 0.0) - np.log1p(np.exp(-np.abs(x))),
    ),
    "exponential": Loss(lambda x: np.exp(-x), lambda x: -np.exp(-x), lambda x: np.exp(-x), lambda x: -x),
    "correlation": Loss(
        lambda x: -x, lambda x: -np.ones_like(x), lambda x: np.zeros_like(x), lambda x: np.zeros_like(x)
    ),
}


def log_softmax(logits: FloatArray) -> FloatArray:
    """Logarithm of the softmax of a vector; the largest entry is ``-log1p(sum of the others' ratios)``.

    Parameters
    ----------
    logits : ndarray, shape (T,)

    Returns
    -------
    ndarray, shape (T,)
    """
    top = int(np.argmax(logits))
    gaps = logits - logits[top]
    rest = np.delete(gaps, top)
    return np.asarray(gaps - np.log1p(np.exp(rest).sum()))


def softmax(logits: FloatArray) -> FloatArray:
    """Softmax of a vector.

    Parameters
    ----------
    logits : ndarray, shape (T,)

    Returns
    -------
    ndarray, shape (T,)
    """
    weights = np.exp(logits - np.max(logits))
    return np.asarray(weights / weights.sum())


def loss_and_grad(
    X: FloatArray, K: FloatArray, Y: FloatArray, v: FloatArray, p: FloatArray, loss: str
) -> tuple[float, FloatArray, FloatArray]:
    """Risk and its gradients in p and v by the formulas of the paper, without any factoring.

    Parameters
    ----------
    X, K : ndarray, shapes (n, T, d) and (n, T, d_k)
    Y, v, p : ndarray, shapes (n,), (d,) and (d_k,)
    loss : {"logistic", "exponential", "correlation"}

    Returns
    -------
    risk : float
    grad_p : ndarray, shape (d_k,)
    grad_v : ndarray, shape (d,)
    """
    ell = LOSSES[loss]
    n = len(X)
    risk, grad_p, grad_v = 0.0, np.zeros(K.shape[-1]), np.zeros(X.shape[-1])
    for x, k, y in zip(X, K, Y, strict=True):
        s = softmax(k @ p)
        gamma = y * (x @ v)
        z = s @ gamma
        risk += float(ell.value(z)) / n
        grad_p += ell.slope(z) / n * (k.T @ (s * (gamma - z)))
        grad_v += ell.slope(z) / n * y * (x.T @ s)
    return risk, grad_p, grad_v


def matrix_gradients(
    X: FloatArray, Y: FloatArray, v: FloatArray, Z: FloatArray, Q: FloatArray, K: FloatArray, loss: str
) -> tuple[float, FloatArray, FloatArray, FloatArray, FloatArray]:
    """Risk and gradients in ``W = Q K'``, in its factors and in v, where input i has the logits ``X_i W' z_i``.

    Parameters
    ----------
    X, Y, v : ndarray, shapes (n, T, d), (n,) and (d,)
    Z : ndarray, shape (n, d_q)
        A query for each input.
    Q, K : ndarray, shapes (d_q, m) and (d, m)
    loss : {"logistic", "exponential", "correlation"}

    Returns
    -------
    risk : float
    grad_W, grad_Q, grad_K, grad_v : ndarray, shapes (d_q, d), (d_q, m), (d, m) and (d,)
    """
    n = len(X)
    risk, grad_W, grad_v = 0.0, np.zeros((len(Q), len(K))), np.zeros(len(v))
    for i in range(n):
        own = loss_and_grad(X[i : i + 1], X[i : i + 1], Y[i : i + 1], v, K @ (Q.T @ Z[i]), loss)
        risk += own[0] / n
        grad_W += np.outer(Z[i], own[1]) / n
        grad_v += own[2] / n
    return risk, grad_W, grad_W @ K, grad_W.T @ Q, grad_v


def hessian_vector(K: FloatArray, scores: FloatArray, p: FloatArray, u: FloatArray, loss: str) -> FloatArray:
    """The Hessian of the risk in p times u, by the formula, without any factoring.

    Parameters
    ----------
    K : ndarray, shape (n, T, d_k)
    scores : ndarray, shape (n, T)
    p, u : ndarray, shape (d_k,)
    loss : {"logistic", "exponential", "correlation"}

    Returns
    -------
    ndarray, shape (d_k,)
    """
    ell = LOSSES[loss]
    out = np.zeros(len(p))
    for keys, gamma in zip(K, scores, strict=True):
        s, b = softmax(keys @ p), keys @ u
        z, change = s @ gamma, s * (b - s @ b)
        weights = s * (gamma - z)
        out += ell.curvature(z) * (weights @ b) * (keys.T @ weights)
        out += ell.slope(z) * (keys.T @ (change * (gamma - z) - s * (change @ gamma)))
    return out / len(K)


def log_excess(scores: FloatArray, margins: FloatArray, loss: str) -> float:
    """Logarithm of the mean of ``ell(z_i) - ell(best score of input i)``, as doubles happen to form it.

    Parameters
    ----------
    scores : ndarray, shape (n, T)
    margins : ndarray, shape (n,)
        The margins ``z_i``.
    loss : {"logistic", "exponential", "correlation"}

    Returns
    -------
    float
    """
    ell = LOSSES[loss]
    with np.errstate(divide="ignore"):
        return float(np.log(np.mean(ell.value(margins) - ell.value(scores.max(axis=-1)))))


def descent_direction(K: FloatArray, scores: FloatArray, p: FloatArray, loss: str) -> tuple[FloatArray, float]:
    """Unit negative gradient in p and the logarithm of the gradient's norm, exact at any size of p.

    Tokens whose key equals that of the top token always share its weight: they are merged with it, their scores
    averaged. All terms are taken relative to the merged token, so that nothing cancels, and the largest exponent
    among the terms that do not vanish is factored out of the sum.

    Parameters
    ----------
    K : ndarray, shape (n, T, d_k)
    scores : ndarray, shape (n, T)
        Token scores ``Y_i v' x_it``.
    p : ndarray, shape (d_k,)
    loss : {"logistic", "exponential", "correlation"}

    Returns
    -------
    direction : ndarray, shape (d_k,)
        Zero where the gradient is exactly zero.
    log_norm : float
        ``-inf`` for a zero gradient.
    """
    ell = LOSSES[loss]
    terms: list[tuple[float, float, FloatArray]] = []  # exponent, coefficient, key relative to the top token
    for keys, gamma in zip(K, scores, strict=True):
        relative = keys - keys[0]
        logits = relative @ p
        top = int(np.argmax(logits))
        same = np.all(keys == keys[top], axis=-1)
        merged = gamma[top] if np.all(gamma[same] == gamma[top]) else gamma[same].mean()
        L, dl, dk = (logits - logits[top])[~same], gamma[~same] - merged, keys[~same] - keys[top]
        if not np.any(dl):
            continue
        c = L[dl != 0].max()
        total = np.exp(L).sum() + same.sum()
        m = (np.exp(L[dl != 0] - c) * dl[dl != 0]).sum() / total  # carries the factor exp(c)
        log_slope = float(ell.log_slope(merged + np.exp(c) * m))
        for ratio, gap, key in zip(L, dl, dk, strict=True):
            if gap != 0:
                terms.append((ratio + log_slope, (gap - np.exp(c) * m) / total, key))
            else:
                terms.append((ratio + c + log_slope, -m / total, key))
    if not terms:
        return np.zeros(K.shape[-1]), -np.inf
    scale = max(exponent for exponent, _, _ in terms)
    g = sum(np.exp(exponent - scale) * coefficient * key for exponent, coefficient, key in terms)
    largest = np.abs(g).max()
    if largest == 0:
        return np.zeros(K.shape[-1]), -np.inf
    norm = largest * np.sqrt(np.sum((g / largest) ** 2))
    return g / norm, float(scale + np.log(norm) - np.log(len(K)))


def descend(
    K: FloatArray, scores: FloatArray, p0: FloatArray, steps: int, lr: float, rule: str, loss: str
) -> FloatArray:
    """All iterates of gradient descent in p: each step moves by lr (normalised) or by lr times the gradient.

    Parameters
    ----------
    K, scores : ndarray, shapes (n, T, d_k) and (n, T)
    p0 : ndarray, shape (d_k,)
    steps : int
    lr : float
    rule : {"normalized", "gradient"}
    loss : {"logistic", "exponential", "correlation"}

    Returns
    -------
    ndarray, shape (steps + 1, d_k)
    """
    path = [np.array(p0, dtype=float)]
    for _ in range(steps):
        direction, log_norm = descent_direction(K, scores, path[-1], loss)
        length = lr if rule == "normalized" else lr * np.exp(log_norm)
        path.append(path[-1] + length * direction)
    return np.array(path)

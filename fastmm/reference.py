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

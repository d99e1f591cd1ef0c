"""One gradient in p of a large problem as people write it, and how fast this machine reads the keys at all.

Each maker takes keys (n, T, d), scores (n, T) and p, and gives a callable without arguments to the gradient (d,);
the readers give the sum of the keys instead. The joint makers take tokens that are their own keys (n, T, d), labels
(n), a head and p, and give a callable to both gradients, that in p before that in the head (2 d).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Call = Callable[[], np.ndarray]


def numpy_analytic(K: np.ndarray, scores: np.ndarray, p: np.ndarray) -> Call:
    n, T, d = K.shape

    def gradient() -> np.ndarray:
        a = K @ p
        s = np.exp(a - a.max(axis=-1, keepdims=True))
        s /= s.sum(axis=-1, keepdims=True)
        z = (s * scores).sum(axis=-1)
        c = s * (scores - z[:, None]) * (-1 / (1 + np.exp(z)) / n)[:, None]
        return c.reshape(-1) @ K.reshape(n * T, d)

    return gradient


def torch_analytic(K: np.ndarray, scores: np.ndarray, p: np.ndarray) -> Call:
    import torch

    torch.set_num_threads(1)
    keys, gamma, point = (torch.from_numpy(array) for array in (K, scores, p))
    n, T, d = K.shape

    def gradient() -> np.ndarray:
        with torch.no_grad():
            s = torch.softmax(keys @ point, dim=-1)
            z = (s * gamma).sum(dim=-1)
            c = s * (gamma - z[:, None]) * (-torch.sigmoid(-z) / n)[:, None]
            return (c.reshape(-1) @ keys.reshape(n * T, d)).numpy()

    return gradient


def numba_loop(K: np.ndarray, scores: np.ndarray, p: np.ndarray) -> Call:
    import numba

    @numba.njit(fastmath={"reassoc", "contract"})
    def gradient(K, scores, p):
        n, T, d = K.shape
        s, g = np.zeros(T), np.zeros(d)
        for i in range(n):
            top = -np.inf
            for t in range(T):
                a = 0.0
                for j in range(d):
                    a += K[i, t, j] * p[j]
                s[t] = a
                top = max(top, a)
            total, z = 0.0, 0.0
            for t in range(T):
                s[t] = np.exp(s[t] - top)
                total += s[t]
                z += s[t] * scores[i, t]
            z /= total
            slope = -1.0 / (1.0 + np.exp(z)) / n / total
            for t in range(T):
                c = slope * s[t] * (scores[i, t] - z)
                for j in range(d):
                    g[j] += c * K[i, t, j]
        return g

    return lambda: gradient(K, scores, p)


def numpy_joint(X: np.ndarray, Y: np.ndarray, v: np.ndarray, p: np.ndarray) -> Call:
    n, T, d = X.shape

    def gradient() -> np.ndarray:
        a, scores = X @ p, Y[:, None] * (X @ v)
        s = np.exp(a - a.max(axis=-1, keepdims=True))
        s /= s.sum(axis=-1, keepdims=True)
        z = (s * scores).sum(axis=-1)
        slope = (-1 / (1 + np.exp(z)) / n)[:, None]
        both = np.stack([s * (scores - z[:, None]) * slope, s * slope * Y[:, None]]).reshape(2, -1)
        return (both @ X.reshape(n * T, d)).reshape(-1)

    return gradient


def torch_joint(X: np.ndarray, Y: np.ndarray, v: np.ndarray, p: np.ndarray) -> Call:
    import torch

    torch.set_num_threads(1)
    tokens, labels = torch.from_numpy(X), torch.from_numpy(Y)[:, None]
    both = torch.from_numpy(np.stack([p, v], axis=1))
    n, T, d = X.shape

    def gradient() -> np.ndarray:
        with torch.no_grad():
            logits, values = (tokens @ both).unbind(-1)
            s, scores = torch.softmax(logits, dim=-1), labels * values
            z = (s * scores).sum(dim=-1, keepdim=True)
            slope = -torch.sigmoid(-z) / n
            weights = torch.stack([s * (scores - z) * slope, s * slope * labels]).reshape(2, -1)
            return (weights @ tokens.reshape(n * T, d)).reshape(-1).numpy()

    return gradient


def numba_joint(X: np.ndarray, Y: np.ndarray, v: np.ndarray, p: np.ndarray) -> Call:
    import numba

    @numba.njit(fastmath={"reassoc", "contract"})
    def gradient(X, Y, v, p):
        n, T, d = X.shape
        s, scores, g = np.zeros(T), np.zeros(T), np.zeros(2 * d)
        for i in range(n):
            top = -np.inf
            for t in range(T):
                a, b = 0.0, 0.0
                for j in range(d):
                    a += X[i, t, j] * p[j]
                    b += X[i, t, j] * v[j]
                s[t], scores[t] = a, Y[i] * b
                top = max(top, a)
            total, z = 0.0, 0.0
            for t in range(T):
                s[t] = np.exp(s[t] - top)
                total += s[t]
                z += s[t] * scores[t]
            z /= total
            slope = -1.0 / (1.0 + np.exp(z)) / n / total
            for t in range(T):
                c, e = slope * s[t] * (scores[t] - z), slope * s[t] * Y[i]
                for j in range(d):
                    g[j] += c * X[i, t, j]
                    g[d + j] += e * X[i, t, j]
        return g

    return lambda: gradient(X, Y, v, p)


def _reader(K: np.ndarray, loop, streams: int) -> Call:
    """Sums the keys in so many stretches side by side; reassociation makes each sum several vector accumulators."""
    import numba

    assert K.size % streams == 0
    read = numba.njit(fastmath={"reassoc"})(loop)
    stretches = K.reshape(streams, -1)
    return lambda: read(stretches)


def one_stream(K: np.ndarray, scores: np.ndarray, p: np.ndarray) -> Call:
    def read(x):
        a = 0.0
        for k in range(x.shape[1]):
            a += x[0, k]
        return a

    return _reader(K, read, 1)


def four_streams(K: np.ndarray, scores: np.ndarray, p: np.ndarray) -> Call:
    def read(x):
        a = b = c = d = 0.0
        for k in range(x.shape[1]):
            a += x[0, k]
            b += x[1, k]
            c += x[2, k]
            d += x[3, k]
        return (a + b) + (c + d)

    return _reader(K, read, 4)


def eight_streams(K: np.ndarray, scores: np.ndarray, p: np.ndarray) -> Call:
    def read(x):
        a = b = c = d = e = f = g = h = 0.0
        for k in range(x.shape[1]):
            a += x[0, k]
            b += x[1, k]
            c += x[2, k]
            d += x[3, k]
            e += x[4, k]
            f += x[5, k]
            g += x[6, k]
            h += x[7, k]
        return ((a + b) + (c + d)) + ((e + f) + (g + h))

    return _reader(K, read, 8)

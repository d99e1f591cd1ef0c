"""One gradient in p of a large problem as people write it, and how fast this machine reads the keys at all.

Each maker takes keys (n, T, d), scores (n, T) and p, and gives a callable without arguments to the gradient (d,);
the readers give the sum of the keys instead.
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

    @numba.njit(parallel=True, fastmath={"reassoc", "contract"})
    def gradient(K, scores, p):
        n, T, d = K.shape
        chunks = 256
        parts = np.zeros((chunks, d))
        for chunk in numba.prange(chunks):
            s, g = np.zeros(T), np.zeros(d)
            for i in range(chunk * n // chunks, (chunk + 1) * n // chunks):
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
            parts[chunk] = g
        return parts.sum(axis=0)

    return lambda: gradient(K, scores, p)


def one_stream(K: np.ndarray, scores: np.ndarray, p: np.ndarray) -> Call:
    """The keys summed front to back; reassociation gives the compiler several vector accumulators."""
    import numba

    @numba.njit(fastmath={"reassoc"})
    def read(x):
        total = 0.0
        for k in range(x.size):
            total += x[k]
        return total

    flat = K.reshape(-1)
    return lambda: read(flat)


def four_streams(K: np.ndarray, scores: np.ndarray, p: np.ndarray) -> Call:
    """The keys summed in four quarters side by side, which keeps more reads under way."""
    import numba

    @numba.njit(fastmath={"reassoc"})
    def read(x):
        quarter = x.size // 4
        a = b = c = d = 0.0
        for k in range(quarter):
            a += x[k]
            b += x[quarter + k]
            c += x[2 * quarter + k]
            d += x[3 * quarter + k]
        for k in range(4 * quarter, x.size):
            a += x[k]
        return a + b + c + d

    flat = K.reshape(-1)
    return lambda: read(flat)

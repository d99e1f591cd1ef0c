"""Random data of the benchmarks; the seed is part of the call, so that every contestant gets the same numbers."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np


class Batch(NamedTuple):
    """Many small problems: tokens (I, n, T, d), labels (I, n), heads (I, d)."""

    X: np.ndarray
    Y: np.ndarray
    v: np.ndarray

    def first(self, count: int) -> Batch:
        return Batch(*(np.ascontiguousarray(array[:count]) for array in self))

    @property
    def scores(self) -> np.ndarray:
        """Y_i v' x_it, shape (I, n, T): constant during a run, computed once by every hand-written loop."""
        return self.Y[..., None] * np.einsum("intd,id->int", self.X, self.v)


class Large(NamedTuple):
    """One large problem: keys and tokens (n, T, d), labels (n,), head (d,), the point p (d,), scores (n, T)."""

    X: np.ndarray
    Y: np.ndarray
    v: np.ndarray
    p: np.ndarray
    scores: np.ndarray


@lru_cache(maxsize=4)
def small_problems(instances: int, shape: tuple[int, int, int], seed: int) -> Batch:
    """Tokens and heads uniform on the unit sphere and random signs, as in the experiments of the paper."""
    n, T, d = shape
    rng = np.random.default_rng([seed, n, T, d])
    X = rng.normal(size=(instances, n, T, d))
    X /= np.linalg.norm(X, axis=-1, keepdims=True)
    v = rng.normal(size=(instances, d))
    v /= np.linalg.norm(v, axis=-1, keepdims=True)
    return Batch(X, rng.choice([-1.0, 1.0], size=(instances, n)), v)


@lru_cache(maxsize=1)
def large_problem(n: int, T: int, d: int, seed: int) -> Large:
    """Normal tokens; p of a size at which softmax is neither flat nor saturated."""
    rng = np.random.default_rng(seed)
    X = np.empty((n, T, d))
    for start in range(0, n, 1024):  # in pieces, to need no second array of that size
        rng.standard_normal(out=X[start : start + 1024])
    Y, v, p = rng.choice([-1.0, 1.0], size=n), rng.normal(size=d) / np.sqrt(d), rng.normal(size=d) / np.sqrt(d)
    return Large(X, Y, v, p, Y[:, None] * (X @ v))


@lru_cache(maxsize=4)
def separable_keys(instances: int, shape: tuple[int, int, int], seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Keys (I, n, T, d) on the unit sphere and tokens (I, n) that some hidden direction selects: all feasible."""
    n, T, d = shape
    rng = np.random.default_rng([seed, n, T, d])
    K = rng.normal(size=(instances, n, T, d))
    K /= np.linalg.norm(K, axis=-1, keepdims=True)
    hidden = rng.normal(size=(instances, d))
    return K, np.einsum("intd,id->int", K, hidden).argmax(axis=-1)


def margin_rows(K: np.ndarray, selected: np.ndarray) -> np.ndarray:
    """Rows k_selected - k_t of each program, shape (I, n (T-1), d)."""
    instances, n, T, d = K.shape
    chosen = np.take_along_axis(K, selected[..., None, None], axis=-2)
    others = np.arange(T) != selected[..., None]
    return (chosen - K)[others].reshape(instances, n * (T - 1), d)

"""Keys and values without their padding: double precision, zeros behind the ends."""

from __future__ import annotations

import numpy as np

from fastmm.arrays import FloatArray
from fastmm.problem import Problem


def keys_of(problem: Problem) -> FloatArray:
    """Keys (..., n, T, d_k), zeros for padding."""
    return _cleared(problem, problem.K)


def values_of(problem: Problem) -> FloatArray:
    """Values (..., n, T, d), zeros for padding."""
    return _cleared(problem, problem.X)


def _cleared(problem: Problem, rows: FloatArray) -> FloatArray:
    return np.where(problem.real_tokens[..., None], rows, 0).astype(np.float64, copy=False)

"""The certificate of least nuclear norm, recomputed from tokens and queries; it knows no solver."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fastmm.arrays import FloatArray
from fastmm.errors import Status
from fastmm.margin.certificate import ON_MARGIN, TOLERANCE

if TYPE_CHECKING:
    from fastmm.margin.matrix_svm import WeightProgram

_TOGETHER = 1 << 20  # numbers handled at once, so that memory stays small beside a large batch


def judge(program: WeightProgram, raw: dict[str, Any]) -> None:
    """Scales answers so that rows and dual hold exactly, and writes neighbors, residuals, norms and statuses.

    A point divided by its least row value satisfies all rows, multipliers divided by the spectral norm of ``Σ λ z δ'``
    are feasible for the dual; what is left to judge is whether the two values agree.
    """
    raw["norm"] = np.full(program.count, np.nan)
    solved = np.flatnonzero(raw["status"] == Status.optimal)
    together = max(1, _TOGETHER // max(1, program.n * program.T * program.point_shape[1]))
    with np.errstate(all="ignore"):
        for begin in range(0, len(solved), together):
            _judge_part(program, raw, solved[begin : begin + together])


def _judge_part(program: WeightProgram, raw: dict[str, Any], part: Any) -> None:
    count, (d_q, d) = len(part), program.point_shape
    delta, real = program.differences(part), program.real(part)
    Z = program.queries[program.query_block[part]]
    W = raw["point"][part].reshape(count, d_q, d)
    dual = raw["dual"][part].reshape(real.shape)
    values = _row_values(Z, delta, W, real)
    least = values.min(axis=(-2, -1), initial=np.inf)
    empty = np.isinf(least)
    W = W / np.where(empty, 1.0, least)[:, None, None]
    spectral = _spectral(Z, delta, dual)
    dual = dual / np.where(spectral == 0, 1.0, spectral)[:, None, None]
    # from here on nothing but the data and what will be returned
    values = _row_values(Z, delta, W, real)
    norm = np.linalg.svd(W, compute_uv=False).sum(-1)
    total = dual.sum(axis=(-2, -1))
    primal = np.maximum((1 - values).max(axis=(-2, -1), initial=0), 0)
    over = np.maximum(_spectral(Z, delta, dual) - 1, 0)
    gap = np.where(empty, 0.0, np.abs(norm - total) / norm)
    good = (primal <= TOLERANCE) & (over <= TOLERANCE) & (gap <= TOLERANCE) & (dual >= 0).all(axis=(-2, -1))
    neighbors = real & (values <= 1 + ON_MARGIN) & good[:, None, None]
    raw["point"][part] = W.reshape(count, -1)
    raw["dual"][part] = np.where(good[:, None, None], dual, 0.0).reshape(count, -1)
    raw["neighbors"][part] = neighbors.reshape(count, -1)
    raw["residuals"][part] = np.stack([primal, over, gap], axis=-1)
    raw["norm"][part] = norm
    raw["status"][part[~good]] = Status.ill_conditioned


def _row_values(Z: FloatArray, delta: FloatArray, W: FloatArray, real: Any) -> FloatArray:
    """``z' W δ`` of all rows, infinite where there is none."""
    seen = np.matmul(Z, W)
    return np.where(real, np.matmul(delta, seen[..., None])[..., 0], np.inf)


def _spectral(Z: FloatArray, delta: FloatArray, dual: FloatArray) -> FloatArray:
    """Spectral norm of ``Σ λ z δ'``."""
    weighted = np.matmul(dual[..., None, :], delta)[..., 0, :]
    if Z.shape[-2] != weighted.shape[-2]:
        weighted = weighted.sum(axis=-2, keepdims=True)
    made = np.matmul(np.swapaxes(Z, -1, -2), weighted)
    norms: FloatArray = np.linalg.svd(made, compute_uv=False).max(-1, initial=0)
    return norms

"""Excess of the risk over its infimum, in the log domain: it separates points whose risks round to the same number."""

from __future__ import annotations

from typing import Any

import numpy as np

from fastmm import arrays, losses
from fastmm.arrays import FloatArray
from fastmm.gradients import descent_direction
from fastmm.losses import Loss
from fastmm.problem import Problem
from fastmm.theory.padding import keys_of
from fastmm.theory.single import single


def log_excess_of(problem: Problem, p: Any, loss: Loss) -> FloatArray:
    """Log of ``mean_i ell(z_i) - ell(gamma_i,opt)`` of one problem at points p (..., d_k), without cancellation."""
    return signed_log_excess(problem, p, loss, problem.optimal)[1]


def signed_log_excess(problem: Problem, p: Any, loss: Loss, selected: Any) -> tuple[FloatArray, FloatArray]:
    """Sign and log of the size of ``mean_i ell(z_i) - ell(gamma_i,selected)`` at points p (..., d_k).

    With ``e_i = sum_t s_it (gamma_i,selected - gamma_it)``, which is summed in logs, input i adds ``e`` (correlation),
    ``exp(-g) expm1(e)`` (exponential) or ``log1p(expm1(e) / (1 + exp(g)))`` (logistic), g the selected score.
    """
    real = np.broadcast_to(problem.real_tokens, (problem.n, problem.T))
    keys = keys_of(problem)
    scores = np.where(real, problem.scores, 0).astype(np.float64)
    g = np.take_along_axis(scores, np.asarray(selected)[:, None], axis=-1)
    gaps = np.where(real, g - scores, 0)
    with np.errstate(divide="ignore"):
        log_gaps = np.log(np.abs(gaps))
    logits = np.where(real, np.einsum("ntd,...d->...nt", keys, np.asarray(p, np.float64)), -np.inf)
    log_weights = logits - _log_sum(logits, np.ones_like(logits))[1][..., None]
    sign, log_e = _log_sum(log_weights + log_gaps, np.sign(gaps))
    e, g = sign * np.exp(log_e), g[:, 0]
    small = np.abs(e) < 1e-17  # there expm1(e) = e and log1p(x) = x in doubles
    with np.errstate(divide="ignore"):
        log_rise = np.where(small, log_e, np.log(np.abs(np.expm1(np.where(small, 1.0, e)))))
        if loss.name == "correlation":
            per_input = log_e
        elif loss.name == "exponential":
            per_input = log_rise - g
        else:
            log_x = log_rise - np.logaddexp(0, g)
            tiny = log_x < -40
            x = sign * np.exp(np.where(tiny, 0.0, log_x))
            per_input = np.where(tiny, log_x, np.log(np.abs(np.log1p(np.where(tiny, 1.0, x)))))
    sign, total = _log_sum(per_input, sign)
    return sign, total - np.log(problem.n)


def _log_sum(x: FloatArray, sign: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Sign and log of the size of ``sum sign exp(x)`` over the last axis; log 0 = -inf."""
    top = x.max(-1, keepdims=True)
    top = np.where(np.isfinite(top), top, 0)
    total = (sign * np.exp(x - top)).sum(-1)
    with np.errstate(divide="ignore"):
        return np.sign(total), np.log(np.abs(total)) + top[..., 0]


def slope_of_log_excess(problem: Problem, p: FloatArray, loss: Loss) -> tuple[float, FloatArray]:
    """Log excess at one point and its gradient: that of the risk over the excess, both with their exponents apart."""
    value = float(log_excess_of(problem, p, loss))
    direction, log_norm = descent_direction(problem, p, loss)
    if not np.isfinite(value) or not np.isfinite(log_norm):
        return value, np.zeros_like(p)
    return value, -np.exp(float(log_norm) - value) * np.asarray(direction, np.float64)


def log_excess(problem: Problem, p: Any, loss: str | Loss = "logistic") -> Any:
    """Logarithm of the risk's excess over its infimum ``mean_i ell(max_t gamma_it)``.

    Parameters
    ----------
    problem : Problem
        A single one.
    p : array_like, shape (..., d_k)
    loss : {"logistic", "exponential", "correlation"}

    Returns
    -------
    float or ndarray, shape (...)
        -inf where all scores of each input are equal.

    Raises
    ------
    TypeError, ValueError
        For a batch of problems and points that do not fit.

    Notes
    -----
    Risks at ``||p|| = 1e4`` agree to all digits; this does not. It is the objective of the regularization paths.

    Examples
    --------
    >>> import fastmm as mm
    >>> problem = mm.Problem([[[1.0, 0.0], [0.0, 0.0]]], [1.0], [1.0, 0.0])
    >>> round(mm.theory.log_excess(problem, [1e4, 0.0], "correlation"), 9)
    -10000.0
    """

    single("log_excess", problem)
    points = arrays.floats("p", p, np.float64, ("d_k",))
    arrays.need_shape("p", points, ("d_k",), (problem.d_k,), "the keys")
    found = log_excess_of(problem, points, losses.get(loss))
    return float(found) if found.ndim == 0 else found

"""How fast the gradient in p can change: smoothness constants and the largest step they admit."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fastmm import losses
from fastmm.arrays import FloatArray
from fastmm.problem import Problem


class Smoothness(NamedTuple):
    """A Lipschitz constant of the gradient in p, and the step size it admits.

    Attributes
    ----------
    constant : float or ndarray, shape (...)
        L with ``||grad(p) - grad(q)|| <= L ||p - q||`` for all p and q.
    largest_step : float or ndarray, shape (...)
        ``1 / L``: plain gradient descent with steps up to it never increases the risk; inf where L is 0.
    """

    constant: Any
    largest_step: Any


def smoothness(problem: Problem, bound: str = "tight", *, loss: str = "logistic") -> Smoothness:
    """A smoothness constant of the risk as a function of p.

    Parameters
    ----------
    problem : Problem
    bound : {"tight", "paper"}
        "paper" is the constant of the paper, ``mean_i (M0 ||v||² ||W||² ||X_i||⁴ + 3 M1 ||v|| ||W||² ||X_i||³)`` with
        spectral norms; for a problem given by its keys ``||W|| ||X_i||`` is ``||K_i||``. "tight" is
        ``mean_i (M0 (G_i D_i / 4)² + M1 G_i D_i² / 4)``, with G_i the range of the scores and D_i the largest distance
        of two keys: it does not change when keys or scores are shifted, and is often a hundred times smaller.
    loss : {"logistic", "exponential", "correlation"}
        M0 and M1 bound its curvature and its slope at margins between the smallest and the largest score of a problem.

    Returns
    -------
    Smoothness

    Raises
    ------
    TypeError, ValueError
        For an argument that is no Problem, an unknown bound, a loss of the user's own.

    Notes
    -----
    Cost: ``n T² d`` for "tight", a singular value decomposition an input for "paper". Both are upper bounds; the
    constant that is observed is smaller still.

    References
    ----------
    Tarzanagh, Li, Zhang, Oymak, "Max-Margin Token Selection in Attention Mechanism", NeurIPS 2023, lemma on the
    smoothness of the risk in p.

    Examples
    --------
    >>> import fastmm as mm
    >>> problem = mm.Problem([[[1.0, 0.0], [0.0, 0.0]]], [1.0], [1.0, 0.0])
    >>> mm.theory.smoothness(problem)
    Smoothness(constant=0.265625, largest_step=3.764705882352941)
    """
    if not isinstance(problem, Problem):
        raise TypeError(f"problem: got {type(problem).__name__}; allowed: a Problem")
    if bound not in ("tight", "paper"):
        raise ValueError(f"bound: got {bound!r}; allowed: 'tight', 'paper'")
    kind = losses.get(loss)
    real = problem.real_tokens
    low = np.where(real, problem.scores, np.inf).min(-1, initial=np.inf)
    high = np.where(real, problem.scores, -np.inf).max(-1, initial=-np.inf)
    bend, slope = _bounds(kind.name, low)
    keys = np.where(real[..., None], problem.K, 0.0)
    if bound == "tight":
        width, spread = high - low, _spread(keys, real)
        each = bend * (width * spread / 4) ** 2 + slope * width * spread**2 / 4
    else:
        head = np.linalg.norm(problem.v, axis=-1)[..., None] * np.abs(problem.Y)
        values = np.linalg.norm(np.where(real[..., None], problem.X, 0.0), 2, axis=(-2, -1))
        if problem.W is not None and problem.Z is None:
            queried = np.linalg.norm(problem.W, 2, axis=(-2, -1))[..., None] * values
        else:
            queried = np.linalg.norm(keys, 2, axis=(-2, -1))
        each = bend * (head * values * queried) ** 2 + 3 * slope * head * values * queried**2
    constant = each.mean(-1)
    with np.errstate(divide="ignore"):
        step = 1 / np.asarray(constant)
    if np.ndim(constant) == 0:
        return Smoothness(float(constant), float(step))
    return Smoothness(constant, step)


def _bounds(name: str, low: FloatArray) -> tuple[Any, Any]:
    """M0 and M1: bounds of the curvature and the slope at margins of at least `low`, one an input."""
    if name == "logistic":
        return 0.25, 1.0
    if name == "correlation":
        return 0.0, 1.0
    if name == "exponential":
        size = np.exp(-low)
        return size, size
    raise ValueError(f"loss: got {name!r}; allowed: 'logistic', 'exponential', 'correlation'")


def _spread(keys: FloatArray, real: Any) -> FloatArray:
    """The largest distance of two keys of each input."""
    largest = np.zeros(np.broadcast_shapes(keys.shape[:-2], real.shape[:-1]))
    for t in range(keys.shape[-2]):
        apart = np.linalg.norm(keys - keys[..., t : t + 1, :], axis=-1)
        both = real & real[..., t : t + 1]
        largest = np.maximum(largest, np.where(both, apart, 0.0).max(-1))
    return np.asarray(largest)

"""Lipschitz constants of the gradient of the risk in p, and the steps they allow."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from fastmm import losses
from fastmm.losses import Loss
from fastmm.problem import Problem
from fastmm.theory.padding import keys_of, values_of

BOUNDS = ("paper", "tight")


class Smoothness(NamedTuple):
    """A bound on the Lipschitz constant of the gradient in p, and the largest step it admits, its inverse."""

    constant: Any
    largest_step: Any


def slope_bounds(problem: Problem, loss: Loss) -> tuple[Any, Any, Any]:
    """Smallest and largest ``|ell'|`` and largest ``|ell''|`` on [-B, B], B the largest score in size; shape (...).

    All margins lie in that interval: they are convex combinations of scores.
    """
    B = np.abs(np.where(problem.real_tokens, problem.scores, 0)).max((-2, -1), initial=0).astype(np.float64)
    edges = np.stack([-B, np.zeros_like(B), B])  # each loss has its extremes at one of these
    slopes, curvatures = np.abs(loss.slope(edges)), np.abs(loss.curvature(edges))
    return slopes.min(0), slopes.max(0), curvatures.max(0)


def smoothness(problem: Problem, bound: str = "tight", loss: str | Loss = "logistic") -> Smoothness:
    """A Lipschitz constant of the gradient of the risk in p.

    Parameters
    ----------
    problem : Problem
    bound : {"paper", "tight"}
        ``mean_i M0 (||v|| ||X_i|| ||K_i||)^2 + 3 M1 ||v|| ||X_i|| ||K_i||^2`` with spectral norms, where ``||K_i||`` is
        ``||W|| ||X_i||`` when the problem has a W (the paper's constant; its printed form was not available to us), or
        ``mean_i M0 (G_i D_i / 4)^2 + M1 G_i D_i^2 / 4`` with the spread G of an input's scores and the diameter D of
        its keys. M1 and M0 bound ``|ell'|`` and ``|ell''|`` on the range of the margins, for "paper" on the whole line
        where such bounds exist.
    loss : {"logistic", "exponential", "correlation"}

    Returns
    -------
    Smoothness
        ``.constant`` and ``.largest_step = 1 / constant`` (inf for 0), shape (...).

    Raises
    ------
    TypeError, ValueError
        For an argument that is no Problem, and unknown names.

    Notes
    -----
    Descent with steps up to ``largest_step`` never increases the risk. Cost: ``n T^2 d_k`` for "tight".

    References
    ----------
    Tarzanagh, Li, Zhang, Oymak, NeurIPS 2023, Lemma on smoothness in section 3; "tight" is fastmm's own.

    Examples
    --------
    >>> import fastmm as mm
    >>> problem = mm.Problem([[[1.0, 0.0], [0.0, 0.0]]], [1.0], [1.0, 0.0])
    >>> float(mm.theory.smoothness(problem, loss="correlation").constant)
    0.25
    >>> float(mm.theory.smoothness(problem, "paper", loss="correlation").largest_step)
    0.3333333333333333
    """
    if not isinstance(problem, Problem):
        raise TypeError(f"problem: got {type(problem).__name__}; allowed: a fastmm.Problem")
    if bound not in BOUNDS:
        raise ValueError(f"bound: got {bound!r}; allowed: {', '.join(BOUNDS)}")
    kind = losses.get(loss)
    _, M1, M0 = (np.asarray(part)[..., None] for part in slope_bounds(problem, kind))
    real = problem.real_tokens
    keys = keys_of(problem)
    if bound == "paper":
        if kind.name == "logistic":
            M1, M0 = np.ones(1), np.full(1, 0.25)
        X = values_of(problem)
        tokens = np.linalg.norm(X, 2, axis=(-2, -1))
        if problem.W is not None and problem.Z is None:
            width = tokens * np.linalg.norm(problem.W.astype(np.float64), 2, axis=(-2, -1))[..., None]
        else:
            width = np.linalg.norm(keys, 2, axis=(-2, -1))
        head = np.linalg.norm(problem.v.astype(np.float64), axis=-1)[..., None] * np.abs(problem.Y)
        terms = M0 * (head * tokens * width) ** 2 + 3 * M1 * head * tokens * width**2
    else:
        scores = problem.scores
        spread = np.where(real, scores, -np.inf).max(-1) - np.where(real, scores, np.inf).min(-1)
        diameter = np.zeros(np.broadcast_shapes(keys.shape[:-2], real.shape[:-1]))
        for t in range(problem.T):  # token by token: all differences at once would take T times the memory of the keys
            apart = np.linalg.norm(keys - keys[..., t : t + 1, :], axis=-1)
            diameter = np.maximum(diameter, np.where(real & real[..., t : t + 1], apart, 0).max(-1))
        terms = M0 * (spread * diameter / 4) ** 2 + M1 * spread * diameter**2 / 4
    constant = terms.mean(-1) if problem.n else np.zeros(terms.shape[:-1])
    step = np.divide(1.0, constant, out=np.full(np.shape(constant), math.inf), where=np.asarray(constant) > 0)
    return Smoothness(constant[()], step[()])

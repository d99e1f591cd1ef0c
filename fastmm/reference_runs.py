"""Runs of every kind in plain NumPy, one problem at a time: what `descend` is tested against at moderate norms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fastmm.arrays import FloatArray
from fastmm.reference import LOSSES, softmax

Parameters = dict[str, FloatArray]


def gradients(
    X: FloatArray, Y: FloatArray, parameters: Parameters, loss: str, K: FloatArray | None = None, Z: Any = None
) -> tuple[float, Parameters]:
    """Risk and its gradients in every parameter, by the formulas of the paper without any factoring.

    Parameters
    ----------
    X, Y : ndarray, shapes (n, T, d) and (n,)
    parameters : dict
        "v" (d,), and "p" (d_k,), or "W" (d_q, d), or "Q" (d_q, m) and "K" (d, m).
    loss : {"logistic", "exponential", "correlation"}
    K : ndarray, shape (n, T, d_k), optional
        Keys for "p", by default X.
    Z : ndarray, shape (n, d_q), optional
        Queries for "W", "Q" and "K".

    Returns
    -------
    risk : float
    gradients : dict
    """
    ell, n = LOSSES[loss], len(X)
    risk, out = 0.0, {name: np.zeros_like(value) for name, value in parameters.items()}
    v = parameters["v"]
    for i in range(n):
        keys = X[i] if K is None or "p" not in parameters else K[i]
        if "p" in parameters:
            query = parameters["p"]
        elif "W" in parameters:
            query = parameters["W"].T @ Z[i]
        else:
            query = parameters["K"] @ (parameters["Q"].T @ Z[i])
        s, gamma = softmax(keys @ query), Y[i] * (X[i] @ v)
        z = s @ gamma
        risk += float(ell.value(z)) / n
        pull = ell.slope(z) / n * (keys.T @ (s * (gamma - z)))  # gradient in the query
        out["v"] += ell.slope(z) / n * Y[i] * (X[i].T @ s)
        if "p" in parameters:
            out["p"] += pull
        elif "W" in parameters:
            out["W"] += np.outer(Z[i], pull)
        else:
            out["K"] += np.outer(pull, parameters["Q"].T @ Z[i])
            out["Q"] += np.outer(Z[i], parameters["K"].T @ pull)
    return risk, out


def step(
    rule: str, settings: dict[str, float], x: FloatArray, g: FloatArray, lr: float, k: int, state: dict[str, Any]
) -> FloatArray:
    """The next point of one parameter by a step rule that needs its own gradient only.

    Parameters
    ----------
    rule : {"normalized", "gradient", "sign", "momentum", "adam"}
    settings : dict
        momentum, or beta1, beta2 and epsilon.
    x, g : ndarray
        The parameter and its gradient.
    lr : float
    k : int
        Number of the step, from 0.
    state : dict
        Averages of the steps before, empty at the first; changed in place.

    Returns
    -------
    ndarray
    """
    if rule == "normalized":
        return np.asarray(x - lr * g / np.sqrt((g * g).sum()))
    if rule == "sign":
        return np.asarray(x - lr * np.sign(g))
    if rule == "momentum":
        state["m"] = settings["momentum"] * state.get("m", 0) + g
        return np.asarray(x - lr * state["m"])
    if rule == "adam":
        state["m"] = settings["beta1"] * state.get("m", 0) + (1 - settings["beta1"]) * g
        state["s"] = settings["beta2"] * state.get("s", 0) + (1 - settings["beta2"]) * g * g
        first, second = state["m"] / (1 - settings["beta1"] ** (k + 1)), state["s"] / (1 - settings["beta2"] ** (k + 1))
        return np.asarray(x - lr * first / (np.sqrt(second) + settings["epsilon"]))
    return np.asarray(x - lr * g)


def run(
    parameters: Parameters,
    trained: tuple[str, ...],
    gradients_at: Callable[[Parameters], tuple[float, Parameters]],
    steps: int,
    lr: Callable[[int], float],
    rule: str,
    settings: dict[str, float] | None = None,
    radii: dict[str, float] | None = None,
    infimum: float = 0.0,
) -> list[Parameters]:
    """All iterates of a run: every trained parameter moves by its own gradient at the same iterate.

    Parameters
    ----------
    parameters : dict
        Starts of all parameters.
    trained : tuple of str
    gradients_at : callable
        `gradients` of everything but the parameters.
    steps : int
    lr : callable
        Step size of each step.
    rule : str
        A rule of `step`, or "polyak".
    settings, radii : dict, optional
        Of the rule; radius of the ball of a parameter.
    infimum : float
        Of the risk, for "polyak".

    Returns
    -------
    list of dict
        steps + 1 of them.
    """
    path, states = [dict(parameters)], {name: {} for name in trained}  # type: ignore[var-annotated]
    for k in range(steps):
        risk, g = gradients_at(path[-1])
        rate = lr(k)
        if rule == "polyak":
            rate *= (risk - infimum) / sum((g[name] ** 2).sum() for name in trained)
        point = dict(path[-1])
        for name in trained:
            x = step(rule, settings or {}, point[name], g[name], rate, k, states[name])
            radius = (radii or {}).get(name, np.inf)
            norm = np.sqrt((x * x).sum())
            point[name] = np.asarray(x * (radius / norm) if norm > radius else x)
        path.append(point)
    return path

"""The paper's own data for Figure 1 and for the curves of the two step rules, in exact numbers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fastmm.arrays import FloatArray
from fastmm.paper.torch_random import TorchGenerator
from fastmm.problem import Problem

# Where the six runs of each panel start along their axis.
OFFSETS = (1.0, 0.5, 0.0, -0.5, -1.0, -1.5)


class Experiment(NamedTuple):
    """A problem in the plane and the points p its runs start from, shape (6, 2)."""

    problem: Problem
    starts: FloatArray


def one_input(last_score: float) -> Experiment:
    """Figures 1(a) and 1(b): one input of three tokens.

    The paper's key-query matrix projects onto the first two coordinates and its head reads the third, so the keys
    are the first two coordinates of a token and the third is its score.

    Parameters
    ----------
    last_score : float
        Score of the token at the origin: 0.9 in (a), which ties it with the second token, and 0 in (b).

    Returns
    -------
    Experiment
        With problem of shape n = 1, T = 3, keys in the plane, and starts on the vertical axis.

    Examples
    --------
    >>> from fastmm.paper.data import one_input
    >>> one_input(0.9).problem.scores
    array([[1. , 0.9, 0.9]])
    """
    tokens = np.array([[[-0.1, 1.0, 1.0], [1.0, 0.0, 0.9], [0.0, 0.0, last_score]]])
    starts = np.stack([np.zeros(6), OFFSETS], axis=-1)
    return Experiment(_planar(tokens), starts)


def many_inputs() -> Experiment:
    """Figure 1(c) and the curves of the two step rules: three inputs of seven tokens, torch seed 0.

    Each input has one token with score 1 on the right; the six others have score 1/2, three to the upper left
    and three to the lower left.

    Returns
    -------
    Experiment
        With problem of shape n = 3, T = 7, keys in the plane, and starts on the horizontal axis.

    Examples
    --------
    >>> from fastmm.paper.data import many_inputs
    >>> many_inputs().problem.K[0, 0].round(6)
    array([ 0.774832, -0.230472])
    """
    starts = np.stack([OFFSETS, np.zeros(6)], axis=-1)
    return Experiment(_planar(many_tokens()), starts)


def many_tokens() -> FloatArray:
    """Tokens of Figure 1(c) in three coordinates, the last one the score; shape (3, 7, 3)."""
    tokens = TorchGenerator(0).randn(3, 7, 3) * np.float32(0.2)
    tokens[:, 0] += np.array([1, 0, 0], dtype=np.float32)
    tokens[:, 1:4] += np.array([-1, 1, 0], dtype=np.float32)
    tokens[:, 4:] += np.array([-0.5, -0.5, 0], dtype=np.float32)
    tokens[:, :, 2] = 0.5
    tokens[:, 0, 2] = 1
    return np.asarray(tokens, dtype=np.float64)


def _planar(tokens: FloatArray) -> Problem:
    return Problem(tokens, np.ones(len(tokens)), np.array([0.0, 0.0, 1.0]), K=tokens[..., :2])

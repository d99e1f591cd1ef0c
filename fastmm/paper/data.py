"""The data of the paper's pictures in the plane, in exact numbers."""

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


def two_starts() -> Experiment:
    """Two inputs of two tokens in the plane for which the start decides between two max-margin directions.

    The paper shows such a picture for n = T = d = 2 without its data; these numbers are a replica.

    Returns
    -------
    Experiment
        With ten starts; from the first seven gradient descent finds the global direction.

    Examples
    --------
    >>> from fastmm.paper.data import two_starts
    >>> two_starts().problem.scores
    array([[1., 0.],
           [1., 0.]])
    """
    tokens = np.array([[[1.0, 0.0], [0.0, 0.0]], [[-2.0, 1.0], [0.0, 0.0]]])
    near = [(0, 0), (1, 0), (1, 1), (2, 2), (-1, 1), (0.5, 1.5), (1, 2)]
    return Experiment(Problem(tokens, np.ones(2), [1.0, 3.0]), np.array([*near, (2, 0), (4, 0), (4, -1)], dtype=float))


def joint_inputs(relaxed: bool) -> Problem:
    """Figure 3: three inputs whose tokens are the origin and one other, their own keys; attention and head start apart.

    Parameters
    ----------
    relaxed : bool
        Figure 3(b), where the third input is no support vector of the label SVM, instead of 3(a), where all are.

    Returns
    -------
    Problem
        Its head is the start (-1, 0) of the paper; p starts from (0, -1) there.

    Examples
    --------
    >>> from fastmm.paper.data import joint_inputs
    >>> joint_inputs(relaxed=False).X[:, 1]
    array([[ 1. ,  1. ],
           [ 1. , -1. ],
           [ 0.5,  1. ]])
    """
    tokens = np.zeros((3, 2, 2))
    tokens[:, 1] = [(1.0, 1.0), (1.0, -1.0), (0.5, 1.5 if relaxed else 1.0)]
    return Problem(tokens, [1.0, -1.0, 1.0], [-1.0, 0.0])


def high_scores() -> Problem:
    """The comparison of losses: a batch of eleven problems whose first input has a token of score C = 1, ..., 10, 100.

    Returns
    -------
    Problem
        Of batch shape (11,), with n = T = 2, keys in the plane and the third coordinate of a token as its score.

    Examples
    --------
    >>> from fastmm.paper.data import high_scores
    >>> high_scores().scores[:, 0, 1]
    array([  1.,   2.,   3.,   4.,   5.,   6.,   7.,   8.,   9.,  10., 100.])
    """
    tokens = np.zeros((11, 2, 2, 3))
    tokens[:, 0, 1, :2] = 1.0
    tokens[:, 0, 1, 2] = [*range(1, 11), 100]
    tokens[:, 1, 1] = (1.0, -1.0, 1.0)
    return Problem(tokens, np.ones(2), np.array([0.0, 0.0, 1.0]), K=tokens[..., :2])


def _planar(tokens: FloatArray) -> Problem:
    return Problem(tokens, np.ones(len(tokens)), np.array([0.0, 0.0, 1.0]), K=tokens[..., :2])

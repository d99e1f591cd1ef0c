"""One gradient in p of one large problem, one thread, against the speed at which this machine reads the keys once."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import peers_gradient as peers
import pytest
from data import large_problem
from harness import FULL, GRADIENT, QUICK, installed

import fastmm as mm

# The full size has 3.3 GB of keys; the default fits a small machine and still lies far outside every cache.
INPUTS = 500 if QUICK else 200_000 if FULL else 50_000
TOKENS, WIDTH = 32, 64
SEED = 2024
TOLERANCE = 1e-10  # relative to the norm of the gradient
READERS = dict(zip(GRADIENT[1:3], (peers.one_stream, peers.four_streams), strict=True))
MAKERS = dict(zip(GRADIENT[3:], (peers.numba_loop, peers.torch_analytic, peers.numpy_analytic), strict=True))


@lru_cache(maxsize=1)
def problem() -> mm.Problem:
    data = large_problem(INPUTS, TOKENS, WIDTH, SEED)
    return mm.Problem(data.X, data.Y, data.v)


def ours() -> np.ndarray:
    p = large_problem(INPUTS, TOKENS, WIDTH, SEED).p
    return mm.loss_and_grad(problem(), p, wrt="p", threads=1).grad["p"]


@lru_cache(maxsize=1)
def reference() -> np.ndarray:
    data = large_problem(INPUTS, TOKENS, WIDTH, SEED)
    return peers.numpy_analytic(data.X, problem().scores, data.p)()


@pytest.mark.parametrize("contestant", installed(GRADIENT))
def test_gradient(race, lap, contestant):
    data = large_problem(INPUTS, TOKENS, WIDTH, SEED)
    scores = problem().scores
    if contestant in READERS:
        call = READERS[contestant](data.X, scores, data.p)
        distance = abs(call() - data.X.sum()) / np.sqrt(data.X.size)
    else:
        call = ours if contestant == GRADIENT[0] else MAKERS[contestant](data.X, scores, data.p)
        distance = np.linalg.norm(call() - reference()) / np.linalg.norm(reference())
    assert distance <= TOLERANCE
    race(
        f"gradient of p, n = {INPUTS}, T = {TOKENS}, d = {WIDTH}, float64",
        contestant,
        call,
        units=1,
        unit="gradient",
        agreement=f"{distance:.0e}",
        bytes=data.X.nbytes,
        reader=contestant in READERS,
    )

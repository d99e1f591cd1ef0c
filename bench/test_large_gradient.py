"""Gradients of one large problem, one thread, against the speed at which this machine reads the keys once."""

from __future__ import annotations

from functools import cache, lru_cache

import numpy as np
import pytest

import bench.peers_gradient as peers
import fastmm as mm
from bench.data import large_problem
from bench.harness import FULL, GRADIENT, QUICK, installed

# The full size has 3.3 GB of keys; the default fits a small machine and still lies far outside every cache.
INPUTS = 500 if QUICK else 200_000 if FULL else 50_000
TOKENS, WIDTH = 32, 64
SEED = 2024
TOLERANCE = 1e-10  # relative to the norm of the gradient, or of the sum to what rounding of it may be
READERS = dict(zip(GRADIENT[1:4], (peers.one_stream, peers.four_streams, peers.eight_streams), strict=True))
JOINT = dict(zip(GRADIENT[4:], (peers.numba_joint, peers.torch_joint, peers.numpy_joint), strict=True))
MAKERS = dict(zip(GRADIENT[4:], (peers.numba_loop, peers.torch_analytic, peers.numpy_analytic), strict=True))


@lru_cache(maxsize=1)
def problem() -> mm.Problem:
    """Checked, with its scores computed: what is done once for a problem is outside the clock."""
    data = large_problem(INPUTS, TOKENS, WIDTH, SEED)
    made = mm.Problem(data.X, data.Y, data.v)
    made.scores  # noqa: B018
    return made


def ours() -> np.ndarray:
    p = large_problem(INPUTS, TOKENS, WIDTH, SEED).p
    return mm.loss_and_grad(problem(), p, threads=1).grad["p"]


def ours_joint() -> np.ndarray:
    """Both gradients at a head that the problem does not know yet: its scores are part of the work."""
    data = large_problem(INPUTS, TOKENS, WIDTH, SEED)
    grad = mm.loss_and_grad(problem(), data.p, data.v, wrt=("p", "v"), threads=1).grad
    return np.concatenate([grad["p"], grad["v"]])


@cache
def reference(joint: bool) -> np.ndarray:
    data = large_problem(INPUTS, TOKENS, WIDTH, SEED)
    if joint:
        return peers.numpy_joint(data.X, data.Y, data.v, data.p)()
    return peers.numpy_analytic(data.X, data.scores, data.p)()


@cache
def prepared(contestant: str, joint: bool) -> tuple[peers.Call, str]:
    """The compiled contestant, and how far its answer is from the reference in NumPy."""
    data = large_problem(INPUTS, TOKENS, WIDTH, SEED)
    if contestant in READERS:
        call = READERS[contestant](data.X, data.scores, data.p)
        distance = abs(call() - data.X.sum()) / np.sqrt(data.X.size)
    else:
        if contestant == GRADIENT[0]:
            call = ours_joint if joint else ours
        elif joint:
            call = JOINT[contestant](data.X, data.Y, data.v, data.p)
        else:
            call = MAKERS[contestant](data.X, data.scores, data.p)
        distance = np.linalg.norm(call() - reference(joint)) / np.linalg.norm(reference(joint))
    assert distance <= TOLERANCE
    return call, f"{distance:.0e}"


@pytest.mark.parametrize("contestant", installed(GRADIENT))
@pytest.mark.parametrize("joint", [False, True], ids=["p", "p and v"])
def test_gradient(race, lap, contestant, joint):
    call, agreement = prepared(contestant, joint)
    what = "joint gradient of p and v, keys = values" if joint else "gradient of p"
    race(
        f"{what}, n = {INPUTS}, T = {TOKENS}, d = {WIDTH}, float64",
        contestant,
        call,
        units=1,
        unit="call",
        agreement=agreement,
        bytes=problem().K.nbytes,  # the keys are read once, and as values not again
        reader=contestant in READERS,
    )

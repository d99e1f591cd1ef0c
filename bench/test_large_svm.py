"""One ATT-SVM of many rows, one thread, against general QP solvers that get their rows ready-made."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import bench.peers_svm as peers
import fastmm as mm
from bench.data import margin_rows, separable_keys
from bench.harness import FULL, LARGE_MARGIN, QUICK, agrees, certified, installed

SEED = 78
# inputs, tokens, d; the full ones have 310,000 rows in 64 dimensions and 30,000 in 256
SHAPES = [(60, 8, 8)] if QUICK else [(10_000, 32, 64), (1000, 31, 256)] if FULL else [(1500, 32, 64), (400, 31, 128)]
MAKERS = dict(zip(LARGE_MARGIN[2:], (peers.DaqpCalls, peers.quadprog_calls, peers.cvxopt_calls), strict=True))


@cache
def prepared(contestant: str, shape: tuple[int, int, int]) -> tuple[peers.Call, str]:
    """The contestant, and how far its answer is from ours; ours is certified, and checked on all rows here."""
    K, selected = (array[0] for array in separable_keys(1, shape, SEED))
    answer = mm.att_svm(K, selected, threads=1)
    rows = margin_rows(K[None], selected[None])
    if contestant in LARGE_MARGIN[:2]:
        start = None
        if contestant == LARGE_MARGIN[1]:  # the scores of the selected tokens are the best, the others equal
            scores = np.zeros(K.shape[:2])
            np.put_along_axis(scores, selected[:, None], 1.0, axis=1)
            problem = mm.Problem(scores[..., None], np.ones(len(K)), [1.0], K=K)
            start = mm.descend(problem, steps=1000 if not QUICK else 50, lr=1.0).direction
        return lambda: mm.att_svm(K, selected, threads=1, start=start), certified(rows, answer.w[None])
    return agrees(MAKERS[contestant](rows), answer.w[None])


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("contestant", installed(LARGE_MARGIN))
def test_large_svm(race, lap, contestant, shape):
    call, agreement = prepared(contestant, shape)
    n, T, d = shape
    rounds = 3 if contestant in LARGE_MARGIN[:2] else 1
    group = f"large ATT-SVM, {n * (T - 1)} rows, d = {d}"
    race(group, contestant, call, units=1, unit="problem", agreement=agreement, rounds=rounds)

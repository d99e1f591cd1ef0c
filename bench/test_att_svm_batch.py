"""Batches of small ATT-SVMs, one thread, against general QP solvers that get their rows ready-made."""

from __future__ import annotations

import statistics
from functools import cache

import numpy as np
import pytest

import bench.peers_svm as peers
import fastmm as mm
from bench.data import margin_rows, separable_keys
from bench.harness import MARGIN, QUICK, agrees, certified, installed

SEED = 77
SHAPES = [(2, 3, 5), (6, 8, 10), (10, 10, 20)]
MAKERS = dict(
    zip(MARGIN[1:], (peers.DaqpCalls, peers.quadprog_calls, peers.osqp_calls, peers.cvxopt_calls), strict=True)
)
INSTANCES = {MARGIN[0]: 2048, MARGIN[3]: 20, MARGIN[4]: 50}


def instances(contestant: str) -> int:
    wanted = INSTANCES.get(contestant, 512)
    return min(wanted, 8) if QUICK else wanted


@cache
def prepared(contestant: str, shape: tuple[int, int, int]) -> tuple[peers.Call, str]:
    """The contestant, and how far its answer is from ours; ours is all certified, and checked on its rows here."""
    keys, tokens = separable_keys(2048, shape, SEED)
    K, selected = (np.ascontiguousarray(array[: instances(contestant)]) for array in (keys, tokens))
    answer = mm.att_svm(K, selected, threads=1, throw=False)
    assert np.all(answer.optimal)
    rows = margin_rows(K, selected)
    if contestant == MARGIN[0]:  # builds its rows and certifies its answers inside the clock
        return lambda: mm.att_svm(K, selected, threads=1, throw=False), certified(rows, answer.w)
    return agrees(MAKERS[contestant](rows), answer.w)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("contestant", installed(MARGIN))
def test_att_svm(race, lap, contestant, shape):
    call, agreement = prepared(contestant, shape)
    inside = getattr(call, "inside", None)
    if inside is not None:
        inside.clear()
    benchmark = race(
        f"ATT-SVM {shape}", contestant, call, units=instances(contestant), unit="problem", agreement=agreement
    )
    if inside:
        benchmark.extra_info["inside"] = statistics.median(inside)

"""Batches of small ATT-SVMs, one thread, against general QP solvers that get their rows ready-made."""

from __future__ import annotations

import numpy as np
import peers_qp as peers
import pytest
from data import margin_rows, separable_keys
from harness import MARGIN, QUICK, distances, installed

import fastmm as mm

SEED = 77
SHAPES = [(2, 3, 5), (5, 5, 10), (6, 8, 10), (10, 10, 20)]
TOLERANCE = 1e-6  # relative distance of w
MAKERS = dict(
    zip(MARGIN[1:], (peers.daqp_calls, peers.quadprog_calls, peers.osqp_calls, peers.cvxopt_calls), strict=True)
)
INSTANCES = {MARGIN[0]: 2048, MARGIN[3]: 20, MARGIN[4]: 50}


def instances(contestant: str) -> int:
    wanted = INSTANCES.get(contestant, 512)
    return min(wanted, 8) if QUICK else wanted


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("contestant", installed(MARGIN))
def test_att_svm(race, lap, contestant, shape):
    keys, tokens = separable_keys(2048, shape, SEED)
    K, selected = (np.ascontiguousarray(array[: instances(contestant)]) for array in (keys, tokens))
    answer = mm.att_svm(K, selected, threads=1)
    assert np.all(answer.optimal)
    rows = margin_rows(K, selected)
    if contestant == MARGIN[0]:
        call = lambda: mm.att_svm(K, selected, threads=1)  # noqa: E731 - builds its rows inside the clock
        worst = float((1 - (rows @ answer.w[..., None])[..., 0]).max())
        assert worst <= 1e-9
        agreement = f"certified, rows violated by {max(worst, 0):.0e} at most"
    else:
        call = MAKERS[contestant](rows)
        worst = float(distances(call(), answer.w).max())
        assert worst <= TOLERANCE, f"relative distance {worst}"
        agreement = f"{worst:.0e}"
    race(f"ATT-SVM {shape}", contestant, call, units=len(K), unit="problem", agreement=agreement)

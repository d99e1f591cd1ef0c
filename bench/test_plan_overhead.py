"""What a call of a plan costs beside its kernel: a plan of a tiny problem against a call that does nothing."""

from __future__ import annotations

import numpy as np
import pytest

import fastmm as mm
from bench.data import small_problems
from bench.harness import PLAN
from fastmm import _core

CALLS = 1000  # in one measurement
SEED = 2024


def calls(contestant: str):
    data = small_problems(1, (1, 2, 2), SEED)
    problem = mm.Problem(data.X[0], data.Y[0], data.v[0])
    plan, p = mm.Plan(problem, threads=1), np.array([0.5, -0.25])
    want = mm.loss_and_grad(problem, p, threads=1).grad["p"]
    assert np.array_equal(plan(p).grad["p"], want)
    call = {
        PLAN[0]: lambda: plan(p),
        PLAN[1]: lambda: _core.nothing(p, None, None),
        PLAN[2]: lambda: mm.loss_and_grad(problem, p, threads=1),
    }[contestant]

    def run() -> None:
        for _ in range(CALLS):
            call()

    return run


@pytest.mark.parametrize("contestant", PLAN)
def test_plan_overhead(race, lap, contestant):
    race(
        "one gradient of one input, T = 2, d = 2",
        contestant,
        calls(contestant),
        units=CALLS,
        unit="call",
        agreement="0",
    )

"""The Numba loops at (6, 8, 10), one thread: against a plain Numba loop, and with a user's loss and rule inside."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest

import bench.peers_descent as peers
import fastmm as mm
from bench.data import small_problems
from bench.harness import QUICK, distances
from fastmm import jit

SHAPE, SEED = (6, 8, 10), 2306
STEPS = 100 if QUICK else 1000
INSTANCES = 16 if QUICK else 256
PEER = "Numba hand-written gradient"
CONTESTANTS = ("fastmm jit", "fastmm jit, custom loss", "fastmm jit, custom rule", PEER)


def value(x):
    return max(-x, 0.0) + math.log1p(math.exp(-abs(x)))


def slope(x):
    return -1.0 / (1.0 + math.exp(x))


def log_slope(x):
    return -max(x, 0.0) - math.log1p(math.exp(-abs(x)))


def normalized(x, direction, log_norm, lr, step, state):
    for j in range(len(x)):
        x[j] += lr * direction[j]


@cache
def prepared(contestant: str) -> tuple[peers.Run, str]:
    """A compiled contestant, and how far its answer after 100 steps is from the compiled core's."""
    batch = small_problems(1024, SHAPE, SEED).first(INSTANCES)
    problem = mm.Problem(*batch)
    if contestant == PEER:
        run = peers.numba_loop(batch)
    else:
        loss = mm.custom_loss(value, slope, log_slope=log_slope) if contestant.endswith("loss") else "logistic"
        rule = mm.custom_rule(normalized) if contestant.endswith("rule") else "normalized"
        start = np.zeros((INSTANCES, SHAPE[2]))

        def run(steps):
            own = {"lr": peers.LR, "batch": (INSTANCES,), "threads": 1}
            return jit.run(problem, start, steps=steps, rule=rule, loss=loss, **own)["p"]

    worst = float(distances(run(100), mm.descend(problem, steps=100, lr=peers.LR).p).max())
    assert worst <= (1e-6 if contestant == PEER else 1e-11), f"relative distance {worst}"
    return run, f"{worst:.0e} after 100 steps"


@pytest.mark.parametrize("contestant", CONTESTANTS)
def test_numba_loops(race, lap, contestant):
    run, agreement = prepared(contestant)
    race(f"numba {SHAPE}, {STEPS} steps", contestant, lambda: run(STEPS), units=INSTANCES, unit="instance",
         agreement=agreement, rounds=5)  # fmt: skip

"""1000 normalised steps on batches of small problems, against the loops people write."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import bench.peers_descent as peers
import fastmm as mm
from bench.data import Batch, small_problems
from bench.harness import DESCENT, QUICK, distances, installed, on_cores

STEPS = 100 if QUICK else 1000
SEED = 2306
SHAPES = [(6, 8, 10), (2, 3, 5), (5, 5, 10), (10, 10, 20)]
LONG_SHAPES = [(3, 64, 32), (100, 50, 64)]  # 100 steps on fewer instances: they take as long
OURS = DESCENT[:3]
MAKERS = dict(
    zip(
        DESCENT[3:],
        (peers.jax_grad, peers.jax_by_hand, peers.numba_loop, peers.numpy_batch, peers.torch_module),
        strict=True,
    )
)
# The module loop takes one instance at a time and gets a few; times are per instance.
INSTANCES = {"PyTorch module loop": 3} | dict.fromkeys(OURS, 1024)

# The other formulas divide by the norm of the gradient plus 1e-9 and lose digits as p grows: after so many steps all
# still agree to the tolerance, at (2, 3, 5) for a shorter time because its gradients shrink soonest.
CHECK_STEPS = {(2, 3, 5): 20, (3, 64, 32): 20}
CHECK_STEPS_ELSEWHERE = 100
TOLERANCE = 1e-6  # relative distance of p
TOLERANCES = {(100, 50, 64): 1e-5}  # gradients of 1e-3, to which the peers add their 1e-9
TOLERANCE32 = 1e-4  # of float32 runs


def ours(batch: Batch, dtype: str, threads: int = 1) -> peers.Run:
    problem = mm.Problem(*(array.astype(dtype) for array in batch))
    problem.scores  # noqa: B018 - read once, before the clock runs

    def run(steps: int) -> np.ndarray:
        with on_cores(threads):
            return mm.descend(problem, steps=steps, lr=peers.LR, threads=threads).p

    return run


def instances(contestant: str, shape: tuple[int, int, int]) -> int:
    wanted = 16 if shape in LONG_SHAPES else INSTANCES.get(contestant, 256)
    return min(wanted, 16) if QUICK else wanted


@cache
def prepared(contestant: str, shape: tuple[int, int, int]) -> tuple[peers.Run, Batch, str]:
    """The compiled contestant, its batch, and how far its answer is from ours; ours is compared with NumPy's."""
    batch = small_problems(1024, shape, SEED).first(instances(contestant, shape))
    single = contestant.endswith("float32")
    threads = 2 if contestant.endswith("two threads") else 1
    run = ours(batch, "float32" if single else "float64", threads) if contestant in OURS else MAKERS[contestant](batch)
    other = peers.numpy_batch(batch) if contestant == OURS[0] else ours(batch, "float64")
    steps = CHECK_STEPS.get(shape, CHECK_STEPS_ELSEWHERE)
    worst = float(distances(run(steps), other(steps)).max())
    allowed = TOLERANCE32 if single else TOLERANCES.get(shape, TOLERANCE)
    assert worst <= allowed, f"relative distance {worst} after {steps} steps"
    return run, batch, f"{worst:.0e} after {steps} steps"


def compete(race, contestant, shape):
    run, batch, agreement = prepared(contestant, shape)
    steps = STEPS // 10 if shape in LONG_SHAPES else STEPS
    group = f"descent {shape}, {steps} steps"
    rounds = 3 if contestant.startswith("PyTorch") else 5
    race(group, contestant, lambda: run(steps), units=len(batch.X), unit="instance", agreement=agreement, rounds=rounds)


@pytest.mark.parametrize("contestant", installed(DESCENT))
def test_the_shape_of_the_race(race, lap, contestant):
    compete(race, contestant, SHAPES[0])


@pytest.mark.parametrize("shape", SHAPES[1:], ids=str)
@pytest.mark.parametrize("contestant", OURS)
def test_other_shapes(race, lap, contestant, shape):
    compete(race, contestant, shape)


@pytest.mark.parametrize("shape", LONG_SHAPES, ids=str)
@pytest.mark.parametrize("contestant", [*OURS, *(name for name in installed(DESCENT) if name.startswith("Numba"))])
def test_longer_and_wider_inputs(race, lap, contestant, shape):
    compete(race, contestant, shape)

"""1000 normalised steps on batches of small problems, one thread, against the loops people write."""

from __future__ import annotations

import peers_descent as peers
import pytest
from data import Batch, small_problems
from harness import DESCENT, QUICK, distances, installed

import fastmm as mm

STEPS = 40 if QUICK else 1000
SEED = 2306
SHAPES = [(6, 8, 10), (2, 3, 5), (5, 5, 10), (10, 10, 20)]
OURS = DESCENT[:2]
# Contestants other than ours get fewer instances where a round would take too long; times are per instance.
INSTANCES = {"PyTorch module loop": 1, "NumPy whole batch at once": 64} | dict.fromkeys(OURS, 1024)
MAKERS = dict(
    zip(
        DESCENT[2:],
        (peers.jax_grad, peers.jax_by_hand, peers.numba_loop, peers.numpy_batch, peers.torch_module),
        strict=True,
    )
)

# After so many steps the plain formulas still agree with ours; later they drown in rounding, at (2, 3, 5) first.
CHECK_STEPS = {(6, 8, 10): 200}
CHECK_STEPS_ELSEWHERE = 50
TOLERANCE = 1e-5  # relative distance of p; they add 1e-9 to the norm of the gradient, which alone makes up to 4e-6


def ours(batch: Batch, dtype: str) -> peers.Run:
    problem = mm.Problem(*(array.astype(dtype) for array in batch))
    problem.scores  # noqa: B018 - read once, before the clock runs
    return lambda steps: mm.descend(problem, steps=steps, lr=peers.LR, threads=1).p


def agreement(run: peers.Run, batch: Batch) -> str:
    steps = CHECK_STEPS.get(batch.X.shape[1:], CHECK_STEPS_ELSEWHERE)
    worst = float(distances(run(steps), ours(batch, "float64")(steps)).max())
    assert worst <= TOLERANCE, f"relative distance {worst} after {steps} steps"
    return f"{worst:.0e} after {steps} steps"


def instances(contestant: str) -> int:
    wanted = INSTANCES.get(contestant, 256)
    return min(wanted, 16) if QUICK else wanted


@pytest.mark.parametrize("contestant", installed(DESCENT))
def test_the_shape_of_the_race(race, lap, contestant):
    batch = small_problems(1024, SHAPES[0], SEED).first(instances(contestant))
    dtype = "float32" if contestant.endswith("float32") else "float64"
    run = ours(batch, dtype) if contestant in OURS else MAKERS[contestant](batch)
    found = agreement(peers.numpy_batch(batch) if contestant == OURS[0] else run, batch)
    rounds = 3 if contestant.startswith(("PyTorch", "NumPy")) else 7
    group = f"descent {SHAPES[0]}, {STEPS} steps"
    race(group, contestant, lambda: run(STEPS), units=len(batch.X), unit="instance", agreement=found, rounds=rounds)


@pytest.mark.parametrize("shape", SHAPES[1:], ids=str)
@pytest.mark.parametrize("contestant", OURS)
def test_other_shapes(race, lap, contestant, shape):
    batch = small_problems(1024, shape, SEED).first(instances(contestant))
    dtype = contestant.split()[1]
    run = ours(batch, dtype)
    found = agreement(peers.numpy_batch(batch) if contestant == OURS[0] else run, batch)
    group = f"descent {shape}, {STEPS} steps"
    race(group, contestant, lambda: run(STEPS), units=len(batch.X), unit="instance", agreement=found, rounds=7)

"""Smoothness constants: the paper's numbers, and gradients that never change faster."""

from __future__ import annotations

import numpy as np
import pytest

import fastmm as mm
from fastmm.paper.data import one_input, two_starts

LOSSES = ("logistic", "exponential", "correlation")


def problem_of(seed):
    random = np.random.default_rng([5, seed])
    n, T, d = random.integers(1, 6, 3)
    X, K = random.standard_normal((n, T, d)), random.standard_normal((n, T, 3))
    lengths = random.integers(1, T + 1, n) if seed % 2 else None
    if lengths is not None:
        for i, length in enumerate(lengths):
            X[i, length:] = K[i, length:] = np.nan
    return mm.Problem(X, random.choice([-1.0, 1.0], n), random.standard_normal(d), K=K, lengths=lengths), random


def test_the_paper_s_constant_has_its_values():
    """1/L of Figure 1(a), whose matrix projects onto the plane, and of the counterexample."""
    tokens = np.array([[[-0.1, 1.0, 1.0], [1.0, 0.0, 0.9], [0.0, 0.0, 0.9]]])
    problem = mm.Problem(tokens, [1.0], [0.0, 0.0, 1.0], W=np.eye(3)[:2])
    np.testing.assert_allclose(mm.theory.smoothness(problem, "paper").largest_step, 0.048, atol=5e-4)
    other = mm.theory.smoothness(two_starts().problem, "paper")
    np.testing.assert_allclose(other.largest_step, 0.01108, atol=5e-6)
    np.testing.assert_allclose(other.constant * other.largest_step, 1, rtol=1e-15)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("bound", ["tight", "paper"])
@pytest.mark.parametrize("seed", range(12))
def test_gradients_never_change_faster(seed, bound, loss):
    problem, random = problem_of(seed)
    constant = mm.theory.smoothness(problem, bound, loss=loss).constant
    p = random.standard_normal((400, 3)) * 10.0 ** random.uniform(-2, 1, (400, 1))
    q = p + random.standard_normal((400, 3)) * 10.0 ** random.uniform(-4, 1, (400, 1))
    change = [mm.loss_and_grad(problem, point, loss=loss).grad["p"] for point in (p, q)]
    apart = np.linalg.norm(p - q, axis=-1)
    assert (np.linalg.norm(change[0] - change[1], axis=-1) <= constant * apart * (1 + 1e-9) + 1e-15).all()


@pytest.mark.parametrize("loss", LOSSES)
def test_steps_up_to_the_largest_never_increase_the_risk(loss):
    problem, starts = one_input(0.0)
    step = mm.theory.smoothness(problem, loss=loss).largest_step
    run = mm.descend(problem, p0=starts, steps=300, lr=step, rule="gradient", loss=loss, record=1)
    assert (np.diff(run.history.loss, axis=0) <= 1e-15).all()


def test_the_tight_bound_does_not_see_shifts_and_is_smaller():
    random = np.random.default_rng(8)
    X = random.standard_normal((4, 5, 3))
    Y, v = np.ones(4), random.standard_normal(3)
    near, far = mm.Problem(X, Y, v, K=X), mm.Problem(X, Y, v, K=X + 100.0)
    tight, shifted = (mm.theory.smoothness(problem).constant for problem in (near, far))
    np.testing.assert_allclose(shifted, tight, rtol=1e-12)
    assert tight < mm.theory.smoothness(near, "paper").constant < mm.theory.smoothness(far, "paper").constant


def test_batches_and_flat_problems():
    problem, _ = problem_of(2)
    pair = mm.Problem(np.stack([problem.X] * 2), problem.Y, problem.v, K=np.stack([problem.K, 2 * problem.K]))
    found = mm.theory.smoothness(pair)
    assert found.constant.shape == (2,)
    np.testing.assert_allclose(found.constant[1], 4 * found.constant[0], rtol=1e-12)
    flat = mm.theory.smoothness(mm.Problem([[[1.0], [1.0]]], [1.0], [1.0]))
    assert flat == (0.0, np.inf)


def test_bad_arguments_are_named():
    problem, _ = problem_of(0)
    with pytest.raises(TypeError, match=r"problem: got int; allowed: a fastmm\.Problem"):
        mm.theory.smoothness(1)
    with pytest.raises(ValueError, match="bound: got 'loose'; allowed: paper, tight"):
        mm.theory.smoothness(problem, "loose")
    with pytest.raises(ValueError, match="hinge"):
        mm.theory.smoothness(problem, loss="hinge")

"""Plans: the bits of the functions, arrays that stay, several threads, and what is refused."""

import threading

import numpy as np
import pytest
from kernel_helpers import LOSSES, problem_of, rng, with_queries

import fastmm as mm


def small():
    return mm.Problem(np.ones((2, 3, 4)), np.ones(2), np.ones(4), Z=np.ones((2, 5)))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("batch", [(), (1,), (3,), (2, 3)], ids=str)
@pytest.mark.parametrize("loss", LOSSES)
def test_plans_give_the_bits_of_the_functions(loss, batch, dtype):
    """A plan fills its arrays with what loss_and_grad and descent_direction give, again and again."""
    problem = problem_of(25, 3, 5, 8, batch=batch, dtype=dtype)
    plan = mm.Plan(problem, ("p", "v"), loss, threads=1)
    arrays = [plan.loss, plan.grad["p"], plan.grad["v"], plan.direction["p"]]
    for seed in range(3):
        p, v = rng(seed).normal(size=(2, *batch, 8)).astype(dtype)
        for head in (None, v):
            assert plan(p, head) is plan
            want = mm.loss_and_grad(problem, p, head, loss=loss, wrt=("p", "v"))
            assert np.array_equal(plan.loss, want.loss)
            for name in "pv":
                assert plan.grad[name].dtype == dtype
                assert np.array_equal(plan.grad[name], want.grad[name])
        unit, log_norm = mm.descent_direction(problem, p, loss)
        plan(p)
        assert np.array_equal(plan.direction["p"], unit)
        assert np.array_equal(plan.log_norm["p"], log_norm)
    assert all(a is b for a, b in zip(arrays, [plan.loss, *plan.grad.values(), plan.direction["p"]], strict=True))


@pytest.mark.parametrize("shared", [False, True])
def test_plans_in_matrices(shared):
    """A plan in W gives what loss_and_grad gives, for a shared query as well."""
    problem = with_queries(26, 4, 5, 6, shared=shared, ragged=True)
    plan = mm.Plan(problem, ("W", "v"), threads=2)
    for seed in range(2):
        W = rng(seed).normal(size=(3, 6))
        plan(W=W)
        want = mm.loss_and_grad(problem, W=W, wrt=("W", "v"))
        assert plan.loss == want.loss
        assert np.array_equal(plan.grad["W"], want.grad["W"])
        assert np.array_equal(plan.grad["v"], want.grad["v"])
        assert np.exp(plan.log_norm["W"]) == pytest.approx(np.linalg.norm(want.grad["W"]), rel=1e-12)


def test_a_plan_may_be_called_by_several_threads():
    """Threads that call one plan at the same time take turns; every result is one that some thread asked for."""
    problem = problem_of(27, 40, 20, 16)
    plan = mm.Plan(problem, threads=1)
    points = rng(28).normal(size=(4, 16))
    want = {plan(p).grad["p"].tobytes() for p in points}
    errors = []

    def work(p):
        for _ in range(200):
            try:
                plan(p)
            except Exception as error:
                errors.append(error)

    threads = [threading.Thread(target=work, args=(p,)) for p in points]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert plan.grad["p"].tobytes() in want


def test_a_plan_keeps_its_data_alive():
    """The arrays of a problem that nobody else holds stay as long as the plan does."""
    plan = mm.Plan(problem_of(29, 30, 20, 16), ("p", "v"))
    p = np.ones(16)
    want = plan(p).grad["p"].copy()
    for _ in range(20):
        np.full((30, 20, 16), np.nan)
        assert np.array_equal(plan(p).grad["p"], want)


PLAN_REFUSED = {
    "factors": (lambda: mm.Plan(small(), "Q"), "^wrt: got 'Q'; allowed in a plan"),
    "p and W": (lambda: mm.Plan(small(), ("p", "W")), "^p and W: got both"),
    "no queries": (lambda: mm.Plan(problem_of(30, 2, 3, 4), "W"), "^W: the problem has no queries"),
    "no p": (lambda: mm.Plan(small())(), r"^p: got NoneType; allowed: a C-contiguous float64 array of shape \(4,\)"),
    "list": (lambda: mm.Plan(small())([0.0] * 4), "^p: got list"),
    "dtype": (lambda: mm.Plan(small())(np.ones(4, np.float32)), "^p: got dtype float32"),
    "shape": (lambda: mm.Plan(small())(np.ones(5)), r"^p: got dtype float64, shape \(5,\)"),
    "strides": (lambda: mm.Plan(small())(np.ones(8)[::2]), "^p: got dtype float64"),
    "v": (lambda: mm.Plan(small())(np.ones(4), np.ones(3)), r"^v: got dtype float64, shape \(3,\)"),
    "W in a plan in p": (lambda: mm.Plan(small())(np.ones(4), W=np.ones((5, 4))), "^W: the plan is one in p"),
    "p in a plan in W": (lambda: mm.Plan(small(), "W")(np.ones(4), W=np.ones((5, 4))), "^p: the plan is one in W"),
    "W": (lambda: mm.Plan(small(), "W")(W=np.ones((4, 4))), r"^W: got dtype float64, .*shape \(5, 4\)"),
    "batch": (
        lambda: mm.Plan(problem_of(31, 2, 3, 4, batch=(2, 3)))(np.ones((2, 4))),
        r"^p: got dtype float64, shape \(2, 4\); allowed: .*\(6, 4\)",
    ),
    "overflow": (lambda: mm.Plan(mm.Problem([[[9.0], [0.0]]], [1], [1.0]))(np.array([1e308])), "^p: the logits K p"),
    "not a number": (lambda: mm.Plan(small())(np.full(4, np.nan)), "^p: the logits K p"),
}


@pytest.mark.parametrize("case", PLAN_REFUSED)
def test_plans_refuse_what_does_not_fit(case):
    """A plan converts nothing: another dtype, shape or order is a ValueError that says what is allowed."""
    call, message = PLAN_REFUSED[case]
    with pytest.raises(ValueError, match=message):
        call()

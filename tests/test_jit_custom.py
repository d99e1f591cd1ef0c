"""Users' losses and step rules: checked when made, the same answers as the built-in ones, callable by address."""

import ctypes
import math

import numpy as np
import pytest
from kernel_helpers import problem_of

import fastmm as mm
from fastmm import jit, losses


def value(x):
    return max(-x, 0.0) + math.log1p(math.exp(-abs(x)))


def slope(x):
    return -1.0 / (1.0 + math.exp(min(x, 700.0)))


def curvature(x):
    e = math.exp(-abs(x))
    return e / (1.0 + e) ** 2


def log_slope(x):
    return -max(x, 0.0) - math.log1p(math.exp(-abs(x)))


def normalized(x, direction, log_norm, lr, step, state):
    for j in range(len(x)):
        x[j] += lr * direction[j]


def heavy_ball(x, direction, log_norm, lr, step, state):
    for j in range(len(x)):
        state[j] = 0.9 * state[j] + math.exp(log_norm) * direction[j]
        x[j] += lr * state[j]


@pytest.fixture(scope="module")
def logistic():
    return mm.custom_loss(value, slope, curvature, log_slope, name="mine")


def test_a_loss_has_the_functions_of_the_built_in_one(logistic):
    """Values, slopes and curvatures are those given, for arrays of any shape and dtype."""
    x, builtin = np.linspace(-5, 5, 6).reshape(2, 3), losses.get("logistic")
    for name in ("value", "slope", "curvature"):
        assert np.allclose(getattr(logistic, name)(x), getattr(builtin, name)(x), rtol=1e-14)
    assert logistic.value(np.float32(0.5)).dtype == np.float32
    assert losses.get(logistic) is logistic
    assert float(logistic.log_slope(1e6)) == -1e6
    assert repr(logistic) == "custom_loss('mine')"
    without = mm.custom_loss(value, slope)
    assert np.allclose(without.curvature(x), builtin.curvature(x), atol=1e-8)
    assert float(without.log_slope(0.0)) == math.log(0.5)


def test_custom_runs_are_the_built_in_ones(logistic):
    """A loss equal to logistic and a rule equal to the normalised one give the built-in path to 1e-12."""
    problem = problem_of(1, 6, 8, 10, batch=(5,))
    start, own = np.zeros((5, 10)), {"steps": 60, "lr": 0.05, "batch": (5,)}
    plain = jit.run(problem, start, **own)["p"]
    both = jit.run(problem, start, loss=logistic, rule=mm.custom_rule(normalized), **own)["p"]
    assert np.allclose(both, plain, rtol=0, atol=1e-12 * np.abs(plain).max())


def test_a_rule_with_memory():
    """Heavy ball in p and v, each with a memory of its own, is the recursion written in NumPy."""
    problem = problem_of(2, 3, 4, 5)
    out = jit.run(
        problem, np.zeros((1, 5)), steps=20, lr=0.1, rule=mm.custom_rule(heavy_ball, 1), train="pv", batch=(1,)
    )
    p, v, m_p, m_v = np.zeros(5), problem.v.copy(), np.zeros(5), np.zeros(5)
    for _ in range(20):
        grad = mm.loss_and_grad(problem, p, v, wrt=("p", "v")).grad
        m_p, m_v = 0.9 * m_p - grad["p"], 0.9 * m_v - grad["v"]
        p, v = p + 0.1 * m_p, v + 0.1 * m_v
    assert np.allclose(out["p"][0], p, rtol=0, atol=1e-12)
    assert np.allclose(out["v"][0], v, rtol=0, atol=1e-12)


def test_a_loss_by_address(logistic):
    """The C function behind the address gives value and log slope."""
    real = ctypes.POINTER(ctypes.c_double)
    call = ctypes.CFUNCTYPE(None, ctypes.c_double, real, real)(logistic.address)
    for x in (-3.0, 0.0, 2.5, 1e6):
        to_value, to_log = ctypes.c_double(), ctypes.c_double()
        call(x, to_value, to_log)
        assert (to_value.value, to_log.value) == (value(x), log_slope(x))


BAD_LOSSES = {
    "increasing": ((lambda x: x, lambda x: 1.0), "^slope: is 1 at .*; allowed: negative numbers"),
    "slope": ((lambda x: math.exp(-x), lambda x: -2 * math.exp(-x)), "^slope: is .* at .*, but differences of value"),
    "curvature": (
        (lambda x: math.exp(-x), lambda x: -math.exp(-x), lambda x: 1.0),
        "^curvature: is 1 at .*, but differences of slope give",
    ),
    "log_slope": (
        (lambda x: math.exp(-x), lambda x: -math.exp(-x), None, lambda x: -2 * x),
        r"^log_slope: is .* at .*, but log\(-slope\) is",
    ),
    "nan": ((lambda x: math.nan, lambda x: -1.0), "^value: is nan at .*; allowed: finite numbers"),
    "not a function": ((1.0, lambda x: -1.0), "^value: got float; allowed: a function of one float"),
    "not a number": ((lambda x: "a", lambda x: -1.0), "^value: gives str"),
    "not compiled": ((lambda x: undefined(x), lambda x: -1.0), "^value: cannot be compiled .*undefined"),  # noqa: F821
}


@pytest.mark.parametrize("case", BAD_LOSSES)
def test_wrong_losses_are_refused(case):
    """A loss that does not decrease, or whose derivatives are not its own, is refused with place and numbers."""
    functions, message = BAD_LOSSES[case]
    with pytest.raises(ValueError, match=message):
        mm.custom_loss(*functions)


BAD_RULES = {
    "not a function": ((1,), "^update: got int; allowed: a function"),
    "arguments": ((lambda x: None,), "^update: cannot be compiled or called as update"),
    "returns": ((lambda x, direction, log_norm, lr, step, state: lr,), "^update: gives float; allowed: nothing"),
    "state": ((normalized, -1), "^state: got -1; allowed: an integer, 0 or more"),
    "state float": ((normalized, 1.5), r"^state: got 1\.5; allowed: an integer"),
}


@pytest.mark.parametrize("case", BAD_RULES)
def test_wrong_rules_are_refused(case):
    """A rule that cannot be compiled, or that returns something, is refused."""
    arguments, message = BAD_RULES[case]
    with pytest.raises(ValueError, match=message):
        mm.custom_rule(*arguments)


def test_the_compiled_core_says_that_it_has_no_custom_losses(logistic):
    """Where only built-in losses are known the message names the loss and the way out."""
    with pytest.raises(ValueError, match=r"^loss: got the custom loss 'mine'; allowed here: logistic.*backend='numba'"):
        mm.descent_direction(problem_of(3, 2, 3, 4), np.zeros(4), logistic)

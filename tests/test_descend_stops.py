"""Stopping rules: each condition at the first iterate where it holds, joined by any and all, run by run."""

import time

import numpy as np
import pytest
from kernel_helpers import problem_of, rng

import fastmm as mm

X = np.array([[[1.0, 0.2], [-0.3, 1.0], [0.1, -0.7]], [[0.8, -0.1], [-1.0, 0.3], [0.2, 0.9]]])
TRAINS = ["p", "pv", "W", "KQ"]


def problem():
    return mm.Problem(X, [1.0, 1.0], [1.0, 0.0], Z=[[1.0, 0.1], [0.9, -0.2]])


def starts(train):
    return {"W0": (np.eye(2), np.eye(2))} if train == "KQ" else {}


def first(holds):
    return int(np.flatnonzero(holds)[0])


def full(train, steps=400):
    return mm.descend(problem(), **starts(train), train=train, steps=steps, lr=0.1, record=1).history


def angle(a, b):
    return np.arccos(np.clip(mm.correlation(np.ravel(a), np.ravel(b)), -1, 1))


def stopped(train, stop, steps=400):
    return mm.descend(problem(), **starts(train), train=train, steps=steps, lr=0.1, record=1, stop=stop)


@pytest.mark.parametrize("train", TRAINS)
def test_loss_saturation_norm_and_steps(train):
    """A run stops at the first iterate where the quantity passes the bound, with the rule's name."""
    history = full(train)
    cases = {
        "loss": (mm.stopping.Loss(0.45), first(history.loss <= 0.45)),
        "saturation": (mm.stopping.Saturation(0.99), first(history.saturation >= 0.99)),
        "norm": (mm.stopping.Norm(3.05), first(history.norm >= 3.05)),
        "steps": (mm.stopping.Steps(17), 17),
    }
    for name, (stop, expected) in cases.items():
        run = stopped(train, stop)
        assert (run.stop_reason, run.steps_done) == (name, expected), name
        # the bound lies on the right side at the end, and the record goes on with the last iterate
        assert len(run.history.steps) == 401
        assert np.array_equal(run.history.norm[expected:], np.full(401 - expected, run.norm))
        assert np.allclose(run.direction, history.direction[expected], rtol=0, atol=1e-10)


@pytest.mark.parametrize("train", TRAINS)
def test_angle_and_direction_change(train):
    """Angles to a direction, and between the directions of some steps."""
    history = full(train)
    main = history.p if train in ("p", "pv") else history.W
    to = main[-1] * 7
    expected = first([angle(x, to) <= 0.05 for x in main])
    run = stopped(train, mm.stopping.Angle(0.05, to=to))
    assert (run.stop_reason, run.steps_done) == ("angle", expected)
    every = 20
    expected = every * first([k > 0 and angle(main[every * k], main[every * k - every]) <= 0.03 for k in range(20)])
    run = stopped(train, mm.stopping.DirectionChange(0.03, every=every))
    assert (run.stop_reason, run.steps_done) == ("direction_change", expected)


def test_rules_of_the_head():
    """When only v is trained, norm and angle are those of v."""
    run = mm.descend(problem(), train="v", steps=500, stop=mm.stopping.Norm(3.0))
    assert run.stop_reason == "norm"
    assert 3.0 <= np.linalg.norm(run.v) < 3.1
    assert run.norm == pytest.approx(np.linalg.norm(run.v), rel=1e-15)


def test_joined_rules():
    """Any of several, all of several, and both; the reason names the clause that held."""
    history = full("p")
    saturated, low = first(history.saturation >= 0.99), first(history.loss <= 0.45)
    assert saturated != low
    S, L, N = mm.stopping.Saturation(0.99), mm.stopping.Loss(0.45), mm.stopping.Norm(1e9)
    assert stopped("p", S | L).steps_done == min(saturated, low)
    both = stopped("p", S & L)
    assert (both.steps_done, both.stop_reason) == (max(saturated, low), "saturation & loss")
    assert stopped("p", S & N).stop_reason == "steps"
    either = stopped("p", (S & N) | L)
    assert (either.steps_done, either.stop_reason) == (low, "loss")
    assert ((S | L) & N).names == ("saturation & norm", "loss & norm")


def test_every_run_of_a_batch_has_its_own_reason():
    """Runs of a batch stop on their own, with their own targets, and as they would alone."""
    own = problem_of(1, 3, 4, 5)
    p0 = rng(2).normal(size=(6, 5))
    to = np.concatenate([mm.descend(own, p0[:3], steps=50).p, np.ones((3, 5))])
    stop = mm.stopping.Angle(0.3, to=to) | mm.stopping.Saturation(0.999)
    run = mm.descend(own, p0, steps=300, stop=stop, threads=2)
    assert len(set(run.stop_reason)) >= 2
    for k in range(6):
        alone = mm.descend(own, p0[k], steps=300, stop=mm.stopping.Angle(0.3, to=to[k]) | mm.stopping.Saturation(0.999))
        assert (alone.stop_reason, alone.steps_done) == (run.stop_reason[k], run.steps_done[k])
        assert np.array_equal(alone.p, run.p[k])


def test_time():
    """A run of endless steps ends after the time it was given."""
    start = time.perf_counter()
    run = mm.descend(problem(), steps=10**12, stop=mm.stopping.Time(0.2))
    assert 0.2 <= time.perf_counter() - start < 5
    assert run.stop_reason == "time"
    assert 0 < run.steps_done < 10**12


def test_a_rule_that_holds_at_the_start():
    """No step is taken then."""
    run = stopped("p", mm.stopping.Saturation(0.0))
    assert (run.steps_done, run.stop_reason) == (0, "saturation")
    assert np.array_equal(run.p, np.zeros(2))


def test_a_direction_that_is_not_there_yet():
    """At p = 0 there is no direction: angles do not hold, and nothing is divided by 0."""
    run = stopped("p", mm.stopping.Angle(3.2, to=[1.0, 0.0]))
    assert (run.steps_done, run.stop_reason) == (1, "angle")


WRONG = {
    "text": (lambda: "soon", r"stop: got 'soon'; allowed: None or a rule of fastmm\.stopping"),
    "bound": (lambda: mm.stopping.Loss("low"), r"Loss: got 'low'; allowed: a number"),
    "NaN": (lambda: mm.stopping.Loss(float("nan")), r"Loss: got nan; allowed: a number"),
    "negative": (lambda: mm.stopping.Time(-1), r"Time: got -1; allowed: 0 or more"),
    "every": (lambda: mm.stopping.DirectionChange(0.1, every=0), r"every: got 0; allowed: an integer, 1 or more"),
    "no target": (lambda: mm.stopping.Angle(0.1), r"to: got None; allowed: a vector"),
    "zero target": (lambda: mm.stopping.Angle(0.1, to=[0.0, 0.0]), r"to: got a zero vector; allowed: one with a dir"),
    "target shape": (lambda: mm.stopping.Angle(0.1, to=[1.0]), r"to: got shape \(1,\); allowed: .*trained parameter"),
    "target batch": (
        lambda: mm.stopping.Angle(0.1, to=np.ones((3, 2))),
        r"to: got batch \(3,\); allowed: .*the run",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_makes_no_rule_is_refused(case):
    """The message names what was given and what is allowed."""
    make, message = WRONG[case]
    with pytest.raises(ValueError, match=message):
        mm.descend(problem(), stop=make())

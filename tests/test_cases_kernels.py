"""Small inputs with answers known to 30 digits, kept as data in cases/."""

import json
from pathlib import Path

import numpy as np
import pytest

import fastmm as mm

CASES = {path.stem: json.loads(path.read_text()) for path in sorted((Path(__file__).parent / "cases").glob("*.json"))}
LOSS = {"linear": "correlation", "exp": "exponential"}


def numbers(x):
    """Nested lists of numbers, the non-finite ones as text."""
    return np.array([numbers(y) for y in x]) if isinstance(x, list) else float(x)


def padded(rows):
    """Rows (n, T_i, d) as one array padded with NaN, and their lengths, or None when all are equal."""
    own = [len(row) for row in rows]
    out = np.full((len(rows), max(own), len(rows[0][0])), np.nan)
    for i, row in enumerate(rows):
        out[i, : len(row)] = numbers(row)
    return out, None if min(own) == max(own) else own


def problem_of(given):
    X, lengths = padded(given["X"])
    K = padded(given["K"])[0] if "K" in given else None
    return mm.Problem(X, numbers(given["y"]), numbers(given["v"]), K=K, lengths=given.get("lengths", lengths))


def near(got, want, rtol, atol=0.0):
    """Equal up to rtol of the largest entry wanted, in every entry."""
    want = numbers(want)
    assert np.shape(got) == np.shape(want)
    assert np.all(np.abs(np.asarray(got) - want) <= rtol * np.max(np.abs(want)) + atol)


def judge_gradient(given, want):
    problem, p, loss = problem_of(given), numbers(given["p"]), LOSS.get(given["loss"], given["loss"])
    direction, log_norm = mm.descent_direction(problem, p, loss)
    out = mm.loss_and_grad(problem, p, loss=loss, wrt=("p", "v"))
    near(out.loss, want["loss"], 1e-12)
    near(out.grad["p"], want["grad_p"], want["rtol"], atol=5e-324)
    if want.get("zero_gradient"):
        assert not direction.any()
        assert not out.grad["p"].any()
        assert np.isneginf(log_norm)
    else:
        near(direction, [-x for x in want["grad_direction"]], 0.0, atol=want.get("direction_atol", 1e-12))
        near(log_norm, want["log_grad_norm"], 1e-14, atol=1e-12)
    if "grad_v" in want:
        near(out.grad["v"], want["grad_v"], want["rtol"])


def judge_matrix_gradient(given, want):
    problem = mm.Problem(numbers(given["X"]), numbers(given["y"]), numbers(given["v"]), Z=numbers(given["z"]))
    out = mm.loss_and_grad(problem, W=numbers(given["W"]).T, loss=given["loss"], wrt="W")
    near(out.loss, want["loss"], 1e-12)
    near(out.grad["W"].T, want["grad_W"], 1e-12)
    assert np.linalg.matrix_rank(out.grad["W"]) == want["grad_W_rank"]


def judge_loss(given, want):
    loss, x = mm.losses.get(given["loss"]), given["margin"]
    for part, name in (("value", "value"), ("slope", "derivative"), ("curvature", "second_derivative")):
        assert abs(getattr(loss, part)(x) - want[name]) <= want["max_ulp"] * np.spacing(abs(want[name]))


def judge_softmax(given, want):
    row = np.zeros(4096, np.float16) if "logits_rule" in given else numbers(given["logits"])
    if np.isposinf(row).any():  # of the two answers allowed, ours is the error
        assert "ValueError" in want["allow"]
        with pytest.raises(ValueError, match=r"logits"):
            mm.softmax(row)
        return
    weights, logs = mm.softmax(row), mm.log_softmax(row)
    if "allow" in want:
        assert "all zeros (documented)" in want["allow"]
        assert not weights.any()
    for got, name in ((weights, "weights"), (logs, "log_weights")):
        if name in want:
            assert np.all(np.abs(got - numbers(want[name])) <= 4 * np.spacing(np.abs(numbers(want[name]))))
    if "weight_each" in want:
        assert np.all(weights == want["weight_each"])


def judge_run(given, want):
    rule = "normalized" if given["normalise"].startswith("p") else "gradient"
    joint = {"train": "pv", "v0": numbers(given["v0"])} if "v0" in given else {}
    given = {"v": given.get("v0"), **given}
    run = mm.descend(
        problem_of(given),
        numbers(given["p0"]),
        steps=given["steps"],
        lr=given["eta"],
        rule=rule,
        loss=LOSS.get(given["loss"], given["loss"]),
        **joint,
    )
    near(run.p, want["p"], want["rtol"])
    if joint:
        near(run.v, want["v"], want["rtol"])
    assert (run.steps_done, run.stop_reason) == (given["steps"], "steps")
    if "loss" in want:
        near(run.loss, want["loss"], 1e-12)
    if "correlation_with_svm" in want:
        assert run.direction @ np.array([7.0, 5.0]) / np.sqrt(74.0) == pytest.approx(
            want["correlation_with_svm"], abs=1e-9
        )


def judge_argmax(given, want):
    scores = numbers(given["scores"])
    if "raises" in want:
        with pytest.raises(ValueError, match=r"is nan"):
            mm.Problem(scores[..., None], np.ones(len(scores)), np.ones(1))
        return
    problem = mm.Problem(scores[..., None], np.ones(len(scores)), np.ones(1))
    assert problem.optimal.tolist() == want["alpha"]
    assert np.flatnonzero(problem.tied).tolist() == want["tied_sequences"]


JUDGES = {
    "attention_gradient": judge_gradient,
    "attention_gradient_W": judge_matrix_gradient,
    "scalar_loss": judge_loss,
    "softmax_row": judge_softmax,
    "ngd_run": judge_run,
    "gd_run": judge_run,
    "argmax_selection": judge_argmax,
}


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case["kind"] in JUDGES])
def test_case(name):
    """The known answer of the case is met."""
    case = CASES[name]
    JUDGES[case["kind"]](case["input"], case["expect"])


def test_there_are_cases():
    """The folder of cases is not empty and every kind of kernel case is judged."""
    assert {case["kind"] for case in CASES.values()} >= set(JUDGES)

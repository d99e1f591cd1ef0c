"""Runs of the Numba loops: against the compiled core and the reference, their records, reasons, threads and Ctrl-C."""

import math
import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from kernel_helpers import LOSSES, RULES, problem_of, rng

import fastmm as mm
from fastmm import jit, reference

REASONS = ("steps", "zero_gradient", "overflow", "interrupted")


def run(problem, p0=None, **options):
    batch = options.pop("batch", problem.batch_shape)
    p0 = np.zeros((math.prod(batch), problem.d_k)) if p0 is None else p0
    return jit.run(problem, p0, batch=batch, **options)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("shape", [(1, 2, 1), (2, 3, 5), (6, 8, 10), (3, 1, 4), (33, 16, 17)], ids=str)
def test_runs_agree_with_the_compiled_core(shape, loss, rule):
    """Every iterate is that of the C++ kernels to 1e-12, for batches that do not fill the lanes too.

    Steps of 0.3 times an exponential gradient amplify the last bit of the start 1e5 times: there, each single step.
    """
    problem = problem_of(1, *shape, batch=(3,))
    p0, lr = 0.3 * rng(2).normal(size=(3, shape[2])), 0.02 if rule == "normalized" else 0.3
    if (loss, rule) == ("exponential", "gradient"):
        path = mm.descend(problem, p0, steps=40, lr=lr, rule=rule, loss=loss, record=1).history.p
        from_each = path[:-1].reshape(120, shape[2])
        step = run(problem, from_each, batch=(40, 3), steps=1, lr=lr, rule=rule, loss=loss)["p"]
        assert np.allclose(step, path[1:].reshape(120, shape[2]), rtol=0, atol=1e-12 * max(1.0, np.abs(path).max()))
        return
    ours = run(problem, p0, steps=40, lr=lr, rule=rule, loss=loss, records=np.arange(0, 41, 10))
    theirs = mm.descend(problem, p0, steps=40, lr=lr, rule=rule, loss=loss, record=10)
    scale = max(1.0, np.abs(theirs.p).max())
    assert np.allclose(ours["recorded_p"], theirs.history.p, rtol=0, atol=1e-12 * scale)
    assert np.array_equal(ours["p"], ours["recorded_p"][-1])
    assert [REASONS[r] for r in ours["reason"]] == theirs.stop_reason.tolist()
    assert np.array_equal(ours["steps_done"], theirs.steps_done)


@pytest.mark.parametrize("loss", LOSSES)
def test_one_step_is_the_descent_direction_at_any_size_of_p(loss):
    """From far out, where gradients underflow, a step goes along the direction of the reference."""
    problem = problem_of(3, 4, 5, 3)
    for size in (0.0, 1.0, 2000.0, 1e6):
        p = size * np.array([[0.6, 0.0, -0.8]])
        step = run(problem, p, batch=(1,), steps=1, lr=max(size, 1.0), loss=loss)["p"] - p
        direction, _ = reference.descent_direction(problem.K, problem.scores, p[0], loss)
        assert np.allclose(step[0] / max(size, 1.0), direction, rtol=0, atol=1e-9)


def test_ragged_lengths_ties_and_equal_keys():
    """Padding takes no part; tied top tokens, equal scores and tokens with one key go as in the compiled core."""
    r = rng(4)
    K = r.normal(size=(5, 3, 6, 4))
    K[1, :, 2] = K[1, :, 4]
    K[2] = np.round(K[2])
    scores = r.integers(-2, 3, size=(5, 3, 6)).astype(float)
    K[3, :, 4:] = np.nan
    lengths = np.full((5, 3), 6)
    lengths[3], lengths[4, 0] = 4, 1
    X = np.where(np.isnan(K[..., :1]), np.nan, scores[..., None])
    problem = mm.Problem(X, np.ones((5, 3)), np.ones(1), K=K, lengths=lengths)
    for loss in LOSSES:
        ours, theirs = run(problem, steps=60, lr=0.05, loss=loss), mm.descend(problem, steps=60, lr=0.05, loss=loss)
        assert np.allclose(ours["p"], theirs.p, rtol=0, atol=1e-12)


def test_scores_whose_slopes_underflow():
    """Margins of thousands, whose loss slopes leave the doubles, give the run of the compiled core."""
    for scale in (150.0, 1e4):
        scores = scale * rng(6).integers(-8, 9, size=(2, 4)) / 8
        problem = mm.Problem(scores[..., None], np.ones(2), np.ones(1), K=rng(7).normal(size=(2, 4, 3)))
        for loss in LOSSES:
            ours, theirs = run(problem, steps=20, lr=0.01, loss=loss), mm.descend(problem, steps=20, lr=0.01, loss=loss)
            assert np.allclose(ours["p"][0], theirs.p, rtol=0, atol=1e-9)


def joint_reference(problem, p, v, steps, lr, train):
    """Normalised steps of both groups, from gradients at the same iterate."""
    for _ in range(steps):
        scores = problem.Y[:, None] * (problem.X @ v)
        direction, _ = reference.descent_direction(problem.K, scores, p, "logistic")
        _, _, grad_v = reference.loss_and_grad(problem.X, problem.K, problem.Y, v, p, "logistic")
        p = p + lr * direction if "p" in train else p
        v = v - lr * grad_v / np.linalg.norm(grad_v) if "v" in train else v
    return p, v


@pytest.mark.parametrize("train", ["v", "pv"])
def test_training_the_head(train):
    """With v trained the runs are those of the formulas; with keys and tokens of different widths."""
    problem = problem_of(8, 4, 5, 3, d_k=6)
    p0, v0 = 0.2 * rng(9).normal(size=(1, 6)), rng(10).normal(size=(1, 3))
    out = run(problem, p0, v0=v0, batch=(1,), steps=50, lr=0.05, train=train, records=np.array([50]))
    p, v = joint_reference(problem, p0[0], v0[0], 50, 0.05, train)
    assert np.allclose(out["p"][0], p, rtol=0, atol=1e-11)
    assert np.allclose(out["v"][0], v, rtol=0, atol=1e-11)
    assert np.array_equal(out["recorded_v"][0], out["v"])


def test_heads_of_any_size_keep_moving():
    """Where slopes are e^-1e6 the step of v is still the unit direction along the token with the smallest margin."""
    X = np.array([[[1.0, 0.0]], [[0.0, 1.0]]])
    problem = mm.Problem(X, [1.0, 1.0], [1.0, 1.0])
    out = run(problem, v0=np.array([[1e6, 1.1e6]]), batch=(1,), steps=3, lr=2.0, train="v")
    assert np.array_equal(out["v"], [[1e6 + 6.0, 1.1e6]])


def test_the_same_bits_for_any_threads_and_batch():
    """Neither threads nor company change a bit; nor do float32 problems leave float32."""
    problem = problem_of(11, 3, 4, 5, batch=(37,))
    whole = run(problem, steps=30, threads=1)["p"]
    assert np.array_equal(run(problem, steps=30, threads=4)["p"], whole)
    alone = mm.Problem(problem.X[20], problem.Y[20], problem.v[20])
    assert np.array_equal(run(alone, batch=(1,), steps=30)["p"][0], whole[20])
    single = problem_of(11, 3, 4, 5, dtype=np.float32)
    assert run(single, batch=(1,), steps=5)["p"].dtype == np.float32


def test_step_sizes_of_each_step_and_instance():
    """Rates (count, steps) are used step by step: 1 then 0.5 is one run of 1 and one of 0.5 from there."""
    problem = problem_of(12, 2, 3, 4, batch=(2,))
    rates = np.array([[1.0, 0.5], [0.25, 2.0]])
    out = run(problem, steps=2, lr=rates)["p"]
    middle = run(problem, steps=1, lr=rates[:, 0])["p"]
    assert np.array_equal(out, run(problem, middle, steps=1, lr=rates[:, 1])["p"])


def test_reasons_and_records_of_runs_that_end():
    """A zero gradient and an overflow stop one instance and leave its neighbours; its records repeat the last point."""
    K = np.broadcast_to(np.array([[[1.0, 0.0], [0.0, 0.0]]]), (3, 1, 2, 2))
    scores = np.array([[[1.0], [0.0]], [[1.0], [1.0]], [[1.0], [0.0]]])[:, None]
    problem = mm.Problem(scores, np.ones((3, 1)), np.ones(1), K=K)
    out = run(problem, steps=4, lr=np.array([1.0, 1.0, 1e308]), records=np.array([0, 4]))
    assert [REASONS[r] for r in out["reason"]] == ["steps", "zero_gradient", "overflow"]
    assert out["steps_done"].tolist() == [4, 0, 1]
    assert np.array_equal(out["p"], [[4.0, 0.0], [0.0, 0.0], [1e308, 0.0]])
    assert np.array_equal(out["recorded_p"][1], out["p"])


def test_progress_is_told():
    """The callback hears of steps done, growing, never more than all."""
    problem, told = problem_of(13, 6, 8, 10, batch=(64,)), []
    run(problem, steps=2000, threads=1, callback=told.append)
    assert told == sorted(told)
    assert 0 < told[-1] <= 2000 * 64


INTERRUPT = """
import os, signal, threading, time, numpy as np, fastmm as mm
from fastmm import jit
signal.signal(signal.SIGINT, signal.default_int_handler)
r = np.random.default_rng(0)
problem = mm.Problem(r.normal(size=(16, 6, 8, 10)), np.ones((16, 6)), r.normal(size=10))
run = lambda steps: jit.run(problem, np.zeros((16, 10)), steps=steps, batch=(16,), threads={threads})
run(1)
threading.Timer(0.5, lambda: (times.append(time.monotonic()), os.kill(os.getpid(), signal.SIGINT))).start()
times = []
out = run(10**9)
late = time.monotonic() - times[0]
assert (out["reason"] == 3).all() and out["steps_done"].max() > 0 and np.isfinite(out["p"]).all(), out
print(late)
"""


@pytest.mark.parametrize("threads", [1, 2])
def test_ctrl_c_returns_what_was_done(threads):
    """SIGINT ends a run at once with reason interrupted and the steps done so far; no exception leaves."""
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPT.format(threads=threads)], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 1.0  # 0.2 s, and room for a busy machine


def test_many_user_threads_at_once():
    """Runs may be called from several threads at a time."""
    problem, found = problem_of(14, 3, 4, 5, batch=(9,)), []
    work = [threading.Thread(target=lambda: found.append(run(problem, steps=50, threads=2)["p"])) for _ in range(4)]
    for thread in work:
        thread.start()
    for thread in work:
        thread.join()
    assert all(np.array_equal(p, found[0]) for p in found)


def test_a_cache_that_cannot_be_written_breaks_nothing(tmp_path):
    """Without any folder for compiled code the package works; a file stands where each folder would be made."""
    blocked = tmp_path / "file"
    blocked.write_text("")
    environment = {name: str(blocked / "x") for name in ("NUMBA_CACHE_DIR", "HOME", "XDG_CACHE_HOME")}
    code = "import math, fastmm as mm; print(mm.custom_rule(lambda x, direction, log_norm, lr, step, state: None)); "
    code += "from fastmm.jit.loop import run_stretch; print(type(run_stretch._cache).__name__)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=300, env=os.environ | environment
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[-1] in ("NullCache", "_Cache")


REFUSED = {
    "train": ({"train": "q"}, "^train: got 'q'; allowed: 'p', 'v', 'pv'"),
    "rule": ({"rule": "adam"}, "^rule: got 'adam'; allowed: 'normalized', 'gradient', or a custom_rule"),
    "loss": ({"loss": "hinge"}, "^loss: got 'hinge'; allowed"),
    "p0": ({"p0": np.zeros((2, 4))}, r"^p0: got shape \(2, 4\); allowed: \(1, 4\)"),
    "v0": ({"v0": np.zeros((1, 3))}, r"^v0: got shape \(1, 3\); allowed: \(1, 4\)"),
    "lr": ({"lr": np.ones((1, 3))}, r"^lr: got shape \(1, 3\); allowed: \(\), \(1,\) or \(1, 7\)"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_makes_no_run_is_refused(case):
    """Unknown names and arrays that do not fit are a ValueError naming argument, given and allowed."""
    values, message = REFUSED[case]
    with pytest.raises(ValueError, match=message):
        run(problem_of(15, 2, 3, 4), batch=(1,), steps=7, **values)


def test_calls_are_quick_once_compiled():
    """A call on a small problem takes milliseconds, not a compilation: signatures do not depend on the data."""
    for problem in (problem_of(16, 2, 3, 4), problem_of(16, 2, 3, 4, dtype=np.float32)):
        run(problem, batch=(1,), steps=1)
        start = time.perf_counter()
        run(problem, batch=(1,), steps=10)
        assert time.perf_counter() - start < 1.0

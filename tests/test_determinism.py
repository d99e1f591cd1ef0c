"""The same bits for any number of threads, any batch and any repeat; the same numbers for any instruction set."""

import os
import subprocess
import sys

import numpy as np
import pytest
from kernel_helpers import LOSSES, RULES, problem_of, rng

import fastmm as mm

THREADS = (1, 2, 3, 7)
# lanes; rows with threads over instances; rows with threads over inputs (more than two million entries)
LAYOUTS = {"lanes": (4, 9, 6), "rows": (30, 17, 33), "inputs": (1001, 64, 33)}


def same(a, b):
    """Equal bit for bit."""
    return np.asarray(a).dtype == np.asarray(b).dtype and np.asarray(a).tobytes() == np.asarray(b).tobytes()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("loss", LOSSES)
def test_gradients_do_not_depend_on_threads(loss, dtype):
    """Loss, gradients and direction of 1001 inputs have the same bits for 1, 2, 3 and 7 threads and in every repeat."""
    problem = problem_of(1, 1001, 17, 33, dtype=dtype)
    p = rng(2).normal(size=33)
    want = mm.loss_and_grad(problem, p, loss=loss, wrt=("p", "v"), threads=1)
    unit = mm.descent_direction(problem, p, loss, threads=1)
    for threads in (*THREADS, 7):
        out = mm.loss_and_grad(problem, p, loss=loss, wrt=("p", "v"), threads=threads)
        assert same(out.loss, want.loss)
        assert same(out.grad["p"], want.grad["p"])
        assert same(out.grad["v"], want.grad["v"])
        again = mm.descent_direction(problem, p, loss, threads=threads)
        assert same(again.direction, unit.direction)
        assert same(again.log_norm, unit.log_norm)


@pytest.mark.parametrize("batch", [1, 5, 40])
def test_scores_and_weights_do_not_depend_on_threads(batch, monkeypatch):
    """Scores and attention weights have the same bits for any number of threads."""
    weights, scores = [], []
    for threads in THREADS:
        monkeypatch.setenv("FASTMM_NUM_THREADS", str(threads))
        problem = problem_of(3, 101, 17, 33, batch=(batch,))
        scores.append(problem.scores)
        weights.append(mm.attention(problem.K, np.ones(33), threads=threads))
    assert all(same(x, scores[0]) for x in scores)
    assert all(same(x, weights[0]) for x in weights)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_runs_do_not_depend_on_threads_or_batches(layout, rule, dtype):
    """A run has the same bits for any number of threads, alone, in a batch, in a permuted one, and in every repeat."""
    n, T, d = LAYOUTS[layout]
    count, steps = (21, 80) if layout == "lanes" else (3, 6)
    problem = problem_of(4, n, T, d, dtype=dtype)
    p0 = rng(5).normal(size=(count, d)).astype(dtype)
    # in the lanes heads differ too: some with scores so large that they take another way, some flat
    v = np.broadcast_to(problem.v, (count, d)).copy()
    if layout == "lanes":
        v[3::5] *= 1000
        v[4::7] = 0
    batch = mm.Problem(problem.X, problem.Y, v)
    want = mm.descend(batch, p0, steps=steps, rule=rule, record=2, threads=1)
    for threads in THREADS:
        run = mm.descend(batch, p0, steps=steps, rule=rule, record=2, threads=threads)
        assert same(run.p, want.p)
        assert same(run.history.p, want.history.p)
        assert same(run.steps_done, want.steps_done)
    order = rng(6).permutation(count)
    moved = mm.descend(mm.Problem(problem.X, problem.Y, v[order]), p0[order], steps=steps, rule=rule, threads=2)
    assert same(moved.p, want.p[order])
    for b in range(count):
        assert same(mm.descend(mm.Problem(problem.X, problem.Y, v[b]), p0[b], steps=steps, rule=rule).p, want.p[b])


def test_gradients_do_not_depend_on_the_batch():
    """An element of a batch has the bits it has alone, wherever it stands and whatever its neighbours are."""
    r = rng(7)
    problem, p = problem_of(8, 7, 9, 11), r.normal(size=(37, 11))
    want = mm.descent_direction(problem, p)
    order = r.permutation(37)
    assert same(mm.descent_direction(problem, p[order], threads=3).direction, want.direction[order])
    for b in range(37):
        alone = mm.descent_direction(problem, p[b])
        assert same(alone.direction, want.direction[b])
        assert same(alone.log_norm, want.log_norm[b])


def test_records_do_not_change_the_run():
    """What is recorded on the way leaves the bits of the end alone, in each layout."""
    for layout in ("lanes", "rows"):
        problem = problem_of(9, *LAYOUTS[layout])
        want = mm.descend(problem, steps=20).p
        for record in (1, 7, [3, 4]):
            assert same(mm.descend(problem, steps=20, record=record).p, want)


def test_a_run_continues():
    """A double run cut in two has the bits of the run in one go."""
    problem = problem_of(10, *LAYOUTS["rows"])
    half = mm.descend(problem, steps=10)
    assert same(mm.descend(problem, half.p, steps=10).p, mm.descend(problem, steps=20).p)


SCRIPT = """
import sys
import numpy as np
import fastmm as mm
assert mm._core.build_info()["instruction_set"] == sys.argv[1], mm._core.build_info()
out = {}
for dtype in ("f8", "f4"):
    for n, T, d in ((4, 9, 6), (30, 17, 33)):
        r = np.random.default_rng(0)
        X, v, p = (r.normal(size=s).astype(dtype) for s in ((n, T, d), (d,), (d,)))
        Z = r.normal(size=(n, 5)).astype(dtype)
        problem = mm.Problem(X, np.where(np.arange(n) % 2, 1, -1), v, Z=Z)
        factors = (r.normal(size=(5, 3)).astype(dtype), r.normal(size=(d, 3)).astype(dtype))
        for loss in ("logistic", "exponential", "correlation"):
            key = f"{dtype} {n} {loss} "
            grad = mm.loss_and_grad(problem, p, loss=loss, wrt=("p", "v"))
            out |= {key + "loss": grad.loss, key + "p": grad.grad["p"], key + "v": grad.grad["v"]}
            out[key + "direction"], out[key + "log norm"] = mm.descent_direction(problem, 300 * p, loss)
            queries = mm.Problem(X, problem.Y, v, Z=r.normal(size=(n, 3)).astype(dtype))
            inner_factors = r.normal(size=(3, 2)), r.normal(size=(d, 2))
            inner = mm.loss_and_grad(queries, v=p, W=inner_factors, loss=loss, wrt=("v", "Q", "K"))
            out |= {key + "head": inner.grad["v"], key + "Q": inner.grad["Q"], key + "K": inner.grad["K"]}
            out[key + "curved"] = mm.hessian_vector(problem, p, v, loss)
            for rule, lr in (("normalized", 0.02), ("gradient", 0.2)):
                out[key + "run " + rule] = mm.descend(problem, steps=100, lr=lr, rule=rule, loss=loss).p
            for train in ("pv", "W", "KQv"):
                start = {"W0": factors} if train == "KQv" else {}
                run = mm.descend(problem, steps=50, lr=0.02, train=train, loss=loss, **start)
                out[key + train] = run.p if train == "pv" else run.W
        out[f"{dtype} {n} scores"] = problem.scores
        out[f"{dtype} {n} attention"] = mm.attention(X, p)
    out[dtype + " softmax"] = mm.softmax(60 * r.normal(size=(5, 37)).astype(dtype))
np.savez(sys.argv[2], **out)
"""


def run_with(isa, target):
    environment = {**os.environ, "FASTMM_ISA": isa}
    subprocess.run([sys.executable, "-c", SCRIPT, isa, str(target)], env=environment, check=True, timeout=300)
    with np.load(target) as data:
        return dict(data)


def test_instruction_sets_agree(tmp_path):
    """Each instruction set this CPU has gives the same scores, and the same answers to 1e-13, runs to 1e-10."""
    sets = mm._core.build_info()["instruction_sets"]
    assert sets[0] == "baseline"
    results = {isa: run_with(isa, tmp_path / f"{isa}.npz") for isa in sets}
    want = results["baseline"]
    for result in results.values():
        assert result.keys() == want.keys()
        for name, value in result.items():
            if "scores" in name:
                assert same(value, want[name])
            rtol = (1e-10 if "run" in name else 1e-13) if name.startswith("f8") else (1e-3 if "run" in name else 1e-6)
            assert np.all(np.abs(value - want[name]) <= rtol * np.abs(want[name]).max()), name


def test_an_unknown_instruction_set_is_named():
    """A wrong FASTMM_ISA is an ImportError that says what this CPU can run, not a crash."""
    environment = {**os.environ, "FASTMM_ISA": "neon9"}
    done = subprocess.run(
        [sys.executable, "-c", "import fastmm"], env=environment, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 1
    assert "FASTMM_ISA is 'neon9'; this CPU can run: baseline" in done.stderr

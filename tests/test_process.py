"""The library as part of a process: Ctrl-C, forks, threads of the user, progress, signal handlers."""

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from kernel_helpers import problem_of

import fastmm as mm

WAIT = 120  # seconds after which something that should have ended counts as hanging

CTRL_C = """
import json, signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs start with it ignored
import numpy as np
import fastmm as mm
n, T, d, batch, threads, record = json.loads(sys.argv[1])
r = np.random.default_rng(0)
problem = mm.Problem(r.normal(size=(batch, n, T, d)), np.ones(n), r.normal(size=d))
mm.descend(problem, steps=1)  # everything is loaded
print("ready", flush=True)
run = mm.descend(problem, steps=10**9, threads=threads, record=[0, 10**9] if record else None)
ended = time.time()
after = mm.descend(problem, steps=10, threads=threads)
print(json.dumps({
    "ended": ended,
    "reasons": sorted(set(run.stop_reason.tolist())),
    "most": int(run.steps_done.max()),
    "finite": bool(np.isfinite(run.p).all()),
    "usable": after.stop_reason.tolist() == ["steps"] * batch,
    "records": None if run.history is None else run.history.steps.tolist(),
}), flush=True)
"""

# n, T, d, batch, threads, record
LONG_RUNS = {
    "lanes": (6, 8, 10, 1, 1, True),
    "lanes, threads": (6, 8, 10, 64, 2, False),
    "tiny": (1, 2, 2, 3, 1, True),
    "rows": (40, 20, 20, 1, 1, True),
    "rows, threads": (40, 20, 20, 3, 2, False),
    "inputs, threads": (2000, 40, 30, 1, 2, True),
}


@pytest.mark.parametrize("case", LONG_RUNS)
def test_ctrl_c_returns_what_was_done(case):
    """SIGINT ends a run of 10**9 steps at once; it comes back with its steps and reason, and the library works on."""
    command = [sys.executable, "-c", CTRL_C, json.dumps(LONG_RUNS[case])]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n", process.stderr.read()
        time.sleep(0.5)
        sent = time.time()
        process.send_signal(signal.SIGINT)
        try:
            out, err = process.communicate(timeout=WAIT)
        finally:
            process.kill()  # does nothing to one that has ended
    assert process.returncode == 0, err
    told = json.loads(out)
    assert told["ended"] - sent < 0.5
    assert told["reasons"] == ["interrupted"]
    assert told["most"] > 0
    assert told["finite"]
    assert told["usable"]
    assert told["records"] in (None, [0])


def busy(seconds_at_least=0.3):
    """A call that takes a while, with the number of steps that makes it so on this machine."""
    problem, steps = problem_of(1, 6, 8, 10, batch=(16,)), 2000
    while True:
        begin = time.perf_counter()
        mm.descend(problem, steps=steps, threads=1)
        if time.perf_counter() - begin > seconds_at_least:
            return problem, steps
        steps *= 2


def test_the_gil_is_free_during_runs():
    """Another Python thread makes progress while a run is in compiled code."""
    problem, steps = busy()
    running, count = threading.Event(), [0]

    def spin():
        while not running.is_set():
            count[0] += 1
            time.sleep(0.001)

    thread = threading.Thread(target=spin)
    thread.start()
    try:
        before = count[0]
        mm.descend(problem, steps=steps, threads=1)
        during = count[0] - before
    finally:
        running.set()
        thread.join(WAIT)
    assert during > 10


def test_many_threads_of_the_user_get_the_same_bits():
    """Calls from many Python threads at once give the bits of the calls one after the other."""
    problems = [problem_of(2 + k % 3, 5, 6, 7, batch=(9,)) for k in range(12)]

    def work(problem):
        run = mm.descend(problem, steps=200, threads=2)
        out = mm.loss_and_grad(problem, run.p, wrt=("p", "v"), threads=2)
        return run.p.tobytes(), out.loss.tobytes(), out.grad["v"].tobytes(), mm.softmax(problem.scores).tobytes()

    want = [work(problem) for problem in problems]
    got = [None] * len(problems)

    def run(k):
        got[k] = work(problems[k])

    threads = [threading.Thread(target=run, args=(k,)) for k in range(len(problems))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT)
    assert got == want


def answer(problem):
    run = mm.descend(problem, steps=300, threads=2)
    return run.p.tobytes(), mm.loss_and_grad(problem, run.p, threads=2).grad["p"].tobytes()


def child(problem, pipe):
    pipe.send(answer(problem))
    pipe.close()


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.parametrize("size", [(6, 8, 10), (60, 20, 20)], ids=["lanes", "rows"])
def test_a_fork_after_threads_works(size):
    """A child forked after the parent has used threads computes the parent's answer and does not hang."""
    problem = problem_of(6, *size, batch=(20,))
    want = answer(problem)
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=child, args=(problem, there))
    process.start()
    try:
        assert here.poll(WAIT), "the child hangs"
        assert here.recv() == want
        process.join(WAIT)
        assert process.exitcode == 0
    finally:
        process.kill()
        process.join()


def test_no_thread_outlives_a_call():
    """After a threaded call the process has the threads it had before, or fewer."""
    tasks = f"/proc/{os.getpid()}/task"
    if not os.path.isdir(tasks):
        tasks = None
    count = (lambda: len(os.listdir(tasks))) if tasks else threading.active_count
    before = count()
    mm.descend(problem_of(7, 6, 8, 10, batch=(64,)), steps=200, threads=4)
    assert count() <= before


def test_an_exception_in_a_signal_handler_comes_through():
    """What a signal handler raises during a run comes out of the call, and the library works on."""
    problem, _ = busy(0.05)

    class AlarmError(Exception):
        pass

    def ring(*_):
        raise AlarmError("rung")

    before = signal.signal(signal.SIGALRM, ring)
    try:
        for threads in (1, 2):
            signal.setitimer(signal.ITIMER_REAL, 0.2)
            begin = time.perf_counter()
            with pytest.raises(AlarmError, match=r"rung"):
                mm.descend(problem, steps=10**9, threads=threads)
            assert time.perf_counter() - begin < 10
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert set(mm.descend(problem, steps=3).stop_reason) == {"steps"}


def test_a_signal_handler_that_returns_does_not_end_the_run():
    """A signal whose handler returns is handled during the run, which goes on to its end."""
    problem, steps = busy()
    rung = []
    before = signal.signal(signal.SIGALRM, lambda *_: rung.append(time.perf_counter()))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        run = mm.descend(problem, steps=steps, threads=1)
        ended = time.perf_counter()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert set(run.stop_reason) == {"steps"}
    assert rung
    assert rung[0] < ended


@pytest.mark.parametrize("size", [(6, 8, 10), (60, 20, 20)], ids=["lanes", "rows"])
def test_progress_draws_a_bar_and_changes_nothing(size, capsys):
    """With progress=True a bar that ends at 100 % is drawn, and the run is the same."""
    problem = problem_of(8, *size, batch=(3,))
    run = mm.descend(problem, steps=50, progress=True)
    shown = capsys.readouterr()
    assert "descend" in shown.out + shown.err
    assert "100%" in shown.out + shown.err
    assert np.array_equal(run.p, mm.descend(problem, steps=50).p)
    assert capsys.readouterr().out == ""


def test_progress_of_a_run_that_stops_at_once(capsys):
    """A run that takes no step has a bar too."""
    flat = mm.Problem(np.ones((2, 3, 4)), np.ones(2), np.ones(4))
    assert mm.descend(flat, steps=5, progress=True).stop_reason == "zero_gradient"
    assert mm.descend(flat, steps=0, progress=True).stop_reason == "steps"
    assert "descend" in capsys.readouterr().out


def compiled_run(problem, steps, threads, progress):
    """16 runs with a progress callback of our own, which `descend` does not offer."""
    return mm._core.descend(
        keys=problem.K,
        key_index=np.arange(16),
        scores=problem.scores,
        score_index=np.arange(16),
        loss=0,
        parameters=[(0, True, np.zeros((16, 10, 1)), np.inf)],
        lr=np.full(16, 0.1),
        rule=mm.rules.Normalized().settings,
        conditions=[],
        clauses=[],
        steps=steps,
        record=np.zeros(0, np.int64),
        threads=threads,
        progress=progress,
    )


@pytest.mark.parametrize("threads", [1, 2])
def test_progress_reports_grow(threads):
    """The work reported to a callback grows up to at most the steps of the whole batch."""
    problem, steps = busy()
    seen = []
    compiled_run(problem, steps, threads, seen.append)
    assert seen
    assert seen == sorted(seen)
    assert seen[0] >= 0
    assert seen[-1] <= 16 * steps


def test_an_exception_of_the_progress_callback_comes_through():
    """What a progress callback raises ends the run and comes out of the call."""
    problem, _ = busy(0.05)

    def fail(done):
        raise RuntimeError(f"no more after {done}")

    for threads in (1, 2):
        with pytest.raises(RuntimeError, match=r"no more after"):
            compiled_run(problem, 10**9, threads, fail)


def test_memory_stays_flat():
    """A thousand calls leave the process as large as it was."""
    resource = pytest.importorskip("resource")
    problem = problem_of(9, 3, 4, 5)

    def calls(count):
        for _ in range(count):
            mm.descend(problem, steps=2, record=1)
            mm.loss_and_grad(problem, wrt=("p", "v"))
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    before = calls(200)
    unit = 1024 if sys.platform.startswith("linux") else 1
    assert (calls(1000) - before) * unit < 5 * 2**20


def test_the_environment_sets_the_threads(monkeypatch):
    """The thread count is the argument, else FASTMM_NUM_THREADS, else OMP_NUM_THREADS, else the CPUs allowed."""
    from fastmm.config import resolve_threads

    monkeypatch.setenv("FASTMM_NUM_THREADS", "3")
    monkeypatch.setenv("OMP_NUM_THREADS", "2,4")
    assert resolve_threads() == 3
    assert resolve_threads(5) == 5
    for wrong in ("0", "-1", "many", "", "1.5"):
        monkeypatch.setenv("FASTMM_NUM_THREADS", wrong)
        assert resolve_threads() == 2
    monkeypatch.setenv("FASTMM_NUM_THREADS", "9" * 30)
    assert 1 <= resolve_threads() <= 4096
    mm.descend(problem_of(10, 2, 3, 4), steps=2)
    monkeypatch.delenv("FASTMM_NUM_THREADS")
    monkeypatch.delenv("OMP_NUM_THREADS")
    assert resolve_threads() >= 1
    for wrong in (0, -1, True, 1.0, "2", 4097):
        with pytest.raises(ValueError, match=r"^threads: got .*; allowed: None or an integer in 1\.\.4096"):
            resolve_threads(wrong)

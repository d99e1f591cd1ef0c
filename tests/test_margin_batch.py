"""Batches: one call equals a loop, in every bit, for any number of threads and on every instruction set."""

import json
import os
import resource
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from margin_verify import same_bits

import fastmm as mm


def some_keys(count, n, T, d, seed=0):
    rng = np.random.default_rng(seed)
    K = rng.standard_normal((count, n, T, d))
    K /= np.linalg.norm(K, axis=-1, keepdims=True)
    toward = rng.standard_normal((count, 1, d, 1))
    return K, (K @ toward)[..., 0].argmax(-1)


def element(result, index):
    """One element of a batch in the form of a single answer's arrays."""
    names = ("w", "direction", "margin", "dual", "neighbors", "status", "farkas", "best", "iterations")
    return {name: np.asarray(getattr(result, name))[index] for name in names}


def assert_elements_are(batch, singles):
    for index, single in enumerate(singles):
        for name, value in element(batch, index).items():
            assert np.asarray(getattr(single, name)).astype(value.dtype).tobytes() == value.tobytes(), (index, name)


@pytest.mark.parametrize("shape", [(2, 3, 5), (6, 8, 10), (4, 2, 1)])
def test_batch_equals_loop(shape):
    """Feasible and infeasible programs mixed."""
    K, selected = some_keys(60, *shape)
    selected[::2] = 0
    batch = mm.att_svm(K, selected, throw=False)
    assert_elements_are(batch, [mm.att_svm(k, s, throw=False) for k, s in zip(K, selected, strict=True)])


@pytest.mark.parametrize("threads", [2, 3, 7])
def test_threads_give_the_same_bits(threads):
    """Enough work for all threads to take part."""
    K, selected = some_keys(1500, 6, 8, 10)
    same_bits(mm.att_svm(K, selected, threads=1), mm.att_svm(K, selected, threads=threads))


def test_instruction_sets_give_the_same_bits():
    """The kernels round one operation at a time, so vector width does not matter."""
    code = (
        "import hashlib, numpy as np, fastmm as mm\n"
        "rng = np.random.default_rng(0)\n"
        "K = rng.standard_normal((300, 6, 8, 10)); s = rng.integers(0, 8, (300, 6))\n"
        "s[::2] = (K[::2] @ rng.standard_normal(10)).argmax(-1)\n"
        "r = mm.att_svm(K, s, throw=False, threads=1)\n"
        "print(hashlib.sha256(r.best.tobytes() + r.dual.tobytes() + r.farkas.tobytes()).hexdigest())\n"
    )
    seen = set()
    for name in mm._core.build_info()["instruction_sets"]:
        environment = {**os.environ, "FASTMM_ISA": name}
        seen.add(subprocess.run([sys.executable, "-c", code], env=environment, check=True, capture_output=True).stdout)
    assert len(seen) == 1


def test_leading_dimensions_broadcast():
    """Keys shared by choices of tokens, and choices shared by keys; nothing is copied for it."""
    K, _ = some_keys(1, 3, 4, 6)
    choices = np.array(list(np.ndindex(4, 4, 4))).reshape(16, 4, 3)
    result = mm.att_svm(K[0], choices, throw=False)
    assert result.w.shape == (16, 4, 6)
    assert result.dual.shape == result.neighbors.shape == result.farkas.shape == (16, 4, 3, 4)
    assert result.status.shape == result.optimal.shape == result.margin.shape == (16, 4)
    assert result.status.dtype == np.int8
    single = mm.att_svm(K[0], choices[5, 2], throw=False)
    np.testing.assert_array_equal(result.w[5, 2], single.w)

    A = np.array([[2.0, 1.0], [1.0, 2.0]])
    many = mm.min_norm(A, [[[1.0, 1.0]], [[3.0, 3.0]]], [[[1.0, 0.0]], [[0.0, 1.0]]], 5.0)
    assert many.w.shape == (2, 2, 2)
    assert many.dual_equality.shape == (2, 2, 1)
    np.testing.assert_array_equal(many.w[1, 1], mm.min_norm(A, 3.0, [[0.0, 1.0]], 5.0).w)
    heads = mm.label_svm([[1.0, 0.0], [0.0, 1.0]], [[1, 1], [1, -1]])
    np.testing.assert_allclose(heads.w, [[1, 1], [1, -1]], rtol=1e-15)


def test_padding_differs_between_programs_of_a_batch():
    """The same keys under several lengths; what is padding in all of them may be NaN."""
    rng = np.random.default_rng(1)
    K = rng.standard_normal((2, 5, 4))
    K[:, 4] = np.nan
    lengths = [[4, 3], [2, 4], [1, 1]]
    result = mm.att_svm(K, [0, 0], lengths=lengths, throw=False)
    for index, own in enumerate(lengths):
        alone = mm.att_svm(K, [0, 0], lengths=own, throw=False)
        np.testing.assert_array_equal(result.w[index], alone.w)
        assert not result.neighbors[index, 0, own[0] :].any()
    assert result.margin[2] == np.inf
    with pytest.raises(ValueError, match=r"K: entry \[0, 4, 0\] is nan"):
        mm.att_svm(K, [0, 0], lengths=[[4, 3], [5, 4]])


@pytest.mark.parametrize("shape", [(0, 2, 3, 4), (3, 0, 2, 4)])
def test_empty_batches_and_no_inputs(shape):
    """A batch of nothing is empty; programs without inputs are solved by 0."""
    result = mm.att_svm(np.zeros(shape), np.zeros(shape[:2], int))
    assert result.w.shape == (shape[0], shape[3])
    assert result.optimal.all()
    assert not result.w.any()
    assert "empty" in repr(result) or "3 optimal" in repr(result)


def test_memory_stays_flat():
    """200,000 small programs in calls of 2,000: the process does not grow after the first calls."""
    K, selected = some_keys(2000, 2, 3, 5)

    def resident():
        if not os.path.exists("/proc/self/statm"):  # macOS: the peak, in bytes
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    for _ in range(10):
        mm.att_svm(K, selected, threads=1)
    before = resident()
    for _ in range(100):
        mm.att_svm(K, selected, threads=1)
    assert resident() - before < 4 * 2**20


def test_time_limit_of_a_batch():
    """Programs not begun in time say so; those done are kept."""
    K, selected = some_keys(20000, 6, 8, 10)
    result = mm.att_svm(K, selected, time_limit=0.02, throw=False, threads=1)
    late = result.status == mm.Status.time_limit
    assert late.any()
    assert set(result.status.tolist()) <= {0, 4}
    assert np.isnan(result.w[late]).all()
    done = np.flatnonzero(~late)[:3]
    np.testing.assert_array_equal(result.w[done], mm.att_svm(K[done], selected[done]).w)


INTERRUPTED = """
import os, signal, sys, threading, time, json
import numpy as np, fastmm as mm
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs start with it ignored
rng = np.random.default_rng(0)
A = rng.standard_normal((300, 40)); A[:, 0] += 3.0
b = rng.uniform(0.9, 1.1, (4000, 300))
mm.min_norm(A, b[:2])
sent = []
def interrupt():
    time.sleep(0.05)
    sent.append(time.process_time())
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=interrupt).start()
try:
    mm.min_norm(A, b, threads=int(sys.argv[1]))
except mm.NotSolvedError as error:
    late = time.process_time() - sent[0]
    r = error.result
    done = r.optimal
    print(json.dumps([late, int(done.sum()), bool(np.isnan(r.best[~done]).any()), "interrupted" in str(error),
                      sorted(set(r.status.tolist()))]))
"""


@pytest.mark.parametrize("threads", ["1", "2"])
def test_ctrl_c_returns_what_was_done(threads):
    """A batch that would take a second stops soon after the signal, with the answers found until then."""
    out = subprocess.run([sys.executable, "-c", INTERRUPTED, threads], capture_output=True, text=True, check=True)
    late, done, unbegun, told, codes = json.loads(out.stdout)
    assert late < 0.2 * int(threads)  # processor seconds: a busy machine does not count
    assert 0 < done < 4000
    assert unbegun
    assert told
    assert codes == [0, 3]


def test_many_user_threads_at_once():
    """The GIL is free during a solve, and calls share nothing."""
    K, selected = some_keys(400, 6, 8, 10)
    want = mm.att_svm(K, selected, threads=1)
    found = [None] * 6

    def work(place):
        found[place] = mm.att_svm(K, selected, threads=1 + place % 2)

    users = [threading.Thread(target=work, args=(place,)) for place in range(len(found))]
    for user in users:
        user.start()
    for user in users:
        user.join()
    for answer in found:
        same_bits(answer, want)


def test_large_solve_sees_its_time_limit():
    """One program that takes seconds stops within the limit and a little more."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((4000, 400))
    A[:, 0] = np.abs(A[:, 0]) + 1.0
    begin = time.process_time()  # that of a machine with other work to do would count that work too
    result = mm.min_norm(A, 1.0, time_limit=0.05, throw=False)
    assert time.process_time() - begin < 0.4
    assert result.status in (mm.Status.time_limit, mm.Status.optimal)

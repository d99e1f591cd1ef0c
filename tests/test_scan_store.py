"""The store: readable by anyone, continued after anything that can happen to it, never mixed, never torn."""

import errno
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from scan_helpers import GRID, SEED, TRIALS, fails_sometimes, same, slow, small

import fastmm as mm
from fastmm.scans.design import Design
from fastmm.scans.store import ZarrStore

xr = pytest.importorskip("xarray")
zarr = pytest.importorskip("zarr", minversion="3")

HERE = str(Path(__file__).parent)


@pytest.fixture(scope="module")
def whole():
    return small()


def files(store):
    """Every file of a store, with its time of writing."""
    return {path: path.stat().st_mtime_ns for path in Path(store).rglob("*") if path.is_file()}


def chunks(store, name="status"):
    return sorted(path for path in (Path(store) / name / "c").rglob("*") if path.is_file())


def test_anyone_reads_it(whole, tmp_path):
    """Plain xarray and plain Zarr, warnings being errors, read the bits that the scan without a store returns."""
    assert same(whole, small(store=tmp_path / "s.zarr", chunk=7))
    read = xr.open_zarr(tmp_path / "s.zarr")
    assert same(whole, read)
    assert read.generator.values.tolist() == GRID["generator"]
    assert read.status.attrs["flag_meanings"].split()[1] == "ok"
    assert read.seconds.attrs["units"] == "s"
    assert mm.__version__ in read.attrs["settings"]
    assert np.array_equal(zarr.open_group(tmp_path / "s.zarr", mode="r")["norm"][:], whole.norm.values)


def test_numbers_keep_their_bits(tmp_path):
    """Axes and variables: 0.1, subnormals, the largest double, negative zero, infinities; booleans stay booleans."""
    numbers = [0.1, 0.30000000000000004, 5e-324, 1.7976931348623157e308, -0.0]

    def echo(rng, x):
        return {"same": x, "large": np.inf if x > 1 else x, "flag": x > 0.2}

    data = mm.scan(echo, {"x": [*numbers, np.float32(0.1)]}, 2, 0, store=tmp_path / "s.zarr", progress=False)
    read = xr.open_zarr(tmp_path / "s.zarr")
    assert read.x.values.tobytes() == np.array([*numbers, 0.10000000149011612]).tobytes()
    assert read.same.values[:, 1].tobytes() == read.x.values.tobytes()
    assert read.large.values[3, 0] == np.inf
    assert read.flag.dtype == bool
    assert same(data, read)


def test_a_finished_store_is_not_touched_again(tmp_path):
    small(store=tmp_path / "s.zarr", chunk=7)
    before = files(tmp_path / "s.zarr")
    small(store=tmp_path / "s.zarr", chunk=7)
    assert files(tmp_path / "s.zarr") == before


def test_more_trials_continue_it(tmp_path):
    """Also from the middle of a chunk; whole chunks are not computed again. Fewer trials read a part."""
    small(store=tmp_path / "s.zarr", chunk=7)
    first = {path: t for path, t in files(tmp_path / "s.zarr").items() if path.name in "012" and "c" in path.parts}
    more = small(store=tmp_path / "s.zarr", trials=40, chunk=7)
    assert same(more, small(trials=40))
    assert {path: t for path, t in files(tmp_path / "s.zarr").items() if path in first} == first
    assert same(small(store=tmp_path / "s.zarr", chunk=7), small())


def test_growing_can_be_interrupted(tmp_path, monkeypatch):
    """Stopped after the arrays have grown and before the number of trials is written."""
    small(store=tmp_path / "s.zarr", trials=5)

    def stop(path):
        raise RuntimeError("stopped here")

    with monkeypatch.context() as patch:
        patch.setattr("fastmm.scans.store._consolidate", stop)
        with pytest.raises(RuntimeError, match="stopped here"):
            small(store=tmp_path / "s.zarr", trials=12)
    assert same(small(store=tmp_path / "s.zarr", trials=12), small(trials=12))
    assert xr.open_zarr(tmp_path / "s.zarr").sizes["trial"] == 12


@pytest.mark.parametrize(
    ("grid", "seed", "told"),
    [
        (GRID | {"steps": 61}, SEED, r"steps: the store has 60, this call has 61"),
        (GRID | {"lr": 0.2}, SEED, r"lr: the store has 0.1, this call has 0.2"),
        (GRID | {"d": [2, 5]}, SEED, r"d: the store has \[2, 4\], this call has \[2, 5\]"),
        (GRID, SEED + 1, r"seed: the store has 5, this call has 6"),
    ],
)
def test_other_settings_are_refused_with_the_differences(tmp_path, grid, seed, told):
    small(store=tmp_path / "s.zarr", trials=2)
    before = files(tmp_path / "s.zarr")
    with pytest.raises(ValueError, match=told):
        mm.scan("converge", grid, 2, seed, store=tmp_path / "s.zarr", progress=False)
    assert files(tmp_path / "s.zarr") == before


def test_other_code_of_a_function_is_refused(tmp_path):
    def task(rng, k):
        return 1.0

    mm.scan(task, {"k": 1}, 2, 0, store=tmp_path / "s.zarr", progress=False)

    def task(rng, k):
        return 2.0

    with pytest.raises(ValueError, match="task: the store has"):
        mm.scan(task, {"k": 1}, 2, 0, store=tmp_path / "s.zarr", progress=False)


def test_what_is_no_store_is_left_alone(tmp_path):
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.txt").write_text("mine")
    with pytest.raises(ValueError, match="not the store of a scan"):
        small(store=tmp_path / "notes")
    assert (tmp_path / "notes" / "a.txt").read_text() == "mine"


def test_a_second_writer_is_refused(tmp_path):
    """In this process and in another; the lock ends with its owner."""
    design = Design.of("converge", GRID, TRIALS, SEED, 7)
    held = ZarrStore(tmp_path / "s.zarr", design)
    with pytest.raises(RuntimeError, match="another scan"):
        small(store=tmp_path / "s.zarr", chunk=7)
    code = f"import sys; sys.path.insert(0, {HERE!r}); import scan_helpers as s; s.small(store=sys.argv[1], chunk=7)"
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "s.zarr")], capture_output=True, text=True, check=False
    )
    assert "another scan is writing" in done.stderr
    held.close()
    small(store=tmp_path / "s.zarr", chunk=7)


@pytest.mark.parametrize("harm", ["flip", "cut", "empty", "gone"])
@pytest.mark.parametrize("name", ["correlation", "status"])
def test_damaged_chunks_are_computed_again(whole, tmp_path, harm, name):
    """Only these: the other chunks' files stay. A flipped bit is never read as data."""
    small(store=tmp_path / "s.zarr", chunk=7)
    victim = chunks(tmp_path / "s.zarr", name)[5]
    data = bytearray(victim.read_bytes())
    data[3] ^= 1
    if harm == "gone":
        victim.unlink()
    else:
        victim.write_bytes({"flip": bytes(data), "cut": bytes(data[:5]), "empty": b""}[harm])
    if harm == "flip":
        with pytest.raises(Exception, match=r"(?i)checksum"):
            xr.open_zarr(tmp_path / "s.zarr")[name].load()
    before = files(tmp_path / "s.zarr")
    assert same(whole, small(store=tmp_path / "s.zarr", chunk=7))
    after = files(tmp_path / "s.zarr")
    touched = {path for path in after if after[path] != before.get(path)}
    place = victim.relative_to(tmp_path / "s.zarr" / name)
    assert touched == {tmp_path / "s.zarr" / variable / place for variable in whole.data_vars}


CHILD = """
import sys
sys.path.insert(0, sys.argv[1])
import scan_helpers as s
import fastmm as mm
import xarray, zarr
print("ready", flush=True)
mm.scan(s.slow, {"k": [1, 2, 3]}, 60, 0, store=sys.argv[2], chunk=3, progress=False, threads=1)
"""


def child(store):
    process = subprocess.Popen(
        [sys.executable, "-c", CHILD, HERE, str(store)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "ready\n"
    return process


FORKING = """
import os, sys
sys.path.insert(0, sys.argv[1])
import google_crc32c, xarray, zarr.codecs
import scan_helpers as s
import fastmm as mm
for line in sys.stdin:
    pid = os.fork()
    if pid == 0:
        mm.scan(s.slow, {"k": [1, 2, 3]}, 60, 0, store=sys.argv[2], chunk=3, progress=False, threads=1)
        os._exit(0)
    print(pid, flush=True)
    os.waitpid(pid, 0)
"""


def test_killed_at_random_20_times(tmp_path):
    """After each kill what is there is right, bit by bit, and nothing that was there is lost; the end is whole.

    The scans are forked from a process that has all modules: half are killed at any moment, as early as while the store
    is made or opened, half soon after a chunk was written.
    """
    store, rng = tmp_path / "s.zarr", random.Random(7)
    want = mm.scan(slow, {"k": [1, 2, 3]}, 60, 0, progress=False, threads=40, chunk=3)
    kept = set()
    command = [sys.executable, "-c", FORKING, HERE, str(store)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        for kill in range(20):
            parent.stdin.write("\n")
            parent.stdin.flush()
            pid = int(parent.stdout.readline())
            before, deadline = len(chunks(store)), time.monotonic() + 20
            while kill % 2 and len(chunks(store)) == before and time.monotonic() < deadline:
                time.sleep(0.005)
            time.sleep(rng.uniform(0.0, 0.1 if kill % 2 else 0.4))
            os.kill(pid, signal.SIGKILL)
            if store.exists():
                read = xr.open_zarr(store).load()
                done = read.status.values != -1
                assert np.array_equal(read.value.values[done], want.value.values[done])
                there = set(np.flatnonzero(done.ravel()).tolist())
                assert there >= kept
                kept = there
        parent.stdin.close()
    assert 0 < len(kept) < 180
    left = mm.scan(slow, {"k": [1, 2, 3]}, 60, 0, progress=False, store=store, threads=40, chunk=3)
    assert same(want, left)


# a shell's background jobs start with it ignored
HEARS_CTRL_C = "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"


def test_ctrl_c_stores_and_returns_what_was_done(tmp_path):
    store = tmp_path / "s.zarr"
    code = (
        HEARS_CTRL_C
        + CHILD.replace("mm.scan(", "out = mm.scan(")
        + "print(out.attrs['complete'], int((out.status == 0).sum()))"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, HERE, str(store)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "ready\n"
    deadline = time.monotonic() + 30
    while not (store.exists() and chunks(store)) and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 0, err
    complete, count = out.split()
    assert complete == "0"
    assert int(count) == int((xr.open_zarr(store).status == 0).sum()) > 0


def test_ctrl_c_ends_a_long_chunk_at_once():
    code = HEARS_CTRL_C + (
        "import time\nimport fastmm as mm\n"
        "mm.scan('converge', dict(n=2, T=2, d=2, steps=1), 1, 0, progress=False)\n"
        "print('ready', flush=True)\n"
        "data = mm.scan('converge', dict(n=6, T=8, d=10, steps=10**7), 4, 0, progress=False)\n"
        "print(time.monotonic(), int((data.status == -1).sum()))\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.5)
    sent = time.monotonic()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 0, err
    ended, missing = out.split()
    assert float(ended) - sent < 0.5
    assert missing == "4"


def test_a_full_disk_loses_nothing(whole, tmp_path, monkeypatch):
    """Once room runs out the scan stops with a message; the files are whole, and room lets it finish."""
    store, left, write = tmp_path / "s.zarr", [40], Path.write_bytes

    def limited(self, data):
        left[0] -= 1
        if left[0] < 0:
            write(self, data[: len(data) // 2])  # what a disk leaves behind
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(self, data)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", limited)
        with pytest.raises(OSError, match="make room and call the scan again") as caught:
            small(store=store, chunk=7, threads=1)
    assert caught.value.errno == errno.ENOSPC
    read = xr.open_zarr(store).load()
    done = read.status.values != -1
    assert 0 < done.sum() < done.size
    assert np.array_equal(read.norm.values[done], whole.norm.values[done])
    assert not list(store.rglob("*.partial"))
    before = {path: t for path, t in files(store).items() if "status" in path.parts and "c" in path.parts}
    assert same(whole, small(store=store, chunk=7))
    assert {path: t for path, t in files(store).items() if path in before} == before


def test_a_real_file_size_limit(tmp_path):
    """The system itself refuses to write: the message comes, and the store is continued later."""
    store = tmp_path / "s.zarr"
    code = (
        f"import sys; sys.path.insert(0, {HERE!r})\n"
        "import resource, signal, scan_helpers as s\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "from fastmm.scans.design import Design\nfrom fastmm.scans.store import ZarrStore\n"
        f"ZarrStore({str(store)!r}, Design.of('converge', s.GRID, 600, s.SEED, 600)).close()\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (2048, 2048))\n"
        f"s.small(store={str(store)!r}, trials=600, chunk=600)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "File too large" in done.stderr
    assert "make room and call the scan again" in done.stderr
    assert same(small(trials=600, chunk=600), small(store=store, trials=600, chunk=600))


def test_partial_results_are_readable_while_it_runs(tmp_path):
    process = child(tmp_path / "s.zarr")
    try:
        seen, deadline = set(), time.monotonic() + 30
        while len(seen) < 4 and time.monotonic() < deadline:
            if (tmp_path / "s.zarr").exists():
                read = xr.open_zarr(tmp_path / "s.zarr")
                done = read.status.values != -1
                assert not np.isnan(read.value.values[done]).any()
                seen.add(int(done.sum()))
            time.sleep(0.02)
    finally:
        process.kill()
        process.communicate()
    assert len(seen) >= 4


def test_reduced_scans_with_a_store_keep_the_rows(whole, tmp_path):
    reduced = small(store=tmp_path / "s.zarr", reduce=True)
    assert same(reduced, mm.scans.summarise(whole))
    assert same(whole, xr.open_zarr(tmp_path / "s.zarr"))


def test_messages_of_failures_are_stored(tmp_path):
    """They add up when the store is continued, and stay when there is nothing left to do."""
    grid, store = {"d": [2, 3]}, tmp_path / "s.zarr"
    mm.scan(fails_sometimes, grid, 30, 1, store=store, progress=False, chunk=8)
    data = mm.scan(fails_sometimes, grid, 60, 1, store=store, progress=False)
    again = mm.scan(fails_sometimes, grid, 60, 1, store=store, progress=False)
    failed = int((data.status == mm.scans.Outcome.error).sum())
    for one in (data, again, xr.open_zarr(store)):
        assert sum(seen["count"] for seen in json.loads(one.attrs["errors"]).values()) == failed > 0


def test_an_existing_store_can_be_refused(tmp_path):
    small(store=tmp_path / "s.zarr", trials=2)
    with pytest.raises(ValueError, match="exists"):
        small(store=tmp_path / "s.zarr", trials=2, resume=False)

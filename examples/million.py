"""How long a scan of a million random problems takes: each generated, run for 1000 steps, solved and classified.

Runs a sample of the scan with a store, says what a million would take at that rate, how much of the time was inside
the compiled core, the peak memory, and, where PyTorch and CVXOPT are installed, what the usual script takes for an
instance in the same process:

    python examples/million.py                        # 20,000 instances, then the extrapolation
    python examples/million.py --instances 1000000    # all of it
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import resource
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

import fastmm as mm
from fastmm import _core
from fastmm.config import resolve_threads

SHAPE = {"n": 6, "T": 8, "d": 10, "steps": 1000}
KERNELS = ("descend", "att_svm", "attention", "scores")


class Clock:
    """Adds up the time that all threads together spend in calls of the compiled core."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._lock = threading.Lock()

    def watch(self, name: str) -> None:
        inner = getattr(_core, name)

        def timed(*arguments: Any, **named: Any) -> Any:
            begin = time.perf_counter()
            try:
                return inner(*arguments, **named)
            finally:
                with self._lock:
                    self.seconds += time.perf_counter() - begin

        setattr(_core, name, timed)


def usual_script(count: int) -> float | None:
    """Seconds an instance of the usual loop, one problem at a time, with PyTorch's autograd and CVXOPT."""
    if any(importlib.util.find_spec(name) is None for name in ("torch", "cvxopt")):
        return None
    import cvxopt
    import torch

    torch.set_num_threads(1)
    cvxopt.solvers.options["show_progress"] = False
    rng = np.random.default_rng(0)
    begin = time.perf_counter()
    for _ in range(count):
        X = rng.standard_normal((SHAPE["n"], SHAPE["T"], SHAPE["d"]))
        X /= np.linalg.norm(X, axis=-1, keepdims=True)
        v, Y = rng.standard_normal(SHAPE["d"]), rng.choice([-1.0, 1.0], SHAPE["n"])
        tokens, head, labels = (torch.from_numpy(array) for array in (X, v / np.linalg.norm(v), Y))
        p = torch.zeros(SHAPE["d"], dtype=torch.float64, requires_grad=True)
        for _ in range(SHAPE["steps"]):
            outputs = torch.einsum("nt,ntd,d->n", torch.softmax(tokens @ p, dim=-1), tokens, head)
            (gradient,) = torch.autograd.grad(torch.nn.functional.softplus(-labels * outputs).mean(), p)
            with torch.no_grad():
                p -= 0.1 * gradient / (gradient.norm() + 1e-9)
        selected = (tokens @ p).argmax(dim=-1).numpy()
        rows = (X[np.arange(len(X)), selected][:, None] - X)[np.arange(SHAPE["T"]) != selected[:, None]]
        with contextlib.suppress(ValueError, ArithmeticError):  # what it raises for some infeasible programs
            cvxopt.solvers.qp(
                cvxopt.matrix(np.eye(SHAPE["d"])),
                cvxopt.matrix(np.zeros(SHAPE["d"])),
                cvxopt.matrix(-rows),
                cvxopt.matrix(-np.ones(len(rows))),
            )
    return (time.perf_counter() - begin) / count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--instances", type=int, default=20_000)
    parser.add_argument("--usual", type=int, default=3, help="instances of the usual script")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:  # imports, and the first touch of the memory
        mm.scan("converge", SHAPE, 1024, 1, store=Path(folder, "scan.zarr"), progress=False)
    clock = Clock()
    for name in KERNELS:
        clock.watch(name)
    threads = resolve_threads()
    with tempfile.TemporaryDirectory() as folder:
        begin = time.perf_counter()
        data = mm.scan(
            "converge", SHAPE, options.instances, 0, store=Path(folder, "scan.zarr"), progress=sys.stdout.isatty()
        )
        seconds = time.perf_counter() - begin
        counts = mm.scans.summarise(data[["status"]]).outcomes
        size = sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    each = seconds / options.instances
    print(f"{options.instances} instances on {threads} threads: {seconds:.1f} s, {1e6 * each:.0f} us an instance")
    print(f"a million at this rate: {each * 1e6 / 60:.1f} min, {size / options.instances * 1e6 / 2**20:.0f} MiB stored")
    print(f"inside the compiled core: {100 * clock.seconds / (threads * seconds):.0f} % of the threads' time")
    print(f"peak memory of the process: {peak:.0f} MiB")
    print("outcomes:", {str(name): int(n) for name, n in zip(counts.outcome.values, counts.values, strict=True) if n})
    usual = usual_script(options.usual)
    if usual is None:
        print("the usual script: PyTorch or CVXOPT is not installed")
    else:
        print(f"the usual script: {1e6 * usual:.0f} us an instance on 1 thread, {usual / each:.0f} times as long")


if __name__ == "__main__":
    main()

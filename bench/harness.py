"""Who races in which suite, who is installed, and what counts as the same answer."""

from __future__ import annotations

import contextlib
import importlib.metadata
import importlib.util
import os
from collections.abc import Iterator

import numpy as np

QUICK = os.environ.get("FASTMM_BENCH_QUICK", "") not in ("", "0")
FULL = os.environ.get("FASTMM_BENCH_FULL", "") not in ("", "0")
LAPS = 1 if QUICK else 3
ROUNDS = 5  # of each contestant in each lap, unless a suite says otherwise

# Library as the tables call it -> distribution.
LIBRARIES = {
    "fastmm": "fastmm",
    "NumPy": "numpy",
    "Numba": "numba",
    "JAX": "jax",
    "PyTorch": "torch",
    "DAQP": "daqp",
    "quadprog": "quadprog",
    "CVXOPT": "cvxopt",
    "OSQP": "osqp",
}

# Contestants of each suite, ours first; the first word is the library.
DESCENT = (
    "fastmm float64",
    "fastmm float32",
    "fastmm float64, two threads",
    "JAX jax.grad, jit + vmap + scan",
    "JAX hand-written gradient, jit + vmap + scan",
    "Numba hand-written gradient",
    "NumPy whole batch at once",
    "PyTorch module loop",
)
GRADIENT = (
    "fastmm loss_and_grad",
    "Numba reading the keys, one stream",
    "Numba reading the keys, four streams",
    "Numba reading the keys, eight streams",
    "Numba hand-written gradient",
    "PyTorch analytic gradient",
    "NumPy analytic gradient",
)
MARGIN = (
    "fastmm att_svm, whole batch",
    "DAQP one call a problem",
    "quadprog one call a problem",
    "OSQP one call a problem, tight and polished",
    "CVXOPT one call a problem, tight",
)
LARGE_MARGIN = (
    "fastmm att_svm, passes",
    "fastmm att_svm, passes, from a run's direction",
    "DAQP one call",
    "quadprog one call",
    "CVXOPT one call, tight",
)
PLAN = (
    "fastmm Plan",
    "fastmm empty call",
    "fastmm loss_and_grad",
)
TORCH = (
    "fastmm softmax_attention",
    "fastmm operator, at any size",
    "PyTorch own operations",
    "PyTorch own operations, padding cleared",
)
SUITES = {
    "descent": DESCENT,
    "gradient": GRADIENT,
    "margin": MARGIN,
    "large margin": LARGE_MARGIN,
    "plan": PLAN,
    "torch": TORCH,
}


def library(contestant: str) -> str:
    return contestant.split()[0]


def version(distribution: str) -> str | None:
    """Version of an installed distribution; a package used from its source tree says it itself."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        if importlib.util.find_spec(distribution) is None:
            return None
        return str(getattr(importlib.import_module(distribution), "__version__", "unknown"))


def installed(contestants: tuple[str, ...]) -> list[str]:
    """Those whose library can be imported; the report names the others."""
    return [name for name in contestants if importlib.util.find_spec(LIBRARIES[library(name)]) is not None]


TOLERANCE = 1e-6  # relative distance of w


def distances(answers, reference):
    """Relative distance of each answer (I, d) to its reference."""
    reference = np.asarray(reference, np.float64)
    return np.linalg.norm(np.asarray(answers, np.float64) - reference, axis=-1) / np.linalg.norm(reference, axis=-1)


def agrees(call, w):
    """A solver's call, and how far its answers are from the certified ones; an answer that is wrong fails."""
    worst = float(distances(call(), w).max())
    assert worst <= TOLERANCE, f"relative distance {worst}"
    return call, f"{worst:.0e}"


def certified(rows, w):
    """How far certified answers fall short of their rows, in words."""
    worst = float((1 - (rows @ w[..., None])[..., 0]).max())
    assert worst <= 1e-9
    return f"certified, rows to {max(worst, 0.0):.0e}"


@contextlib.contextmanager
def on_cores(threads: int) -> Iterator[None]:
    """Lets the threads that start inside use more than the one core that contestants share."""
    if threads == 1 or not hasattr(os, "sched_setaffinity"):
        yield
        return
    own = os.sched_getaffinity(0)
    os.sched_setaffinity(0, range(os.cpu_count() or 1))
    try:
        yield
    finally:
        os.sched_setaffinity(0, own)

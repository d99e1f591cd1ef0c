"""Small scans that several test files share, and tasks that other processes can import."""

import os
import time

import numpy as np

import fastmm as mm

GRID = {"n": 2, "T": 3, "d": [2, 4], "generator": ["sphere", "mixture"], "steps": 60}
TRIALS = 23
SEED = 5


def small(**options):
    """The scan of the tests: four cells, 23 trials each."""
    return mm.scan(
        "converge", options.pop("grid", GRID), options.pop("trials", TRIALS), SEED, progress=False, **options
    )


def same(a, b):
    """Whether two datasets agree in every bit of every variable but `seconds`."""
    names = set(a.data_vars) - {"seconds"}
    assert names == set(b.data_vars) - {"seconds"}
    return all(a[k].dtype == b[k].dtype and a[k].values.tobytes() == b[k].values.tobytes() for k in names)


def draws(rng, d):
    """Two numbers of each kind, drawn from the trial's stream."""
    return {"first": rng.standard_normal(), "count": int(rng.integers(100)), "flag": bool(rng.random() < 0.5), "d": d}


def value(rng, k):
    return float(rng.standard_normal() + k)


def slow(rng, k):
    """Long enough for a process to be killed while it runs."""
    time.sleep(0.02)
    return float(rng.standard_normal() + k)


def dies_once(rng, k, flag, home):
    """Kills the process it is in, unless that is `home`, the first time that anyone comes here."""
    if k == 2 and os.getpid() != home and not os.path.exists(flag):
        open(flag, "w").close()
        os._exit(1)
    return float(rng.standard_normal() + k)


def fails_sometimes(rng, d):
    """Raises in some trials, returns NaN in others."""
    x = rng.random()
    if x < 0.2:
        raise ArithmeticError(f"x is too small for d={d}")
    return {"x": np.nan if x > 0.9 else x}

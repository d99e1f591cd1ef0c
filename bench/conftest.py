"""One core for everybody, laps that interleave the contestants, and what the report needs to know of the machine."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from pathlib import Path

import pytest

# Before any library starts its threads: one thread each, all on the same core, so that "one thread" is a fact.
for _variable in ("FASTMM", "OMP", "OPENBLAS", "MKL", "NUMBA"):
    os.environ[f"{_variable}_NUM_THREADS"] = "1"
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["JAX_ENABLE_X64"] = "1"
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})

from harness import LIBRARIES, QUICK  # noqa: E402 - NumPy must not start before the lines above

LAPS = 1 if QUICK else 3


def pytest_generate_tests(metafunc):
    if "lap" in metafunc.fixturenames:
        metafunc.parametrize("lap", range(LAPS), ids=lambda lap: f"lap{lap + 1}")


def pytest_collection_modifyitems(items):
    """All contestants run once, then all again: a slow minute of the machine does not hit one of them only."""
    items.sort(key=lambda item: item.callspec.params.get("lap", 0) if hasattr(item, "callspec") else 0)


def pytest_benchmark_update_json(config, benchmarks, output_json):
    from fastmm import _core

    output_json["libraries"] = {name: version(distribution) for name, distribution in LIBRARIES.items()}
    output_json["fastmm_build"] = _core.build_info()
    output_json["cpu"] = cpu_name()
    output_json["cores"] = os.cpu_count()
    output_json["load"] = os.getloadavg()[0]
    output_json["quick"] = QUICK
    output_json["laps"] = LAPS


def version(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


@pytest.fixture
def race(benchmark):
    """Times one contestant: `race(group, contestant, call, units=..., ...)` after its answer has been compared."""

    def run(group, contestant, call, *, units, unit, agreement, rounds=5, **info):
        benchmark.group = group
        benchmark.extra_info.update(contestant=contestant, units=units, unit=unit, agreement=agreement, **info)
        benchmark.pedantic(call, rounds=2 if QUICK else rounds, iterations=1, warmup_rounds=1)

    return run

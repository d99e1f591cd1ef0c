"""One core for everybody, laps that interleave the contestants, and what the report needs to know of the machine."""

from __future__ import annotations

import os

# Before any library starts its threads: one thread each, all on the same core, so that "one thread" is a fact.
for _variable in ("FASTMM", "OMP", "OPENBLAS", "MKL", "NUMBA"):
    os.environ[f"{_variable}_NUM_THREADS"] = "1"
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["JAX_ENABLE_X64"] = "1"
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})

# ruff: noqa: E402 - NumPy must not start before the lines above
import platform
from pathlib import Path

import pytest

from bench.harness import LAPS, LIBRARIES, QUICK, ROUNDS, SUITES, version

HERE = Path(__file__).parent


def processor_time() -> tuple[int, int]:
    """Ticks this machine has had since its start, and those a hypervisor gave to others instead (Linux; else 0)."""
    try:
        ticks = [int(word) for word in Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()[1:9]]
    except (OSError, ValueError):
        return 0, 0
    return sum(ticks), ticks[7] if len(ticks) > 7 else 0


STARTED = processor_time()
LOAD = os.getloadavg()[0]


def pytest_generate_tests(metafunc):
    if "lap" in metafunc.fixturenames:
        metafunc.parametrize("lap", range(LAPS), ids=lambda lap: f"lap{lap + 1}")


def pytest_collection_modifyitems(items):
    """All contestants run once, then all again: a slow minute of the machine does not hit one of them only."""
    ours = [item for item in items if HERE in item.path.parents]
    for item in ours:
        # what peers and their dependencies warn about is no failure of the benchmark
        item.add_marker(pytest.mark.filterwarnings("default"))
    if len(ours) == len(items):
        items.sort(key=lambda item: item.callspec.params.get("lap", 0) if hasattr(item, "callspec") else 0)


def pytest_benchmark_update_json(config, benchmarks, output_json):
    from fastmm import _core

    output_json["libraries"] = {name: version(distribution) for name, distribution in LIBRARIES.items()}
    output_json["suites"] = SUITES
    output_json["fastmm_build"] = _core.build_info()
    output_json["cpu"] = cpu_name()
    output_json["cores"] = os.cpu_count()
    output_json["memory"] = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    total, stolen = (now - then for now, then in zip(processor_time(), STARTED, strict=True))
    output_json["stolen"] = stolen / total if total else 0.0
    output_json["load"] = [LOAD, os.getloadavg()[0]]
    output_json["quick"] = QUICK
    output_json["laps"] = LAPS


def cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


@pytest.fixture
def race(benchmark):
    """Times one contestant: `race(group, contestant, call, units=..., ...)` after its answer has been compared."""

    def run(group, contestant, call, *, units, unit, agreement, rounds=ROUNDS, **info):
        benchmark.group = group
        benchmark.extra_info.update(
            contestant=contestant, units=units, unit=unit, agreement=agreement, threads=1, **info
        )
        benchmark.pedantic(call, rounds=2 if QUICK else rounds, iterations=1, warmup_rounds=1)
        if benchmark.stats is not None:  # None when benchmarks are disabled
            benchmark.extra_info["median_per_unit"] = benchmark.stats.stats.median / units
        return benchmark

    return run

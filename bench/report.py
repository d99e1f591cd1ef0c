"""Turns the JSON of a benchmark run into a Markdown report: python bench/report.py run.json > results/NAME.md"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from harness import LIBRARIES, SUITES, library

HEADINGS = {
    "descent": "Normalised gradient descent, batches of small problems",
    "gradient": "One gradient of one large problem",
    "margin": "ATT-SVM, batches of small problems",
}
FILES = {"descent": "test_descent_batch", "gradient": "test_large_gradient", "margin": "test_att_svm_batch"}

LIMITATIONS = """\
## Known limitations

- Random data of a few shapes on one machine and one core; ratios change with shape, processor and library version.
  Threads, where every contestant has some, are not measured here.
- Times include the call from Python on both sides. Hand-written loops get the products `Y v'x` ready-made, the QP
  solvers their rows; fastmm builds its rows inside the clock.
- JAX and Numba are compiled before the clock runs. PyTorch runs its ordinary eager loop: batched rewrites of it exist
  (the NumPy row shows what one gains), but are not what scripts contain.
- Speed is compared where the plain formulas still give the right answer (the column "distance" tells after how many
  steps); in long runs they drift away from it, at no cost in time. That is shown by `examples/headline.py`.
- General QP solvers solve general programs; ours only least-norm ones. OSQP and CVXOPT run at tolerances that make
  their answers comparable, tighter than their defaults and slower.
- A processor shared with other work, or one that changes its frequency, blurs everything: look at the spread.
"""


class Row(NamedTuple):
    """One contestant of one group: seconds a unit, over the rounds of all laps."""

    contestant: str
    median: float
    low: float
    high: float
    rounds: int
    info: dict[str, Any]


def groups(run: dict[str, Any], suite: str) -> Iterator[tuple[str, list[Row]]]:
    """The races of one suite, in the order they were run, contestants ours first."""
    pooled: dict[str, dict[str, tuple[list[float], dict[str, Any]]]] = {}
    for entry in run["benchmarks"]:
        if FILES[suite] in entry["fullname"]:
            info = entry["extra_info"]
            times, _ = pooled.setdefault(entry["group"], {}).setdefault(info["contestant"], ([], info))
            times.extend(seconds / info["units"] for seconds in entry["stats"]["data"])
    for group, contestants in pooled.items():
        rows = [
            Row(name, statistics.median(times), min(times), max(times), len(times), info)
            for name, (times, info) in contestants.items()
        ]
        yield group, sorted(rows, key=lambda row: SUITES[suite].index(row.contestant))


def duration(seconds: float) -> str:
    """Three significant digits in the unit that fits."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{_three(seconds / size)} {unit}"
    return f"{_three(seconds / 1e-9)} ns"


def _three(x: float) -> str:
    digits = 0 if x >= 100 else 1 if x >= 10 else 2
    return f"{x:.{digits}f}"


def table(suite: str, rows: list[Row], libraries: dict[str, str | None]) -> str:
    """Times and ratios; in the first race of a suite absent contestants are listed with the reason."""
    ours = rows[0].median
    unit = rows[0].info["unit"]
    lines = [f"| contestant | time per {unit} | fastest to slowest | against {rows[0].contestant} | distance |"]
    lines.append("|---|--:|--:|--:|---|")
    for row in rows:
        spread = f"{duration(row.low)} to {duration(row.high)}"
        ratio = "1" if row is rows[0] else f"{_three(row.median / ours)} x"
        lines.append(f"| {row.contestant} | {duration(row.median)} | {spread} | {ratio} | {row.info['agreement']} |")
    present = {row.contestant for row in rows}
    for name in SUITES[suite]:
        if name not in present:
            reason = "not installed" if libraries[library(name)] is None else "**failed or not run**"
            lines.append(f"| {name} | {reason} | | | |")
    return "\n".join(lines)


def bandwidth(rows: list[Row]) -> str:
    """Our share of the speed at which the keys can be read once at all."""
    readers = [row for row in rows if row.info.get("reader")]
    if not readers:
        return "The read bandwidth was not measured: Numba is not installed."
    best = min(readers, key=lambda row: row.median)
    rate = best.info["bytes"] / best.median / 1e9
    share = best.median / rows[0].median
    return (
        f"Reading the keys once takes {duration(best.median)} ({rate:.1f} GB/s, {best.contestant}): "
        f"{rows[0].contestant} reaches **{share:.0%}** of that bound."
    )


def machine(run: dict[str, Any]) -> str:
    """What the numbers depend on."""
    info, commit = run["machine_info"], run["commit_info"]
    build = run["fastmm_build"]
    changed = " with uncommitted changes" if commit.get("dirty") else ""
    versions = ", ".join(f"{name} {run['libraries'][name] or 'not installed'}" for name in LIBRARIES)
    lines = [
        f"- {run['cpu']}, {run['cores']} cores, one of them used, one thread; {info['system']} {info['release']}",
        f"- Python {info['python_version']}; {versions}",
        f"- fastmm {build['version']}, commit {commit.get('id', 'unknown')[:12]}{changed}, {build['compiler']}, "
        f"{build['build_type']}, instruction set {build['instruction_set']}",
        f"- {run['datetime'][:16]} UTC; medians over the rounds of {run['laps']} interleaved laps; "
        f"load of the machine at the end {run['load']:.1f}",
    ]
    return "\n".join(lines)


def report(run: dict[str, Any]) -> str:
    """The whole page."""
    parts = ["# Benchmarks of fastmm"]
    if run["quick"]:
        parts.append("**Tiny sizes, to see that everything works: the times mean nothing.**")
    parts.append(
        "All answers were compared in the same run before the clock started; a contestant with a wrong answer fails.\n"
        'The ratio is the contestant\'s time by ours: "5 x" takes five times as long as fastmm.'
    )
    parts.append(machine(run))
    for suite, heading in HEADINGS.items():
        parts.append(f"## {heading}")
        races = list(groups(run, suite))
        if not races:
            parts.append("Not run.")
        for group, rows in races:
            expected = [name for name in SUITES[suite] if name.startswith("fastmm")]
            if rows[0].contestant != expected[0]:
                parts.append(f"### {group}\n\n{expected[0]} **failed or was not run**: no ratios.")
                continue
            parts.append(f"### {group}\n\n{table(suite, rows, run['libraries'])}")
            if suite == "gradient":
                parts.append(bandwidth(rows))
    parts.append(LIMITATIONS.rstrip())
    return "\n\n".join(parts) + "\n"


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    print(report(json.loads(Path(arguments[0]).read_text(encoding="utf-8"))), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

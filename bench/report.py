"""Turns the JSON of a benchmark run into a Markdown report: python bench/report.py run.json > bench/results/NAME.md"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

HEADINGS = {
    "descent": "Normalised gradient descent, batches of small problems",
    "gradient": "Gradients of one large problem",
    "margin": "ATT-SVM, batches of small problems",
    "large margin": "ATT-SVM, one large problem",
    "plan": "What a call costs: a plan of a tiny problem",
    "torch": "Pooled attention inside PyTorch",
}
FILES = {
    "descent": "test_descent_batch",
    "gradient": "test_large_gradient",
    "margin": "test_att_svm_batch",
    "large margin": "test_large_svm",
    "plan": "test_plan_overhead",
    "torch": "test_torch_interop",
}

LIMITATIONS = """\
## Known limitations

- Random data of a few shapes on one machine and one core; ratios change with shape, processor and library version.
  The time of the import is not measured here.
- The reference machine has 2 cores and is shared: other work on it, or a processor that changes its frequency, blurs
  everything. Contestants take turns in laps and medians are taken; look at the spread and at the load.
- Slow contestants (PyTorch's module loop, OSQP, CVXOPT) get few problems a round, the first ones of the same batch.
- JAX and Numba are compiled before the clock runs. PyTorch runs its ordinary eager loop: batched rewrites of it exist
  (the NumPy row shows what one gains), but are not what scripts contain.
- Times include the call from Python on both sides. Hand-written loops get the products `Y v'x` ready-made, the QP
  solvers their rows; fastmm builds its rows and its certificates inside the clock. DAQP's own time is what its own
  clock says of set-up and solution, without the way through Python.
- Speed is compared where the plain formulas still give the right answer (the column "answers agree to" tells after how
  many steps); in long runs they drift away from it, at no cost in time.
- General QP solvers solve general programs; ours only least-norm ones. DAQP, OSQP and CVXOPT run at tolerances that
  make their answers comparable, tighter than their defaults.
- The read bandwidth is the best of several sums over the same keys; a bound that some other way of reading could beat.
  The share of a sum that reads them from front to back in one stream, as the kernel does, is given beside it.
"""


class Row(NamedTuple):
    """One contestant of one group: seconds a unit, over the rounds of all laps."""

    contestant: str
    median: float
    low: float
    high: float
    rounds: int
    info: dict[str, Any]


class Target(NamedTuple):
    """What the speed contract asks: seconds of ours at most, or a ratio to a contestant or a share at least."""

    group: str  # how the name of the group begins
    kind: str  # "time", "ratio", "inside", "share", "speed-up" or "best"
    contestant: str  # how the other contestant's name begins
    value: float


TARGETS = (
    Target("descent (6, 8, 10)", "time", "", 150e-6),
    Target("descent (6, 8, 10)", "ratio", "JAX jax.grad", 5),
    Target("descent (6, 8, 10)", "ratio", "JAX hand-written", 4),
    Target("descent (6, 8, 10)", "ratio", "Numba", 5),
    Target("descent (6, 8, 10)", "ratio", "PyTorch", 2000),
    Target("descent (6, 8, 10)", "speed-up", "fastmm float64, two threads", 1.8),
    Target("descent (2, 3, 5)", "time", "", 26e-6),
    Target("descent (5, 5, 10)", "time", "", 88e-6),
    Target("descent (10, 10, 20)", "time", "", 460e-6),
    Target("gradient", "share", "", 0.8),
    Target("gradient", "ratio", "PyTorch", 2.5),
    Target("gradient", "ratio", "Numba hand-written", 1.7),
    Target("joint gradient", "share", "", 0.65),
    Target("joint gradient", "ratio", "PyTorch", 4),
    Target("ATT-SVM (6, 8, 10)", "inside", "DAQP", 1),
    Target("ATT-SVM (6, 8, 10)", "ratio", "DAQP", 3),
    Target("ATT-SVM (6, 8, 10)", "ratio", "CVXOPT", 100),
    Target("ATT-SVM (10, 10, 20)", "inside", "DAQP", 1),
    Target("ATT-SVM (10, 10, 20)", "ratio", "DAQP", 1.8),
    Target("large ATT-SVM, 310000 rows", "best", "", 75),
    Target("large ATT-SVM, 310000 rows", "speed-up", "fastmm att_svm, passes, from a run's direction", 3),
    Target("large ATT-SVM, 30000 rows", "best", "", 20),
)


def groups(run: dict[str, Any], suite: str) -> Iterator[tuple[str, list[Row]]]:
    """The races of one suite, in the order they were run, contestants ours first."""
    pooled: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for entry in run["benchmarks"]:
        if FILES[suite] in entry["fullname"]:
            pooled.setdefault(entry["group"], {}).setdefault(entry["extra_info"]["contestant"], []).append(entry)
    for group, contestants in pooled.items():
        rows = []
        for name, laps in contestants.items():
            info = dict(laps[0]["extra_info"])
            if "inside" in info:
                info["inside"] = statistics.median(lap["extra_info"]["inside"] for lap in laps)
            times = [seconds / info["units"] for lap in laps for seconds in lap["stats"]["data"]]
            rows.append(Row(name, statistics.median(times), min(times), max(times), len(times), info))
        yield group, sorted(rows, key=lambda row: run["suites"][suite].index(row.contestant))


def duration(seconds: float) -> str:
    """Three significant digits in the unit that fits."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{_three(seconds / size)} {unit}"
    return f"{_three(seconds / 1e-9)} ns"


def _three(x: float) -> str:
    digits = 0 if x >= 100 else 1 if x >= 10 else 2
    return f"{x:.{digits}f}"


def _library(contestant: str) -> str:
    return contestant.split()[0]


def table(suite: str, rows: list[Row], run: dict[str, Any], absent: bool) -> str:
    """Times and ratios; with `absent`, contestants that did not run are listed with the reason."""
    ours = rows[0].median
    unit = rows[0].info["unit"]
    lines = [
        f"| implementation | median time per {unit} | fastest to slowest | by ours | answers agree to | rounds |",
        "|---|--:|--:|--:|---|--:|",
    ]
    for row in rows:
        spread = f"{duration(row.low)} to {duration(row.high)}"
        ratio = "1" if row is rows[0] else f"{_three(row.median / ours)} x"
        size = "" if row.info["units"] == 1 else f" of {row.info['units']}"
        lines.append(
            f"| {row.contestant} | {duration(row.median)} | {spread} | {ratio} | {row.info['agreement']} "
            f"| {row.rounds}{size} |"
        )
        if "inside" in row.info:
            inside = row.info["inside"]
            lines.append(
                f"| {_library(row.contestant)}, its own solver time | {duration(inside)} | | "
                f"{_three(inside / ours)} x | | |"
            )
    present = {row.contestant for row in rows}
    for name in run["suites"][suite] if absent else ():
        if name not in present:
            missing = run["libraries"][_library(name)] is None
            lines.append(f"| {name} | {'not installed' if missing else '**failed or not run**'} | | | | |")
    return "\n".join(lines)


def share(rows: list[Row], streams: str = "") -> tuple[float, Row] | None:
    """Our share of the speed at which the keys can be read once at all, and the fastest such way to read them."""
    readers = [row for row in rows if row.info.get("reader") and row.contestant.endswith(streams)]
    if not readers:
        return None
    best = min(readers, key=lambda row: row.median)
    return best.median / rows[0].median, best


def bandwidth(rows: list[Row]) -> str:
    """The lines on the read bandwidth."""
    lines = []
    for kind, streams in (("", ""), (" in one stream, front to back", "one stream")):
        found = share(rows, streams)
        if found is None:
            return "Share of read bandwidth: not measured, Numba is not installed."
        part, best = found
        rate = best.info["bytes"] / best.median / 1e9
        lines.append(
            f"Share of the read bandwidth{kind}: **{part:.0%}**. Reading the keys once takes {duration(best.median)} "
            f"({rate:.1f} GB/s, {best.contestant}), {rows[0].contestant} {duration(rows[0].median)}."
        )
    return "\n\n".join(lines)


def measured(target: Target, rows: list[Row]) -> float | None:
    """The number that a target is about."""
    if target.kind == "time":
        return rows[0].median
    if target.kind == "share":
        found = share(rows)
        return None if found is None else found[0]
    if target.kind == "best":
        others = [row.median for row in rows if not row.contestant.startswith("fastmm")]
        return min(others) / rows[0].median if others else None
    if target.kind == "speed-up":
        return next((rows[0].median / row.median for row in rows if row.contestant == target.contestant), None)
    for row in rows:
        if row.contestant.startswith(target.contestant) and not row.info.get("reader"):
            return (row.info["inside"] if target.kind == "inside" else row.median) / rows[0].median
    return None


def targets(races: dict[str, list[Row]]) -> str:
    """The speed contract beside what was measured."""
    words = {"time": "ours, at most", "share": "share of read bandwidth, at least"}
    shown = {"time": duration, "share": lambda part: f"{part:.0%}"}
    lines = ["## Targets", "", "| race | quantity | target | measured | met |", "|---|---|--:|--:|---|"]
    for target in TARGETS:
        show = shown.get(target.kind, lambda ratio: f"{_three(ratio)} x")
        own = ", its own solver time" if target.kind == "inside" else ""
        quantity = words.get(target.kind, f"{target.contestant}{own} by ours, at least")
        if target.kind == "speed-up":
            quantity = f"ours by {target.contestant}, at least"
        if target.kind == "best":
            quantity = "the fastest other by ours, at least"
        rows = next((rows for group, rows in races.items() if group.startswith(target.group)), None)
        found = None if rows is None else measured(target, rows)
        if found is None:
            lines.append(f"| {target.group} | {quantity} | {show(target.value)} | not measured | |")
            continue
        met = found <= target.value if target.kind == "time" else found >= target.value
        lines.append(
            f"| {target.group} | {quantity} | {show(target.value)} | {show(found)} | {'yes' if met else '**no**'} |"
        )
    return "\n".join(lines)


def machine(run: dict[str, Any]) -> str:
    """What the numbers depend on."""
    info, commit, build = run["machine_info"], run["commit_info"], run["fastmm_build"]
    changed = " with uncommitted changes" if commit.get("dirty") else ""
    versions = ", ".join(f"{name} {found or 'not installed'}" for name, found in run["libraries"].items())
    return "\n".join(
        [
            f"- {run['cpu']}, {run['cores']} cores, one of them used and one thread where nothing else is said; "
            f"{run['memory'] / 2**30:.0f} GiB of memory; {info['system']} {info['release']}",
            f"- Python {info['python_version']}; {versions}",
            f"- fastmm {build['version']}, commit {(commit.get('id') or 'unknown')[:12]}{changed}, "
            f"{build['compiler']}, {build['build_type']}, instruction set {build['instruction_set']}",
            f"- {run['datetime'][:16]} UTC; medians over the rounds of {run['laps']} interleaved laps; "
            f"load of the machine {run['load'][0]:.1f} before, {run['load'][1]:.1f} at the end, "
            f"{run['stolen']:.0%} of its processor time taken by its host",
        ]
    )


def busy(run: dict[str, Any]) -> bool:
    """Whether others took so much of the machine that its times say little; the run itself is a load of 1."""
    return max(run["load"][0], run["load"][1] - 1) > 0.5 or run["stolen"] > 0.05


def report(run: dict[str, Any]) -> str:
    """The whole page."""
    parts = ["# Benchmarks of fastmm"]
    if run["quick"]:
        parts.append("**Tiny sizes, to see that everything works: the times mean nothing.**")
    parts.append(
        "All answers were compared in the same run before the clock started; a contestant with a wrong answer fails.\n"
        '"By ours" is the contestant\'s time by that of the first row: 5 x takes five times as long as fastmm.'
    )
    parts.append(machine(run))
    if busy(run):
        parts.append(
            "**The machine was busy with other work:** times are too long and shares of the bandwidth uncertain; "
            "only large ratios mean something."
        )
    races: dict[str, list[Row]] = {}
    for suite, heading in HEADINGS.items():
        parts.append(f"## {heading}")
        found = list(groups(run, suite))
        if not found:
            parts.append("Not run.")
            continue
        first = run["suites"][suite][0]
        for group, rows in found:
            if rows[0].contestant != first:
                parts.append(f"### {group}\n\n{first} **failed or was not run**: no ratios.")
                continue
            races[group] = rows
            parts.append(f"### {group}\n\n{table(suite, rows, run, absent=group == found[0][0])}")
            if suite == "gradient":
                parts.append(bandwidth(rows))
    parts.append(targets(races))
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

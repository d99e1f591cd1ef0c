"""Seeing a scan: progress while it runs, and a table when it is done."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from fastmm.scans.design import Design
from fastmm.scans.outcomes import Outcome
from fastmm.scans.sampling import Estimate
from fastmm.scans.tasks import Rows

if TYPE_CHECKING:
    import xarray as xr
    from rich.table import Table

_MOST_LINES = 40


@contextmanager
def watch(show: bool, design: Design, done: int) -> Iterator[Callable[[Rows], None]]:
    """A function to be given each chunk; draws the share done, the rate, the time left and the failures so far."""
    if not show:
        yield lambda rows: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("scan"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[failed]} failed"),
    )
    with Progress(*columns, speed_estimate_period=60.0) as bar:
        work = bar.add_task("scan", total=design.instances, completed=done, rate="", failed=0)
        failed = computed = 0

        def seen(rows: Rows) -> None:
            nonlocal failed, computed
            status = rows.values["status"]
            failed += int(np.count_nonzero(status == Outcome.error))
            computed += len(status)
            elapsed = bar.tasks[work].elapsed or 0.0
            rate = f"{computed / elapsed:.0f}/s" if elapsed else ""
            bar.update(work, advance=len(status), rate=rate, failed=failed)

        yield seen
        bar.refresh()


def table(summary: xr.Dataset) -> Table:
    """One line a cell of the statistics of a scan: counts of outcomes, shares and means; at most 40 cells."""
    from rich.table import Table

    axes = [str(name) for name in summary.outcomes.dims if name != "outcome"]
    names = [str(name) for name in summary.data_vars if name not in ("outcomes", "seconds")]
    shown = [o for o in summary.outcome.values if summary.outcomes.sel(outcome=o).sum() > 0]
    out = Table(caption="means over the trials that have a value")
    for name in (*axes, *shown, *names):
        out.add_column(name.replace("_", " "), justify="right")
    places = list(np.ndindex(*(summary.sizes[axis] for axis in axes)))
    for place in places[:_MOST_LINES]:
        cell = summary.isel(dict(zip(axes, place, strict=True)))
        labels = [str(cell[axis].item()) for axis in axes]
        counts = [str(int(cell.outcomes.sel(outcome=o))) for o in shown]
        means = [f"{float(cell[name].sel(statistic='mean')):.6g}" for name in names]
        out.add_row(*labels, *counts, *means)
    if len(places) > _MOST_LINES:
        out.caption = f"{len(places) - _MOST_LINES} more cells are not shown; {out.caption}"
    return out


def sizes(estimate: Estimate) -> dict[str, str]:
    """An estimate in words."""
    hours, rest = divmod(round(estimate.seconds), 3600)
    minutes, seconds = divmod(rest, 60)
    return {
        "instances": f"{estimate.instances}",
        "time": f"about {hours} h {minutes} min {seconds} s on all threads here, from {estimate.sampled} instances",
        "size": f"{estimate.size / 2**20:.1f} MiB",
        "failed": f"{estimate.failed} of the sample",
    }

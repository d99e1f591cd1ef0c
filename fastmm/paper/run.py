"""Rebuild figures one after the other, say how it goes, write the report: what `fastmm paper` does."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from fastmm.paper.basins import basin_maps, basin_rules
from fastmm.paper.claims import Claim
from fastmm.paper.joint import figure3a, figure3b, figure3c
from fastmm.paper.loss_comparison import loss_comparison
from fastmm.paper.many_inputs import figure1c
from fastmm.paper.norms import step_rules
from fastmm.paper.one_input import figure1a, figure1b
from fastmm.paper.random_instances import INSTANCES, QUICK, random_instances
from fastmm.paper.report import summary, write_report
from fastmm.paper.result import Result
from fastmm.paper.theorems import THEOREMS
from fastmm.paper.two_starts import two_starts

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

# Every figure that can be rebuilt, by name, in the paper's order.
FIGURES: dict[str, Callable[[], Result]] = {
    "figure1a": figure1a,
    "figure1b": figure1b,
    "figure1c": figure1c,
    "two_starts": two_starts,
    "figure3a": figure3a,
    "figure3b": figure3b,
    "figure3c": figure3c,
    "step_rules": step_rules,
    "loss_comparison": loss_comparison,
    "basin_maps": basin_maps,
    "basin_rules": basin_rules,
    "random_instances": random_instances,
}


class Report(NamedTuple):
    """What `main` has done: the results, figure by figure, and the files written."""

    results: list[Result]
    files: list[Path]

    @property
    def claims(self) -> list[Claim]:
        """All claims of all results."""
        return [claim for result in self.results for claim in result.claims]

    @property
    def ok(self) -> bool:
        """Whether every claim holds, or fails for a known reason."""
        return all(claim.accepted for claim in self.claims)


def main(
    figures: Iterable[str] = (),
    out: str | os.PathLike[str] = "report",
    quick: bool = False,
    console: Console | None = None,
    instances: int | None = None,
) -> Report:
    """Rebuild figures of the paper, check their claims and write a report.

    Parameters
    ----------
    figures : iterable of str
        Names from ``mm.paper.FIGURES`` and ``mm.paper.THEOREMS``; none for all figures.
    out : path-like
        Folder of the report: pictures, ``claims.md``, ``claims.json``, ``index.html``.
    quick : bool
        Draw small PNG pictures only, and few random instances. The claims are all checked either way.
    console : rich.console.Console, optional
        Where progress and the table go; by default the terminal.
    instances : int, optional
        Random instances a cell of "random_instances"; 10,000 by default, 200 with `quick`.

    Returns
    -------
    Report
        Its ``.ok`` says whether every claim holds, but for those that fail for a known reason.

    Raises
    ------
    ValueError
        For a name that is in neither.
    OSError
        If the report cannot be written.

    Examples
    --------
    >>> import tempfile, fastmm as mm
    >>> from rich.console import Console
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     mm.paper.main(["figure1b"], out=folder, quick=True, console=Console(quiet=True)).ok
    True
    """
    from rich.console import Console

    known: dict[str, Callable[[], Result]] = {**FIGURES, **THEOREMS}
    chosen = list(dict.fromkeys(figures)) or list(FIGURES)
    for name in chosen:
        if name not in known:
            raise ValueError(f"figures: got {name!r}; allowed: {', '.join(known)}")
    if console is None:
        console = Console()
        if not console.is_terminal:
            console = Console(width=100)
    results = []
    for name in chosen:
        begin = time.perf_counter()
        if name == "random_instances":  # it takes minutes, and shows how far it is
            count = instances or (QUICK if quick else INSTANCES)
            results.append(random_instances(count, progress=console.is_terminal))
        else:
            with console.status(f"{name}: running and checking"):
                results.append(known[name]())
        seconds = time.perf_counter() - begin
        console.print(f"{name:<16} {seconds:5.1f} s   {summary(results[-1:])}", highlight=False)
    with console.status("drawing"):
        files = write_report(results, out, quick)
    console.print(claims_table(results))
    console.print(f"{summary(results)} Report: {Path(out) / 'index.html'}", highlight=False, soft_wrap=True)
    return Report(results, files)


def claims_table(results: Sequence[Result]) -> Table:
    """The claims as a table for the terminal."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, expand=True)
    table.add_column("the paper says", ratio=8, overflow="fold")
    table.add_column("expected", ratio=5, overflow="fold")
    table.add_column("measured", ratio=6, overflow="fold")
    table.add_column("verdict", no_wrap=True)
    for result in results:
        table.add_row(Text(result.title, style="bold"))
        for claim in result.claims:
            mark = Text("✓ holds", style="green") if claim.ok else Text("✗ FAILS", style="bold red")
            table.add_row(Text(f"  {claim.text}"), Text(claim.expected_text), Text(claim.measured_text), mark)
        table.add_section()
    return table

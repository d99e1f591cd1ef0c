"""A progress bar for compiled calls that report the work done."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress_bar(
    show: bool | Callable[[int], object], description: str, total: int
) -> Iterator[Callable[[int], object] | None]:
    """A function to be told how much of `total` is done, drawing a bar or given by the caller; None to show nothing."""
    if callable(show):
        yield show
        return
    if not show:
        yield None
        return
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns) as bar:
        task = bar.add_task(description, total=total)

        def update(done: int) -> None:
            bar.update(task, completed=min(done, total))

        yield update
        if not bar.finished:
            bar.refresh()

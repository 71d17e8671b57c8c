"""Progress of long commands: a bar in a terminal, otherwise a line for every tenth."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from rich import progress as rich_progress

from whyformer.batching.progress import Progress
from whyformer.cli.console import stderr_console
from whyformer.models.quiet import silence_transformers

ReportProgress = Callable[[str, int, int], None]
Returned = TypeVar("Returned")


def show_progress(events: Iterable[Progress | Returned]) -> Returned:
    """Show each progress event; return the last event, which is the result."""
    with progress_bar() as report:
        for event in events:
            if not isinstance(event, Progress):
                return event
            report(event.doing, event.done, event.total)
    raise AssertionError("the events ended without a result")


@contextmanager
def progress_bar() -> Iterator[ReportProgress]:
    """Yield a function that shows what is being done, how many steps are done, and of how many."""
    console = stderr_console()
    silence_transformers()
    if not console.is_terminal:
        yield _tenths_printer()
        return
    columns = (
        rich_progress.TextColumn("{task.description}", markup=False),
        rich_progress.BarColumn(),
        rich_progress.MofNCompleteColumn(),
        rich_progress.TimeRemainingColumn(elapsed_when_finished=True),
    )
    with rich_progress.Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=None)
        last = (0, 0)

        def report(doing: str, done: int, total: int) -> None:
            nonlocal last
            # Other work, or the same work from its start: restart the clock.
            if total != last[1] or done < last[0]:
                bar.reset(task, total=total or None)
            last = (done, total)
            bar.update(task, description=doing, completed=done)

        yield report


def _tenths_printer() -> ReportProgress:
    """Return a function that prints a line to stderr whenever another tenth is done."""
    last = [""]

    def report(doing: str, done: int, total: int) -> None:
        tenth = f"{10 * done // total * 10} %" if total else "..."
        line = f"{doing.partition(':')[0] if ':' in doing else 'working'}: {tenth}"
        if line != last[0]:
            last[0] = line
            stderr_console().print(line, soft_wrap=True, markup=False)

    return report

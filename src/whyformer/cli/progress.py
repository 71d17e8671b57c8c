"""Progress of long commands: a bar in a terminal, otherwise a line for every tenth."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from rich import progress as rich_progress
from rich.text import Text

from whyformer.attribution.characters import hide_controls
from whyformer.batching.progress import Progress
from whyformer.cli.console import stderr_console
from whyformer.models.quiet import silence_transformers

LONG = 5.0  # seconds after which lines tell the time left

ReportProgress = Callable[[Progress], None]
Returned = TypeVar("Returned")


def show_progress(events: Iterable[Progress | Returned]) -> Returned:
    """Show each progress event; return the last event, which is the result."""
    with progress_bar() as report:
        for event in events:
            if not isinstance(event, Progress):
                return event
            report(event)
    raise AssertionError("the events ended without a result")


@contextmanager
def progress_bar() -> Iterator[ReportProgress]:
    """Yield a function that shows a progress event."""
    console = stderr_console()
    silence_transformers()
    if not console.is_terminal:
        yield _tenths_printer()
        return
    columns = (
        rich_progress.TextColumn("{task.description}", markup=False),
        rich_progress.BarColumn(),
        rich_progress.MofNCompleteColumn(),
        _Rate(),
        rich_progress.TimeRemainingColumn(elapsed_when_finished=True),
    )
    with rich_progress.Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=None)
        last = (0, 0)

        def report(event: Progress) -> None:
            nonlocal last
            # Other work, or the same work from its start: restart the clock.
            if event.total != last[1] or event.done < last[0]:
                bar.reset(task, total=event.total or None)
            last = (event.done, event.total)
            title = f"{event.part}: {event.doing}" if event.part else event.doing
            # A live display is drawn past the console's own guard.
            bar.update(task, description=hide_controls(title), completed=event.done)

        yield report


class _Rate(rich_progress.ProgressColumn):
    """How many steps are finished per second, by all workers together."""

    def render(self, task: rich_progress.Task) -> Text:
        """Return the rate; nothing until it is known."""
        return Text(rate_text(task.finished_speed or task.speed), style="progress.data.speed")


def rate_text(speed: float | None) -> str:
    """Return a rate as text: per second, or per minute if it is slow."""
    if not speed:
        return ""
    return f"{speed:.1f}/s" if speed >= 1 else f"{60 * speed:.1f}/min"


def _tenths_printer() -> ReportProgress:
    """Return a function that prints a line to stderr whenever another tenth is done."""
    last = ""
    work, begin, first = "", 0.0, 0  # what is measured, and when and where it began

    def report(event: Progress) -> None:
        nonlocal last, work, begin, first
        tenth = f"{10 * event.done // event.total * 10} %" if event.total else "..."
        # Without `doing`: it can change at every step, which would print a line each.
        line = f"{event.part or 'working'}: {tenth}"
        if work != f"{event.part} {event.total}":
            work, begin, first = f"{event.part} {event.total}", time.monotonic(), event.done
        if line != last:
            last = line
            pace = _pace_text(event.done - first, event.total - event.done, begin)
            stderr_console().print(line + pace, soft_wrap=True, markup=False)

    return report


def _pace_text(done: int, left: int, begin: float) -> str:
    """Return the rate and the time left, once the work takes long enough to ask for them."""
    spent = time.monotonic() - begin
    if done < 1 or left < 1 or spent < LONG:
        return ""
    minutes, seconds = divmod(round(left * spent / done), 60)
    return f", {rate_text(done / spent)}, {minutes}:{seconds:02d} left"

"""A progress bar with the time left, where somebody watches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from whyformer.cli.console import aside
from whyformer.models.quiet import silence_transformers

Told = Callable[[str, int, int], None]


@contextmanager
def watched() -> Iterator[Told]:
    """A function that is told what is going on, how much of it is done, and of how much."""
    console = aside()
    silence_transformers()
    if not console.is_terminal:
        yield _said_now_and_then()
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(elapsed_when_finished=True),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=None)
        last = (0, 0)

        def tell(doing: str, done: int, total: int) -> None:
            nonlocal last
            # Other work, or the same anew: the clock starts again.
            if total != last[1] or done < last[0]:
                progress.reset(task, total=total or None)
            last = (done, total)
            progress.update(task, description=doing, completed=done)

        yield tell


def _said_now_and_then() -> Told:
    """Without a terminal: a line on stderr whenever another tenth is done."""
    last = [""]

    def tell(doing: str, done: int, total: int) -> None:
        tenth = f"{10 * done // total * 10} %" if total else "..."
        line = f"{doing.partition(':')[0] if ':' in doing else 'working'}: {tenth}"
        if line != last[0]:
            last[0] = line
            aside().print(line, soft_wrap=True, markup=False)

    return tell

"""The default engine: one chunk after the other, in this process."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from whyformer.workers.chunk import LATER, Chunk, Finished, Task, attempt


@dataclass(frozen=True)
class LocalEngine:
    """Runs chunks in this process, with the given number of torch's threads."""

    threads: int = 1

    def run(self, task: Task, chunks: Iterable[Chunk], count: int) -> Iterator[Finished]:
        """Yield the chunks in their order."""
        work = None
        for chunk in chunks:
            assert chunk is not LATER, "every result so far is there"
            with torch_threads(self.threads):  # not across the yield: the caller's code is its own
                work = work or task.open()
                finished = attempt(work, chunk)
            yield finished


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """A scope with this number of torch's threads."""
    before = torch.get_num_threads()
    if before != count:
        torch.set_num_threads(count)
    try:
        yield
    finally:
        if before != count:
            torch.set_num_threads(before)

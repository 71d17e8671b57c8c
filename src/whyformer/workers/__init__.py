"""Run the chunks of a long job: in this process, in several processes, or on a Ray cluster.

The interface is small. A `Task` loads what the work needs, once per worker, and returns the
function from a chunk's payload to its result. An engine takes the task and an iterable of `Chunk`s,
pulls them as its workers become free, and yields one `Finished` per chunk, in any order:

    engine = open_engine(EngineOptions(workers=2))
    for finished in engine.run(task, chunks, count):
        if finished.failure is None:
            keep(finished.name, finished.result)

- A failure is a value: a chunk that raises, or whose worker dies, is tried again up to `ATTEMPTS`
  times and then comes back with its error; the other chunks go on.
- An error in `Task.open` is about the whole job and is raised.
- A result does not depend on the engine: every worker has `threads` threads of torch.
- Chunks may depend on earlier results: yield `LATER` until these are there, and the workers stay.
- Engines keep nothing. What is finished is in the caller's store, and resuming is its work.
"""

from whyformer.workers.chunk import ATTEMPTS, LATER, Chunk, Failure, Finished, Task
from whyformer.workers.engine import ENGINES, Engine, EngineError, EngineOptions, open_engine

__all__ = [
    "ATTEMPTS",
    "ENGINES",
    "LATER",
    "Chunk",
    "Engine",
    "EngineError",
    "EngineOptions",
    "Failure",
    "Finished",
    "Task",
    "open_engine",
]

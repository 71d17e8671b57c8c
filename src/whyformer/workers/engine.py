"""The engines by name, and the options that choose one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from whyformer.errors import OptionError, WhyformerError
from whyformer.workers.chunk import Chunk, Finished, Task

ENGINES = ("local", "ray")


class EngineError(WhyformerError, RuntimeError):
    """The workers cannot be started or reached."""


class Engine(Protocol):
    """Runs chunks. See the top of this package."""

    def run(self, task: Task, chunks: Iterable[Chunk], count: int) -> Iterator[Finished]:
        """Yield every chunk once, finished or failed, in any order.

        Args:
            task: What the workers do.
            chunks: The chunks; they are pulled as workers become free. `LATER` among them says
                that the next chunk depends on results that are not there yet.
            count: The most chunks that there can be.

        Raises:
            EngineError: The workers cannot be started or reached.
        """


@dataclass(frozen=True)
class EngineOptions:
    """Which engine runs a job, and with how many workers.

    Args:
        engine: "local" for this machine, "ray" for a Ray cluster.
        workers: How many chunks run at the same time.
        threads: Threads of torch in each worker.
        address: The address of a Ray cluster; None to start Ray on this machine.
        runtime_env: Ray's runtime environment, for clusters that lack a package.
        gpus: GPUs per worker on Ray; may be a fraction.

    Raises:
        OptionError: A value is unknown, or does not fit the engine.
    """

    engine: str = "local"
    workers: int = 1
    threads: int = 1
    address: str | None = None
    runtime_env: Mapping[str, Any] | None = None
    gpus: float = 0.0

    def __post_init__(self) -> None:
        if self.engine not in ENGINES:
            raise OptionError(
                f"engine={self.engine!r} is unknown",
                argument="engine",
                remedy=f"Choose one of {', '.join(ENGINES)}",
            )
        for name, value in (("workers", self.workers), ("threads", self.threads)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise OptionError(
                    f"{name}={value!r} is not a number of {name}",
                    argument=name,
                    remedy="Pass a whole number from 1",
                )
        if self.engine != "ray":
            for name in ("address", "runtime_env", "gpus"):
                if getattr(self, name):
                    raise OptionError(
                        f"{name}={getattr(self, name)!r} needs the engine ray",
                        argument=name,
                        remedy="Choose the engine ray, or leave it out",
                    )


def open_engine(options: EngineOptions) -> Engine:
    """Return the engine that the options name; its workers start with the first chunk.

    Raises:
        EngineError: A package that the engine needs is not installed.
    """
    if options.engine == "ray":
        from whyformer.workers.on_ray import RayEngine

        return RayEngine(options)
    if options.workers > 1:
        from whyformer.workers.processes import ProcessEngine

        return ProcessEngine(options.workers, options.threads)
    from whyformer.workers.this_process import LocalEngine

    return LocalEngine(options.threads)

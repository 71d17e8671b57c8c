"""The engine on a Ray cluster: Ray Data moves the work, a small actor hands out the chunks.

The dataset is a row of tickets. A worker takes the chunk of its ticket from the feeder, which the
driver fills a little ahead of the results that it has read: so inputs are streamed, and nothing
piles up. If a worker dies, Ray runs its ticket again, and the feeder gives out the same chunk, up
to `ATTEMPTS` times. If the loss of a node ends the dataset itself, another one runs what is not
finished. Ray's own checkpoints and splits are not used: the caller's store knows what
is finished.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import socket
import warnings
from collections.abc import Generator, Iterable, Iterator
from typing import Any

import cloudpickle

from whyformer.errors import WhyformerError
from whyformer.workers.chunk import (
    ATTEMPTS,
    LATER,
    Chunk,
    Failure,
    Finished,
    Task,
    attempt,
    describe,
)
from whyformer.workers.engine import EngineError, EngineOptions
from whyformer.workers.order import carry_out, write_order

AHEAD = 4  # chunks per worker that are handed out before their results are read
SAME = ("whyformer", "torch", "transformers")  # packages whose versions decide the values
LARGE = 100_000  # bytes
TIMEOUT = 5.0  # seconds to reach an address
PROBE = 120.0  # seconds for a node to say what is installed on it
POLL = 0.05  # seconds between two questions for a chunk that is not there yet


class RayEngine:
    """Runs chunks on a Ray cluster, or on Ray on this machine if there is no address."""

    def __init__(self, options: EngineOptions) -> None:
        self.options = options

    def run(self, task: Task, chunks: Iterable[Chunk], count: int) -> Iterator[Finished]:
        """Yield the chunks as they are finished."""
        if count < 1:
            return
        ray = _import_ray()
        started = _connect(ray, self.options)
        try:
            if self.options.address is not None:
                _check_nodes(ray, self.options)
            yield from self._run(ray, task, iter(chunks), count)
        finally:
            if started:
                ray.shutdown()

    def _run(self, ray: Any, task: Task, chunks: Iterator[Chunk], count: int) -> Iterator[Finished]:
        """Yield the finished chunks; start again with the rest if a node takes Ray Data down."""
        given: dict[str, Chunk] = {}  # not finished yet

        def ahead(source: Iterable[Chunk]) -> Iterator[Chunk]:
            for chunk in source:
                if chunk is not LATER:
                    given[chunk.name] = chunk
                yield chunk

        for number in range(ATTEMPTS):
            rest = itertools.chain([*given.values()], chunks)
            try:
                for finished in self._round(ray, task, ahead(rest), count):
                    del given[finished.name]
                    count -= 1
                    yield finished
                return
            except ray.exceptions.RayError as error:
                if number == ATTEMPTS - 1:
                    raise EngineError(
                        f"the Ray cluster stopped the work {ATTEMPTS} times: {describe(error)}",
                        argument="engine",
                        remedy="Finished work is kept: run the same command again to resume it",
                    ) from error

    def _round(
        self, ray: Any, task: Task, chunks: Iterator[Chunk], count: int
    ) -> Iterator[Finished]:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=True)
        feeder = ray.remote(_Feeder).options(num_cpus=0, scheduling_strategy=here).remote(ATTEMPTS)
        order: Any = write_order(task, self.options.threads)
        if len(order) > LARGE:  # a model from memory: stored once, not sent to each worker
            order = ray.put(order)
        results = _results(ray, self.options, feeder, order, count)
        try:
            most = AHEAD * self.options.workers
            given = _feed(ray, feeder, chunks, most)
            for finished in results:
                if finished is None:
                    continue  # a ticket that found no chunk left
                if isinstance(finished, WhyformerError):
                    raise finished
                given -= 1
                yield finished
                given += _feed(ray, feeder, chunks, most - given)
        finally:
            results.close()  # else Ray Data goes on in a thread of this process
            with contextlib.suppress(Exception):
                ray.kill(feeder)


def _results(
    ray: Any, options: EngineOptions, feeder: Any, order: Any, count: int
) -> Generator[Any, None, None]:
    """What the workers return, as it comes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Ray warns about its own defaults
        context = ray.data.DataContext.get_current()
        context.enable_progress_bars = False
        context.print_on_execution_start = False
        context.execution_options.preserve_order = False
        context.wait_for_min_actors_s = -1
        # One ticket per task; not `range`, whose tasks would wait for a CPU that the workers have.
        tickets = ray.data.from_items(
            [{"ticket": number} for number in range(count)], override_num_blocks=count
        )
        found = tickets.map_batches(
            _RayWorker,
            fn_constructor_args=(order, feeder),
            compute=ray.data.ActorPoolStrategy(
                min_size=1,
                max_size=options.workers,
                initial_size=options.workers,
                max_tasks_in_flight_per_actor=2,  # the next one is there when this one ends
            ),
            batch_size=1,
            num_cpus=options.threads,
            num_gpus=options.gpus or None,
            zero_copy_batch=False,
        )
    for batch in found.iter_batches(batch_size=1, prefetch_batches=0):
        for content in batch["result"]:
            yield cloudpickle.loads(bytes(content))


def _feed(ray: Any, feeder: Any, chunks: Iterator[Chunk], most: int) -> int:
    """Hand the next chunks to the feeder and return how many; tell it if there are no more."""
    for count in range(most):
        chunk = next(chunks, None)
        if chunk is LATER:
            return count
        ray.get(feeder.add.remote(None if chunk is None else cloudpickle.dumps(chunk)))
        if chunk is None:
            return count
    return most


class _Feeder:
    """Gives every ticket a chunk, and the same one again if its worker died."""

    def __init__(self, attempts: int) -> None:
        self.attempts = attempts
        self.waiting: list[bytes] = []
        self.is_complete = False
        self.given: dict[int, list[Any]] = {}  # by ticket the chunk and how often it was given

    def add(self, chunk: bytes | None) -> None:
        """Add a chunk; None if there are no more."""
        if chunk is None:
            self.is_complete = True
        else:
            self.waiting.append(chunk)

    def take(self, ticket: int) -> tuple[str, bytes]:
        """Return ("run", chunk), ("failed", chunk), ("wait", b"") or ("none", b"")."""
        if ticket not in self.given:
            if not self.waiting:
                return ("none" if self.is_complete else "wait"), b""
            self.given[ticket] = [self.waiting.pop(0), 0]
        known = self.given[ticket]
        known[1] += 1
        return ("run" if known[1] <= self.attempts else "failed"), known[0]


class _RayWorker:
    """One actor of the pool: it loads the model once."""

    def __init__(self, order: Any, feeder: Any) -> None:
        import ray

        self.feeder = feeder
        self.work = carry_out(ray.get(order) if isinstance(order, ray.ObjectRef) else order)

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Take the chunk of each ticket, run it, and return the results as bytes."""
        import numpy

        results = [self._result(int(ticket)) for ticket in batch["ticket"]]
        column = numpy.empty(len(results), dtype=object)
        column[:] = [cloudpickle.dumps(one) for one in results]
        return {"result": column}

    def _result(self, ticket: int) -> Finished | WhyformerError | None:
        import time

        import ray

        if isinstance(self.work, WhyformerError):
            return self.work
        while True:
            order, content = ray.get(self.feeder.take.remote(ticket))
            if order == "none":
                return None
            if order == "wait":
                time.sleep(POLL)
                continue
            chunk = cloudpickle.loads(content)
            if order == "failed":
                text = f"its worker died {ATTEMPTS} times, perhaps out of memory"
                return Finished(chunk.name, failure=Failure(text, ATTEMPTS, died=True))
            return attempt(self.work, chunk)


# -- the cluster -------------------------------------------------------------------------------


def _import_ray() -> Any:
    os.environ.setdefault("RAY_DEDUP_LOGS", "0")
    # Ray would otherwise take the visible GPUs away from workers that ask for none.
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    # Its core prints doubts about its own use of actors to the terminal.
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    try:
        import ray
        import ray.data

        logging.getLogger("ray.data").setLevel(logging.ERROR)
    except ImportError as error:
        raise EngineError(
            f"the engine ray needs a package that is not installed ({error})",
            argument="engine",
            remedy="Install whyformer[ray]",
        ) from error
    return ray


def _connect(ray: Any, options: EngineOptions) -> bool:
    """Connect to the cluster, or start Ray here; return whether this call did it."""
    unreachable = EngineError(
        f"there is no Ray cluster at {options.address!r}",
        argument="address",
        remedy="Check the address, start one with `ray start --head`, or leave the address out to"
        " use this machine",
    )
    if options.address is not None:
        _check_port(options.address, unreachable)
    if ray.is_initialized():
        _check_connected(ray.get_runtime_context().gcs_address, options.address)
        return False
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if options.runtime_env:
        quiet["runtime_env"] = dict(options.runtime_env)
    if options.address is None:
        ray.init(
            address="local",
            num_cpus=options.workers * options.threads,
            include_dashboard=False,
            _node_ip_address="127.0.0.1",
            **quiet,
        )
        return True
    try:
        ray.init(address=options.address, **quiet)
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        raise unreachable from error
    return True


def _check_connected(here: str, wanted: str | None) -> None:
    """Raise EngineError if this process is connected to another cluster than the wanted one."""
    if wanted not in (None, "auto", here):
        raise EngineError(
            f"this process is connected to the Ray cluster at {here!r}, not to {wanted!r}",
            argument="address",
            remedy="Call ray.shutdown() first, or leave the address out",
        )


def _check_port(address: str, unreachable: EngineError) -> None:
    """Raise quickly if nothing listens there: Ray itself tries for a long time."""
    host, colon, port = address.rpartition("://")[2].rpartition(":")
    if not colon or not port.isdigit():
        return
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=TIMEOUT):
            pass
    except (OSError, OverflowError) as error:
        raise unreachable from error


def _installed(packages: tuple[str, ...]) -> dict[str, str | None]:
    """The versions of packages here; None if one is not installed."""
    import importlib.metadata  # here, because the function is sent by value

    found: dict[str, str | None] = {}
    for package in packages:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = None
    return found


# Sent by value: a node without whyformer could not import it.
_installed.__module__ = "__main__"


def _check_nodes(ray: Any, options: EngineOptions) -> None:
    """Raise EngineError if a node lacks a package, or has another version of one."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    here = _installed(SAME)
    nodes = [node for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU")]
    asked = []
    for node in nodes:
        there_only = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        probe = ray.remote(_installed).options(num_cpus=0, scheduling_strategy=there_only)
        asked.append((node["NodeManagerAddress"], probe.remote(SAME)))
    for address, reply in asked:
        try:
            there = ray.get(reply, timeout=PROBE)
        except ray.exceptions.RayError as error:
            raise EngineError(
                f"node {address} of the Ray cluster does not answer: {describe(error)}",
                argument="address",
                remedy="Check the node, and the runtime environment if you passed one",
            ) from error
        for package in SAME:
            if there[package] is None:
                raise EngineError(
                    f"{package} is not installed on node {address} of the Ray cluster",
                    argument="address",
                    remedy=f"Install {package} {here[package]} there, or let Ray install it:"
                    f' runtime_env={{"pip": ["whyformer[ray]=={here["whyformer"]}"]}}',
                )
            if there[package] != here[package]:
                raise EngineError(
                    f"node {address} of the Ray cluster has {package} {there[package]}, and here it"
                    f" is {here[package]}: the values would differ",
                    argument="address",
                    remedy="Install the same version on both, or pass a runtime_env with it",
                )

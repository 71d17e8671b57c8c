"""What a worker in another process gets first: its task, its threads, and the code it must have."""

from __future__ import annotations

import hashlib
import traceback
from pathlib import Path

import cloudpickle

from whyformer.errors import WhyformerError
from whyformer.workers.chunk import Task, Work, describe
from whyformer.workers.engine import EngineError

PACKAGE = Path(__file__).parents[1]


def write_order(task: Task, threads: int) -> bytes:
    """Return the order for all workers of a job."""
    # The task is packed twice: a worker with other code may not be able to unpack it.
    return cloudpickle.dumps((code_fingerprint(), threads, cloudpickle.dumps(task)))


def carry_out(order: bytes) -> Work | WhyformerError:
    """Load what the work needs, in a worker; return the work, or why there is none."""
    try:
        import torch

        code, threads, task = cloudpickle.loads(order)
        if code != code_fingerprint():
            return EngineError(
                "a worker has other code of whyformer than the process that started the run",
                argument="engine",
                remedy="Install the same whyformer everywhere and leave it unchanged during a run."
                " Finished work is kept: run the same command again to resume it",
            )
        torch.set_num_threads(threads)
        return cloudpickle.loads(task).open()
    except WhyformerError as error:
        return error
    except Exception as error:
        traceback.print_exc()
        return EngineError(
            f"a worker cannot start: {describe(error)}",
            argument="engine",
            remedy="Run with one worker on this machine to see where it fails",
        )


def code_fingerprint() -> str:
    """Return a fingerprint of whyformer's source files."""
    digest = hashlib.sha256()
    for file in sorted(PACKAGE.rglob("*.py")):
        digest.update(str(file.relative_to(PACKAGE)).encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:32]

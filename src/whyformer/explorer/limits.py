"""Limits of the explorer: bytes, pixels, characters, jobs, connections and seconds."""

from __future__ import annotations

from dataclasses import dataclass

from whyformer.errors import InputError, WhyformerError

MEGA = 1_000_000


class TooMuchError(InputError):
    """The request exceeds a limit."""


class TooSlowError(InputError):
    """The request did not arrive in time."""


class BusyError(WhyformerError):
    """Too many jobs are running and waiting."""


@dataclass(frozen=True)
class Limits:
    """The limits of one explorer; a request beyond one gets an error that names it."""

    upload: int = 8 * MEGA  # bytes of an image file
    pixels: int = 24 * MEGA  # of an image file
    decoded: int = 2 * MEGA  # pixels of an image after decoding; larger ones are reduced
    characters: int = 4000  # of a text
    target: int = 200  # characters of a target
    new_tokens: int = 256  # that a model may write
    methods: int = 15  # in one job
    running: int = 2  # jobs at the same time; jobs on one model take turns
    alone: float = 3.0  # seconds that a job runs before another one starts beside it
    waiting: int = 32  # jobs in the queue
    client_waiting: int = 24  # of these, jobs from one address
    uploads: int = 4  # of these, jobs with an image of the user
    refusal: float = 1.0  # seconds that a refused image waits for its answer
    seconds: float = 120.0  # of one job
    connections: int = 256  # at the same time
    client_connections: int = 128  # of these, from one address
    headers: float = 5.0  # seconds for the headers of a request to arrive
    reading: float = 20.0  # seconds for the body of a request to arrive, or a response to leave
    receiving: int = 4  # large requests at the same time
    samples: int = 1000  # of a dataset
    results: int = 32  # stored for downloads
    kept: int = 64 * MEGA  # bytes of all stored results

    @property
    def body(self) -> int:
        """Bytes of a whole request: the image in base64, the texts, and the field names."""
        return 4 * self.upload // 3 + 16 * self.characters + 20_000

"""What one explorer gives to everybody who uses it: bytes, pixels, characters, jobs, seconds."""

from __future__ import annotations

from dataclasses import dataclass

from whyformer.errors import InputError, WhyformerError

MEGA = 1_000_000


class TooMuchError(InputError):
    """What the browser sent is beyond a limit."""


class BusyError(WhyformerError):
    """More was asked for than can be done now."""


@dataclass(frozen=True)
class Limits:
    """Each of them is told in a sentence to whoever goes beyond it."""

    upload: int = 8 * MEGA  # bytes of an image file
    pixels: int = 24 * MEGA  # of an image, after it is unpacked
    characters: int = 4000  # of a text
    target: int = 200  # characters of a target
    methods: int = 15  # in one job
    running: int = 2  # jobs at the same time; those on one model wait for each other
    waiting: int = 8  # jobs in the queue
    seconds: float = 120.0  # of one job
    connections: int = 64  # at the same time
    reading: float = 20.0  # seconds until all of a request has arrived
    results: int = 16  # kept for downloads
    kept: int = 64 * MEGA  # bytes of all of them

    @property
    def body(self) -> int:
        """Bytes of a whole request: the image in base64, the texts, and room for their names."""
        return 4 * self.upload // 3 + 16 * self.characters + 20_000

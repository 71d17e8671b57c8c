"""The folder of a run: files that are complete or absent, on a disk or in an object store."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from whyformer.errors import WhyformerError
from whyformer.storage.atomic_write import write_atomically

URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
PACKAGES = {"s3": "s3fs", "gs": "gcsfs", "gcs": "gcsfs", "abfs": "adlfs", "az": "adlfs"}


class StoreError(WhyformerError, OSError):
    """The folder of a run cannot be read or written."""


class RunFolder(Protocol):
    """Files by name; a name may contain "/"."""

    @property
    def name(self) -> str:
        """The folder as the user names it."""

    def names(self, under: str) -> list[str]:
        """Return the sorted names of the files directly in a sub-folder, hidden files left out."""

    def read(self, name: str) -> bytes:
        """Return a file's content; raise FileNotFoundError or another OSError."""

    def write(self, name: str, content: bytes) -> None:
        """Write a file so that it is complete or absent; raise OSError if that fails."""

    def path(self, name: str) -> str:
        """Return the whole path or URL of a file, for messages."""


def is_url(place: Path | str) -> bool:
    """Return whether a place is a URL rather than a path."""
    return isinstance(place, str) and URL.match(place) is not None


def open_folder(place: Path | str, *, create: bool = True) -> RunFolder:
    """Return the folder at a path or URL.

    Args:
        place: A path, or a URL that fsspec knows.
        create: Whether to create a local folder that does not exist.

    Raises:
        StoreError: The folder cannot be created, or the store cannot be reached.
    """
    if not is_url(place):
        folder = LocalFolder(Path(place).expanduser())
        try:
            if create:
                folder.place.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(
                f"the folder {str(place)!r} cannot be created: {reason_of(error)}",
                argument="out",
                remedy="Choose another folder",
            ) from error
        return folder
    return RemoteFolder(str(place).rstrip("/"), _file_system(str(place)))


@dataclass(frozen=True)
class LocalFolder:
    """A folder on this machine."""

    place: Path

    @property
    def name(self) -> str:
        """The path of the folder."""
        return str(self.place)

    def names(self, under: str) -> list[str]:
        """Return the sorted names of the files in a sub-folder."""
        found = self.place / under
        if not found.is_dir():
            return []
        files = (one for one in found.iterdir() if not one.name.startswith("."))
        return sorted(one.name for one in files if one.is_file())

    def read(self, name: str) -> bytes:
        """Return a file's content."""
        return (self.place / name).read_bytes()

    def write(self, name: str, content: bytes) -> None:
        """Write a temporary file, flush it and rename it."""
        path = self.place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, lambda temporary: temporary.write_bytes(content))

    def path(self, name: str) -> str:
        """Return the whole path of a file."""
        return str(self.place / name)


@dataclass(frozen=True)
class RemoteFolder:
    """A prefix in an object store, through fsspec. Such stores write an object whole or not."""

    name: str
    system: Any

    def names(self, under: str) -> list[str]:
        """Return the sorted names of the objects below a prefix."""
        self.system.invalidate_cache()
        try:
            found = self.system.ls(f"{self.name}/{under}", detail=False)
        except FileNotFoundError:
            return []
        except Exception as error:
            raise _unreachable(self.name, error) from error
        names = sorted(str(one).rstrip("/").rpartition("/")[2] for one in found)
        return [name for name in names if name and not name.startswith(".")]

    def read(self, name: str) -> bytes:
        """Return an object's content."""
        try:
            content: bytes = self.system.cat_file(f"{self.name}/{name}")
        except OSError:
            raise
        except Exception as error:  # clients raise their own errors
            raise OSError(reason_of(error)) from error
        return content

    def write(self, name: str, content: bytes) -> None:
        """Write an object in one request."""
        try:
            self.system.pipe_file(f"{self.name}/{name}", content)
        except OSError:
            raise
        except Exception as error:  # clients raise their own errors
            raise OSError(reason_of(error)) from error

    def path(self, name: str) -> str:
        """Return the whole URL of an object."""
        return f"{self.name}/{name}"


def _file_system(url: str) -> Any:
    import fsspec

    protocol = url.partition("://")[0]
    try:
        system, _ = fsspec.core.url_to_fs(url)
    except ImportError as error:
        package = PACKAGES.get(protocol, f"the fsspec package of {protocol}")
        raise StoreError(
            f"{url!r} needs a package that is not installed ({reason_of(error)})",
            argument="out",
            remedy=f"Install {package}, for s3 as whyformer[s3]",
        ) from error
    except ValueError as error:
        raise StoreError(
            f"{url!r} is of an unknown protocol ({reason_of(error)})",
            argument="out",
            remedy="Use a folder, or a URL such as s3://bucket/run",
        ) from error
    return system


def _unreachable(place: str, error: BaseException) -> StoreError:
    return StoreError(
        f"{place!r} cannot be read: {reason_of(error)}",
        argument="out",
        remedy="Check its name, your credentials and your connection",
    )


def reason_of(error: BaseException) -> str:
    """Return why an operation on files failed, as one line."""
    return getattr(error, "strerror", None) or str(error).strip().split("\n")[0] or repr(error)

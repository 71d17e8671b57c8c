"""Small files in the published formats, which the tests write themselves."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

Write = Callable[[dict[str, str | bytes]], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """A function that writes these files and returns their folder."""

    def written(files: dict[str, str | bytes]) -> Path:
        for name, content in files.items():
            file = tmp_path / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content.encode() if isinstance(content, str) else content)
        return tmp_path

    return written


@pytest.fixture
def picture(tmp_path: Path) -> Callable[..., Path]:
    """A function that writes a small image and returns its path."""

    def painted(name: str, size: tuple[int, int] = (4, 3), mode: str = "RGB") -> Path:
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.new(mode, size, 1).save(file)
        return file

    return painted

"""Images with masks: the user's own and the pets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy
import pytest
from PIL import Image

from tests.datasets.conftest import Write
from whyformer.datasets import Mask, RowError, open_dataset
from whyformer.errors import InputError, OptionError

Picture = Callable[..., Path]
VALUES = numpy.array([[0, 1, 2], [3, 255, 1]], dtype=numpy.uint8)


def paint(file: Path, values: numpy.ndarray = VALUES) -> None:
    """Write these values as a grey image."""
    file.parent.mkdir(exist_ok=True)
    Image.fromarray(values).save(file)


@pytest.mark.parametrize(
    ("foreground", "ignore", "expected"),
    [
        ((), (), [[0, 1, 1], [1, 1, 1]]),
        ((), (255,), [[0, 1, 1], [1, -1, 1]]),
        ((1,), (3,), [[0, 1, 0], [-1, 0, 1]]),
    ],
)
def test_a_mask_tells_object_background_and_neither(
    tmp_path: Path, foreground: tuple[int, ...], ignore: tuple[int, ...], expected: list[list[int]]
) -> None:
    paint(tmp_path / "mask.png")
    for source in (tmp_path / "mask.png", VALUES):
        read = Mask(source, foreground, ignore).read()
        assert read.dtype == numpy.int8
        assert read.tolist() == expected


def test_a_palette_counts_by_its_numbers(tmp_path: Path) -> None:
    image = Image.fromarray(VALUES).convert("P")
    image.putdata(VALUES.ravel().tolist())
    image.putpalette([7, 7, 7] * 256)
    image.save(tmp_path / "mask.png")
    assert Mask(tmp_path / "mask.png", (1,)).read().tolist() == [[0, 1, 0], [0, 0, 1]]


def test_images_and_masks_are_matched_by_name(picture: Picture, tmp_path: Path) -> None:
    file = picture("images/a.jpg")
    paint(tmp_path / "masks" / "a.png")
    (sample,) = open_dataset(f"image_masks:{tmp_path},foreground=1|2,ignore=255")
    assert (sample.id, sample.inputs, sample.label) == ("all/a", file, None)
    assert sample.extras["mask"].read().tolist() == [[0, 1, 1], [0, -1, 1]]
    picture("images/b.jpg")
    with pytest.raises(RowError, match=r"b\.jpg has no mask"):
        list(open_dataset(f"image_masks:{tmp_path}"))
    with pytest.raises(OptionError, match="as in 1"):
        open_dataset(f"image_masks:{tmp_path}", foreground="cat")
    with pytest.raises(InputError, match="has no folder truth"):
        open_dataset(f"image_masks:{tmp_path}", masks="truth")


def test_pets_ignore_the_boundary(write: Write, picture: Picture, tmp_path: Path) -> None:
    file = picture("images/Persian_2.jpg")
    paint(tmp_path / "trimaps" / "Persian_2.png")
    rows = "file,breed,imagenet_index\nPersian_2.jpg,Persian,283\n"
    (sample,) = open_dataset(f"pets:{write({'index.csv': rows})}")
    assert (sample.inputs, sample.label, sample.label_name) == (file, 283, "Persian")
    assert sample.extras["mask"].read().tolist() == [[0, 1, 0], [-1, 0, 1]]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("Persian_3.jpg,Persian,283", "no image"),
        ("b.jpg,Persian,283", "no mask"),
        ("b.jpg,Persian,x", "imagenet_index is 'x'"),
        ("../index.csv,Persian,1", "is outside"),
    ],
)
def test_a_malformed_row_is_told_by_its_line(
    write: Write, picture: Picture, tmp_path: Path, row: str, message: str
) -> None:
    picture("images/b.jpg")
    (tmp_path / "trimaps").mkdir()
    path = write({"index.csv": f"file,breed,imagenet_index\n{row}\n"})
    with pytest.raises(RowError, match=rf"index\.csv, line 2: .*{message}"):
        list(open_dataset(f"pets:{path}"))


@pytest.mark.data
def test_the_published_pets(data: Path) -> None:
    samples = list(open_dataset(f"pets:{data}/pets-segmentation"))
    breeds = Counter(s.label_name for s in samples)
    assert len(samples) == 480
    assert set(breeds.values()) == {20}
    shares = []
    for sample in samples[::24]:
        mask = sample.extras["mask"].read()
        assert mask.shape == (256, 256)
        assert set(numpy.unique(mask)) == {-1, 0, 1}
        shares.append((mask == 1).mean())
    assert 0.1 < numpy.mean(shares) < 0.6

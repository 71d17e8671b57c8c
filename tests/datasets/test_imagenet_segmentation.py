"""`gtsegs_ijcv.mat`, in a small file of the same structure."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy
import pytest

from whyformer.datasets import RowError, open_dataset
from whyformer.errors import InputError

RANDOM = numpy.random.default_rng(0)
IMAGES = [RANDOM.integers(0, 256, (5, 7, 3), dtype=numpy.uint8) for _ in range(2)]
MASKS = [RANDOM.integers(0, 2, (5, 7), dtype=numpy.uint8) for _ in range(2)]


def save(file: Path, images: list[Any], masks: list[Any], names: tuple[str, ...] = ()) -> Path:
    """The file, written as MATLAB would: columns first, and everything by reference."""
    h5py = pytest.importorskip("h5py", reason="h5py is not installed")
    with h5py.File(file, "w", userblock_size=512) as opened:
        stored = opened.create_group("#refs#")

        def refer(name: str, values: Any) -> Any:
            return stored.create_dataset(name, data=values).ref

        def column(name: str, references: list[Any]) -> None:
            shape = (len(references), 1)
            made = opened.create_dataset(f"value/{name}", shape, dtype=h5py.ref_dtype)
            for i, reference in enumerate(references):
                made[i, 0] = reference

        column("img", [refer(f"i{i}", image.T) for i, image in enumerate(images)])
        cells = []
        for i, mask in enumerate(masks):
            cell = stored.create_dataset(f"c{i}", (1, 1), dtype=h5py.ref_dtype)
            cell[0, 0] = refer(f"m{i}", mask.T)
            cells.append(cell.ref)
        column("gt", cells)
        if names:
            codes = [numpy.array([[ord(c)] for c in name], numpy.uint16) for name in names]
            column("id", [refer(f"n{i}", code) for i, code in enumerate(codes)])
    return file


def test_images_and_masks_come_out_upright(tmp_path: Path) -> None:
    save(tmp_path / "gtsegs_ijcv.mat", IMAGES, MASKS, ("n01440764_18", "n02123045_3"))
    found = open_dataset(f"imagenet_segmentation:{tmp_path}")
    assert len(found) == 2
    for i, sample in enumerate(found):
        assert sample.id == f"all/{i}"
        assert sample.inputs.size == (7, 5)
        assert numpy.array_equal(numpy.asarray(sample.inputs), IMAGES[i])
        assert numpy.array_equal(sample.extras["mask"].read(), MASKS[i])
    assert sample.extras["name"] == "n02123045_3"


def test_a_name_may_be_missing_and_an_image_grey(tmp_path: Path) -> None:
    file = save(tmp_path / "small.mat", [IMAGES[0][..., 0]], MASKS[:1])
    (sample,) = open_dataset(f"imagenet_segmentation:{file}")
    assert (sample.extras["name"], sample.inputs.mode) == ("", "RGB")


def test_a_malformed_entry_is_told_by_its_number(tmp_path: Path) -> None:
    file = save(tmp_path / "small.mat", IMAGES, [MASKS[0], MASKS[1][:, :3]])
    with pytest.raises(RowError, match=r"small\.mat, image 1: a mask \(5, 3\)"):
        list(open_dataset(f"imagenet_segmentation:{file}"))
    assert len(list(open_dataset(f"imagenet_segmentation:{file}", on_error="skip"))) == 1
    file = save(tmp_path / "floats.mat", [IMAGES[0].astype(float)], MASKS[:1])
    with pytest.raises(RowError, match="an image of float64"):
        list(open_dataset(f"imagenet_segmentation:{file}"))


def test_other_files_are_refused(tmp_path: Path) -> None:
    pytest.importorskip("h5py", reason="h5py is not installed")
    (tmp_path / "old.mat").write_bytes(b"MATLAB 5.0 MAT-file" + bytes(600))
    with pytest.raises(InputError, match=r"-v7\.3"):
        open_dataset(f"imagenet_segmentation:{tmp_path}/old.mat")
    file = save(tmp_path / "odd.mat", IMAGES, MASKS[:1])
    with pytest.raises(InputError, match="2 images and 1 masks"):
        open_dataset(f"imagenet_segmentation:{file}")
    with pytest.raises(InputError, match=r"has no gtsegs_ijcv\.mat"):
        open_dataset(f"imagenet_segmentation:{tmp_path}")


def test_without_h5py_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "h5py", None)
    (tmp_path / "gtsegs_ijcv.mat").touch()
    with pytest.raises(InputError, match=r"h5py.*pip install .whyformer\[data\]"):
        open_dataset(f"imagenet_segmentation:{tmp_path}")

"""VQA v2: questions about COCO images, ten people's answers, and features of image regions."""

from __future__ import annotations

import base64
import binascii
import zipfile
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy

from whyformer.datasets.dataset import Contents, DatasetRow, Sample, Spot, dataset
from whyformer.datasets.files import DatasetSource, get_entry, load_json, parse_whole
from whyformer.errors import InputError

# Columns of a .tsv without a header, by their number: bottom-up-attention and LXMERT.
TSV = {
    6: ("image_id", "image_w", "image_h", "num_boxes", "boxes", "features"),
    10: (
        *("img_id", "img_h", "img_w", "objects_id", "objects_conf", "attrs_id", "attrs_conf"),
        *("num_boxes", "boxes", "features"),
    ),
}
# Names of the arrays in .npz files.
NPZ = {"features": ("features", "x"), "boxes": ("boxes", "bbox")}
Regions = Callable[[int, Spot], dict[str, Any]]


@dataset(
    "vqa",
    title="VQA v2",
    task="visual-question-answering",
    splits=("val2014", "train2014", "test2015", "test-dev2015"),
    layout="v2_OpenEnded_mscoco_val2014_questions.json, v2_mscoco_val2014_annotations.json (none"
    " for the test splits) and a folder val2014 of COCO images",
    licence="CC BY 4.0; images by their photographers",
    paper="Goyal et al. 2017",
)
def vqa(source: DatasetSource, *, images: str = "", features: str = "") -> Contents:
    """Read questions with their images; the label is the most frequent answer.

    `extras["answers"]` has all ten answers. With `features` (a .tsv or a folder of .npz files),
    `extras["features"]` is (regions, size) and `extras["boxes"]` is (regions, 4) in pixels: left,
    top, right, bottom. The image itself may then be missing. A .tsv also gives `extras["size"]`,
    the height and width of the image.
    """
    split = source.split
    file = source.find(
        f"v2_OpenEnded_mscoco_{split}_questions.json",
        f"Questions/v2_OpenEnded_mscoco_{split}_questions.json",
    )
    questions = get_entry(load_json(file), "questions", list, Spot(file))
    answers = _answers(source)
    regions = _regions(Path(features).expanduser()) if features else None
    base = file.parent
    tried = [Path(images).expanduser()] if images else [base / split, base / "images" / split]
    folder = next((path for path in tried if path.is_dir()), None)
    if folder is None and regions is None:
        raise source.missing_error(*map(str, tried))
    # The images of test-dev are a part of those of test.
    stem = f"COCO_{split.replace('test-dev', 'test')}_"

    def read(at: str, question: Any, spot: Spot) -> Sample:
        question_id = get_entry(question, "question_id", int, spot)
        text = get_entry(question, "question", str, spot)
        number = get_entry(question, "image_id", int, spot)
        inputs: dict[str, Any] = {"text": text}
        image = folder / f"{stem}{number:012}.jpg" if folder else None
        if image is not None and image.is_file():
            inputs["image"] = image
        elif regions is None:
            raise spot.error(f"there is no image {image}", f"a file in {folder}")
        extras: dict[str, Any] = {"image_id": number}
        if regions is not None:
            extras |= regions(number, spot)
        label = None
        if answers is not None:
            label, extras["answers"], extras["answer_type"] = answers(question_id, spot)
        return Sample(at, inputs, label, label, extras)

    def rows() -> Iterator[DatasetRow]:
        for i, question in enumerate(questions):
            spot = Spot(file, entry=f"questions[{i}]")
            known = isinstance(question, dict) and isinstance(question.get("question_id"), int)
            at = source.id(question["question_id"] if known else f"questions[{i}]")
            yield DatasetRow(at, spot, partial(read, at, question, spot))

    return Contents(rows, count=len(questions))


def _answers(
    source: DatasetSource,
) -> Callable[[int, Spot], tuple[str, tuple[str, ...], str]] | None:
    """A function from the id of a question to its answers; None if the split has no answers."""
    name = f"v2_mscoco_{source.split}_annotations.json"
    if source.split.startswith("test"):
        return None
    found = source.find_optional(name, f"Annotations/{name}")
    if found is None:
        raise source.missing_error(name)
    file = found
    annotations: dict[int, tuple[int, Any]] = {}
    for i, annotation in enumerate(get_entry(load_json(file), "annotations", list, Spot(file))):
        spot = Spot(file, entry=f"annotations[{i}]")
        annotations[get_entry(annotation, "question_id", int, spot)] = i, annotation

    def answers(question: int, question_spot: Spot) -> tuple[str, tuple[str, ...], str]:
        if question not in annotations:
            raise question_spot.error(
                f"{file.name} has no question {question}", "answers to every question"
            )
        i, annotation = annotations[question]
        spot = Spot(file, entry=f"annotations[{i}]")
        entries = get_entry(annotation, "answers", list, spot)
        return (
            get_entry(annotation, "multiple_choice_answer", str, spot),
            tuple(get_entry(answer, "answer", str, spot) for answer in entries),
            str(annotation.get("answer_type", "")),
        )

    return answers


# -- regions -------------------------------------------------------------------------------------


def _regions(source: Path) -> Regions:
    """A function from the id of an image to the features and boxes of its regions."""
    if source.is_dir():
        return partial(_from_npz, source)
    if not source.is_file():
        raise InputError(
            f"there are no region features at {source}",
            argument="features",
            remedy="Pass a .tsv file or a folder of .npz files",
        )
    return partial(_from_tsv, source, _tsv_places(source))


def _from_npz(folder: Path, image: int, spot: Spot) -> dict[str, Any]:
    names = [f"{image}.npz", f"{image:012}.npz"]
    file = next((folder / name for name in names if (folder / name).is_file()), None)
    file = file or next(iter(sorted(folder.glob(f"COCO_*_{image:012}.npz"))), None)
    if file is None:
        raise spot.error(f"{folder} has no {' or '.join(names)}", "features of every image")
    try:
        with numpy.load(file, allow_pickle=False) as stored:
            found = {
                part: stored[next(name for name in names if name in stored)]
                for part, names in NPZ.items()
            }
    except (StopIteration, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise spot.error(
            f"{file} cannot be read ({error or 'an array is missing'})",
            "plain arrays called features and boxes, or x and bbox",
        ) from error
    return _check_regions(found, file, spot)


def _tsv_places(file: Path) -> dict[int, int]:
    """The byte at which the line of each image starts; the features stay on disk."""
    places: dict[int, int] = {}
    with file.open("rb") as opened:
        start = 0
        for number, line in enumerate(opened, 1):
            name = line.partition(b"\t")[0].decode("ascii", "replace").strip()
            image = parse_whole(name.rpartition("_")[2])
            if image is not None:
                places[image] = start
            elif line.strip() and number > 1:
                raise InputError(f"{file}, line {number}: {name[:40]!r} is not the id of an image")
            start += len(line)
    return places


def _from_tsv(file: Path, places: Mapping[int, int], image: int, spot: Spot) -> dict[str, Any]:
    if image not in places:
        raise spot.error(f"{file} has no image {image}", "features of every image")
    with file.open("rb") as opened:
        opened.seek(places[image])
        cells = opened.readline().rstrip(b"\r\n").split(b"\t")
    if len(cells) not in TSV:
        raise spot.error(f"{file} has {len(cells)} columns", " or ".join(map(str, TSV)))
    row = dict(zip(TSV[len(cells)], cells, strict=True))
    try:
        count = int(row["num_boxes"])
        found = {
            part: numpy.frombuffer(
                base64.b64decode(row[part], validate=True), numpy.float32
            ).reshape(count, -1)
            for part in NPZ
        }
        height, width = (next(int(row[k]) for k in row if k.endswith(end)) for end in ("_h", "_w"))
        if height < 1 or width < 1:
            raise ValueError(f"an image of {width} x {height} pixels")
    except (ValueError, binascii.Error) as error:
        raise spot.error(
            f"{file}, image {image}: {error}",
            "width, height, and num_boxes rows of float32 in base64",
        ) from error
    return _check_regions(found, file, spot) | {"size": (height, width)}


def _check_regions(found: dict[str, Any], file: Path, spot: Spot) -> dict[str, Any]:
    features, boxes = found["features"], found["boxes"]
    if features.ndim != 2 or boxes.ndim != 2 or len(features) != len(boxes) or boxes.shape[1] != 4:
        raise spot.error(
            f"{file}: features {features.shape} and boxes {boxes.shape}",
            "(regions, size) and (regions, 4)",
        )
    return found

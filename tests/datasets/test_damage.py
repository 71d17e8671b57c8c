"""Damaged files: reading them gives samples or a whyformer error."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.datasets.conftest import Write
from whyformer.datasets import open_dataset
from whyformer.errors import WhyformerError

EVIDENCE = [[{"docid": "a", "start_token": 0, "end_token": 1}]]
ANNOTATION = {"annotation_id": "a", "classification": "POS", "evidences": EVIDENCE, "query": None}
COCO = {
    "images": [{"id": 1, "file_name": "a.jpg", "height": 3, "width": 4}],
    "annotations": [
        {
            "image_id": 1,
            "category_id": 1,
            "bbox": [0, 0, 2, 2],
            "segmentation": [[0, 0, 2, 0, 2, 2]],
        }
    ],
    "categories": [{"id": 1, "name": "dog"}],
}
# By format: the file that is damaged, its content, and the files beside it.
FORMATS: dict[str, tuple[str, str, dict[str, str | bytes]]] = {
    "sst2": ("dev.tsv", "label\tsentence\n1\tgood\n0\tbad\n", {}),
    "sst_trees": ("dev.txt", "(3 (2 It) (4 works))\n(0 bad)\n", {}),
    "tweeteval": (
        "val_labels.txt",
        "0\n1\n",
        {"mapping.txt": "0\ta\n1\tb", "val_text.txt": "a\nb\n"},
    ),
    "meld": ("dev_sent_emo.csv", 'Utterance,Emotion,Sentiment\n"a, b",joy,positive\n', {}),
    "semaine": ("test.csv", "text,valence\na,0.5\nb,-1\n", {}),
    "bace": ("bace.csv", "mol,Class\nCC,1\n", {}),
    "csv": ("all.csv", 'text,label\n"a ""b""",1\nc,good\n', {}),
    "jsonl": ("all.jsonl", '{"text": "a", "label": 1}\n{"text": "b", "label": "x"}\n', {}),
    "eraser": ("test.jsonl", json.dumps(ANNOTATION) + "\n", {"docs/a": "a b c"}),
    "coco": ("instances_val2017.json", json.dumps(COCO), {}),
    "imagenet": ("index.csv", "file,imagenet_index\na.jpg,7\n", {}),
    "mnist": (
        "t10k-images-idx3-ubyte",
        "\0\0\x08\x03\0\0\0\x01\0\0\0\x02\0\0\0\x02abcd",
        {"t10k-labels-idx1-ubyte": "\0\0\x08\x01\0\0\0\x01\x05"},
    ),
}
PIECES = [
    b"\0",
    b"\xff",
    b'"',
    b"\t",
    b",",
    b"\n",
    b"\r",
    b"(",
    b"[",
    b"{",
    b"null",
    b"-1",
    b"9" * 5000,
]


@pytest.fixture
def prepared(write: Write, picture: Callable[..., Path], request: pytest.FixtureRequest) -> Path:
    """The folder of a format, undamaged."""
    name, content, beside = FORMATS[request.param]
    picture("a.jpg")
    return write({name: content, **beside})


@pytest.mark.parametrize(("prepared", "name"), [(n, n) for n in FORMATS], indirect=["prepared"])
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    at=st.integers(0, 400),
    cut=st.integers(0, 30),
    piece=st.one_of(st.sampled_from(PIECES), st.binary(max_size=6)),
)
def test_damage_ends_in_an_error_of_ours(
    prepared: Path, name: str, at: int, cut: int, piece: bytes
) -> None:
    file, content, _ = FORMATS[name]
    raw = content.encode()
    at %= len(raw) + 1
    (prepared / file).write_bytes(raw[:at] + piece + raw[at + cut :])
    with contextlib.suppress(WhyformerError):
        found = open_dataset(f"{name}:{prepared}", on_error="skip")
        for sample in found:
            for thing in sample.extras.get("objects", ()):
                thing.mask()
        assert found.report.read + len(found.report.skipped) == len(found)


@pytest.mark.parametrize(("prepared", "name"), [(n, n) for n in FORMATS], indirect=["prepared"])
def test_undamaged_they_are_read(prepared: Path, name: str) -> None:
    found = open_dataset(f"{name}:{prepared}")
    assert len(list(found)) == len(found) > 0

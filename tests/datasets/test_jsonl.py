"""JSON lines of the user."""

from __future__ import annotations

import pytest

from tests.datasets.conftest import Write
from whyformer.datasets import RowError, open_dataset
from whyformer.errors import InputError


def test_keys_are_columns(write: Write) -> None:
    lines = '{"text": "a\\nb", "label": 1}\r\n\r\n{"label": null, "text": "c"}\n'
    path = write({"a.jsonl": "\ufeff" + lines}) / "a.jsonl"
    samples = list(open_dataset(f"jsonl:{path}"))
    assert [(s.id, s.inputs, s.label) for s in samples] == [
        ("all/0", "a\nb", 1),
        ("all/1", "c", None),
    ]
    path = write({"dev.jsonl": '{"q": "a", "p": "b", "gold": "yes"}\n'})
    (sample,) = open_dataset(f"jsonl:{path}", "dev", text="q", text2="p", label="gold")
    assert (sample.id, sample.inputs, sample.label) == ("dev/0", ("a", "b"), "yes")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"{oops", "not JSON"),
        (b"[]", "a JSON list"),
        (b'{"label": 1}', "'text' is empty"),
        (b'{"text": 3}', "'text' is 3"),
        (b'{"text": "a", "label": [1]}', "'label' is not a label"),
        (b'{"text": "caf\xe9"}', "byte 0xe9"),
    ],
)
def test_a_malformed_line_is_told(write: Write, line: bytes, message: str) -> None:
    good = b'{"text": "a", "label": 0}\n'
    path = write({"a.jsonl": good + line + b"\n" + good}) / "a.jsonl"
    with pytest.raises(RowError, match=rf"a\.jsonl, line 2: .*{message}"):
        list(open_dataset(f"jsonl:{path}"))
    assert len(list(open_dataset(f"jsonl:{path}", on_error="skip"))) == 2


def test_an_empty_file_is_refused(write: Write) -> None:
    with pytest.raises(InputError, match="is empty"):
        open_dataset(f"jsonl:{write({'a.jsonl': ''})}/a.jsonl")

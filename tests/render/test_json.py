"""JSON: valid whatever the numbers are, and all there."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import torch

from whyformer.attribution import Attribution, views

Make = Callable[..., Attribution]


def strict(text: str) -> object:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    return json.loads(text, parse_constant=refuse)


def test_it_is_to_dict(sentence: Make) -> None:
    attribution = sentence()
    assert strict(views["json"].render(attribution)) == attribution.to_dict()


def test_numbers_without_a_word_in_json_become_null(sentence: Make) -> None:
    attribution = sentence(
        conservation=torch.tensor([float("nan")]), sinks={"biases": torch.tensor([float("inf")])}
    )
    data = strict(views["json"].render(attribution))
    assert isinstance(data, dict)
    assert data["conservation"] == [None]
    assert data["sinks"] == {"biases": [None]}


def test_what_json_cannot_say_is_said_in_words(sentence: Make) -> None:
    data = strict(views["json"].render(sentence(options={"dtype": torch.float64, "n": (1, 2)})))
    assert isinstance(data, dict)
    assert data["options"] == {"dtype": "torch.float64", "n": [1, 2]}


def test_unicode_stays_readable(text: Make) -> None:
    assert "映画" in views["json"].render(text([("映画", 1.0, 0)]))


def test_a_comparison_is_a_list(sentence: Make) -> None:
    data = strict(views["json"].render_comparison([sentence(), sentence(method="gae")]))
    assert isinstance(data, list)
    assert [one["method"] for one in data] == ["lrp_ah_ln", "gae"]


def test_the_schema_is_documented(sentence: Make) -> None:
    page = (Path(__file__).parents[2] / "docs" / "pictures.md").read_text(encoding="utf-8")
    numbers = page.partition("## Numbers")[2].partition("\n## ")[0]
    objects, streams = numbers.split("| key of a stream |")
    data = strict(views["json"].render(sentence()))
    assert isinstance(data, dict)
    key = re.compile(r"^\| `(\w+)` \|", re.M)
    assert key.findall(objects) == list(data)
    assert key.findall(streams) == list(data["streams"]["text"])

"""Several explanations of one input: by method each on its scale, by target all on one."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch

from whyformer.attribution import Attribution, views
from whyformer.render.comparison import ONE_SCALE, OWN_SCALES, compare_samples
from whyformer.render.html.switch import switch_payload

Make = Callable[..., Attribution]


def data_of(page: str) -> dict[str, Any]:
    (found,) = re.findall(r'<script type="application/json" class="compared">(.*?)</script', page)
    data: dict[str, Any] = json.loads(found)
    return data


def targets(text: Make) -> list[Attribution]:
    """Why good, why bad, and why good rather than bad."""
    scores = {"good": [2.0, -1.0], "bad": [-1.0, 0.5], "good rather than bad": [3.0, -1.5]}
    return [
        text([("a", a, 0), ("b", b, 1)], label=label, output=torch.tensor([a + b]))
        for label, (a, b) in scores.items()
    ]


def test_targets_share_a_scale(text: Make) -> None:
    (sample,) = compare_samples(targets(text))
    assert sample.alike
    assert sample.choices == ("good", "bad", "good rather than bad")
    assert sample.scales == ONE_SCALE
    ((good, bad, both),) = sample.rows
    assert good.span == bad.span == both.span == 3.0
    assert good.signed


def test_methods_do_not(sentence: Make) -> None:
    (sample,) = compare_samples([sentence(), sentence(method="gae")])
    assert not sample.alike
    assert sample.choices == sample.titles == ("lrp_ah_ln", "gae")
    assert sample.scales == OWN_SCALES


def test_another_model_or_option_is_another_scale(sentence: Make) -> None:
    for other in (sentence(options={"at": "states"}), sentence(provenance={"model": "other"})):
        assert not compare_samples([sentence(), other])[0].alike


def test_silence_is_no_measure(text: Make) -> None:
    made = [text([("a", 0.0, 0)], label="x"), text([("a", 0.01, 0)], label="y")]
    ((one, other),) = compare_samples(made)[0].rows
    assert one.span == other.span == pytest.approx(0.01)


def test_a_mapping_names_what_is_compared(text: Make) -> None:
    good, bad, both = targets(text)
    (sample,) = compare_samples({"why A": good, "why B": bad, "why A, not B": both})
    assert sample.titles == ("why A", "why B", "why A, not B")
    page = views["html"].render_comparison({"why A": good, "why B": bad})
    assert data_of(page)["choices"] == ["why A", "why B"]


def test_the_page_can_show_each(text: Make) -> None:
    made = targets(text)
    data = data_of(views["html"].render_comparison(made))
    assert [r["label"] for r in data["readings"]] == ["good", "bad", "good rather than bad"]
    assert [r["output"] for r in data["readings"]] == ["+1.00", "\N{MINUS SIGN}0.500", "+1.50"]
    (panel,) = data["panels"]
    for values, unit, one in zip(panel["values"], panel["units"], made, strict=True):
        back = torch.tensor(values) * unit
        torch.testing.assert_close(back.float(), one.scores[0], atol=0.002, rtol=0)


def test_pictures_have_a_grid(image: Make) -> None:
    made = [image(torch.rand(2, 3), method=method) for method in ("gae", "rollout")]
    (sample,) = compare_samples(made)
    (panel,) = switch_payload(sample)["panels"]
    assert panel["grid"] == [2, 3]
    assert len(panel["values"]) == 2
    assert len(panel["values"][0]) == 6


def test_odd_numbers_are_zero(text: Make) -> None:
    made = text([("a", float("nan"), 0), ("b", 1.0, 1)])
    (panel,) = switch_payload(compare_samples([made])[0])["panels"]
    assert panel["values"] == [[0, 999]]

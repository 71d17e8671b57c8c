"""Several explanations of one input: each on its own colour scale, or all on one."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch

from whyformer.attribution import Attribution, views
from whyformer.errors import OptionError
from whyformer.render.comparison import (
    OWN_SCALES,
    SHARED_IN_PART,
    SHARED_SCALE,
    compare_samples,
)
from whyformer.render.html.switch import switch_payload

Make = Callable[..., Attribution]


def data_of(page: str) -> dict[str, Any]:
    (found,) = re.findall(r'<script type="application/json" class="compared">(.*?)</script', page)
    data: dict[str, Any] = json.loads(found)
    return data


def targets(text: Make, conservation: float = 1.0) -> list[Attribution]:
    """Why good, why bad, and why good rather than bad."""
    scores = {"good": [2.0, -1.0], "bad": [-1.0, 0.5], "good rather than bad": [3.0, -1.5]}
    return [
        text(
            [("a", a, 0), ("b", b, 1)],
            label=label,
            output=torch.tensor([a + b]),
            conservation=torch.tensor([conservation]),
        )
        for label, (a, b) in scores.items()
    ]


def test_each_target_has_its_own_scale(text: Make) -> None:
    (sample,) = compare_samples(targets(text))
    assert sample.alike
    assert sample.choices == ("good", "bad", "good rather than bad")
    assert sample.scales == OWN_SCALES.format(one="target")
    ((good, bad, both),) = sample.rows
    assert (good.span, bad.span, both.span) == (2.0, 1.0, 3.0)
    assert [panel.share(panel.words[0]) for panel in (good, bad, both)] == [1.0, -1.0, 1.0]


def test_targets_can_share_a_scale(text: Make) -> None:
    (sample,) = compare_samples(targets(text), scale="shared")
    assert sample.scales == SHARED_SCALE
    ((good, bad, both),) = sample.rows
    assert good.span == bad.span == both.span == 3.0
    assert good.signed
    assert bad.share(bad.words[0]) == pytest.approx(-1 / 3)


def test_a_shared_scale_of_scores_with_losses_says_so(text: Make) -> None:
    (sample,) = compare_samples(targets(text, conservation=0.7), scale="shared")
    assert sample.scales == SHARED_IN_PART


def test_methods_whose_scores_do_not_sum_cannot_share_a_scale(sentence: Make) -> None:
    made = [sentence(conservation=torch.ones(1)), sentence(method="gae")]
    for name in ("html", "png", "svg", "pdf", "terminal", "notebook", "figure"):
        assert "scale" in views[name].comparison_options
        with pytest.raises(OptionError, match="'gae' do not sum to the output"):
            views[name].render_comparison(made, scale="shared")
    with pytest.raises(OptionError, match="scale='each' is unknown"):
        compare_samples(made, scale="each")


@pytest.mark.parametrize("name", ["html", "png", "svg", "pdf", "terminal", "notebook", "figure"])
def test_every_view_shows_the_scale_that_was_chosen(text: Make, name: str) -> None:
    view, made = views[name], targets(text)
    own, shared = view.render_comparison(made), view.render_comparison(made, scale="shared")
    assert own != shared
    if name in ("html", "notebook"):
        assert "Each target has its own colour scale" in own
        assert "All share one colour scale" in shared


def test_methods_and_targets_together_are_columns(text: Make) -> None:
    made = [*targets(text)[:2], text([("a", 1.0, 0), ("b", 2.0, 1)], method="gae", label="good")]
    (sample,) = compare_samples(made)
    assert sample.scales == OWN_SCALES.format(one="column")


def test_methods_do_not(sentence: Make) -> None:
    (sample,) = compare_samples([sentence(), sentence(method="gae")])
    assert not sample.alike
    assert sample.choices == sample.titles == ("lrp_ah_ln", "gae")
    assert sample.scales == OWN_SCALES.format(one="method")


def test_another_model_or_option_is_another_scale(sentence: Make) -> None:
    for other in (sentence(options={"at": "states"}), sentence(provenance={"model": "other"})):
        assert not compare_samples([sentence(), other])[0].alike


def test_silence_is_no_measure(text: Make) -> None:
    whole = torch.ones(1)
    made = [
        text([("a", 0.0, 0)], label="x", conservation=whole),
        text([("a", 0.01, 0)], label="y", conservation=whole),
    ]
    ((one, other),) = compare_samples(made, scale="shared")[0].rows
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

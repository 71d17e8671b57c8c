"""What a page knows to link its streams: the maps, three digits of each, and no way out of it."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from html import unescape
from typing import Any

import numpy
import pytest
import torch

from whyformer.attribution import Attribution, views
from whyformer.render.html.links import link_payload, script_json
from whyformer.render.html.packing import FINE_LEVELS, fine_block
from whyformer.render.html.page import build_fragment
from whyformer.render.view_model import read_samples

Make = Callable[..., Attribution]
HOSTILE = "</script><script>alert(1)</script><!--<script>&\u2028\u202e\"'"


def data_of(page: str) -> list[dict[str, Any]]:
    """What a browser finds in the page: everything up to the first end of a script."""
    found = re.findall(r'<script type="application/json" class="links">(.*?)</script', page, re.S)
    return [json.loads(text) for text in found]


def unpack(kept: dict[str, Any]) -> torch.Tensor:
    """The numbers of a packed map, as the script of the page reads them."""
    scales = numpy.frombuffer(base64.b64decode(kept["scales"]), "<f8").copy()
    values = numpy.frombuffer(base64.b64decode(kept["values"]), "<i2").copy()
    steps = torch.from_numpy(values).double().reshape(len(scales), kept["columns"])
    return steps * torch.from_numpy(scales)[:, None] / FINE_LEVELS


def test_the_page_holds_the_maps(question: Make) -> None:
    made = question()
    (data,) = data_of(views["html"].render(made))
    names = [panel["name"] for panel in data["panels"]]
    assert names == ["text", "image"]
    assert data["panels"][1]["grid"] == [6, 8]
    assert len(data["maps"]) == 2
    merged = {(m.asking, m.answering): m.values for m in read_samples(made)[0].matrices}
    for kept in data["maps"]:
        expected = merged[names[kept["asking"]], names[kept["answering"]]]
        largest = expected.abs().amax(1, keepdim=True)
        error = (unpack(kept) - expected).abs() / largest
        assert error.max() < 0.6 / FINE_LEVELS


def test_the_strongest_patch_is_the_way_in(question: Make) -> None:
    made = question()
    data = link_payload(read_samples(made)[0])
    assert data is not None
    assert data["panels"][1]["start"] == int(made.streams["image"].scores[0].abs().argmax())


def test_rows_of_every_size_keep_their_digits() -> None:
    rows = torch.rand(9, 48, dtype=torch.float64, generator=torch.Generator().manual_seed(1)) - 0.5
    rows = rows * torch.logspace(-12, 3, 9, dtype=torch.float64)[:, None]
    largest = rows.abs().amax(1, keepdim=True)
    assert ((unpack(fine_block(rows)) - rows).abs() / largest).max() < 0.6 / FINE_LEVELS


def test_rows_without_a_number_are_zero() -> None:
    rows = torch.zeros(2, 3)
    rows[0] = float("nan")
    assert not unpack(fine_block(rows)).any()


@pytest.mark.parametrize("text", [HOSTILE, "]]>", "مرحبا", "👩‍🚀", "\\u003c"])
def test_json_in_a_page_is_only_json(text: str) -> None:
    text_in_script = script_json({text: [text]})
    assert not set("<>&\u2028\u2029") & set(text_in_script)
    assert json.loads(text_in_script) == {text: [text]}


def test_words_in_the_page_end_no_script(question: Make) -> None:
    tokens = ("[CLS]", HOSTILE, "col", "our", "👩‍🚀", "مرحبا", "ball", "?", "[SEP]")
    made = question(tokens=tokens, label=HOSTILE)
    for page, count in ((views["html"].render(made), 4), (build_fragment(made).to_html(), 2)):
        assert page.count("<script") == page.count("</script") == count
        assert "<!--" not in page
        assert "alert(1)</script>" in unescape(page)  # as text
        assert data_of(page)


def test_the_name_of_a_stream_is_data_too(question: Make) -> None:
    made = question()
    stream = type(made.streams["text"])
    odd = {HOSTILE: made.streams["text"], "image": made.streams["image"]}
    odd[HOSTILE] = stream(
        HOSTILE,
        odd[HOSTILE].scores,
        odd[HOSTILE].mask,
        odd[HOSTILE].tokens,
        odd[HOSTILE].word_ids,
    )
    made = Attribution(
        "gae",
        odd,
        HOSTILE,
        made.target,
        made.output,
        made.labels,
        maps={(HOSTILE, "image"): made.maps["text", "image"]},
    )
    page = views["html"].render(made)
    assert page.count("</script") == 4
    assert data_of(page)[0]["panels"][0]["name"] == HOSTILE


def test_only_what_is_linked_brings_a_script_to_a_notebook(
    sentence: Make, image: Make, matching: Make
) -> None:
    within = sentence(maps={("text", "text"): torch.eye(7)[None]})
    for made in (sentence(), within, image(torch.rand(4, 4)), matching()):
        assert "<script" not in build_fragment(made).to_html()
        assert not data_of(views["html"].render(made))


def test_a_hundred_words_and_850_patches_stay_small(question: Make) -> None:
    tokens = [f"word{i}" for i in range(100)]
    made = question(grid=(25, 34), size=(375, 510), tokens=tokens, words=list(range(100)))
    (data,) = data_of(views["html"].render(made))
    assert [unpack(m).shape for m in data["maps"]] == [(100, 850), (850, 100)]
    assert len(views["html"].render(made).encode()) < 2_000_000
    assert len(json.dumps(data["maps"], separators=(",", ":"))) < 500_000

"""`attn_lrp(average=)`, `blend` and `auto` against the formulas that define them, in float64."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import whyformer as wf
from whyformer.errors import OptionError
from whyformer.models.families import families
from whyformer.models.families.tiny import tiny_inputs

LAYERS = 4
CLASS = 1


@cache
def bert() -> Any:
    return families["bert"].tiny(num_hidden_layers=LAYERS).double()


@cache
def vit() -> Any:
    return families["vit"].tiny(num_hidden_layers=LAYERS).double()


def explain(method: str, model: Any = None, **options: Any) -> wf.Attribution:
    model = bert() if model is None else model
    return wf.explain(tiny_inputs(model, (6,)), model, method=method, target=CLASS, **options)


class Upper(nn.Module):
    """The blocks of a BERT classifier from some block on, and its head."""

    def __init__(self, model: Any, first: int) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(model.bert.encoder.layer[first:])
        self.pooler, self.classifier = model.bert.pooler, model.classifier

    def forward(self, states: Tensor) -> Tensor:
        for block in self.blocks:
            states = block(states)
            states = states[0] if isinstance(states, tuple) else states
        logits: Tensor = self.classifier(self.pooler(states))
        return logits


@cache
def relevance_at_blocks() -> Tensor:
    """AttnLRP of the upper part of the model alone, at the input of each block, (layer, tokens)."""
    model, inputs = bert(), tiny_inputs(bert(), (6,))
    with torch.no_grad():
        states = model.bert(**inputs, output_hidden_states=True).hidden_states
    found = [
        wf.explain(
            {"states": states[block]},
            Upper(model, block),
            method="attn_lrp",
            target=CLASS,
            tokens="states",
            blocks="blocks",
        ).scores[0]
        for block in range(LAYERS)
    ]
    return torch.stack(found)


def assert_equal(found: Tensor, expected: Tensor) -> None:
    assert expected.abs().max() > 1e-4, "a twin of nothing but zeros would prove nothing"
    torch.testing.assert_close(found, expected, rtol=1e-8, atol=1e-11)


@pytest.mark.parametrize(("average", "blocks"), [(0.0, 1), (0.25, 1), (0.5, 2), (1.0, LAYERS)])
def test_attn_lrp_averaged_over_the_lowest_blocks(average: float, blocks: int) -> None:
    found = explain("attn_lrp", average=average)
    assert_equal(found.scores[0], relevance_at_blocks()[:blocks].mean(0))
    assert found.conservation is not None
    assert abs(float(found.conservation) - 1) < 1e-10


def walk(found: wf.Attribution) -> Tensor:
    """GAE of the deciding token by the layers that were kept, without its own start, (tokens,)."""
    layers = [layer.read("attention", "gradient") for layer in found.layers]
    relevance = torch.eye(layers[0][0].shape[-1], dtype=torch.float64)
    for attention, gradient in layers:
        relevance = relevance + (attention * gradient)[0].clamp(min=0).mean(0) @ relevance
    row: Tensor = relevance[0] - torch.eye(len(relevance), dtype=torch.float64)[0]
    return row


def spread(relevance: Tensor, walked: Tensor, share: float) -> Tensor:
    """Relevance with a share of its positive part spread over tokens that both find relevant."""
    spread = []
    positive = [max(float(one), 0.0) for one in relevance]
    mean = sum(positive) / len(positive)
    weights = [
        float(walk) ** 0.75 * p**2 / (p**2 + mean**2) if p > 0 else 0.0
        for walk, p in zip(walked, positive, strict=True)
    ]
    for one, p, weight in zip(relevance, positive, weights, strict=True):
        kept = float(one) - share * p
        spread.append(kept + share * sum(positive) * weight / sum(weights))
    return torch.tensor(spread, dtype=torch.float64)


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
@pytest.mark.parametrize(("start_layer", "first"), [(None, 0), (2, 2)])
def test_blend_of_a_text(share: float, start_layer: int | None, first: int) -> None:
    found = explain("blend", share=share, start_layer=start_layer, keep=["attention", "gradient"])
    relevance = explain("libragrad", start_layer=first).scores[0]
    assert_equal(found.scores[0], spread(relevance, walk(found), share))
    assert found.conservation is not None
    assert abs(float(found.conservation) - 1) < 1e-10


def test_blend_of_a_text_is_libragrad_by_default() -> None:
    found, expected = explain("blend"), explain("libragrad")
    assert_equal(found.scores, expected.scores)
    assert found.sinks.keys() == expected.sinks.keys()


def test_the_gradient_of_a_map_carries_the_relevance_of_its_head() -> None:
    """The output of a head is linear in its map: map x gradient sums to the head's relevance."""
    found = explain("blend", keep=["attention", "gradient", "nodes"])
    heads = found.nodes["text"].heads
    assert heads is not None
    for number, layer in enumerate(found.layers):
        attention, gradient = layer.read("attention", "gradient")
        assert_equal((attention * gradient)[0].sum(-1), heads[0, number])


def test_blend_of_an_image_leaves_out_the_lowest_third_of_the_blocks() -> None:
    found = explain("blend", vit(), keep=["attention", "gradient"])
    relevance = explain("libragrad", vit(), start_layer=LAYERS // 3).scores[0]
    assert_equal(found.scores[0], spread(relevance, walk(found)[1:], 0.5))
    assert found.conservation is not None
    assert abs(float(found.conservation) - 1) < 1e-10


def test_blend_streams_its_maps() -> None:
    for model in (bert(), vit()):
        whole, streamed = (
            explain("blend", model, memory=m, share=0.5) for m in ("maps", "streamed")
        )
        assert_equal(streamed.scores, whole.scores)


def test_auto_is_libragrad_for_text_and_blend_for_images() -> None:
    for model, expected in ((bert(), "libragrad"), (vit(), "blend")):
        found = wf.explain(tiny_inputs(model, (6,)), model, target=CLASS)
        assert found.method == expected
        assert_equal(found.scores, explain(expected, model).scores)
        assert found.options == dict(wf.methods()[expected].options)
        assert any(f"auto chose {expected}" in note for note in found.provenance["notes"])


def test_auto_says_what_it_chose_after_saving(tmp_path: Any) -> None:
    explain("auto").save(tmp_path / "why.safetensors")
    loaded = wf.load(tmp_path / "why.safetensors")
    assert loaded.method == "libragrad"
    assert any("auto chose" in note for note in loaded.provenance["notes"])


@pytest.mark.filterwarnings("error::whyformer.errors.ConservationWarning")
@pytest.mark.parametrize("name", list(wf.models()))
def test_the_default_conserves_on_every_bundled_model(name: str) -> None:
    for sample in wf.models()[name].samples()[:3]:
        found = wf.explain(sample, name)
        assert found.conservation is not None
        assert float((found.conservation - 1).abs().max()) < 1e-3


@pytest.mark.parametrize(
    ("method", "options", "named"),
    [
        ("attn_lrp", {"average": 1.5}, "from 0 to 1"),
        ("attn_lrp", {"average": 0.5, "at": "embeddings"}, "at="),
        ("blend", {"share": -0.1}, "from 0 to 1"),
        ("blend", {"share": 2.0}, "from 0 to 1"),
        ("blend", {"start_layer": 4}, "none of the 4 layers"),
        ("auto", {"share": 0.5}, "no option 'share'"),
    ],
)
def test_bad_options(method: str, options: dict[str, Any], named: str) -> None:
    with pytest.raises(OptionError, match=named):
        explain(method, **options)

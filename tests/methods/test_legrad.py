"""LeGrad against a loop over heads, queries and layers, on plain autograd in float64."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import whyformer as wf
from tests.several import target_of
from whyformer.engine.rules.operations import fused_attention as fused
from whyformer.errors import OptionError
from whyformer.models.families import families
from whyformer.models.families.tiny import tiny_inputs, tiny_models

CLASS = 1


def model_of(name: str, **changes: Any) -> Any:
    return families[name].tiny(attn_implementation="eager", **changes).double()


def slow_legrad(model: Any, inputs: dict[str, Tensor], start: int = 0) -> Tensor:
    """Scores of a single sample without padding, (key tokens,)."""
    output = model(**inputs, output_attentions=True)
    logits = output.logits[0]
    value = logits[CLASS] if logits.dim() == 1 else logits[-1, CLASS]
    gradients = torch.autograd.grad(value, output.attentions)
    tokens = output.attentions[0].shape[-1]
    scores = torch.zeros(tokens, dtype=torch.float64)
    for attention, gradient in list(zip(output.attentions, gradients, strict=True))[start:]:
        heads = attention.shape[1]
        for head in range(heads):
            for query in range(tokens):
                for key in range(tokens):
                    if attention[0, head, query, key] > 0:
                        slope = float(gradient[0, head, query, key])
                        scores[key] += max(slope, 0.0) / heads / tokens
    return scores


@pytest.mark.parametrize("start", [0, 1, -1])
@pytest.mark.parametrize("name", ["bert", "gpt2", "vit"])
def test_the_loop(name: str, start: int) -> None:
    model = model_of(name, **({"n_layer": 3} if name == "gpt2" else {"num_hidden_layers": 3}))
    inputs = tiny_inputs(model, (6,))
    expected = slow_legrad(model, inputs, start)
    found = wf.explain(inputs, model, method="legrad", target=CLASS, start_layer=start)
    expected = expected[1:] if name == "vit" else expected  # the class token is no patch
    assert expected.max() > 1e-4
    # transformers' eager attention narrows some softmaxes to float32.
    torch.testing.assert_close(found.scores[0], expected, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("name", ["bert", "llama", "gemma3", "t5", "detr"])
def test_streamed_maps_give_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fused, "ENTRIES", 2 * 4 * 7 * 3)  # blocks of a few queries
    monkeypatch.setattr(fused, "FEWEST", 1)
    model = tiny_models()[name][1]().double()
    inputs = tiny_inputs(model, (7, 5))
    streamed, held = (
        wf.explain(inputs, model, method="legrad", target=target_of(name), memory=memory)
        for memory in ("streamed", "maps")
    )
    for stream, expected in held.streams.items():
        torch.testing.assert_close(
            streamed.streams[stream].scores, expected.scores, rtol=0, atol=1e-12
        )


def test_cross_attention_scores_the_keys() -> None:
    """T5: the source gets its own self-attention and what the generated tokens attend to."""
    model = model_of("t5")
    inputs = tiny_inputs(model, (6,))
    output = model(**inputs, output_attentions=True)
    groups = {
        "source": (*output.encoder_attentions, *output.cross_attentions),
        "generated": output.decoder_attentions,
    }
    found = wf.explain(inputs, model, method="legrad", target=CLASS)
    for stream, maps in groups.items():
        value = output.logits[0, -1, CLASS]
        gradients = torch.autograd.grad(value, maps, retain_graph=True)
        expected = sum(
            (gradient * (attention > 0)).clamp(min=0).mean((0, 1, 2))
            for attention, gradient in zip(maps, gradients, strict=True)
        )
        torch.testing.assert_close(
            found.streams[stream].scores[0], expected.double(), rtol=1e-4, atol=1e-6
        )


def test_padding_queries_do_not_count() -> None:
    model = model_of("bert")
    inputs = tiny_inputs(model, (7, 5))
    together = wf.explain(inputs, model, method="legrad", target=CLASS)
    alone = wf.explain(
        tiny_inputs(model, (7, 5))["input_ids"][1:, :5], model, method="legrad", target=CLASS
    )
    torch.testing.assert_close(together[1].scores, alone.scores, rtol=0, atol=1e-12)


def test_a_layer_that_is_not_there() -> None:
    model = model_of("bert")
    with pytest.raises(OptionError, match="start_layer=9"):
        wf.explain(tiny_inputs(model, (6,)), model, method="legrad", start_layer=9)

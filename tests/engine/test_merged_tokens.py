"""Language models that read images at placeholders in the text: the blocks of the text decide."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import whyformer as wf
from tests.undeclared import results
from whyformer.engine.result import MethodResult
from whyformer.engine.stacks import merging_part
from whyformer.errors import ModelError
from whyformer.models.families.tiny import DECODER, tiny_model

__all__ = ["results"]
IMAGE_ID = 50
VISION = {
    "model_type": "clip_vision_model",
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "image_size": 8,
    "patch_size": 4,
}


def llava() -> nn.Module:
    text = {"model_type": "llama", **DECODER}
    build = tiny_model(
        "VipLlavaForConditionalGeneration",  # of no family
        text_config=text,
        vision_config=VISION,
        image_token_index=IMAGE_ID,
        image_token_id=IMAGE_ID,
        vision_feature_layers=[-1, -1],
    )
    return build().double()


def inputs() -> dict[str, Tensor]:
    ids = [[5, *[IMAGE_ID] * 4, 6, 7], [8, 9, *[IMAGE_ID] * 4, 10]]
    pixels = torch.rand(2, 3, 8, 8, generator=torch.Generator().manual_seed(0)).double()
    return {"input_ids": torch.tensor(ids), "pixel_values": pixels}


def test_scores_are_those_of_the_merged_tokens(results: list[MethodResult]) -> None:
    model = llava()
    a = wf.explain(inputs(), model, method="gradient_x_input", target=3)
    entered: list[Any] = []

    def enter(module: nn.Module, args: Any, kwargs: dict[str, Any]) -> Any:
        states = kwargs["inputs_embeds"].detach().requires_grad_()
        entered.append(states)
        return args, {**kwargs, "inputs_embeds": states}

    part = model.get_decoder()  # type: ignore[operator]
    handle = part.register_forward_pre_hook(enter, with_kwargs=True)
    model(**inputs()).logits[:, -1, 3].sum().backward()
    handle.remove()
    expected = (entered[0] * entered[0].grad).sum(-1).detach()
    # Llama itself casts to float32 inside its norms; under rules it stays in float64.
    torch.testing.assert_close(a.scores, expected, rtol=1e-4, atol=1e-6)
    (note,) = results[-1].reasons
    assert (note.kind, note.level) == ("layers", "note")


@pytest.mark.parametrize("method", ["libragrad", "gae", "transformer_attribution"])
def test_every_kind_of_method_answers(method: str) -> None:
    a = wf.explain(inputs(), llava(), method=method, max_new_tokens=2)
    assert a.scores.shape == (2, 7)
    assert bool((a.scores[0, 1:5] != 0).all()), "placeholders hold the image's relevance"
    if a.conservation is not None:
        ones = torch.ones(2, dtype=torch.float64)
        torch.testing.assert_close(a.conservation, ones, rtol=0, atol=1e-8)


def test_an_image_without_placeholders_is_refused() -> None:
    given = inputs()
    given["input_ids"] = torch.full_like(given["input_ids"], 5)
    with pytest.raises(ModelError, match="several token streams"):
        wf.explain(given, llava(), target=3)


def test_the_text_is_read_also_if_the_image_is_the_main_input() -> None:
    """As in BLIP-2, whose class names `pixel_values` as its main input."""
    model = llava()
    expected = wf.explain(inputs(), model, method="gradient_x_input", target=3)
    model.main_input_name = "pixel_values"  # type: ignore[assignment]
    found = wf.explain(inputs(), model, method="gradient_x_input", target=3)
    assert found.main == "text"
    torch.testing.assert_close(found.scores, expected.scores)


def test_an_argument_may_mark_the_placeholders() -> None:
    """As in Kosmos-2, where no id stands for the image."""
    model, given = llava(), inputs()
    given["input_ids"] = torch.full_like(given["input_ids"], 5)
    marks = torch.zeros_like(given["input_ids"])
    assert merging_part(model, {**given, "image_embeds_position_mask": marks}) is None
    marks[:, 1:5] = 1
    part = merging_part(model, {**given, "image_embeds_position_mask": marks})
    assert part == "model.language_model"

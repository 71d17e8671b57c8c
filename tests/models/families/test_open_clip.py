"""open_clip's CLIP: both towers are explained, and their relevance sums to the similarity."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import whyformer as wf
from tests.torchvision_stub import import_with_stub

VISION = {"layers": 2, "width": 32, "head_width": 8, "patch_size": 4, "image_size": 16}
TEXT = {"context_length": 8, "vocab_size": 60, "width": 32, "heads": 4, "layers": 2}
INPUTS = {
    "image": torch.rand(2, 3, 16, 16, generator=torch.Generator().manual_seed(0)).double(),
    "text": torch.tensor([[1, 5, 6, 7, 59, 0, 0, 0], [1, 8, 9, 10, 11, 12, 59, 0]]),
}


def make(name: str, **settings: Any) -> nn.Module:
    open_clip = import_with_stub("open_clip")
    torch.manual_seed(0)
    return getattr(open_clip.model, name)(16, VISION, TEXT, **settings).double().eval()


@pytest.mark.parametrize("settings", [{}, {"output_dict": True}, {"init_logit_bias": -2.0}])
@pytest.mark.parametrize("name", ["CLIP", "CustomTextCLIP"])
def test_both_towers_sum_to_the_similarity(name: str, settings: dict[str, Any]) -> None:
    model = make(name, **settings)
    a = wf.explain(INPUTS, model, method="libragrad")
    with torch.no_grad():
        image, text = (
            model.encode_image(INPUTS["image"], normalize=True),
            model.encode_text(INPUTS["text"], normalize=True),
        )
        expected = model.logit_scale.exp() * (image * text).sum(-1)
        expected = expected if model.logit_bias is None else expected + model.logit_bias
    torch.testing.assert_close(a.output, expected)
    torch.testing.assert_close(
        a.conservation, torch.ones(2, dtype=torch.float64), rtol=0, atol=1e-8
    )
    assert a.streams["image"].grid == (4, 4)
    assert a.streams["image"].scores.abs().sum() > 0
    assert a.streams["text"].scores.abs().sum() > 0
    assert bool((a.scores[0, 5:] == 0).all()), "tokens after the end decide nothing"


@pytest.mark.parametrize("method", ["gae", "rollout", "transformer_attribution"])
def test_attention_methods_walk_both_towers(method: str) -> None:
    a = wf.explain(INPUTS, make("CLIP"), method=method)
    assert set(a.streams) == {"text", "image"}
    assert all(stream.scores.abs().sum() > 0 for stream in a.streams.values())

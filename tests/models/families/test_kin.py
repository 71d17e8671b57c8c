"""Model types that share a family with a tiny model: they conserve, and the maps are the model's.

The families' declarations are the same for all their types, so a few methods of each kind tell.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import whyformer as wf
from tests.models.families.kin import HEADLESS, KIN, build_kin
from tests.several import only
from whyformer.models.families import families, family_of
from whyformer.models.families.tiny import tiny_inputs

QUICK = {"mistral", "vit_msn"}  # of the others, the slow tests tell
SINGLE = {"xglm"}  # its forward fails in float64: it makes float32 of float64's smallest number
CONSERVING = ("attn_lrp", "blend", "libragrad", "lrp_ah_ln")
# These do not give maps after the softmax, or decide by another token than the first or last.
WITHOUT_TWIN = {"donut-swin", "eurobert"}

every_kin = pytest.mark.parametrize(
    "kind", [pytest.param(k, marks=() if k in QUICK else pytest.mark.slow) for k in KIN]
)


def model_and_inputs(kind: str) -> tuple[nn.Module, dict[str, Tensor], int]:
    model = build_kin(kind, attn_implementation="eager")
    model = model if kind in SINGLE else model.double()
    return model, tiny_inputs(model), 1


@every_kin
def test_its_family_covers_it(kind: str) -> None:
    known = family_of(build_kin(kind))
    assert known is not None
    assert kind in known.model_types
    assert KIN.keys() <= {k for one in families.values() for k in one.model_types}


@every_kin
def test_it_conserves_in_a_batch_and_alone(kind: str) -> None:
    model, inputs, target = model_and_inputs(kind)
    tolerance = 1e-3 if kind in SINGLE else 1e-8
    for method in CONSERVING:
        options = {"activations": "identity"} if method == "lrp_ah_ln" else {}
        together = wf.explain(inputs, model, method=method, target=target, **options)
        total = together.scores.sum(1) + sum(together.sinks.values())
        torch.testing.assert_close(total, together.output, rtol=tolerance, atol=tolerance)
        alone = wf.explain(only(model, inputs, 1), model, method=method, target=target, **options)
        expected = together[1].scores
        torch.testing.assert_close(
            alone.scores, expected, rtol=0, atol=tolerance * expected.abs().max().item()
        )


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(k, marks=() if k in QUICK else pytest.mark.slow)
        for k in KIN
        if k not in WITHOUT_TWIN
    ],
)
def test_attention_methods_equal_their_twins_on_the_models_own_maps(kind: str) -> None:
    """GAE and rollout by hand, from the maps that the model returns and autograd's gradient."""
    model, inputs, target = model_and_inputs(kind)
    known = family_of(model)
    assert known is not None
    one = only(model, inputs, 0)
    output = model(**one, output_attentions=True)
    maps = output.attentions
    logits = output.logits
    value = logits[0, -1, 1] if logits.ndim == 3 else logits[0, 1]
    slopes = torch.autograd.grad(value, maps)
    start = -1 if known.causal else 0
    identity = torch.eye(maps[0].shape[-1], dtype=maps[0].dtype)
    relevance, rolled = identity, identity
    for attention, slope in zip(maps, slopes, strict=True):
        mixing = (attention * slope).clamp(min=0).mean(1)[0]
        relevance = relevance + mixing @ relevance
        step = attention.mean(1)[0] + identity
        rolled = (step / step.sum(-1, keepdim=True)) @ rolled
    for method, expected in (("gae", relevance), ("rollout", rolled)):
        scores = wf.explain(one, model, method=method, target=target).scores[0]
        row = expected[start, -len(scores) :]
        # transformers narrows some softmaxes to float32, which whyformer does not let it do.
        torch.testing.assert_close(scores, row, rtol=0, atol=1e-5 * row.max().item())


@pytest.mark.parametrize("kind", HEADLESS)
def test_a_model_without_a_head_conserves_and_leaves_its_prefix_out(kind: str) -> None:
    model = build_kin(kind).double()
    inputs = tiny_inputs(model)

    def one_state(output: Any) -> Tensor:
        return output.last_hidden_state[:, 0, 3]

    a = wf.explain(inputs, model, method="libragrad", target=one_state)
    assert a.streams["image"].grid == (3, 3)
    assert a.sinks["prefix"].abs().min() > 0
    total = a.scores.sum(1) + sum(a.sinks.values())
    torch.testing.assert_close(total, a.output, rtol=1e-8, atol=1e-8)
    assert (wf.explain(inputs, model, method="gae", target=one_state).scores > 0).all()

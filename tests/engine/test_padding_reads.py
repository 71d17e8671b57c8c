"""A target that reads padding is named, for every method; no family reads it by default."""

from __future__ import annotations

import pytest
import torch

import whyformer as wf
from tests.several import WITHOUT_MAPS, target_of
from tests.tiers import newer_are_slow
from tests.undeclared import results
from whyformer.engine.result import MethodResult
from whyformer.errors import ModelError, TargetError, TrustWarning
from whyformer.models.families.tiny import tiny_inputs, tiny_model, tiny_models

__all__ = ["results"]
GPT2 = {"vocab_size": 60, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 40}
METHODS = ["libragrad", "gradient_x_input", "gae", "rollout", "transformer_attribution", "full_lrp"]
IDS = torch.tensor([[5, 6, 7, 8, 9], [10, 11, 12, 0, 0]])
RIGHT = {"input_ids": IDS, "attention_mask": (IDS != 0).long()}


def sum_of_last_two(output: object) -> torch.Tensor:
    return output.logits[:, 2:, 3].sum(1)  # type: ignore[attr-defined]


@pytest.mark.parametrize("method", METHODS)
def test_a_target_that_reads_padding_is_named(method: str) -> None:
    model = tiny_model("GPT2LMHeadModel", **GPT2)().double()
    with pytest.warns(TrustWarning, match="reads padding of 'text'"):
        a = wf.explain(RIGHT, model, method=method, target=sum_of_last_two)
    (reason,) = (one for one in a.trust.reasons if one.kind == "target")
    assert reason.level == "warning"
    (culprit,) = reason.culprits
    assert culprit in ("sample 1 position 3", "sample 1 position 4")
    assert "wf.token(position)" in reason.text
    assert reason.share is not None
    assert 0 < reason.share < 1


@pytest.mark.parametrize("method", METHODS)
def test_a_target_that_reads_real_tokens_is_not(method: str, results: list[MethodResult]) -> None:
    model = tiny_model("GPT2LMHeadModel", **GPT2)().double()
    wf.explain(RIGHT, model, method=method, target=lambda o: o.logits[:, 2, 3])
    wf.explain(RIGHT, model, method=method, target=wf.token(-1))
    assert [one.reasons for one in results] == [(), ()]


@pytest.mark.parametrize("method", ["gae", "rollout"])
def test_a_target_that_reads_only_padding_is_refused(method: str) -> None:
    model = tiny_model("GPT2LMHeadModel", **GPT2)().double()
    with pytest.raises(TargetError, match="reads only padding of sample 1"):
        wf.explain(RIGHT, model, method=method, target=lambda o: o.logits[:, -1, 3])


@pytest.mark.parametrize("name", newer_are_slow(tiny_models()))
def test_no_family_reads_padding(name: str, results: list[MethodResult]) -> None:
    model = tiny_models()[name][1]().double()
    inputs = tiny_inputs(model, (7, 5))
    wf.explain(inputs, model, method="libragrad", target=target_of(name))
    if name in WITHOUT_MAPS:
        with pytest.raises(ModelError, match="no attention maps between all its tokens"):
            wf.explain(inputs, model, method="gae", target=target_of(name))
    else:
        wf.explain(inputs, model, method="gae", target=target_of(name))
    assert results
    reasons = [reason for one in results for reason in one.reasons]
    assert [reason for reason in reasons if reason.kind == "target"] == []

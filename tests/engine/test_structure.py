"""The structure of undeclared models: maps side by side are one layer; unseen mixers are named."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import whyformer as wf
from tests.undeclared import (
    Attention,
    Beside,
    Classifier,
    Differential,
    FoldedHeads,
    FusedSampleLoop,
    HeadLoop,
    HeadsFirst,
    SampleLoop,
    Sequence,
    ShortConvolution,
    TokenWise,
    results,
)
from whyformer.engine.graph_walk import LeafFinder
from whyformer.engine.layer_building import join_maps
from whyformer.engine.result import MethodResult
from whyformer.errors import ModelError, TrustWarning

__all__ = ["results"]
IDS = torch.tensor([[3, 7, 1, 9, 4], [5, 2, 8, 6, 11]])
WALKS = ["gae", "rollout", "raw_attention", "grad_cam", "legrad", "transformer_attribution"]


def gae_by_hand(model: Classifier, ids: Tensor, target: int, groups: list[int]) -> Tensor:
    """GAE of one sample from maps that the model keeps itself; `groups` are maps per layer."""
    maps: list[Tensor] = []
    for part in model.modules():
        if isinstance(part, Attention):
            part.maps = maps
    model(ids)[0, target].backward()
    relevance = torch.eye(ids.shape[1], dtype=torch.float64)[:1]
    layers, start = [], 0
    for count in groups:
        layers.append(maps[start : start + count])
        start += count
    for layer in reversed(layers):
        heads = torch.cat([one * one.grad for one in layer if one.grad is not None], dim=1)
        relevance = relevance + relevance @ heads.clamp(min=0).mean(1)[0].detach()
    for part in model.modules():
        if isinstance(part, Attention):
            part.maps = None
    model.zero_grad()
    return relevance


@pytest.mark.parametrize("memory", [None, "streamed", "checkpoint"])
def test_a_difference_of_two_attentions_is_one_layer(memory: str | None) -> None:
    """Chained as four layers instead of two, the scores are another map."""
    model = Classifier(Differential, Differential)
    a = wf.explain(IDS, model, method="gae", target=1, memory=memory)
    for sample, ids in enumerate(IDS.split(1)):
        expected = gae_by_hand(model, ids, 1, [2, 2])
        torch.testing.assert_close(a.scores[sample : sample + 1], expected, rtol=1e-10, atol=1e-12)
        chained = gae_by_hand(model, ids, 1, [1, 1, 1, 1])
        assert not torch.allclose(chained, expected, rtol=1e-3)


@pytest.mark.parametrize("memory", [None, "checkpoint"])
def test_attentions_in_sequence_in_one_block_stay_two_layers(memory: str | None) -> None:
    model = Classifier(Sequence, Sequence)
    a = wf.explain(IDS[:1], model, method="gae", target=1, memory=memory)
    expected = gae_by_hand(model, IDS[:1], 1, [1, 1, 1, 1])
    torch.testing.assert_close(a.scores, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("method", WALKS)
@pytest.mark.parametrize("loop", [HeadLoop, SampleLoop, FusedSampleLoop, FoldedHeads])
def test_loops_over_heads_and_samples_change_nothing(
    loop: Callable[[], nn.Module], method: str
) -> None:
    plain, looped = Classifier(Attention, Attention), Classifier(loop, loop)
    looped.load_state_dict(plain.state_dict())
    kept = {"target": 2, "method": method, "keep": ("attention",)}
    expected, found = (wf.explain(IDS, model, **kept) for model in (plain, looped))
    assert len(found.layers) == len(expected.layers) == 2
    torch.testing.assert_close(found.scores, expected.scores, rtol=1e-9, atol=1e-12)
    for one, other in zip(found.layers, expected.layers, strict=True):
        assert one.attention is not None
        assert other.attention is not None
        torch.testing.assert_close(one.attention, other.attention)


def test_heads_before_samples_in_one_axis_are_refused() -> None:
    with pytest.raises(ModelError, match="their order is unknown"):
        wf.explain(IDS, Classifier(HeadsFirst), method="gae", target=1)


def test_maps_of_unknown_samples_are_refused() -> None:
    maps = [torch.rand(2, 5, 5), torch.rand(2, 5, 5)]
    with pytest.raises(ModelError, match="cannot put them together"):
        join_maps(maps, [0, None], 2)
    with pytest.raises(ModelError, match="does not hold the 2 samples"):
        join_maps([torch.rand(3, 1, 5, 5)], [None], 2)


class Windows(nn.Module):
    """A model whose second block gets windows of two tokens, folded into the batch."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(12, 12)
        self.blocks = nn.ModuleList([Attention(), Attention()])
        self.head = nn.Linear(12, 3)

    def forward(self, ids: Tensor) -> Tensor:
        states = self.embed(ids)
        states = states + self.blocks[0](states)
        windows = states.reshape(-1, 2, 12)
        windows = windows + self.blocks[1](windows)
        return self.head(windows.reshape(len(ids), -1, 12).mean(1))


def test_windows_in_the_axis_of_the_samples() -> None:
    ids, model = IDS[:, :4], Windows().double().eval()
    found = wf.explain(ids, model, method="libragrad", target=1)
    torch.testing.assert_close(found.conservation, torch.ones(2).double(), rtol=0, atol=1e-9)
    with pytest.raises(ModelError, match="it merges tokens"):
        wf.explain(ids, model, method="gae", target=1)


@pytest.mark.parametrize("method", WALKS)
def test_layers_without_attention_are_named(method: str) -> None:
    model = Classifier(ShortConvolution, Attention, Beside, Attention)
    with pytest.warns(TrustWarning, match="attention maps do not show all of Classifier"):
        a = wf.explain(IDS, model, method=method, target=1)
    # grad_cam also warns of scores that are all 0, after its clamp.
    (reason,) = (one for one in a.trust.warnings if one.kind == "layers")
    assert reason.culprits == ("blocks.0", "blocks.2")
    assert "layer 0 of 4 mixes tokens without softmax attention" in reason.text
    assert "layer 2 of 4 mixes tokens beside softmax attention" in reason.text


def test_a_layer_that_mixes_no_tokens_is_fine(results: list[MethodResult]) -> None:
    wf.explain(IDS, Classifier(TokenWise, Attention), method="gae", target=1)
    assert results[-1].reasons == ()


@pytest.mark.parametrize("method", ["libragrad", "gradient_x_input", "full_lrp"])
def test_methods_that_read_no_maps_need_no_warning(
    method: str, results: list[MethodResult]
) -> None:
    wf.explain(IDS, Classifier(ShortConvolution, Attention), method=method, target=1)
    assert results[-1].reasons == ()


def test_a_model_without_any_attention_is_explained_by_a_conserving_method() -> None:
    model = Classifier(ShortConvolution, ShortConvolution)
    a = wf.explain(IDS, model, method="libragrad", target=1)
    torch.testing.assert_close(a.conservation, torch.ones(2, dtype=torch.float64))
    with pytest.raises(ModelError, match="no attention was seen"):
        wf.explain(IDS, model, method="gae", target=1)


def test_leaves_below_a_tensor() -> None:
    finder, leaves = LeafFinder(), [torch.zeros((), requires_grad=True) for _ in range(3)]
    for leaf in leaves:
        finder.add(leaf)
    first = leaves[0] * 2 + leaves[1]
    assert finder.below(first) == 0b011
    assert finder.below(first.exp() + leaves[2]) == 0b111
    assert finder.below(leaves[2]) == 0b100
    assert finder.below(torch.ones(2)) == 0

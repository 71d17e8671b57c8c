"""Transformer Attribution and its LRP baselines: classes, layers, options, bad input."""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import whyformer as wf
from whyformer.errors import (
    ModelError,
    OptionError,
    RelevanceWarning,
    TargetError,
)
from whyformer.models.families.tiny import tiny_inputs, tiny_models
from whyformer.pipeline.checks import drift

METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "transformer_attribution": ("transformer_attribution", {}),
    "partial_lrp": ("partial_lrp", {}),
    "partial_lrp_ours": ("partial_lrp", {"rules": "ours"}),
    "full_lrp": ("full_lrp", {}),
    "full_lrp_ours": ("full_lrp", {"rules": "ours"}),
}
# Post- and pre-norm, fused qkv, relative positions, grouped heads, gates, registers, one or many
# deciding tokens.
FAMILIES = ("bert", "distilbert", "deberta_v2", "modernbert", "vit", "dinov2", "gpt2", "llama")
ONE_HEAD = ("bert", "vit", "gpt2")  # where one family of each kind will do

every_method = pytest.mark.parametrize("method", METHODS)


@cache
def model_of(name: str, attention: str | None = None) -> nn.Module:
    changes = {} if attention is None else {"attn_implementation": attention}
    return tiny_models()[name][1](**changes).double()


def explain(method: str, name: str | nn.Module, inputs: Any = None, **options: Any) -> Any:
    model = model_of(name) if isinstance(name, str) else name
    named, fixed = METHODS[method]
    inputs = tiny_inputs(model) if inputs is None else inputs
    return wf.explain(inputs, model, method=named, **fixed, **options)


def off(found: Tensor, expected: Tensor) -> float:
    """The largest difference, relative to the largest score."""
    return float((found - expected).abs().max() / expected.abs().max())


def scores_of(a: wf.Attribution) -> Tensor:
    """All scores of the method: of tokens, and of pixels if it has them."""
    stream = a.streams[a.main]
    parts = [a.scores] if stream.pixels is None else [a.scores, stream.pixels.flatten(1)]
    return torch.cat(parts, 1)


# -- targets -------------------------------------------------------------------------------------


@every_method
@pytest.mark.parametrize("name", FAMILIES)
def test_other_classes_give_other_maps(method: str, name: str) -> None:
    first, second = (explain(method, name, target=c) for c in (0, 1))
    assert off(first.scores, second.scores) > 1e-3


@every_method
@pytest.mark.parametrize("name", ONE_HEAD)
def test_each_sample_has_its_own_target(method: str, name: str) -> None:
    mixed = explain(method, name, target=[0, 1])
    for i in range(2):
        alike = explain(method, name, target=i)
        assert off(mixed.scores[i], alike.scores[i]) < 1e-9
        assert mixed.target[i] == i


@pytest.mark.parametrize("method", ["full_lrp", "full_lrp_ours"])
@pytest.mark.parametrize("name", ONE_HEAD)
def test_a_contrast_is_the_difference_of_two_starts(method: str, name: str) -> None:
    first, second = (scores_of(explain(method, name, target=c)) for c in (0, 1))
    contrast = scores_of(explain(method, name, target=wf.contrast(0, 1)))
    assert off(contrast, first - second) < 1e-6


@pytest.mark.parametrize("name", ONE_HEAD)
def test_a_contrast_explains_more_than_the_deciding_token(name: str) -> None:
    """+1 and -1 sum to 0: the paper's normalisation must not divide by that sum."""
    contrast, single = (
        explain("transformer_attribution", name, target=t).scores for t in (wf.contrast(0, 1), 0)
    )
    own = single.argmax(1, keepdim=True)
    rest, of_one = (scores.scatter(1, own, 0).abs().max() for scores in (contrast, single))
    assert rest > 1e-2 * of_one


# -- batches, padding, kernels -------------------------------------------------------------------


@every_method
@pytest.mark.parametrize("name", FAMILIES)
def test_a_batch_gives_what_each_sample_gives_alone(method: str, name: str) -> None:
    """Also per-layer relevance and sums, which no other test checks in a batch."""
    model = model_of(name)
    inputs = tiny_inputs(model, (7, 5))
    together = explain(method, name, inputs, target=1, keep="relevance")
    for i, length in enumerate((7, 5)):
        alone = explain(
            method,
            name,
            {k: v[i : i + 1] if v.dim() > 2 else v[i : i + 1, :length] for k, v in inputs.items()},
            target=1,
            keep="relevance",
        )
        assert off(scores_of(together[i]), scores_of(alone)) < 1e-6
        for whole, part in zip(together.layers, alone.layers, strict=True):
            n = part.relevance.shape[-1]
            assert off(whole.relevance[i : i + 1, :, :n, :n], part.relevance) < 1e-6
            assert off(whole.entering[i : i + 1, :n], part.entering) < 1e-6
            if part.relevance_sum is not None:
                assert off(whole.relevance_sum[i], part.relevance_sum[0]) < 1e-6


@every_method
@pytest.mark.parametrize("name", FAMILIES)
def test_eager_equals_fused(method: str, name: str) -> None:
    eager = model_of(name, "eager")
    inputs = tiny_inputs(eager)
    found, expected = (explain(method, m, inputs, target=1) for m in (eager, model_of(name)))
    assert off(scores_of(found), scores_of(expected)) < 1e-5


def test_samples_need_not_come_first() -> None:
    """nn.TransformerEncoder in both layouts, with the same weights, is the same model."""
    first, second = (encoder(batch_first=layout) for layout in (True, False))
    second.load_state_dict(first.state_dict())
    x = torch.randn(2, 5, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for method in METHODS:
        named, options = METHODS[method]
        ours, theirs = (
            wf.explain({"x": x}, m, method=named, target=1, tokens="x", **options)
            for m in (first, second)
        )
        assert off(ours.scores, theirs.scores) < 1e-9


# -- layers --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ONE_HEAD)
def test_what_is_kept_of_each_layer(name: str) -> None:
    model = model_of(name)
    a = explain("transformer_attribution", name, target=1, keep=("relevance", "gradient"))
    config: Any = model.config
    layers, heads = config.num_hidden_layers, config.num_attention_heads
    batch, tokens, hidden = a.layers[0].entering.shape
    assert (batch, hidden) == (2, config.hidden_size)
    assert len(a.layers) == layers
    for layer in a.layers:
        assert layer.attention is None  # was not asked for
        assert layer.relevance.shape == layer.gradient.shape == (batch, heads, tokens, tokens)
        assert layer.entering.shape == (batch, tokens, hidden)
    assert [layer.leaving is not None for layer in a.layers] == [False] * (layers - 1) + [True]
    assert a.layers[-1].leaving.shape == (batch, tokens, hidden)


@pytest.mark.parametrize("name", ONE_HEAD)
def test_keeping_changes_no_score(name: str) -> None:
    for method in METHODS:
        plain = explain(method, name, target=1)
        kept = explain(method, name, target=1, keep=wf.methods()[METHODS[method][0]].keeps)
        assert off(kept.scores, plain.scores) < 1e-9


@pytest.mark.parametrize("name", ["bert", "distilbert", "vit", "deit"])
def test_sums_of_relevance_are_recorded_and_stay_at_one(name: str) -> None:
    """Relevance starts at 1, and "ours" conserves it; the sums are always kept."""
    a = explain("transformer_attribution", name, target=1)
    one = torch.ones(2, dtype=torch.float64)
    torch.testing.assert_close(a.layers[-1].relevance_sum, one, rtol=0, atol=1e-6)
    for layer in a.layers:
        torch.testing.assert_close(layer.relevance_sum, one, rtol=0, atol=1e-3)


def test_relevance_entering_a_layer_is_what_leaves_the_one_below() -> None:
    a = explain("transformer_attribution", "vit", target=1, keep="relevance")
    for below, layer in zip(a.layers, a.layers[1:], strict=False):
        torch.testing.assert_close(layer.entering.sum((1, 2)), below.relevance_sum)


# -- options -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ONE_HEAD)
def test_start_layer(name: str) -> None:
    """Layers below it are left out; -1 is the last layer."""
    first, last = (
        explain("transformer_attribution", name, target=1, start_layer=s) for s in (0, 1)
    )
    assert off(first.scores, last.scores) > 1e-6
    for same, expected in ((-1, last), (-2, first)):
        found = explain("transformer_attribution", name, target=1, start_layer=same)
        assert torch.equal(found.scores, expected.scores)


@pytest.mark.parametrize("start", [2, -3, 100])
def test_a_start_layer_that_does_not_exist(start: int) -> None:
    with pytest.raises(OptionError, match=rf"start_layer={start}.*2 attention layers.*-2 to 1"):
        explain("transformer_attribution", "bert", start_layer=start)


def test_rolled_out_by_hand() -> None:
    """Equations 12-13 on the layers that are kept: mean over heads of (gradient x relevance)+."""
    a = explain("transformer_attribution", "bert", target=1, keep=("relevance", "gradient"))
    for i, length in enumerate((7, 5)):
        product = torch.eye(length, dtype=torch.float64)
        for layer in a.layers:
            relevance, gradient = (
                t[i, :, :length, :length] for t in layer.read("relevance", "gradient")
            )
            mixing = (relevance * gradient).clamp(min=0).mean(0)
            product = (mixing + torch.eye(length, dtype=torch.float64)) @ product
        torch.testing.assert_close(a.scores[i, :length], product[0])


@pytest.mark.parametrize("method", ["transformer_attribution", "partial_lrp"])
def test_signed_keeps_what_the_paper_clamps(method: str) -> None:
    clamped, signed = (explain(method, "vit", target=1, signed=s) for s in (False, True))
    assert (clamped.scores >= 0).all()
    assert (signed.scores < 0).any()


def test_the_baselines_rules_are_the_default_of_the_baselines_only() -> None:
    known = wf.methods()
    assert known["transformer_attribution"].options["rules"] == "ours"
    assert known["full_lrp"].options["rules"] == "orig"
    model, inputs = model_of("bert"), tiny_inputs(model_of("bert"))
    default, orig, ours = (
        wf.explain(inputs, model, method="partial_lrp", **given).scores
        for given in ({}, {"rules": "orig"}, {"rules": "ours"})
    )
    assert torch.equal(default, orig)
    assert not torch.allclose(default, ours)
    with pytest.raises(OptionError, match="'ours', 'orig'"):
        wf.explain(
            tiny_inputs(model_of("bert")), model_of("bert"), method="full_lrp", rules="theirs"
        )


def test_full_lrp_reaches_the_pixels() -> None:
    a = explain("full_lrp_ours", "vit", target=1)
    pixels = a.streams["image"].pixels
    assert pixels.shape == (2, 12, 12)
    # The patches' relevance, spread over their pixels: the position embedding took its share.
    patches = pixels.unfold(1, 4, 4).unfold(2, 4, 4).sum((-1, -2)).flatten(1)
    assert patches.shape == a.scores.shape
    assert patches.abs().sum() > 0


# -- inputs that make denominators vanish --------------------------------------------------------


@every_method
@pytest.mark.parametrize("name", ["vit", "dinov2", "beit"])
@pytest.mark.parametrize("value", [0.0, 1.0, -3.0])
def test_images_of_one_colour(method: str, name: str, value: float) -> None:
    model = model_of(name)
    images = torch.full_like(tiny_inputs(model)["pixel_values"], value)
    assert scores_of(explain(method, name, {"pixel_values": images}, target=1)).isfinite().all()


@every_method
@pytest.mark.parametrize("name", ["bert", "deberta_v2", "modernbert", "gpt2", "llama"])
def test_one_token_and_the_same_token_over_and_over(method: str, name: str) -> None:
    for ids in (torch.tensor([[7]]), torch.full((2, 6), 7)):
        inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
        a = explain(method, name, inputs, target=1)
        assert a.scores.shape == ids.shape
        assert a.scores.isfinite().all()


@every_method
def test_weights_of_zero(method: str) -> None:
    """A block that adds zeros: 0 / 0 counts as 0 everywhere."""
    model = tiny_models()["vit"][1]().double()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if ".layers.0." in name and "norm" not in name:
                parameter.zero_()
    assert scores_of(explain(method, model, target=1)).isfinite().all()


# -- bad input -----------------------------------------------------------------------------------


class Mix(nn.Module):
    """A block of attention by hand, with `write` as its last step."""

    def __init__(self, write: str = "") -> None:
        super().__init__()
        self.qkv, self.out, self.write = nn.Linear(8, 24), nn.Linear(8, 8), write

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).chunk(3, -1)
        y = self.out(torch.softmax(q @ k.transpose(1, 2), -1) @ v)
        if self.write == "add_":
            x.add_(y)
            return x
        if self.write == "add_to_result":
            y.add_(x)
            return y
        if self.write == "set":
            y[:, 0] = 0
        if self.write == "view":
            y[:, 0].mul_(2)
        return x + y


class Plain(nn.Module):
    """A block without attention."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        return x + torch.tanh(self.linear(x))


class Net(nn.Module):
    """Blocks, and a head on the first token."""

    def __init__(self, *blocks: nn.Module) -> None:
        super().__init__()
        self.blocks, self.head = nn.ModuleList(blocks), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        return self.head(x[:, 0])


class Encoder(nn.Module):
    def __init__(self, batch_first: bool) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(8, 2, 12, batch_first=batch_first)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head, self.batch_first = nn.Linear(8, 3), batch_first

    def forward(self, x: Tensor) -> Tensor:
        states = self.encoder(x if self.batch_first else x.transpose(0, 1))
        return self.head(states[:, 0] if self.batch_first else states[0])


def encoder(batch_first: bool) -> nn.Module:
    torch.manual_seed(0)
    return Encoder(batch_first).double().eval()


def tokens() -> dict[str, Tensor]:
    return {"x": torch.randn(2, 4, 8, generator=torch.Generator().manual_seed(0))}


def explain_net(method: str, *blocks: nn.Module, **options: Any) -> wf.Attribution:
    named, fixed = METHODS[method]
    net = Net(*blocks).eval()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) / 3)
    options = {"target": 0, "tokens": "x", "blocks": "blocks", **fixed, **options}
    return wf.explain(tokens(), net, method=named, **options)


@every_method
def test_a_model_of_ones_own_is_explained(method: str) -> None:
    assert explain_net(method, Mix(), Mix()).scores.abs().sum() > 0


@every_method
def test_a_model_without_attention(method: str) -> None:
    with pytest.raises(ModelError, match="no attention was seen"):
        explain_net(method, Plain(), Plain())


@every_method
def test_a_target_that_depends_on_nothing(method: str) -> None:
    with pytest.raises(TargetError, match="does not depend"):
        explain_net(method, Mix(), target=lambda output: torch.ones(2, requires_grad=True) * 2)
    with pytest.raises(TargetError, match="does not depend"):
        explain_net(method, Mix(), target=lambda output: output.detach()[:, 0])


@every_method
def test_a_target_whose_gradient_is_zero(method: str) -> None:
    with pytest.raises(TargetError, match="does not depend"):
        explain_net(method, Mix(), target=lambda output: output[:, 0] * 0)


@every_method
@pytest.mark.parametrize("write", ["add_", "add_to_result", "set", "view"])
def test_writing_into_a_captured_tensor(method: str, write: str) -> None:
    with pytest.raises(ModelError, match=r"in.place"):
        explain_net(method, Mix(write), Mix(write))


@every_method
def test_writing_into_the_output_itself(method: str) -> None:
    """The last statement of the model: no later operation could detect the error."""

    class Cooled(Net):
        def forward(self, x: Tensor) -> Tensor:
            logits = super().forward(x)
            logits.div_(2.0)
            return logits

    named, fixed = METHODS[method]
    net = Cooled(Mix(), Mix()).eval()
    with pytest.raises(ModelError, match="in-place operation"):
        wf.explain(tokens(), net, method=named, tokens="x", target=0, **fixed)


@every_method
def test_an_operation_without_a_rule_is_named(method: str) -> None:
    class Odd(Mix):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x).cumprod(-1)

    with pytest.raises(ModelError, match=r"'cumprod'.*no relevance rule"):
        explain_net(method, Mix(), Odd())


@pytest.mark.parametrize("method", ["transformer_attribution", "full_lrp_ours"])
def test_vanishing_relevance_gives_a_warning(method: str) -> None:
    """States far below the stabiliser: almost no relevance arrives, and a warning is given."""

    class Fading(Mix):
        def forward(self, x: Tensor) -> Tensor:
            return torch.relu(super().forward(x) * 1e-12)

    with pytest.warns(RelevanceWarning, match="Do not trust this map"):
        explain_net(method, Mix(), Fading(), Mix())


@pytest.mark.parametrize(
    ("family", "method", "options", "warns"),
    [
        # No option is called "rules", but the relevance pass runs under "ours".
        ("bert", "gae", {"use_lrp": True}, True),
        ("visual_bert", "gae", {"use_lrp": True}, True),
        # rules=None: "ours" between streams, "orig" within one.
        ("visual_bert", "partial_lrp", {}, True),
        ("bert", "partial_lrp", {}, False),
        ("visual_bert", "partial_lrp", {"rules": "ours"}, True),
        ("visual_bert", "partial_lrp", {"rules": "orig"}, False),
        ("visual_bert", "transformer_attribution", {}, True),
        ("visual_bert", "transformer_attribution", {"rules": "orig"}, False),
        ("visual_bert", "gae", {}, False),
    ],
)
def test_the_drift_warning_follows_the_rules_that_ran(
    monkeypatch: pytest.MonkeyPatch, family: str, method: str, options: dict[str, Any], warns: bool
) -> None:
    """The rule set is a field of the result, not guessed from the method's options."""
    monkeypatch.setattr(drift, "_SANE_GROWTH", 1.0)  # every sum of relevance counts as drift
    model = model_of(family)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        wf.explain(tiny_inputs(model), model, method=method, target=1, **options)
    found = [str(one.message) for one in caught if issubclass(one.category, RelevanceWarning)]
    assert bool(found) == warns
    assert all(text.startswith(f"'{method}' ") and "Relevance drifted" in text for text in found)

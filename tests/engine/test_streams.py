"""Several token streams: declared models are explained, others are refused without guessing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import whyformer as wf
from tests.several import ONE_CLASS, SEVERAL, SIMILARITIES, refuses, target_of
from whyformer.errors import ModelError
from whyformer.models.families import Family, Source, Stack, declare, families
from whyformer.models.families.tiny import tiny_inputs, tiny_model, tiny_models

IDS = torch.arange(5, 11).unsqueeze(0)
SMALL = {"vocab_size": 60, "num_layers": 2, "num_heads": 4, "d_model": 32, "d_kv": 8, "d_ff": 48}


@pytest.mark.parametrize(
    ("name", "method"),
    [
        (name, method)
        for name in SEVERAL
        for method in ("lrp_ah_ln", "gae", "transformer_attribution")
        if not refuses(name, method)
    ],
)
def test_declared_streams_are_explained(name: str, method: str) -> None:
    family, builder = tiny_models()[name]
    model = builder().double()
    a = wf.explain(tiny_inputs(model), model, method=method, target=target_of(name))
    stacks = [stack for stack in family.all_stacks if not stack.hidden]
    soft = {one.stream for one in family.soft}
    listed = {stream for stream in a.streams if stream.split()[0] not in soft}
    assert listed == {stream for stack in stacks for stream in stack.streams}
    assert a.main == family.stream
    assert a.provenance["family"] == family.name
    if method != "lrp_ah_ln" and len(stacks) > 1:
        asked = {pair for pair in a.maps if pair[0] != pair[1]}
        assert bool(asked) == (name not in SIMILARITIES | ONE_CLASS), (
            "towers that never meet have no maps between them"
        )


@pytest.mark.parametrize("method", ["lrp_ah_ln", "gae", "transformer_attribution"])
def test_undeclared_streams_are_refused_with_a_declaration_to_copy(method: str) -> None:
    """A head that no family covers: the message shows the declaration, with this class's name."""
    model = tiny_model("T5ForSequenceClassification", **SMALL, eos_token_id=10)()
    with pytest.raises(ModelError, match="several token streams") as caught:
        wf.explain({"input_ids": IDS}, model, method=method)
    message = str(caught.value)
    assert "from whyformer.models.families import Source, Stack, declare" in message
    assert 'classes=("T5ForSequenceClassification",)' in message
    declaration = message[message.index("    from whyformer") : message.index("To explain one")]
    lines = "\n".join(line.removeprefix("    ") for line in declaration.splitlines())
    try:
        exec(lines, {})  # what the user is told to run must run
        assert families["mine"].classes == ("T5ForSequenceClassification",)
    finally:
        families._entries.pop("mine", None)


class Translator(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(20, 16)
        self.transformer = nn.Transformer(16, 2, 1, 1, 32, batch_first=True)
        self.head = nn.Linear(16, 3)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        states = self.embedding(ids)
        return self.head(self.transformer(states, states)[:, 0])


def test_so_is_an_encoder_decoder_of_torch() -> None:
    with pytest.raises(ModelError, match="encoder and a decoder") as caught:
        wf.explain(IDS, Translator())
    assert 'classes=("Translator",)' in str(caught.value)


def test_an_encoder_alone_is_explained() -> None:
    encoder = tiny_model("T5EncoderModel", **SMALL)()
    a = wf.explain({"input_ids": IDS}, encoder, target=lambda output: output[0][:, 0, 0])
    assert a.scores.shape == IDS.shape


class Twice(nn.Module):
    """Adds a token that is not in the input."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = families["bert"].tiny()
        self.config = self.inner.config

    def forward(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor | None = None
    ) -> torch.Tensor:
        return self.inner(torch.cat([input_ids[:, :1], input_ids], dim=1)).logits


def test_tokens_that_the_input_does_not_have_are_refused() -> None:
    with pytest.raises(ModelError, match=r"7 token states enter .* the input has 6 tokens"):
        wf.explain({"input_ids": IDS}, Twice())


@pytest.mark.parametrize("method", ["gae", "rollout", "transformer_attribution"])
def test_maps_of_a_model_that_merges_tokens_do_not_chain(method: str) -> None:
    model = tiny_model(
        "SwinForImageClassification",
        image_size=16,
        patch_size=2,
        embed_dim=8,
        depths=[2, 2],
        num_heads=[2, 4],
        window_size=4,
    )()
    pixels = {"pixel_values": torch.randn(1, 3, 16, 16)}
    with pytest.raises(ModelError, match="merges tokens"):
        wf.explain(pixels, model, method=method)
    assert wf.explain(pixels, model).scores.shape == (1, 64)


# -- a model of one's own --------------------------------------------------------------------------


class Block(nn.Module):
    """Self-attention and optional cross-attention to the other stream; no transformers config."""

    def __init__(self, crossing: bool) -> None:
        super().__init__()
        self.own = nn.MultiheadAttention(16, 2, batch_first=True)
        self.cross = nn.MultiheadAttention(16, 2, batch_first=True) if crossing else None
        self.norm, self.up = nn.LayerNorm(16), nn.Linear(16, 16)

    def forward(self, x: Tensor, padding: Tensor | None, other: Tensor | None = None) -> Tensor:
        x = x + self.own(x, x, x, key_padding_mask=padding)[0]
        if self.cross is not None and other is not None:
            x = x + self.cross(x, other, other)[0]
        mixed: Tensor = self.norm(x + torch.relu(self.up(x)))
        return mixed


class AsksRegions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.regions = nn.Embedding(20, 16), nn.Linear(6, 16)
        self.seeing = nn.ModuleList([Block(False) for _ in range(2)])
        self.reading = nn.ModuleList([Block(True) for _ in range(2)])
        self.head = nn.Linear(16, 3)

    def forward(
        self, input_ids: Tensor, visual_feats: Tensor, attention_mask: Tensor | None = None
    ) -> Tensor:
        seen, text = self.regions(visual_feats), self.words(input_ids)
        padding = None if attention_mask is None else attention_mask == 0
        for block in self.seeing:
            seen = block(seen, None)
        for block in self.reading:
            text = block(text, padding, seen)
        logits: Tensor = self.head(text[:, 0])
        return logits


@pytest.fixture
def asks_regions() -> Iterator[nn.Module]:
    """A user's model, declared with the ten lines that the error message shows."""
    declare(
        "asks_regions",
        stream="text",
        classes=("AsksRegions",),
        sources=(
            Source("text", "input_ids", mask="attention_mask"),
            Source("image", "visual_feats", kind="features"),
        ),
        stacks=(Stack(("text",), "reading"), Stack(("image",), "seeing", read=False)),
        attention={
            "reading.*.own": ("text", "text"),
            "seeing.*.own": ("image", "image"),
            "reading.*.cross": ("text", "image"),
        },
    )
    yield AsksRegions().double().eval()
    families._entries.pop("asks_regions")


def region_inputs() -> dict[str, Any]:
    generator = torch.Generator().manual_seed(3)
    return {
        "input_ids": torch.randint(1, 20, (2, 5), generator=generator),
        "visual_feats": torch.randn(2, 4, 6, generator=generator).double(),
        "attention_mask": torch.tensor([[1] * 5, [1, 1, 1, 0, 0]]),
    }


@pytest.mark.parametrize("method", wf.methods())
def test_a_model_of_ones_own_is_explained_once_declared(
    asks_regions: nn.Module, method: str
) -> None:
    inputs = region_inputs()
    a = wf.explain(inputs, asks_regions, method=method, target=1)
    assert {name: s.scores.shape for name, s in a.streams.items()} == {
        "text": (2, 5),
        "image": (2, 4),
    }
    torch.testing.assert_close(a.output, asks_regions(**inputs)[:, 1].detach())
    alone = {name: value[1:] for name, value in inputs.items()}
    alone["input_ids"] = alone["input_ids"][:, :3]
    alone["attention_mask"] = alone["attention_mask"][:, :3]
    one = wf.explain(alone, asks_regions, method=method, target=1)
    for stream in a.streams:
        torch.testing.assert_close(one.streams[stream].scores, a[1].streams[stream].scores)
    if method in ("attn_lrp", "lrp_ah_ln"):  # ReLU is its only nonlinearity
        total = sum(s.scores.sum(1) for s in a.streams.values()) + sum(a.sinks.values())
        torch.testing.assert_close(total, a.output, rtol=1e-9, atol=1e-9)
    if method == "gae":
        assert set(a.maps) >= {("text", "text"), ("text", "image"), ("image", "image")}


@pytest.mark.parametrize("method", ["libragrad", "attn_lrp", "gradient_x_input"])
def test_before_it_is_declared_its_streams_are_found(asks_regions: nn.Module, method: str) -> None:
    """The scores are the same, except for methods that read attention maps."""
    declared = wf.explain(region_inputs(), asks_regions, method=method, target=1)
    families._entries.pop("asks_regions")
    try:
        found = wf.explain(region_inputs(), asks_regions, method=method, target=1)
        with pytest.raises(ModelError, match="several token streams"):
            wf.explain(region_inputs(), asks_regions, method="gae", target=1)
    finally:
        families._entries["asks_regions"] = Family("asks_regions", "text")
    for name, stream in declared.streams.items():
        torch.testing.assert_close(found.streams[name].scores, stream.scores)


def test_an_attention_that_the_declaration_forgets_is_an_error(asks_regions: nn.Module) -> None:
    known = families._entries.pop("asks_regions")
    attention = {k: v for k, v in known.attention.items() if "cross" not in k}
    facts = {"stream": "text", "classes": known.classes, "sources": known.sources}
    declare("asks_regions", **facts, stacks=known.stacks, attention=attention)
    with pytest.raises(ModelError, match="table of attention"):
        wf.explain(region_inputs(), asks_regions, method="gae", target=1)

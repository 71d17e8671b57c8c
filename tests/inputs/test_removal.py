"""Removed tokens: every fill, compared with a forward pass on inputs made by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy
import pytest
import torch
import transformers
from PIL import Image
from scipy.ndimage import gaussian_filter
from torch import Tensor, nn

from tests.several import only, padded
from whyformer.engine.predict import predict
from whyformer.errors import InputError, ModelError, OptionError
from whyformer.inputs.prepare import prepare
from whyformer.inputs.removal import FILL_TEXTS, FILLS, Removal, _blur
from whyformer.models.families import family_of
from whyformer.models.families.tiny import tiny_inputs, tiny_model, tiny_models

CLASSIFIER = tiny_model(
    "GPT2ForSequenceClassification",
    vocab_size=60,
    n_embd=32,
    n_layer=2,
    n_head=4,
    n_positions=40,
    num_labels=3,
    pad_token_id=0,
)
SIGNS = SimpleNamespace(mask_token_id=3, unk_token_id=4, pad_token_id=0, eos_token_id=None)
Inputs = dict[str, Tensor]


def build_model(name: str) -> nn.Module:
    """A tiny model in double precision."""
    make = CLASSIFIER if name == "gpt2_classifier" else tiny_models()[name][1]
    return make().double()


def removal(
    module: nn.Module, inputs: Any, fill: str | None = None, processor: Any = None, **more: Any
) -> Removal:
    """The `Removal` of some inputs."""
    family = family_of(module)
    return Removal(prepare(inputs, module, processor, family), module, family, fill, **more)


def logits_without(
    removed: Removal,
    stream: str,
    kept: Tensor,
    rows: Tensor | None = None,
    grid: tuple[int, int] | None = None,
) -> Tensor:
    """Logits of some rows after tokens are removed, (rows, classes)."""
    rows = torch.arange(len(kept)) if rows is None else rows
    left = removed.remove(stream, kept, rows, grid)
    fill = removed.fill_of(stream)
    return predict(removed.module, left.batch, left.silenced, fill, stream)


def plain_logits(module: nn.Module, inputs: Inputs) -> Tensor:
    """Logits of a plain forward, (batch, classes); those at the last token of a language model."""
    with torch.no_grad():
        output = module(**inputs)
    scores: Tensor = output["question_answering_score" if "lxmert" in str(type(module)) else 0]
    return scores[:, -1] if scores.ndim == 3 else scores


def some_of(mask: Tensor, seed: int = 0) -> Tensor:
    """Some of the tokens of each sample, at least one, and never all."""
    generator = torch.Generator().manual_seed(seed)
    lots = torch.rand(mask.shape, generator=generator).masked_fill(~mask, 2.0)
    return (lots < 0.5) | (lots == lots.amin(1, keepdim=True)) & mask


# -- tokens that are dropped -----------------------------------------------------------------------

STREAMS = [
    ("bert", "text"),
    ("roberta", "text"),
    ("distilbert", "text"),
    ("deberta_v2", "text"),
    ("modernbert", "text"),
    ("gpt2", "text"),
    ("gpt2_classifier", "text"),
    ("llama", "text"),
    ("lxmert", "text"),
    ("lxmert", "image"),
    ("visual_bert", "text"),
    ("visual_bert", "image"),
    ("vilt", "text"),
    ("t5", "source"),
    ("bart", "source"),
]


def columns(stream: str, inputs: Inputs) -> list[str]:
    """The arguments with an entry for each token of a stream."""
    if stream == "image":
        return [n for n in inputs if n.startswith("visual_")]
    return [n for n in inputs if n in ("input_ids", "attention_mask", "token_type_ids")]


def mask_of(stream: str, inputs: Inputs) -> Tensor:
    return inputs["visual_attention_mask" if stream == "image" else "attention_mask"] != 0


@pytest.mark.parametrize(("name", "stream"), STREAMS)
def test_dropped_is_a_shorter_input(name: str, stream: str) -> None:
    module = build_model(name)
    inputs = tiny_inputs(module, (8, 5, 6))
    kept = some_of(mask_of(stream, inputs))
    found = logits_without(removal(module, inputs), stream, kept)
    for i in range(len(kept)):
        alone = only(module, inputs, i)
        stay = kept[i][mask_of(stream, inputs)[i]]
        short = alone | {n: alone[n][:, stay] for n in columns(stream, alone)}
        torch.testing.assert_close(
            found[i : i + 1], plain_logits(module, short), rtol=1e-9, atol=1e-10
        )


@pytest.mark.parametrize("name", ["bert", "roberta", "gpt2_classifier", "lxmert"])
def test_padding_in_front_counts_in_the_users_columns(name: str) -> None:
    module = build_model(name)
    inputs = padded(module, (8, 5, 6), "left")
    mask = mask_of("text", inputs)
    kept = some_of(mask)
    for fill in ("drop", "zero"):
        found = logits_without(removal(module, inputs, fill), "text", kept)
        for i in range(len(kept)):
            alone, stay = only(module, inputs, i), kept[i][mask[i]].unsqueeze(0)
            one = logits_without(removal(module, alone, fill), "text", stay)
            torch.testing.assert_close(found[i : i + 1], one, rtol=1e-9, atol=1e-10)


def test_any_rows_in_any_order() -> None:
    module = build_model("bert")
    inputs = tiny_inputs(module, (8, 5, 6))
    removed = removal(module, inputs)
    kept = some_of(mask_of("text", inputs))
    every = logits_without(removed, "text", kept)
    rows = torch.tensor([2, 0])
    torch.testing.assert_close(logits_without(removed, "text", kept[rows], rows), every[rows])


def test_what_is_generated_may_be_asked_for_some_rows_only() -> None:
    # The generated stream must have the rows of the rerun too.
    module = build_model("t5")
    inputs = tiny_inputs(module, (8, 5, 6))
    kept = some_of(mask_of("source", inputs))
    removed = removal(module, inputs)
    rows = torch.tensor([1])
    torch.testing.assert_close(
        logits_without(removed, "source", kept[rows], rows),
        logits_without(removed, "source", kept)[rows],
    )


def test_position_ids_are_renumbered() -> None:
    module = build_model("bert")
    inputs = tiny_inputs(module, (6, 6))
    kept = some_of(inputs["attention_mask"] != 0)
    numbered = inputs | {"position_ids": torch.arange(6).expand(2, -1)}
    torch.testing.assert_close(
        logits_without(removal(module, numbered), "text", kept),
        logits_without(removal(module, inputs), "text", kept),
    )


class Own(nn.Module):
    """A user's classifier on torch's encoder, with torch's padding mask (True at padding)."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(50, 16)
        layer = nn.TransformerEncoderLayer(16, 2, 24, dropout=0.0, batch_first=True)
        self.blocks = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(16, 3)

    def forward(self, tokens: Tensor, src_key_padding_mask: Tensor | None = None) -> Tensor:
        places = torch.arange(tokens.shape[1]).unsqueeze(-1) / 10
        states = self.blocks(self.table(tokens) + places, src_key_padding_mask=src_key_padding_mask)
        out: Tensor = self.head(states[:, 0])
        return out


@pytest.mark.parametrize("kind", ["bool", "float"])
def test_torchs_own_encoder_with_its_own_mask(kind: str) -> None:
    module = Own().double().eval()
    ids = torch.randint(5, 50, (3, 7))
    real = torch.arange(7) < torch.tensor([[7], [4], [5]])
    hidden = ~real if kind == "bool" else torch.zeros(3, 7).masked_fill(~real, -torch.inf).double()
    removed = removal(module, {"tokens": ids, "src_key_padding_mask": hidden})
    kept = some_of(real)
    found = logits_without(removed, "tokens", kept)
    for i in range(3):
        alone = own_logits(module, ids[i : i + 1, kept[i]])
        torch.testing.assert_close(found[i : i + 1], alone, rtol=1e-9, atol=1e-10)


def own_logits(module: nn.Module, ids: Tensor) -> Tensor:
    with torch.no_grad():
        out: Tensor = module(ids)
    return out


def test_without_a_mask_only_equal_lengths_run_together() -> None:
    module = Own().double().eval()
    ids = torch.randint(5, 50, (2, 7))
    removed = removal(module, {"tokens": ids})
    assert not removed.runs_together("tokens")
    kept = torch.ones(2, 7, dtype=torch.bool)
    kept[0, 3] = kept[1, 0] = False
    found = logits_without(removed, "tokens", kept)
    for i in range(2):
        torch.testing.assert_close(found[i : i + 1], own_logits(module, ids[i : i + 1, kept[i]]))
    kept[0, 4] = False
    with pytest.raises(InputError, match="no mask"):
        logits_without(removed, "tokens", kept)
    assert removal(build_model("bert"), tiny_inputs(build_model("bert"))).runs_together("text")


# -- rows that keep nothing ------------------------------------------------------------------------


def test_a_text_without_tokens_is_one_neutral_token() -> None:
    module = build_model("bert")
    inputs = tiny_inputs(module, (6, 4))
    kept = some_of(mask_of("text", inputs))
    kept[0] = False
    removed = replace(removal(module, inputs), batch=_read_by(removal(module, inputs)))
    found = logits_without(removed, "text", kept)
    silent = plain_logits(module, {"input_ids": torch.tensor([[SIGNS.mask_token_id]])})
    torch.testing.assert_close(found[:1], silent, rtol=1e-9, atol=1e-10)
    alone = only(module, inputs, 1)["input_ids"][:, kept[1][:4]]
    torch.testing.assert_close(
        found[1:], plain_logits(module, {"input_ids": alone}), rtol=1e-9, atol=1e-10
    )


def test_a_text_without_tokens_for_models_that_read_padding_ids() -> None:
    for name in ("roberta", "gpt2_classifier"):
        module = build_model(name)
        inputs = tiny_inputs(module, (6, 4))
        kept = torch.zeros(2, 6, dtype=torch.bool)
        found = logits_without(removal(module, inputs), "text", kept)
        assert found.isfinite().all()
        torch.testing.assert_close(found[0], found[1])  # nothing of either is left


@pytest.mark.parametrize("name", ["lxmert", "visual_bert"])
def test_an_image_without_regions_is_one_empty_region(name: str) -> None:
    module = build_model(name)
    inputs = tiny_inputs(module, (6, 6))
    # The first region of the second sample is hidden: what stays must be one that is seen.
    inputs["visual_attention_mask"][1, 0] = 0
    found = logits_without(removal(module, inputs), "image", torch.zeros(2, 5, dtype=torch.bool))
    carrier = "visual_feats" if name == "lxmert" else "visual_embeds"
    for i in range(2):
        first = slice(i, i + 1)
        one = {n: v[i : i + 1] for n, v in inputs.items()}
        one |= {n: one[n][:, first] for n in one if n.startswith("visual_")}
        one[carrier] = torch.zeros_like(one[carrier])
        torch.testing.assert_close(
            found[i : i + 1], plain_logits(module, one), rtol=1e-9, atol=1e-10
        )


# -- other tokens in their place -------------------------------------------------------------------


def _read_by(removed: Removal, tokenizer: Any = SIGNS) -> Any:
    return replace(removed.batch, tokenizer=tokenizer)


@pytest.mark.parametrize(("fill", "sign"), [("mask", 3), ("unknown", 4)])
@pytest.mark.parametrize("name", ["bert", "roberta", "gpt2_classifier", "lxmert"])
def test_replaced_by_the_mask_or_unknown_token(name: str, fill: str, sign: int) -> None:
    module = build_model(name)
    inputs = tiny_inputs(module, (8, 5, 6))
    removed = removal(module, inputs, fill)
    removed = replace(removed, batch=_read_by(removed))
    mask = mask_of("text", inputs)
    kept = some_of(mask)
    kept[2] = False
    found = logits_without(removed, "text", kept)
    for i in range(3):
        alone = only(module, inputs, i)
        ids = alone["input_ids"].masked_fill(~kept[i][mask[i]], sign)
        expected = plain_logits(module, alone | {"input_ids": ids})
        torch.testing.assert_close(found[i : i + 1], expected, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("fill", ["zero", "mean"])
@pytest.mark.parametrize("name", ["bert", "roberta", "gpt2", "t5", "bart_scaled", "visual_bert"])
def test_overwritten_word_embeddings(name: str, fill: str) -> None:
    make = tiny_models()[name.removesuffix("_scaled")][1]
    module = make(**({"scale_embedding": True} if "scaled" in name else {})).double()
    inputs = tiny_inputs(module, (8, 5, 6))
    mask = inputs["attention_mask"] != 0
    kept = some_of(mask)
    stream = "source" if "decoder_input_ids" in inputs else "text"
    found = logits_without(removal(module, inputs, fill), stream, kept)
    table = module.get_encoder().embed_tokens if "bart" in name else module.get_input_embeddings()
    assert table.weight.shape[0] == 60
    mean = table(torch.arange(60)).mean(0)
    for i in range(3):
        alone = only(module, inputs, i)
        states = table(alone.pop("input_ids")).detach().clone()
        states[:, ~kept[i][mask[i]]] = 0.0 if fill == "zero" else mean.detach()
        expected = plain_logits(module, alone | {"inputs_embeds": states})
        torch.testing.assert_close(found[i : i + 1], expected, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("fill", ["zero", "mean"])
def test_overwriting_keeps_the_precision(fill: str) -> None:
    module = tiny_models()["bert"][1]().bfloat16()
    inputs = tiny_inputs(module, (6, 4))
    found = logits_without(removal(module, inputs, fill), "text", some_of(mask_of("text", inputs)))
    assert found.dtype == torch.bfloat16


def test_a_model_that_never_looks_its_ids_up_is_refused() -> None:
    class Copying(transformers.BertForSequenceClassification):
        """Looks up other ids than those in its input."""

        def forward(self, input_ids: Any = None, attention_mask: Any = None) -> Any:
            return super().forward(input_ids=input_ids.flip(1), attention_mask=attention_mask)

    config = transformers.BertConfig(
        vocab_size=60, hidden_size=8, num_hidden_layers=1, num_attention_heads=2
    )
    module = Copying(config).eval()
    inputs = {"input_ids": torch.tensor([[5, 6, 7]]), "attention_mask": torch.ones(1, 3).long()}
    with pytest.raises(ModelError, match="does not look its tokens up"):
        logits_without(removal(module, inputs, "zero"), "text", torch.tensor([[True, False, True]]))
    own = removal(Own().double().eval(), {"tokens": torch.tensor([[5, 6]])}, "zero")
    with pytest.raises(InputError, match="no embedding table"):
        logits_without(own, "tokens", torch.eye(2)[:1] > 0)


@pytest.mark.parametrize("name", ["lxmert", "visual_bert"])
@pytest.mark.parametrize("fill", ["zero", "mean"])
def test_regions_set_to_a_number(name: str, fill: str) -> None:
    module = build_model(name)
    inputs = tiny_inputs(module, (8, 5))
    mask = mask_of("image", inputs)
    kept = some_of(mask)
    found = logits_without(removal(module, inputs, fill), "image", kept)
    carrier = "visual_feats" if name == "lxmert" else "visual_embeds"
    for i in range(2):
        alone = only(module, inputs, i)
        gone = ~kept[i][mask[i]]
        regions = alone[carrier].clone()
        regions[:, gone] = 0.0 if fill == "zero" else alone[carrier].mean(1)
        expected = plain_logits(module, alone | {carrier: regions})
        torch.testing.assert_close(found[i : i + 1], expected, rtol=1e-9, atol=1e-10)


def test_frames_of_sound() -> None:
    module = build_model("whisper")
    inputs = tiny_inputs(module, (4, 4))
    kept = torch.tensor([[1, 0, 1, 1, 0, 1], [0, 0, 0, 1, 1, 1]]).bool()
    frames = kept.repeat_interleave(2, 1).unsqueeze(1)
    sound = inputs["input_features"]
    for fill, put in (("zero", torch.zeros(())), ("mean", sound.mean(2, keepdim=True))):
        found = logits_without(removal(module, inputs, fill), "audio", kept)
        expected = plain_logits(
            module, inputs | {"input_features": torch.where(frames, sound, put)}
        )
        # Of the last token of each, which padding may stand behind.
        real = inputs["decoder_attention_mask"].bool().all(1)
        torch.testing.assert_close(found[real], expected[real])


# -- pixels ----------------------------------------------------------------------------------------


@pytest.fixture
def processor() -> Any:
    """An image processor with a different mean and deviation in every channel."""
    return transformers.ViTImageProcessorPil(
        size={"height": 8, "width": 8},
        image_mean=[0.485, 0.456, 0.406],
        image_std=[0.229, 0.224, 0.225],
    )


def pixels_by_hand(fill: str, values: Tensor, processor: Any) -> Tensor:
    """The values that replace removed pixels, in the shape of the image."""
    if fill == "zero":
        return torch.zeros_like(values)
    if fill == "mean":
        return values.mean((2, 3), keepdim=True).expand_as(values)
    if fill == "black":
        black = Image.new("RGB", (20, 13), (0, 0, 0))
        made: Tensor = processor(images=[black], return_tensors="pt")["pixel_values"]
        return made.expand_as(values)
    sigma = 8 / 20
    blurred = [
        [gaussian_filter(c, sigma, mode="nearest", radius=round(3 * sigma)) for c in image]
        for image in values.double().numpy()
    ]
    return torch.from_numpy(numpy.array(blurred)).to(values)


@pytest.mark.parametrize("fill", FILLS["pixels"])
def test_pixels(vit: nn.Module, processor: Any, fill: str) -> None:
    noise = numpy.random.default_rng(0).integers(0, 256, (2, 8, 8, 3), dtype=numpy.uint8)
    images = [Image.fromarray(one) for one in noise]
    values = processor(images=images, return_tensors="pt")["pixel_values"]
    removed = removal(vit, images, fill, processor, image_processor=processor)
    filled = pixels_by_hand(fill, values, processor)
    patches = torch.tensor([[True, False, False, True], [False, False, False, False]])
    by_hand = torch.stack([values[0], filled[1]])
    by_hand[0, :, :4, 4:] = filled[0, :, :4, 4:]
    by_hand[0, :, 4:, :4] = filled[0, :, 4:, :4]
    found = logits_without(removed, "image", patches, grid=(2, 2))
    torch.testing.assert_close(
        found, plain_logits(vit, {"pixel_values": by_hand}), rtol=1e-4, atol=1e-5
    )
    # The same pixel by pixel, and some that make no patch.
    pixels = torch.rand(2, 64) < 0.5
    by_hand = torch.where(pixels.reshape(2, 1, 8, 8), values, filled)
    found = logits_without(removed, "image", pixels)
    torch.testing.assert_close(
        found, plain_logits(vit, {"pixel_values": by_hand}), rtol=1e-4, atol=1e-5
    )


def test_black_without_normalisation_is_zero(vit: nn.Module) -> None:
    processor = transformers.ViTImageProcessorPil(
        size={"height": 8, "width": 8}, do_normalize=False
    )
    image = Image.new("RGB", (8, 8), (200, 100, 50))
    removed = removal(vit, [image], "black", processor, image_processor=processor)
    found = logits_without(removed, "image", torch.zeros(1, 4, dtype=torch.bool), grid=(2, 2))
    torch.testing.assert_close(found, plain_logits(vit, {"pixel_values": torch.zeros(1, 3, 8, 8)}))


def test_a_mask_that_fits_neither_pixels_nor_patches(vit: nn.Module) -> None:
    removed = removal(vit, {"pixel_values": torch.randn(1, 3, 8, 8)})
    with pytest.raises(InputError, match="has 5 entries, which does not fit an image of 8 x 8"):
        logits_without(removed, "image", torch.ones(1, 5, dtype=torch.bool), grid=(2, 2))


def test_images_of_any_shape_can_be_blurred() -> None:
    value = torch.randn(1, 3, 1, 1)
    torch.testing.assert_close(_blur(value), value)
    wide = torch.randn(1, 1, 2, 60)
    expected = gaussian_filter(wide[0, 0].numpy(), 3.0, mode="nearest", radius=9)
    assert _blur(wide).shape == wide.shape
    torch.testing.assert_close(_blur(wide)[0, 0], torch.from_numpy(expected))


# -- what cannot be done ---------------------------------------------------------------------------


def test_refusals(vit: nn.Module) -> None:
    bert = build_model("bert")
    inputs = tiny_inputs(bert, (4,))
    keep = torch.ones(1, 4, dtype=torch.bool)
    assert set(FILL_TEXTS) == {fill for fills in FILLS.values() for fill in fills}
    for fill, why in (
        ("erase", "Choose one of drop, mask"),
        ("blur", "is not for stream 'text', which is ids"),
        ("mask", "has no mask token"),
        ("unknown", "has no unknown token"),
    ):
        with pytest.raises(OptionError, match=why):
            logits_without(removal(bert, inputs, fill), "text", keep)
    with pytest.raises(InputError, match=r"stream 'image' are not in the inputs.*have text"):
        logits_without(removal(bert, inputs), "image", keep)
    pixels = {"pixel_values": torch.randn(1, 3, 8, 8)}
    with pytest.raises(OptionError, match="is not for stream 'image', which is pixels"):
        logits_without(removal(vit, pixels, "drop"), "image", keep, grid=(2, 2))
    with pytest.raises(OptionError, match="needs the normalisation of the pixels"):
        logits_without(removal(vit, pixels, "black"), "image", keep, grid=(2, 2))


def test_a_mask_token_without_an_embedding() -> None:
    module = build_model("bert")
    removed = removal(module, tiny_inputs(module, (4,)), "mask")
    removed = replace(removed, batch=_read_by(removed, SimpleNamespace(mask_token_id=99)))
    with pytest.raises(OptionError, match="has no mask token"):
        logits_without(removed, "text", torch.zeros(1, 4, dtype=torch.bool))


# -- nothing is left behind ------------------------------------------------------------------------


@pytest.mark.parametrize("fill", FILLS["ids"])
def test_model_and_inputs_are_untouched(fill: str, hooks: Callable[[nn.Module], int]) -> None:
    module = build_model("bert").train()
    inputs = tiny_inputs(module, (6, 4))
    before = {n: v.clone() for n, v in inputs.items()}
    weights = {n: v.clone() for n, v in module.state_dict().items()}
    removed = removal(module, inputs, fill)
    removed = replace(removed, batch=_read_by(removed))
    state = torch.random.get_rng_state()
    logits_without(removed, "text", some_of(mask_of("text", inputs)))
    assert torch.equal(torch.random.get_rng_state(), state)
    assert all(part.training for part in module.modules())
    assert hooks(module) == 0
    assert all(torch.equal(inputs[n], before[n]) for n in inputs)
    assert all(torch.equal(v, weights[n]) for n, v in module.state_dict().items())
    assert all(p.grad is None and p.requires_grad for p in module.parameters())


@pytest.fixture
def hooks() -> Callable[[nn.Module], int]:
    """How many hooks a model has."""

    def counted(module: nn.Module) -> int:
        return sum(
            len(part._forward_hooks) + len(part._forward_pre_hooks) for part in module.modules()
        )

    return counted


def test_a_failing_model_is_put_back(
    hooks: Callable[[nn.Module], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    module = build_model("bert").train()
    inputs = tiny_inputs(module, (6, 4))
    monkeypatch.setattr(module.classifier, "forward", _failing)
    with pytest.raises(ModelError, match="failed on inputs with tokens removed, with RuntimeError"):
        logits_without(removal(module, inputs, "zero"), "text", some_of(mask_of("text", inputs)))
    assert hooks(module) == 0
    assert all(part.training for part in module.modules())


def _failing(states: Tensor) -> Tensor:
    raise RuntimeError("out of order")

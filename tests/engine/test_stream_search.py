"""Undeclared models with several streams: one stack per argument, found by what ran."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import whyformer as wf
from tests.undeclared import WIDTH, Attention, Block, Classifier, Projections, attend
from whyformer.engine.stream_search import search_streams
from whyformer.errors import ModelError, TargetError
from whyformer.models.families import Family
from whyformer.models.families.encoder_decoder import SIZES
from whyformer.models.families.tiny import tiny_model

IDS = torch.tensor([[3, 7, 1, 9, 4], [5, 2, 8, 6, 11]])
WRITTEN = torch.tensor([[1, 6, 2], [1, 8, 3]])
PIXELS = torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(0)).double()
SERIES = torch.randn(2, 6, generator=torch.Generator().manual_seed(1)).double()


def blocks(count: int = 2) -> nn.ModuleList:
    return nn.ModuleList([Block(Attention()) for _ in range(count)])


def run(parts: nn.ModuleList, x: Tensor) -> Tensor:
    for part in parts:
        x = part(x)
    return x


class Several(nn.Module):
    """A model with a text and an image tower; sub-classes read them differently."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.words = nn.Embedding(12, WIDTH)
        self.patches = nn.Conv2d(3, WIDTH, 4, 4)
        self.start = nn.Parameter(torch.randn(1, 1, WIDTH))
        self.text, self.image = blocks(), blocks()
        self.head = nn.Linear(WIDTH, 3, bias=False)
        self.build()
        self.double().eval()

    def build(self) -> None:
        pass

    def embed(self, pixels: Tensor) -> Tensor:
        return self.patches(pixels).flatten(2).transpose(1, 2)


class Towers(Several):
    """Two encoders that meet in the head; the image has a class token."""

    def forward(self, input_ids: Tensor, pixel_values: Tensor) -> Tensor:
        patches = self.embed(pixel_values)
        patches = torch.cat([self.start.expand(len(patches), -1, -1), patches], 1)
        text, image = run(self.text, self.words(input_ids)), run(self.image, patches)
        return self.head(text.mean(1) + image[:, 0])


class Caption(Several):
    """Image features before the text, in one sequence, as in GIT."""

    def forward(self, input_ids: Tensor, pixel_values: Tensor) -> Tensor:
        image = run(self.image, self.embed(pixel_values))
        return self.head(run(self.text, torch.cat([image, self.words(input_ids)], 1))[:, -1])


class Crossing(nn.Module):
    """Self-attention, then attention to other states."""

    def __init__(self) -> None:
        super().__init__()
        self.within, self.project = Block(Attention()), Projections()

    def forward(self, x: Tensor, others: Tensor) -> Tensor:
        x = self.within(x)
        query, (_, key, value) = self.project(x)[0], self.project(others)
        return x + attend(query, key, value).transpose(1, 2).flatten(2)


class Writer(Several):
    """A decoder that attends to the text's encoder."""

    def build(self) -> None:
        self.decoder = nn.ModuleList([Crossing(), Crossing()])

    def forward(self, input_ids: Tensor, decoder_input_ids: Tensor) -> Tensor:
        source = run(self.text, self.words(input_ids))
        x = self.words(decoder_input_ids)
        for part in self.decoder:
            x = part(x, source)
        return self.head(x[:, -1])


class Transducer(Writer):
    """A recurrent network reads what was written."""

    def build(self) -> None:
        self.recurrent = nn.LSTM(WIDTH, WIDTH, batch_first=True)
        self.after = nn.Linear(WIDTH, WIDTH)

    def forward(self, input_ids: Tensor, decoder_input_ids: Tensor) -> Tensor:
        source = run(self.text, self.words(input_ids))
        written = self.after(self.recurrent(self.words(decoder_input_ids))[0])
        return self.head(source.mean(1) + written[:, -1])


class OwnTokens(Towers):
    """A class token after the text."""

    def forward(self, input_ids: Tensor, pixel_values: Tensor) -> Tensor:
        words = self.words(input_ids)
        words = torch.cat([words, self.start.expand(len(words), -1, -1)], 1)
        image = run(self.image, self.embed(pixel_values))
        return self.head(run(self.text, words)[:, -1] + image.mean(1))


class JoinedSeries(Several):
    """Two series that are joined, scaled and cut apart again."""

    def build(self) -> None:
        self.number = nn.Linear(1, WIDTH)

    def forward(self, past_values: Tensor, future_values: Tensor) -> Tensor:
        both = self.number(torch.cat([past_values, future_values], 1).unsqueeze(-1))
        past, future = both[:, : past_values.shape[1]], both[:, past_values.shape[1] :]
        return self.head(run(self.text, past).mean(1) + run(self.image, future).mean(1))


class Bypass(Towers):
    """The pixels also reach the head beside the blocks."""

    def forward(self, input_ids: Tensor, pixel_values: Tensor) -> Tensor:
        text, image = self.words(input_ids), self.embed(pixel_values)
        text, image = run(self.text, text), run(self.image, image)
        return self.head(text.mean(1) + image.mean(1) + self.embed(pixel_values).mean(1))


class NoBlocks(Towers):
    """The image has convolutions alone."""

    def forward(self, input_ids: Tensor, pixel_values: Tensor) -> Tensor:
        text = run(self.text, self.words(input_ids))
        return self.head(text.mean(1) + self.embed(pixel_values).mean(1))


TEXT_AND_IMAGE = {"input_ids": IDS, "pixel_values": PIXELS}
TEXT_AND_OUTPUT = {"input_ids": IDS, "decoder_input_ids": WRITTEN}
TWO_SERIES = {"past_values": SERIES, "future_values": SERIES[:, :3]}
CASES = [
    (Towers, TEXT_AND_IMAGE, {"text": 5, "image": 4}),
    (Caption, TEXT_AND_IMAGE, {"text": 5, "image": 4}),
    (Writer, TEXT_AND_OUTPUT, {"source": 5, "generated": 3}),
    (Transducer, TEXT_AND_OUTPUT, {"source": 5, "generated": 3}),
    (OwnTokens, TEXT_AND_IMAGE, {"text": 5, "image": 4}),
    (JoinedSeries, TWO_SERIES, {"tokens": 6, "generated": 3}),
]
every_case = pytest.mark.parametrize(
    ("kind", "inputs", "streams"), CASES, ids=lambda one: getattr(one, "__name__", "")
)


def family(kind: type[Several], inputs: dict[str, Any]) -> Family:
    found = search_streams(kind(), inputs)
    assert found is not None
    return found


@every_case
@pytest.mark.parametrize("method", ["libragrad", "lrp_ah_ln", "attn_lrp", "blend"])
def test_scores_of_all_streams_sum_to_the_output(
    kind: type[Several], inputs: dict[str, Any], streams: dict[str, int], method: str
) -> None:
    options = {"activations": "identity"} if method == "lrp_ah_ln" else {}
    a = wf.explain(inputs, kind(), method=method, **options)
    assert {name: stream.scores.shape[1] for name, stream in a.streams.items()} == streams
    total = sum(stream.scores.sum(1) for stream in a.streams.values())
    total = total + sum(a.sinks.values())
    torch.testing.assert_close(total, a.output, rtol=1e-9, atol=1e-9)
    assert all(stream.scores.abs().sum() > 0 for stream in a.streams.values())
    assert "found by what ran" in str(a.trust.reasons)


@every_case
def test_gradient_x_input_is_that_of_plain_autograd(
    kind: type[Several], inputs: dict[str, Any], streams: dict[str, int]
) -> None:
    model = kind()
    a = wf.explain(inputs, model, method="gradient_x_input", target=1)
    found = family(kind, inputs)
    entered: dict[str, Tensor] = {}

    def note(path: str) -> Any:
        def before(part: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            if path not in entered:
                entered[path] = args[0].detach().requires_grad_()
                return (entered[path], *args[1:])
            return args

        return before

    for stack in found.stacks:
        model.get_submodule(stack.paths[0]).register_forward_pre_hook(note(stack.paths[0]))
    model(**inputs)[:, 1].sum().backward()
    for stack in found.stacks:
        states = entered[stack.paths[0]]
        assert states.grad is not None
        expected = (states * states.grad).sum(-1)
        ours = torch.cat([a.streams[name].scores for name in stack.streams], 1)
        ahead = expected.shape[1] - ours.shape[1] if "image" in stack.streams else 0
        torch.testing.assert_close(ours, expected[:, ahead:][:, : ours.shape[1]])


def test_where_streams_enter() -> None:
    towers = family(Towers, TEXT_AND_IMAGE)
    assert [(s.streams, s.paths) for s in towers.stacks] == [
        (("text",), ("text.0", "text.1")),
        (("image",), ("image.0", "image.1")),
    ]
    assert not any(stack.crosses for stack in towers.stacks)
    joint = family(Caption, TEXT_AND_IMAGE)
    assert [(s.streams, s.paths[0]) for s in joint.stacks] == [(("image", "text"), "text.0")]
    writer = family(Writer, TEXT_AND_OUTPUT)
    assert [stack.crosses for stack in writer.stacks] == [False, True]
    own = family(OwnTokens, TEXT_AND_IMAGE)
    assert {stack.name: stack.own for stack in own.stacks} == {"text": (0, 1), "image": (0, 0)}


def test_an_image_keeps_its_grid() -> None:
    a = wf.explain(TEXT_AND_IMAGE, Towers())
    assert a.main == "text"
    assert a.streams["image"].grid == (2, 2)
    assert "prefix" in a.sinks


@pytest.mark.parametrize("method", ["gae", "rollout", "transformer_attribution", "full_lrp"])
def test_methods_that_read_maps_are_refused(method: str) -> None:
    with pytest.raises(ModelError, match="whose tokens each of its attention maps mixes") as caught:
        wf.explain(TEXT_AND_IMAGE, Towers(), method=method)
    assert "declare" in str(caught.value)
    assert "'libragrad'" in str(caught.value)


def test_a_joint_sequence_has_one_walk_over_its_maps() -> None:
    """Image tokens before the text: all maps of the text's blocks mix the same tokens."""
    model = Caption()
    a = wf.explain(TEXT_AND_IMAGE, model, method="gae", target=1)
    maps: list[Tensor] = []
    for block in model.text:
        block.mixer.maps = maps
    model(**TEXT_AND_IMAGE)[:, 1].sum().backward()
    walk = torch.eye(9).double().expand(2, -1, -1)
    for attention in maps:
        assert attention.grad is not None
        walk = walk + (attention * attention.grad).clamp(min=0).mean(1) @ walk
    torch.testing.assert_close(a.streams["image"].scores, walk[:, -1, :4].detach())
    torch.testing.assert_close(a.streams["text"].scores, walk[:, -1, 4:].detach())


class Speaker(Caption):
    """Scores for every token of the joint sequence, those of the image included."""

    def build(self) -> None:
        self.config = SimpleNamespace(vocab_size=3)

    def forward(self, input_ids: Tensor, pixel_values: Tensor) -> Tensor:
        image = run(self.image, self.embed(pixel_values))
        return self.head(run(self.text, torch.cat([image, self.words(input_ids)], 1)))


class SpeakerForCausalLM(Speaker):
    pass


def test_positions_in_the_text_leave_the_image_out() -> None:
    model = SpeakerForCausalLM()
    logits = model(**TEXT_AND_IMAGE).detach()
    last = wf.explain(TEXT_AND_IMAGE, model)
    torch.testing.assert_close(last.output, logits[:, -1].amax(-1))
    second = wf.explain(TEXT_AND_IMAGE, model, target=wf.token(1, 2))
    torch.testing.assert_close(second.output, logits[:, 4 + 1, 2])
    with pytest.raises(TargetError, match="0 to 4"):
        wf.explain(TEXT_AND_IMAGE, model, target=wf.token(5, 2))


class Compared(Towers):
    """The similarity of text and image, as an einsum."""

    def forward(self, input_ids: Tensor, pixel_values: Tensor) -> Tensor:
        text, image = (
            run(self.text, self.words(input_ids)),
            run(self.image, self.embed(pixel_values)),
        )
        return torch.einsum("bd,bd->b", text.mean(1), image.mean(1)).unsqueeze(1)


@pytest.mark.parametrize("method", ["libragrad", "attn_lrp", "lrp_ah_ln"])
def test_an_einsum_of_two_towers_counts_once(method: str) -> None:
    options = {"activations": "identity"} if method == "lrp_ah_ln" else {}
    a = wf.explain(TEXT_AND_IMAGE, Compared(), method=method, **options)
    total = sum(stream.scores.sum(1) for stream in a.streams.values()) + sum(a.sinks.values())
    torch.testing.assert_close(total, a.output, rtol=1e-9, atol=1e-9)


class Patches(Several):
    """Images of any shape: (batch, patches, width), with a mask."""

    main_input_name = "pixel_values"

    def build(self) -> None:
        self.numbers = nn.Linear(6, WIDTH)
        self.config = SimpleNamespace(model_type="patches")

    def forward(self, pixel_values: Tensor, pixel_attention_mask: Tensor) -> Tensor:
        real = pixel_attention_mask.unsqueeze(-1).double()
        states = run(self.image, self.numbers(pixel_values))
        return self.head((states * real).sum(1) / real.sum(1))


def test_images_as_patches_are_a_batch_and_not_one_image() -> None:
    pixels = torch.randn(2, 4, 6, generator=torch.Generator().manual_seed(2)).double()
    mask = torch.ones(2, 4, dtype=torch.long)
    inputs = {"pixel_values": pixels, "pixel_attention_mask": mask}
    a = wf.explain(inputs, Patches(), method="libragrad")
    assert a.main == "image"
    assert a.scores.shape == (2, 4)


class CastsItsRouter(Classifier):
    """A gate that is computed in float32, and whose weights the model casts itself."""

    def __init__(self) -> None:
        super().__init__(Attention)
        self.router = nn.Linear(WIDTH, 2).double()

    def forward(self, ids: Tensor) -> Tensor:
        x = self.blocks[0](self.embedding(ids))
        self.router = self.router.to(torch.float32)
        weights = self.router(x.to(torch.float32)).softmax(-1).to(x.dtype)
        return self.head((x * weights[..., :1])[:, 0])


@pytest.mark.parametrize("method", ["libragrad", "gae", "transformer_attribution"])
def test_a_model_in_float64_may_cast_its_weights_to_float32(method: str) -> None:
    a = wf.explain(IDS, CastsItsRouter(), method=method)
    assert a.scores.isfinite().all()


@pytest.mark.parametrize("kind", [Bypass, NoBlocks], ids=lambda kind: kind.__name__)
def test_streams_that_pass_beside_the_blocks_are_refused(kind: type[Several]) -> None:
    """Their relevance would be booked as a constant, and nobody would notice."""
    assert search_streams(kind(), TEXT_AND_IMAGE) is None
    with pytest.raises(ModelError, match="several token streams"):
        wf.explain(TEXT_AND_IMAGE, kind())


def test_a_sample_alone_is_explained_as_in_the_batch() -> None:
    model = Towers()
    both = wf.explain(TEXT_AND_IMAGE, model)
    alone = wf.explain({name: value[1:] for name, value in TEXT_AND_IMAGE.items()}, model)
    for name, stream in both.streams.items():
        torch.testing.assert_close(alone.streams[name].scores[0], stream.scores[1])


def test_what_an_undeclared_encoder_decoder_writes_is_explained() -> None:
    model = tiny_model("PLBartForConditionalGeneration", **{**SIZES, "d_model": 16})().double()
    model.__class__ = type("Undeclared", (type(model),), {})
    model.config = type("Config", (type(model.config),), {"model_type": "none"})(**SIZES)
    a = wf.explain({"input_ids": IDS + 5}, model)
    assert set(a.streams) == {"source", "generated"}
    assert a.maps["generated", "source"].shape[2] == IDS.shape[1]

"""A batch of texts of different lengths, run in parts, gives the scores of the whole batch."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import whyformer as wf
from tests.several import SEVERAL, refuses
from whyformer.batching import split_by_length
from whyformer.errors import ModelError, TrustWarning, WhyformerError
from whyformer.models.families.tiny import tiny_inputs, tiny_models

LENGTHS = (7, 3, 5, 7, 2)
TEXTS = [name for name in tiny_models() if name not in SEVERAL]
PARTS = ("target", "output", "conservation")


@cache
def model_of(name: str) -> Any:
    return tiny_models()[name][1]().double()


def is_text(name: str) -> bool:
    return "input_ids" in tiny_inputs(model_of(name))


def explain(name: str, padding: str = "right", **options: Any) -> wf.Attribution:
    model = model_of(name)
    if options.get("method") == "integrated_gradients":
        options["steps"] = 2
    if tiny_models()[name][0].causal:
        options.setdefault("target", 1)  # the next token: a language model would write first
    return wf.explain(tiny_inputs(model, LENGTHS, padding=padding), model, **options)


def batches(model: nn.Module, work: Any) -> tuple[list[tuple[int, ...]], Any]:
    """The input shapes of the model's forward passes, and the result of `work`."""
    shapes: list[tuple[int, ...]] = []

    def note(module: nn.Module, args: Any, kwargs: dict[str, Any]) -> None:
        shapes.append(tuple(kwargs["input_ids"].shape))

    handle = model.register_forward_pre_hook(note, with_kwargs=True)
    try:
        return shapes, work()
    finally:
        handle.remove()


@pytest.fixture
def free(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pass costs nothing but its tokens, so that even a tiny model's batches are cut."""
    monkeypatch.setattr(split_by_length, "pass_cost", lambda module: 0)


def doubts(found: wf.Attribution) -> set[tuple[Any, ...]]:
    """What is doubted, and of which samples."""
    return {(one.kind, one.culprits, one.samples) for one in found.trust.warnings}


def assert_same(found: wf.Attribution, expected: wf.Attribution) -> None:
    """Compare every part, up to the rounding of sums over other shapes."""
    for name, stream in expected.streams.items():
        ours, largest = found.streams[name], stream.scores.abs().max().item()
        torch.testing.assert_close(ours.scores, stream.scores, rtol=0, atol=1e-7 * largest)
        assert torch.equal(ours.mask, stream.mask)
        assert ours.tokens == stream.tokens
        assert ours.word_ids == stream.word_ids
        assert (ours.deciding is None) == (stream.deciding is None)
        if ours.deciding is not None and stream.deciding is not None:
            assert torch.equal(ours.deciding, stream.deciding)
    for part in PARTS:
        ours, theirs = getattr(found, part), getattr(expected, part)
        assert (ours is None) == (theirs is None)
        if theirs is not None:
            torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-8)
    assert found.labels == expected.labels
    nothing = torch.zeros_like(expected.output)  # a sink of zeros may be missing
    for name in {*found.sinks, *expected.sinks}:
        ours, theirs = (one.sinks.get(name, nothing) for one in (found, expected))
        torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-8)
    assert len(found.layers) == len(expected.layers)
    for ours, theirs in zip(found.layers, expected.layers, strict=True):
        sums = (ours.relevance_sum, theirs.relevance_sum)
        assert (sums[0] is None) == (sums[1] is None)
        if sums[0] is not None:
            torch.testing.assert_close(*sums, rtol=1e-5, atol=1e-8)
    assert doubts(found) == doubts(expected)
    assert found.options == expected.options
    assert found.provenance == expected.provenance


# partial_lrp clamps: a sample whose relevance is negative everywhere has only zeros.
@pytest.mark.filterwarnings("ignore:'partial_lrp' gave .* scores of stream 'text' are 0")
@pytest.mark.parametrize("method", wf.methods())
@pytest.mark.parametrize("name", TEXTS)
def test_groups_give_what_the_whole_batch_gives(
    name: str, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not is_text(name):
        return  # images have no padding to save
    if refuses(name, method):
        with pytest.raises(ModelError, match="use a method that this model allows"):
            explain(name, method=method)
        return
    expected = explain(name, method=method)
    monkeypatch.setattr(split_by_length, "pass_cost", lambda module: 0)
    shapes, found = batches(model_of(name), lambda: explain(name, method=method))
    if shapes[0] == (5, 7):
        pytest.fail(f"{name} was run whole, {shapes}")
    widths = {shape[1] for shape in shapes}
    assert widths >= {7, 5, 3, 2}
    # A method that removes tokens runs shorter texts too.
    assert widths == {7, 5, 3, 2} or "removal" in wf.methods()[method].needs
    assert_same(found, expected)


@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_padding_in_front_stays_in_front(name: str, free: None) -> None:
    behind, before = explain(name), explain(name, padding="left")
    assert before.scores.shape == behind.scores.shape
    for i, count in enumerate(LENGTHS):
        assert before.streams["text"].mask[i].tolist() == [False] * (7 - count) + [True] * count
        torch.testing.assert_close(before[i].scores, behind[i].scores)
        assert before[i].tokens == behind[i].tokens


@pytest.mark.usefixtures("no_comparison")
@pytest.mark.parametrize("target", [[0, 1, 1, 0, 1], torch.tensor([0, 1, 1, 0, 1]), 1, None])
def test_each_sample_keeps_its_target(target: Any, free: None) -> None:
    model = model_of("bert")
    shapes, found = batches(model, lambda: explain("bert", target=target))
    assert len(shapes) == 4
    logits = model(**tiny_inputs(model, LENGTHS)).logits
    chosen = torch.as_tensor([0, 1, 1, 0, 1] if isinstance(target, list | Tensor) else [1] * 5)
    chosen = logits.argmax(-1) if target is None else chosen
    assert found.target.tolist() == chosen.tolist()
    torch.testing.assert_close(found.output, logits.gather(1, chosen[:, None])[:, 0])


@pytest.mark.parametrize(
    "options",
    [
        {"target": lambda output: output.logits[torch.arange(5), torch.tensor([0, 1, 1, 0, 1])]},
        {"target": wf.contrast(0, 1)},
        {"keep": "states"},
        {"keep": "attention"},
        {"deciding": 0, "method": "gae"},
    ],
)
def test_a_batch_that_may_not_be_taken_apart_is_not(options: dict[str, Any], free: None) -> None:
    shapes, _ = batches(model_of("bert"), lambda: explain("bert", **options))
    assert set(shapes) == {(5, 7)}


def test_an_error_names_the_samples_own_number(free: None) -> None:
    with pytest.raises(WhyformerError) as expected:
        explain("bert", target=[0, 1, 1, 5, 1])
    assert "5" in str(expected.value)
    model = model_of("bert")
    inputs = tiny_inputs(model, LENGTHS)
    with pytest.raises(WhyformerError, match="4 targets were given for 5 samples"):
        wf.explain(inputs, model, target=[0, 1, 1, 0])


@pytest.mark.usefixtures("no_comparison")
def test_a_small_model_runs_whole() -> None:
    """One more pass costs more than the padding that it saves."""
    shapes, _ = batches(model_of("bert"), lambda: explain("bert"))
    assert shapes == [(5, 7)]


@pytest.mark.usefixtures("no_comparison")
def test_a_shared_argument_keeps_the_batch_whole(free: None) -> None:
    """A (tokens, tokens) mask, or one number for all, does not belong to a sample."""
    model = model_of("bert")
    inputs = tiny_inputs(model, LENGTHS)
    positions = torch.arange(7)[None]
    shapes, found = batches(
        model, lambda: wf.explain({**inputs, "position_ids": positions}, model, target=1)
    )
    assert shapes == [(5, 7)]
    torch.testing.assert_close(found.scores, explain("bert", target=1).scores)


class Averaging(nn.Module):
    """A model of no family that reads padding like any other token."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(99, 8)
        self.layers = nn.ModuleList([nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)])
        self.head = nn.Linear(8, 2)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        states = self.table(input_ids)
        for layer in self.layers:
            states = layer(states)
        found: Tensor = self.head(states.mean(1))
        return found


def test_a_model_of_no_family_runs_on_what_it_was_given(free: None) -> None:
    torch.manual_seed(0)
    model = Averaging().eval().requires_grad_(False)
    mask = (torch.arange(7) < torch.tensor(LENGTHS)[:, None]).long()
    inputs = {"input_ids": torch.randint(1, 99, (5, 7)) * mask, "attention_mask": mask}
    with pytest.warns(TrustWarning, match="reads padding of 'tokens'"):
        found = wf.explain(inputs, model, method="gradient_x_input", target=1)
    torch.testing.assert_close(found.output, model(**inputs)[:, 1])


def test_texts_in_a_list_are_grouped() -> None:
    """The bundled model is large enough, at the costs that are assumed."""
    texts = ["good", "an honest and moving film " * 6, "bad", "a long, tedious mess " * 7] * 4
    found = wf.explain(texts)
    assert len(found) == 16
    for i in (0, 1, 15):
        alone = wf.explain(texts[i])
        torch.testing.assert_close(found[i].scores, alone.scores, rtol=1e-3, atol=1e-4)
        assert found[i].tokens == alone.tokens

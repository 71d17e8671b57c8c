"""One forward for a whole answer: every row equals its tokens explained alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import whyformer as wf
from whyformer.batching.budget import Budget
from whyformer.engine.tape import MOST, Tape
from whyformer.errors import OptionError, TargetError
from whyformer.models.families.tiny import tiny_inputs, tiny_models
from whyformer.pipeline import explain_batch
from whyformer.targets.answer_rows import split_answer

CONTINUERS, WRITERS = ("gpt2", "llama", "qwen2"), ("t5", "bart")
SHARING: dict[str, dict[str, Any]] = {
    "libragrad": {"method": "libragrad"},
    "attn_lrp": {"method": "attn_lrp"},
    "lrp_ah_ln": {"method": "lrp_ah_ln"},
    "gradient_x_input": {"method": "gradient_x_input"},
    "gae": {"method": "gae"},
    "gae streamed": {"method": "gae", "memory": "streamed"},
    "gae checkpointed": {"method": "gae", "memory": "checkpoint"},
    "blend": {"method": "blend"},
    "blend streamed": {"method": "blend", "memory": "streamed"},
    "blend checkpointed": {"method": "blend", "memory": "checkpoint"},
    "rollout": {"method": "rollout"},
    "blend with half": {"method": "blend", "share": 0.5},
}
NOT_SHARING: dict[str, dict[str, Any]] = {
    "transformer_attribution": {"method": "transformer_attribution"},
    "integrated_gradients": {"method": "integrated_gradients", "steps": 4},
    "occlusion": {"method": "occlusion"},
}
# Answers of different lengths: the second sample has fewer rows.
ANSWERS = [[7, 9, 11], [12, 8]]
EXACT = {"rtol": 0, "atol": 1e-10}


@cache
def model_of(name: str, dtype: torch.dtype = torch.float64) -> Any:
    return tiny_models()[name][1]().to(dtype)


def prompts_of(name: str, padding: str = "left") -> dict[str, Tensor]:
    """Prompts of 7 and 5 tokens."""
    inputs = tiny_inputs(model_of(name), (7, 5), padding=padding)
    return {key: value for key, value in inputs.items() if not key.startswith("decoder")}


def prompt_of(name: str, sample: int) -> Tensor:
    """The ids of one prompt without padding, (1, tokens)."""
    inputs = prompts_of(name)
    return inputs["input_ids"][sample, inputs["attention_mask"][sample].bool()].unsqueeze(0)


def alone(name: str, sample: int, place: int, dtype: torch.dtype, **how: Any) -> wf.Attribution:
    """One token of one answer, explained as the next token of the text before it."""
    model, prompt, answer = model_of(name, dtype), prompt_of(name, sample), ANSWERS[sample]
    if name in CONTINUERS:
        text = torch.cat([prompt, torch.tensor([answer[:place]], dtype=torch.long)], 1)
        return wf.explain({"input_ids": text}, model, target=answer[place], **how)
    start = model.config.decoder_start_token_id
    written = {"input_ids": prompt, "decoder_input_ids": torch.tensor([[start, *answer[:place]]])}
    return wf.explain(written, model, target=wf.token(place, answer[place]), **how)


def row_of(a: wf.Attribution, sample: int, row: int, inputs: int) -> Tensor:
    """A row of the prompt's tokens, then those of the output up to what the row reads."""
    before = a.maps["generated", a.main][sample, row, a.streams[a.main].mask[sample]]
    since = a.maps["generated", "generated"][sample, row]
    return torch.cat([before, since])[:inputs]


def whole_of(a: wf.Attribution) -> Tensor:
    """The scores of all streams of one sample, in order."""
    return torch.cat([stream.scores[0] for stream in a.streams.values()])


def check_rows(name: str, dtype: torch.dtype, tolerance: float, **how: Any) -> None:
    """Raise unless each row equals that token explained alone."""
    model = model_of(name, dtype)
    a = wf.explain(prompts_of(name), model, target=ANSWERS, **how)
    total = torch.zeros(2, dtype=a.output.dtype)
    for sample, answer in enumerate(ANSWERS):
        for place in range(len(answer)):
            one = alone(name, sample, place, dtype, **how)
            expected = whole_of(one)
            found = row_of(a, sample, place, len(expected))
            size = float(expected.abs().max())
            torch.testing.assert_close(found, expected, rtol=0, atol=tolerance * size)
            total[sample] += one.output[0]
        rows = a.maps["generated", "generated"][sample]
        # A token depends neither on itself nor on later ones; and there are no more rows.
        if name in CONTINUERS:
            torch.testing.assert_close(rows, rows.tril(-1), **EXACT)
        assert not rows[len(answer) :].any()
    torch.testing.assert_close(a.output, total, rtol=tolerance, atol=0)
    for stream, one in a.streams.items():
        torch.testing.assert_close(one.scores, a.maps["generated", stream].sum(1))


# The quick tests have every way and every model, but not every pair.
@pytest.mark.parametrize(
    ("name", "how"),
    [
        pytest.param(name, how, marks=() if (i + j) % 5 == 0 else pytest.mark.slow)
        for i, name in enumerate((*CONTINUERS, *WRITERS))
        for j, how in enumerate((*SHARING, *NOT_SHARING))
    ],
)
def test_each_row_is_the_token_alone(name: str, how: str) -> None:
    """Also in a batch with padding, where the answers have different lengths."""
    check_rows(name, torch.float64, 1e-10, **{**SHARING, **NOT_SHARING}[how])


@pytest.mark.parametrize("name", ["qwen2", "t5"])
def test_rows_in_float32(name: str) -> None:
    check_rows(name, torch.float32, 1e-5, method="libragrad")


@contextmanager
def calls_of(module: nn.Module) -> Iterator[list[tuple[int, ...]]]:
    """The shapes of the first output of each call of a module."""
    shapes: list[tuple[int, ...]] = []

    def note(part: nn.Module, args: tuple, output: Any) -> None:
        shapes.append(tuple((output if isinstance(output, Tensor) else output[0]).shape))

    handle = module.register_forward_hook(note)
    try:
        yield shapes
    finally:
        handle.remove()


@pytest.mark.parametrize(
    ("name", "how"),
    [*(("llama", how) for how in SHARING), ("bart", "libragrad"), ("t5", "gae streamed")],
)
def test_an_answer_takes_one_forward_pass(name: str, how: str) -> None:
    model = model_of(name)
    ask = {"target": ANSWERS, **SHARING[how]}
    wf.explain(prompts_of(name), model, **ask)  # the model's plain value is checked once
    with calls_of(model) as calls:
        wf.explain(prompts_of(name), model, **ask)
    assert len(calls) == 1


def test_only_the_scores_of_answers_are_computed() -> None:
    """Right padding moves the shorter prompt's answer two columns to the left."""
    model = model_of("llama")
    with calls_of(model.lm_head) as calls:
        one = {key: value[:1] for key, value in prompts_of("llama").items()}
        wf.explain(one, model, target=ANSWERS[:1])
    assert {shape[1] for shape in calls} == {len(ANSWERS[0]) + 1}
    with calls_of(model.lm_head) as calls:
        wf.explain(prompts_of("llama"), model, target=ANSWERS)
    assert {shape[1] for shape in calls} == {len(ANSWERS[0]) + 1 + 2}


def test_large_batches_run_in_groups_of_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = tiny_inputs(model_of("llama"), (7, 5, 6), padding="left")
    answers = [[7, 9, 11], [12], [8, 10]]
    together = wf.explain(inputs, model_of("llama"), target=answers)
    monkeypatch.setattr(explain_batch, "token_budget", lambda module: Budget(32, 20, 8))
    with calls_of(model_of("llama")) as calls:
        apart = wf.explain(inputs, model_of("llama"), target=answers)
    assert [shape[0] for shape in calls][:1] == [2]
    assert apart.tokens == together.tokens
    assert apart.labels == together.labels
    for pair in together.maps:
        torch.testing.assert_close(apart.maps[pair], together.maps[pair], **EXACT)
    torch.testing.assert_close(apart.output, together.output, **EXACT)
    assert together.trust.verdict == apart.trust.verdict


# -- rows of several tokens ------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["libragrad", "gae", "gae streamed", "blend"])
@pytest.mark.parametrize("name", ["gpt2", "qwen2"])
def test_a_whole_answer_is_the_sum_of_its_logits(name: str, how: str) -> None:
    """The same sum, as a callable of the model's own output."""
    answer, prompt = ANSWERS[0], prompt_of(name, 0)
    text = torch.cat([prompt, torch.tensor([answer])], 1)
    places = torch.arange(len(answer)) + prompt.shape[1] - 1

    def summed(output: Any) -> Tensor:
        return output.logits[:, places, answer].sum(1)

    a = wf.explain(
        {"input_ids": prompt}, model_of(name), target=[answer], each="answer", **SHARING[how]
    )
    b = wf.explain({"input_ids": text}, model_of(name), target=summed, **SHARING[how])
    assert a.streams["generated"].spans == (((0, 3),),)
    assert a.maps["generated", "text"].shape == (1, 1, prompt.shape[1])
    torch.testing.assert_close(torch.cat([a.scores, a.streams["generated"].scores], 1), b.scores)
    torch.testing.assert_close(a.output, b.output)


@pytest.mark.parametrize("how", ["libragrad", "attn_lrp", "lrp_ah_ln", "gradient_x_input"])
@pytest.mark.parametrize("name", ["llama", "t5"])
def test_a_span_is_the_sum_of_its_tokens(name: str, how: str) -> None:
    """Gradients are linear in what they explain. The answers have 3 and 2 tokens."""
    ask = {"target": ANSWERS, **SHARING[how]}
    tokens = wf.explain(prompts_of(name), model_of(name), **ask)
    whole = wf.explain(prompts_of(name), model_of(name), each="answer", **ask)
    for pair, rows in tokens.maps.items():
        torch.testing.assert_close(whole.maps[pair].squeeze(1), rows.sum(1), **EXACT)
    torch.testing.assert_close(whole.output, tokens.output, **EXACT)
    if tokens.conservation is not None:
        assert whole.conservation is not None
        torch.testing.assert_close(whole.conservation, tokens.conservation, **EXACT)


class Words:
    """A tokenizer without sub-words: id i is the i-th word, with its white space."""

    def __init__(self, *words: str) -> None:
        self.words = words

    def decode(self, ids: list[int], skip_special_tokens: bool = False) -> str:
        words = [self.words[i] for i in ids]
        return "".join(w for w in words if not (skip_special_tokens and w.startswith("</")))


SENTENCES = (
    (("It", " is", " red", ".", " It", " is", " big", "!", "</s>"), [4, 9]),
    (("Pi", " is", " 3", ".", "14", ".", " Yes", ".\n\n", "No"), [6, 8, 9]),
    (("Dr", ".", " Ann", " J", ".", " Lee", " said", ' "', "Hi", '."', " Then"), [10, 11]),
    (("1", ".", " One", "\n", "2", ".", " Two"), [4, 7]),
    (("In", " 1945", ".", " It", " ended"), [3, 5]),
    (("\n\n", "Well", "...", " maybe", "?", "</s>"), [3, 6]),
    (("好", "。", "是", "的", "。"), [2, 5]),
)


@pytest.mark.parametrize(("words", "ends"), SENTENCES)
def test_sentences(words: tuple[str, ...], ends: list[int]) -> None:
    spans = split_answer(range(len(words)), Words(*words), "sentence")
    assert [end for _, end in spans] == ends
    assert [start for start, _ in spans] == [0, *ends[:-1]]


def test_lines() -> None:
    words = ("a", ".", " b", "\n", "\n", "c", "\nd", " ", "\n", "</s>")
    spans = split_answer(range(len(words)), Words(*words), "line")
    assert spans == ((0, 5), (5, 6), (6, 10))


def test_sentences_are_rows(tmp_path: Path) -> None:
    """Rows are sums of tokens; spans and probabilities are saved, reloaded and cut by sample."""
    from tests.wordpiece import wordpiece_of

    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    pieces = [*special, "a", "b", "c", ".", *(f"w{i}" for i in range(51))]
    tokenizer = wordpiece_of(pieces)
    answers = [[5, 6, 8, 7, 8], [6, 7]]  # "a b. c." and "b c"
    ask = {"target": answers, "processor": tokenizer, "method": "libragrad"}
    tokens = wf.explain(prompts_of("llama"), model_of("llama"), **ask)
    a = wf.explain(prompts_of("llama"), model_of("llama"), each="sentence", **ask)
    assert tokens.streams["generated"].spans is None
    assert a.streams["generated"].spans == (((0, 3), (3, 5)), ((0, 2),))
    rows = tokens.maps["generated", "text"]
    expected = torch.stack([rows[:, :3].sum(1), rows[:, 3:].sum(1)], 1)
    expected[1] = torch.stack([rows[1, :2].sum(0), torch.zeros_like(rows[1, 0])])
    torch.testing.assert_close(a.maps["generated", "text"], expected, **EXACT)
    assert a[1].maps["generated", "text"].shape == (1, 1, 5)
    assert a[1].maps["generated", "generated"].shape == (1, 1, 2)
    assert a[0].streams["generated"].spans == (((0, 3), (3, 5)),)
    a.save(tmp_path / "a.safetensors")
    b = wf.load(tmp_path / "a.safetensors")
    assert b.streams["generated"].spans == a.streams["generated"].spans
    found, again = a.streams["generated"].probabilities, b.streams["generated"].probabilities
    assert found is not None
    assert again is not None
    assert torch.equal(found, again)
    assert a.to_dict()["streams"]["generated"]["spans"] == [[[0, 3], [3, 5]], [[0, 2]]]


@pytest.mark.parametrize("each", ["token", "answer"])
@pytest.mark.parametrize("name", ["gpt2", "t5"])
def test_probabilities_of_the_answer(name: str, each: str) -> None:
    a = wf.explain(prompts_of(name), model_of(name), target=ANSWERS, each=each)
    found = a.streams["generated"].probabilities
    assert found is not None
    assert found.shape == (2, 3)
    assert found[1, 2] == 0  # padding
    for sample, answer in enumerate(ANSWERS):
        prompt, model = prompt_of(name, sample), model_of(name)
        if name in CONTINUERS:
            logits = model(torch.cat([prompt, torch.tensor([answer])], 1)).logits[0]
            logits = logits[prompt.shape[1] - 1 :]
        else:
            start = model.config.decoder_start_token_id
            logits = model(prompt, decoder_input_ids=torch.tensor([[start, *answer]])).logits[0]
        for place, token in enumerate(answer):
            expected = float(logits[place].detach().softmax(0)[token])
            assert float(found[sample, place]) == pytest.approx(expected, rel=1e-6)


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "unknown": ({"target": ANSWERS, "each": "word"}, "each='word' is unknown"),
    "no answer": ({"target": 7, "each": "answer"}, "divides a generated text"),
    "no tokenizer": ({"target": ANSWERS, "each": "line"}, "came without a tokenizer"),
}


@pytest.mark.parametrize("case", BAD)
def test_rows_that_cannot_be(case: str) -> None:
    ask, message = BAD[case]
    with pytest.raises(OptionError, match=message) as error:
        wf.explain(prompts_of("gpt2"), model_of("gpt2"), **ask)
    assert error.value.argument == "each"
    assert error.value.remedy


def test_a_token_that_the_model_does_not_have() -> None:
    with pytest.raises(TargetError, match=r"no token 60; the model has ids 0 to 59"):
        wf.explain(prompts_of("t5"), model_of("t5"), target=[[7, 60], [8, 9]])


# -- the tape --------------------------------------------------------------------------------------


def test_a_tape_knows_passes_by_their_settings_and_forgets_old_ones() -> None:
    tape, made = Tape(), []

    def record(*settings: Any) -> Any:
        return tape.record(settings, lambda: made.append(settings) or len(made))

    table = {"a": 1}
    assert record("gradients", table) == record("gradients", {"a": 1}) == 1
    assert record("gradients", {"a": 2}) == 2
    for number in range(MOST - 1):
        record("other", number)
    assert record("gradients", {"a": 2}) == 2
    assert record("gradients", table) == MOST + 2  # recorded again
    tape.clear()
    assert record("gradients", table) == MOST + 3

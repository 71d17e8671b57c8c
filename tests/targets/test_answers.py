"""Answers of decoder-only language models: written by the model, or given as text or ids."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers
from torch import Tensor

import whyformer as wf
from tests.chat_models import POSITIONS, chat_tokenizer, language_model
from tests.wordpiece import wordpiece_of
from whyformer.errors import InputError, OptionError, TargetError
from whyformer.models.families import families

PROMPT = "The capital of Germany is"
PROMPTS = [PROMPT, "Where is it?"]
METHOD = "gradient_x_input"
NAMES = ("gpt2", "llama", "qwen2")


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return chat_tokenizer()


def explain(inputs: Any, tokenizer: Any, name: str = "llama", **settings: Any) -> wf.Attribution:
    """An explanation with a method that is quick."""
    settings = {"method": METHOD, **settings}
    return wf.explain(inputs, language_model(name), tokenizer=tokenizer, **settings)


def next_token(prompt: list[int], index: int, name: str) -> Tensor:
    """(tokens,) the scores of the next token after the prompt, explained alone."""
    inputs = {"input_ids": torch.tensor([prompt])}
    return wf.explain(inputs, language_model(name), method=METHOD, target=index).scores[0]


def greedy(prompt: list[int], count: int, name: str) -> list[int]:
    """What the model writes: the likeliest token, one after the other, up to the end token."""
    model: Any = language_model(name)
    row: list[int] = []
    while len(row) < count and (not row or row[-1] != 2):
        logits = model(input_ids=torch.tensor([prompt + row])).logits[0, -1]
        row.append(int(logits.argmax()))
    return row


@pytest.mark.parametrize("name", NAMES)
def test_the_model_writes_and_every_token_is_explained(tokenizer: Any, name: str) -> None:
    a = explain(PROMPTS, tokenizer, name, max_new_tokens=3)
    generated = a.streams["generated"]
    for sample, prompt in enumerate(PROMPTS):
        ids = tokenizer(prompt)["input_ids"]
        row = greedy(ids, 3, name)
        assert generated.said is not None
        assert sum(map(bool, generated.said[sample])) == len(row)
        real = a.streams["text"].mask[sample]
        for place, index in enumerate(row):
            expected = next_token(ids + row[:place], index, name)
            found = torch.cat(
                [
                    a.maps["generated", "text"][sample, place, real],
                    a.maps["generated", "generated"][sample, place, :place],
                ]
            )
            torch.testing.assert_close(found, expected, rtol=1e-8, atol=1e-10)
    note = "the answer of samples 0, 1 was cut after 3 tokens (max_new_tokens)"
    assert note in a.provenance["notes"]


@pytest.mark.parametrize("name", NAMES)
def test_a_batch_of_prompts_equals_its_prompts_alone(tokenizer: Any, name: str) -> None:
    both = explain(PROMPTS, tokenizer, name, max_new_tokens=3)
    for sample, prompt in enumerate(PROMPTS):
        alone, one = explain(prompt, tokenizer, name, max_new_tokens=3), both[sample]
        assert one.labels == alone.labels
        torch.testing.assert_close(one.output, alone.output)
        for pair, expected in alone.maps.items():
            torch.testing.assert_close(one.maps[pair], expected, rtol=1e-8, atol=1e-10)


def test_ids_and_text_are_written_alike(tokenizer: Any) -> None:
    ids = torch.tensor(tokenizer([PROMPT])["input_ids"])
    text = explain(PROMPT, tokenizer, max_new_tokens=2)
    for inputs in (ids, {"input_ids": ids}):
        assert torch.equal(explain(inputs, tokenizer, max_new_tokens=2).scores, text.scores)


def test_an_answer_ends_with_the_end_token(tokenizer: Any) -> None:
    model: Any = language_model("llama")
    ids = tokenizer(PROMPT)["input_ids"]
    second = greedy(ids, 2, "llama")[1]
    model.generation_config.eos_token_id = [2, second]  # as Llama 3 has two
    try:
        a = explain(PROMPT, tokenizer, max_new_tokens=6)
    finally:
        model.generation_config.eos_token_id = 2
    assert a.streams["generated"].scores.shape[1] == 2
    assert not any("cut" in note for note in a.provenance["notes"])


def test_how_long_an_answer_is(tokenizer: Any) -> None:
    """The user's number, else the generation config's, else 20; never more than fits."""
    model: Any = language_model("llama")

    def length(prompt: str = PROMPT, **settings: Any) -> int:
        return explain(prompt, tokenizer, **settings).streams["generated"].scores.shape[1]

    assert length(max_new_tokens=1) == 1
    assert length() == 20
    model.generation_config.max_new_tokens = 2
    try:
        assert length() == 2
    finally:
        model.generation_config.max_new_tokens = None
    model.generation_config.max_length = 8
    try:
        assert length() == 3
    finally:
        model.generation_config.max_length = None
    ids = tokenizer("a")["input_ids"] * (POSITIONS - 2)
    found = wf.explain({"input_ids": torch.tensor([ids])}, model, method=METHOD)
    assert found.streams["generated"].scores.shape[1] == 2


def test_a_model_that_samples_is_seeded(tokenizer: Any) -> None:
    model: Any = language_model("llama")
    model.generation_config.do_sample = True
    torch.manual_seed(5)
    state = torch.get_rng_state()
    try:
        said = [
            explain(PROMPT, tokenizer, max_new_tokens=6, seed=seed).streams["generated"].said
            for seed in (1, 1, 2, None, None)
        ]
    finally:
        model.generation_config.do_sample = None
    assert said[0] == said[1]
    assert said[0] != said[2]
    assert said[3] == said[4]
    assert torch.equal(torch.get_rng_state(), state)


def test_only_the_next_token(tokenizer: Any) -> None:
    """An integer is the id of the next token, and token(-1) the likeliest."""
    ids = tokenizer(PROMPT)["input_ids"]
    best = greedy(ids, 1, "llama")[0]
    by_position = explain(PROMPT, tokenizer, target=wf.token(-1))
    by_id = explain(PROMPT, tokenizer, target=best)
    assert by_position.target.tolist() == by_id.target.tolist() == [best]
    assert torch.equal(by_position.scores, by_id.scores)
    assert "generated" not in by_id.streams


def test_a_given_answer_and_its_leading_space(tokenizer: Any) -> None:
    spaced = explain(PROMPT, tokenizer, target=" Berlin")
    bare = explain(PROMPT, tokenizer, target="Berlin")
    ids = tokenizer(PROMPT)["input_ids"]
    (berlin,) = tokenizer.encode(" Berlin")
    assert spaced.streams["generated"].said == (("Berlin",),)
    torch.testing.assert_close(spaced.scores[0], next_token(ids, berlin, "llama"))
    pieces = tokenizer.encode("Berlin")
    assert len(pieces) > 1
    expected = torch.stack(
        [next_token(ids + pieces[:t], piece, "llama")[: len(ids)] for t, piece in enumerate(pieces)]
    )
    torch.testing.assert_close(bare.maps["generated", "text"][0], expected)
    assert spaced.output != bare.output


def test_an_answer_as_ids(tokenizer: Any) -> None:
    row = tokenizer.encode(" Berlin.")
    text = explain(PROMPT, tokenizer, target=" Berlin.")
    for target in (row, torch.tensor(row), [row], torch.tensor([row])):
        assert torch.equal(explain(PROMPT, tokenizer, target=target).scores, text.scores)


def test_an_answer_may_begin_as_its_prompt_does(tokenizer: Any) -> None:
    """It is a given answer: nothing of it is taken for the prompt."""
    a = explain("Berlin", tokenizer, target="Berlin Berlin")
    ids = tokenizer.encode("Berlin Berlin")
    assert a.streams["generated"].scores.shape[1] == len(ids)


def test_one_answer_per_prompt(tokenizer: Any) -> None:
    answers = [" Berlin", " It is in Paris.\n"]
    both = explain(PROMPTS, tokenizer, target=answers)
    for sample, (prompt, answer) in enumerate(zip(PROMPTS, answers, strict=True)):
        alone = explain(prompt, tokenizer, target=answer)
        for pair, expected in alone.maps.items():
            torch.testing.assert_close(both[sample].maps[pair], expected, rtol=1e-8, atol=1e-10)
    assert both.streams["generated"].said is not None
    assert both.streams["generated"].said[1][-1] == "⏎"


def test_a_hidden_token_keeps_its_place() -> None:
    """A zero between the ones of a mask hides a token; it is not padding."""
    model = language_model("gpt2")
    inputs = {
        "input_ids": torch.tensor([[9, 8, 7, 6]]),
        "attention_mask": torch.tensor([[1, 0, 1, 1]]),
    }
    found = wf.explain(inputs, model, method=METHOD, target=[[5]])
    expected = wf.explain(inputs, model, method=METHOD, target=5)
    torch.testing.assert_close(found.scores, expected.scores)


def test_compare_writes_once(tokenizer: Any) -> None:
    both = wf.compare(
        PROMPT,
        language_model("llama"),
        methods=[METHOD, "rollout"],
        processor=tokenizer,
        max_new_tokens=2,
    )
    assert {one.labels for one in both} == {explain(PROMPT, tokenizer, max_new_tokens=2).labels}


def test_a_series_of_prompts(tokenizer: Any) -> None:
    found = list(explain(iter(PROMPTS), tokenizer, max_new_tokens=2))
    alone = [explain(prompt, tokenizer, max_new_tokens=2) for prompt in PROMPTS]
    assert [one.labels for one in found] == [one.labels for one in alone]


# -- other tokenizers -------------------------------------------------------------------------


def test_sentencepiece_answers_keep_their_spaces(sentencepiece: Any) -> None:
    """Such tokenizers write a space before the first word of a text that stands alone."""
    model = families["llama"].tiny(vocab_size=len(sentencepiece)).double()
    prompt = sentencepiece("the acting is", add_special_tokens=False)["input_ids"]
    found = {}
    for answer in (" film", "film"):
        a = wf.explain({"input_ids": [prompt]}, model, tokenizer=sentencepiece, target=answer)
        found[answer] = a.output.item()
        assert "".join(a.streams["generated"].said[0]).strip("␣") == "film"  # type: ignore[index]
    assert found[" film"] != found["film"]


def test_wordpieces_hold_no_spaces() -> None:
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "city", "is", "ber", "##lin"]
    tokenizer = wordpiece_of(pieces, lower=True)
    model = families["llama"].tiny(vocab_size=10).double()
    prompt = {"input_ids": torch.tensor([[5, 6, 7]])}
    rows = [
        wf.explain(prompt, model, tokenizer=tokenizer, target=text).scores
        for text in ("Berlin", " berlin")
    ]
    assert torch.equal(*rows)


# -- errors -----------------------------------------------------------------------------------


def test_a_text_that_the_tokenizer_cannot_write(sentencepiece: Any) -> None:
    tokenizer = wordpiece_of(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "city"])
    model = families["llama"].tiny(vocab_size=60).double()
    with pytest.raises(TargetError, match=r"cannot write .*'the zebra': it reads it as the \[UNK"):
        wf.explain({"input_ids": [[5, 6]]}, model, tokenizer=tokenizer, target="the zebra")
    tokenizer.backend_tokenizer.normalizer = None
    from tokenizers import normalizers

    tokenizer.backend_tokenizer.normalizer = normalizers.Replace("!", "")
    with pytest.raises(TargetError, match=r"cannot write .*'the city!': its tokens would be"):
        wf.explain({"input_ids": [[5, 6]]}, model, tokenizer=tokenizer, target="the city!")


BAD: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "empty": ({"target": ""}, TargetError, "empty text.*target=None"),
    "too many": ({"target": ["a", "b"]}, TargetError, "2 answers .* 1 samples.*one per sample"),
    "surrogate": ({"target": "a\ud800"}, InputError, "no character of UTF-8"),
    "answer too long": (
        {"target": "a" * POSITIONS},
        InputError,
        rf"prompt of sample 0 has 5 tokens and its answer {POSITIONS}, {POSITIONS + 5} in all; the"
        rf" model takes {POSITIONS}\. Shorten",
    ),
    "too many new tokens": (
        {"max_new_tokens": POSITIONS},
        InputError,
        rf"does not fit\. Pass max_new_tokens={POSITIONS - 5} or less",
    ),
    "no new tokens": ({"max_new_tokens": 0}, OptionError, "max_new_tokens=0 is not an integer"),
    "not a number": ({"max_new_tokens": "3"}, OptionError, "max_new_tokens='3' is not an integer"),
    "target and length": (
        {"max_new_tokens": 3, "target": 5},
        OptionError,
        "the target or the inputs say what to explain.*Leave out",
    ),
    "seed without effect": ({"seed": 3, "target": 5}, OptionError, "seed=3 has no effect"),
    "bad seed": ({"seed": -1}, OptionError, "seed=-1 is not an integer of at least 0"),
    "kept": ({"keep": "states"}, OptionError, r"keep=.*target=wf.token"),
}


@pytest.mark.parametrize("case", BAD)
def test_errors(tokenizer: Any, case: str) -> None:
    settings, kind, message = BAD[case]
    with pytest.raises(kind, match=message):
        explain(PROMPT, tokenizer, **settings)


def test_no_room_for_an_answer() -> None:
    ids = torch.full((1, POSITIONS), 9)
    with pytest.raises(InputError, match=rf"{POSITIONS} tokens.*no room for an answer"):
        wf.explain({"input_ids": ids}, language_model("gpt2"), method=METHOD)


def test_a_classifier_does_not_write() -> None:
    with pytest.raises(OptionError, match=r"max_new_tokens=3 is for a model that writes"):
        wf.explain("a gripping film", max_new_tokens=3)


def test_text_without_a_tokenizer() -> None:
    with pytest.raises(TargetError, match=r"target is text .* without a tokenizer.*token ids"):
        wf.explain({"input_ids": [[5, 6]]}, language_model("llama"), target="a")


def test_arguments_about_the_prompt_alone_are_refused() -> None:
    inputs = {"input_ids": torch.tensor([[5, 6]]), "position_ids": torch.tensor([[3, 4]])}
    with pytest.raises(InputError, match=r"'position_ids' is about the tokens of the prompt"):
        wf.explain(inputs, language_model("llama"), method=METHOD)
    wf.explain(inputs, language_model("llama"), method=METHOD, target=wf.token(-1))


def test_several_texts_per_prompt_are_refused(tokenizer: Any) -> None:
    model: Any = language_model("llama")
    model.generation_config.num_return_sequences = 2
    try:
        with pytest.raises(TargetError, match=r"asks for 2 texts .*num_return_sequences"):
            explain(PROMPT, tokenizer, max_new_tokens=2)
    finally:
        model.generation_config.num_return_sequences = None


def test_a_failure_of_generate_is_named(tokenizer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(**arguments: Any) -> None:
        raise ValueError("no logits today")

    monkeypatch.setattr(language_model("llama"), "generate", fail)
    with pytest.raises(TargetError, match=r"could not generate .* no logits today.*wf.token\(-1\)"):
        explain(PROMPT, tokenizer, max_new_tokens=3)
    a = explain(PROMPT, tokenizer)
    assert torch.equal(a.scores, explain(PROMPT, tokenizer, target=wf.token(-1)).scores)
    assert any("next token is explained" in note for note in a.provenance["notes"])


def test_a_model_that_reads_to_the_right_is_refused() -> None:
    """Teacher forcing would show the answer to the tokens that predict it."""
    torch.manual_seed(0)
    config = transformers.XLMConfig(vocab_size=60, emb_dim=16, n_layers=2, n_heads=4, init_std=0.5)
    model = transformers.XLMWithLMHeadModel(config).double().eval()
    inputs = {"input_ids": torch.tensor([[5, 6, 7]])}
    with pytest.raises(TargetError, match=r"reads what comes after a token.*wf.token\(-1\)"):
        wf.explain(inputs, model, target=[8, 9])
    a = wf.explain(inputs, model, method=METHOD)
    assert torch.equal(
        a.scores, wf.explain(inputs, model, method=METHOD, target=wf.token(-1)).scores
    )
    assert any("reads what comes after a token" in note for note in a.provenance["notes"])

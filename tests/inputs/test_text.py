"""Texts and pairs become ids, masks and types; unreadable texts are refused with their index."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from whyformer.errors import InputError
from whyformer.inputs.prepare import prepare
from whyformer.inputs.sequence import TokenRows, contents

Build = Callable[..., nn.Module]


def test_one_text(bert: nn.Module, wordpiece: Any) -> None:
    prepared = prepare("a gripping film", bert, wordpiece)
    assert prepared.arguments["input_ids"].tolist() == [[2, 5, 6, 7, 8, 3]]
    assert prepared.arguments["attention_mask"].tolist() == [[1] * 6]
    assert (prepared.size, prepared.stream, prepared.carrier) == (1, "text", "input_ids")
    assert prepared.tokens == (("[CLS]", "a", "grip", "ping", "film", "[SEP]"),)
    assert prepared.word_ids == ((None, 0, 1, 1, 2, None),)
    assert prepared.tokenizer is wordpiece
    assert prepared.layout is None
    assert prepared.notes == ()


@pytest.mark.parametrize("kind", [list, tuple])
def test_several_texts_are_padded_behind(bert: nn.Module, wordpiece: Any, kind: type) -> None:
    prepared = prepare(kind(["film", "a good film", "bad"]), bert, wordpiece)
    assert prepared.mask is not None
    assert prepared.mask.sum(1).tolist() == [3, 5, 3]
    assert prepared.arguments["input_ids"][0].tolist() == [2, 8, 3, 0, 0]
    assert prepared.content[0] == prepare("film", bert, wordpiece).content[0]
    assert len(set(prepared.content)) == 3


def test_a_tuple_of_two_strings_is_a_pair_and_a_list_is_a_batch(
    bert: nn.Module, wordpiece: Any
) -> None:
    pair = prepare(("good film", "bad plot"), bert, wordpiece)
    assert pair.size == 1
    assert pair.arguments["token_type_ids"].tolist() == [[0, 0, 0, 0, 1, 1, 1]]
    assert prepare(["good film", "bad plot"], bert, wordpiece).size == 2


@pytest.mark.parametrize("kind", [tuple, list])
def test_a_list_of_pairs(bert: nn.Module, wordpiece: Any, kind: type) -> None:
    pairs = [kind(["film", "good"]), kind(["a film", "bad plot"])]
    prepared = prepare(pairs, bert, wordpiece)
    assert prepared.size == 2
    assert prepared.arguments["token_type_ids"].tolist() == [
        [0, 0, 0, 1, 1, 0, 0],
        [0, 0, 0, 0, 1, 1, 1],
    ]


def test_types_only_where_the_model_has_them(build: Build, wordpiece: Any) -> None:
    roberta = build("RobertaForSequenceClassification", type_vocab_size=1, pad_token_id=0)
    assert "token_type_ids" not in prepare(("film", "good"), roberta, wordpiece).arguments
    distilbert = build("DistilBertForSequenceClassification", dim=16, n_layers=1, n_heads=2)
    assert set(prepare("film", distilbert, wordpiece).arguments) == {"input_ids", "attention_mask"}


def test_text_that_ends_like_a_file_is_text_to_a_text_model(
    bert: nn.Module, wordpiece: Any
) -> None:
    assert prepare("film.png", bert, wordpiece).stream == "text"
    assert prepare(("a.png", "b.png"), bert, wordpiece).size == 1


def test_the_tokenizer_is_left_as_it_was(bert: nn.Module, wordpiece: Any) -> None:
    wordpiece.backend_tokenizer.enable_truncation(4)
    wordpiece.backend_tokenizer.enable_padding(length=32)
    wordpiece.truncation_side = "left"
    before = wordpiece.backend_tokenizer.truncation, wordpiece.backend_tokenizer.padding
    prepared = prepare(["a good film a good film", "bad"], bert, wordpiece)
    assert prepared.arguments["input_ids"].shape == (2, 8)
    assert (wordpiece.backend_tokenizer.truncation, wordpiece.backend_tokenizer.padding) == before
    assert wordpiece.truncation_side == "left"


def test_a_tokenizer_without_padding_token(gpt2: nn.Module, byte_bpe: Any) -> None:
    prepared = prepare(["a film", "a film a film"], gpt2, byte_bpe)
    assert byte_bpe.pad_token is None
    assert prepared.mask is not None
    assert prepared.mask[0].logical_not().any()
    assert prepared.arguments["use_cache"] is False


def test_decoder_classifier_without_pad_id_names_the_one_to_set(
    build: Build, byte_bpe: Any
) -> None:
    module = build("GPT2ForSequenceClassification", vocab_size=320, pad_token_id=None)
    with pytest.raises(InputError, match=r"Set model\.config\.pad_token_id = 0"):
        prepare(["a film", "bad"], module, byte_bpe)
    assert prepare("a film", module, byte_bpe).size == 1


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ("", "the text is empty"),
        (" \n\t ", r"the text is only white space \(' \\n\\t '\)"),
        ([], "the inputs are an empty list"),
        ((), "the inputs are an empty tuple"),
        (["film", ""], "the text at index 1 is empty"),
        (("film", " "), "only white space"),
        ([("film", "good"), ("film", "")], "the text at index 1 is empty"),
        (["film", ("film", "good")], "mix single texts and"),
        (["film", 3], "element 1 of the inputs is of type int"),
        (None, "of type NoneType"),
        (3.5, "of type float"),
        (b"film", "of type bytes"),
        ([torch.ones(1, 2)], "Stack the tensors"),
        ("[CLS] [SEP]", r"sample 0 has only special tokens, \[CLS\] \[CLS\] \[SEP\] \[SEP\]"),
    ],
)
def test_bad_text(bert: nn.Module, wordpiece: Any, inputs: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        prepare(inputs, bert, wordpiece)


def test_text_without_a_tokenizer(bert: nn.Module) -> None:
    with pytest.raises(InputError, match=r"BertForSequenceClassification.*processor="):
        prepare("film", bert)


def test_an_image_for_a_text_model(bert: nn.Module, wordpiece: Any, picture: Any) -> None:
    with pytest.raises(InputError, match=r"the inputs are image .* reads text"):
        prepare(picture, bert, wordpiece)


def test_something_that_is_no_processor(bert: nn.Module) -> None:
    with pytest.raises(InputError, match="processor= is of type int"):
        prepare("film", bert, 3)
    with pytest.raises(InputError, match="processor='nowhere' is not a folder"):
        prepare("film", bert, "nowhere")


def test_a_tokenizer_of_another_model(build: Build, wordpiece: Any) -> None:
    module = build("BertForSequenceClassification", vocab_size=8)
    with pytest.raises(InputError, match=r"'input_ids' has 1 ids outside .* 0\.\.7.* is 8"):
        prepare("film", module, wordpiece)


@pytest.mark.parametrize(
    ("name", "settings", "limit"),
    [
        ("BertForSequenceClassification", {}, 40),
        ("RobertaForSequenceClassification", {"pad_token_id": 1, "type_vocab_size": 1}, 38),
        ("MPNetForSequenceClassification", {"pad_token_id": 1}, 38),
    ],
)
def test_too_long(
    build: Build, wordpiece: Any, name: str, settings: dict[str, Any], limit: int
) -> None:
    module = build(name, **settings)
    text = "film " * 50
    message = f"the text has 52 tokens, the model takes {limit}. Pass truncation=True to keep the"
    with pytest.raises(InputError, match=message) as refused:
        prepare(text, module, wordpiece)
    assert refused.value.argument == "truncation"
    assert refused.value.message == f"the text has 52 tokens, the model takes {limit}"
    prepared = prepare([text, "good"], module, wordpiece, truncation=True)
    assert prepared.arguments["input_ids"].shape == (2, limit)
    assert prepared.arguments["input_ids"][0, -1] == wordpiece.sep_token_id
    assert prepared.notes == (f"1 of 2 texts cut to {limit} tokens, the longest had 52",)
    module(**prepared.arguments)  # the limit is the model's own: nothing overflows
    assert wordpiece.backend_tokenizer.truncation is None


def test_too_long_for_a_decoder(gpt2: nn.Module, byte_bpe: Any) -> None:
    with pytest.raises(InputError, match="the model takes 40"):
        prepare("film " * 60, gpt2, byte_bpe)


def test_truncation_keeps_the_beginning(bert: nn.Module, wordpiece: Any) -> None:
    wordpiece.truncation_side = "left"
    prepared = prepare("good " + "film " * 50, bert, wordpiece, truncation=True)
    assert prepared.tokens is not None
    assert prepared.tokens[0][:3] == ("[CLS]", "good", "film")


def test_text_for_a_module_of_the_users_own(wordpiece: Any) -> None:
    class Masked(nn.Module):
        def forward(self, words: Tensor, src_key_padding_mask: Tensor) -> Tensor:
            return words

    class Bare(nn.Module):
        def forward(self, words: Tensor) -> Tensor:
            return words

    prepared = prepare(["a film", "good"], Masked(), wordpiece)
    assert prepared.carrier == "words"
    assert prepared.arguments["src_key_padding_mask"].tolist() == [
        [False] * 4,
        [False] * 3 + [True],
    ]
    assert prepare(["film", "good"], Bare(), wordpiece).size == 2
    with pytest.raises(InputError, match="3 to 4 tokens and the forward of Bare takes no mask"):
        prepare(["a film", "good"], Bare(), wordpiece)


def test_baseline_says_nothing(bert: nn.Module, wordpiece: Any) -> None:
    prepared = prepare(["a film", "good"], bert, wordpiece)
    mask = wordpiece.mask_token_id
    assert prepared.baseline_arguments["input_ids"].tolist() == [
        [2, mask, mask, 3],
        [2, mask, 3, 0],
    ]
    others = set(prepared.arguments) - {"input_ids"}
    assert all(prepared.baseline_arguments[n] is prepared.arguments[n] for n in others)


def test_baseline_avoids_an_id_that_the_model_reads_as_padding(build: Build, byte_bpe: Any) -> None:
    ids = torch.tensor([[5, 6, 7]])
    roberta = build("RobertaForMaskedLM", pad_token_id=1, eos_token_id=2)
    assert prepare(ids, roberta).baseline_arguments["input_ids"].tolist() == [[2, 2, 2]]
    reward = build("GPT2ForSequenceClassification", vocab_size=320, pad_token_id=0, eos_token_id=0)
    assert prepare(ids, reward, byte_bpe).baseline_arguments["input_ids"].tolist() == [[1, 1, 1]]


def test_baseline_never_leaves_the_vocabulary(build: Build) -> None:
    module = build("GPT2LMHeadModel", eos_token_id=50256, bos_token_id=50256)
    assert prepare(torch.tensor([[5]]), module).baseline_arguments["input_ids"].tolist() == [[0]]


def test_two_threads_share_a_tokenizer(bert: nn.Module, wordpiece: Any) -> None:
    failures: list[BaseException] = []

    def run(text: str, length: int) -> None:
        try:
            for _ in range(20):
                prepared = prepare(text, bert, wordpiece, truncation=True)
                assert prepared.arguments["input_ids"].shape[1] == length
        except BaseException as error:
            failures.append(error)

    threads = [
        threading.Thread(target=run, args=arguments)
        for arguments in (("film " * 50, 40), ("good film", 4))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_rows_of_tokens_have_the_content_of_their_tensors(dtype: torch.dtype) -> None:
    ids = torch.tensor([[5, 3_000_000_000 % 2**31, 7], [1, 2, 0]], dtype=dtype)
    mask = torch.tensor([[True, True, True], [True, True, False]])
    assert TokenRows(ids.tolist(), mask.tolist()).contents() == contents(ids, mask)

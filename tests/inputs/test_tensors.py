"""Tensors and mappings are passed to forward, or refused with the name of the argument."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import pytest
import torch
from torch import Tensor, nn

from whyformer.errors import InputError
from whyformer.inputs.prepare import prepare

Build = Callable[..., nn.Module]
IDS = torch.tensor([[2, 5, 8, 3], [2, 9, 3, 0]])
MASK = torch.tensor([[1, 1, 1, 1], [1, 1, 1, 0]])


class Encoder(nn.Module):
    """A module that transformers does not know."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, src: Tensor, scale: float = 1.0, key_padding_mask: Any = None) -> Tensor:
        return self.layer(src) * scale


def test_ids_of_a_batch_and_of_one_text(bert: nn.Module) -> None:
    prepared = prepare(IDS, bert)
    assert torch.equal(prepared.arguments["input_ids"], IDS)
    assert prepared.mask is not None
    assert prepared.mask.all()  # padding is never guessed
    assert set(prepared.arguments) == {"input_ids"}
    assert prepared.tokens == (("2", "5", "8", "3"), ("2", "9", "3", "0"))
    assert prepare(IDS[0], bert).arguments["input_ids"].tolist() == [[2, 5, 8, 3]]
    assert prepare(IDS.numpy(), bert).arguments["input_ids"].tolist() == IDS.tolist()
    assert prepare(IDS.int(), bert).arguments["input_ids"].dtype == torch.long


def test_tokens_are_readable_where_a_tokenizer_is_known(bert: nn.Module, wordpiece: Any) -> None:
    prepared = prepare({"input_ids": IDS, "attention_mask": MASK}, bert, wordpiece)
    assert prepared.tokens == (("[CLS]", "a", "film", "[SEP]"), ("[CLS]", ".", "[SEP]", "[PAD]"))
    assert prepared.word_ids == ((None, 0, 1, None), (None, 0, None, None))


def test_embeddings(bert: nn.Module) -> None:
    states = torch.randn(2, 5, 16)
    prepared = prepare(states, bert)
    assert prepared.carrier == "inputs_embeds"
    assert not prepared.baseline_arguments["inputs_embeds"].any()
    assert prepared.tokens is None
    assert prepared.size == 2


def test_what_a_tokenizer_returns_goes_straight_in(gpt2: nn.Module, byte_bpe: Any) -> None:
    encoding = byte_bpe(["a gripping film, isn't it"], return_tensors="pt")
    from_encoding = prepare(encoding, gpt2, byte_bpe)
    from_text = prepare("a gripping film, isn't it", gpt2, byte_bpe)
    assert from_encoding.tokens == from_text.tokens
    assert from_encoding.word_ids == from_text.word_ids
    assert from_encoding.content == from_text.content


def test_left_padded_encodings_keep_their_words(gpt2: nn.Module, byte_bpe: Any) -> None:
    byte_bpe.pad_token = "<|endoftext|>"
    byte_bpe.padding_side = "left"
    encoding = byte_bpe(["film", "a gripping film"], padding=True, return_tensors="pt")
    prepared = prepare(encoding, gpt2, byte_bpe)
    alone = prepare("film", gpt2, byte_bpe)
    assert prepared.layout is not None
    assert prepared.tokens is not None
    assert alone.tokens is not None
    assert prepared.word_ids is not None
    assert alone.word_ids is not None
    count = len(alone.tokens[0])
    assert prepared.tokens[0][:count] == alone.tokens[0]
    assert prepared.word_ids[0][:count] == alone.word_ids[0]


def test_lists_are_padded_to_one_length(bert: nn.Module) -> None:
    prepared = prepare({"input_ids": [[2, 5, 3], [2, 5, 8, 9, 3]]}, bert)
    assert prepared.arguments["input_ids"].tolist() == [[2, 5, 3, 0, 0], [2, 5, 8, 9, 3]]
    assert prepared.mask is not None
    assert prepared.mask.sum(1).tolist() == [3, 5]
    single = prepare({"input_ids": [2, 5, 3], "attention_mask": [1, 1, 1]}, bert)
    assert single.arguments["attention_mask"].shape == (1, 3)
    assert prepare({"input_ids": numpy.array([[2, 5, 3]])}, bert).size == 1


def test_by_products_of_tokenizers_are_left_out(build: Build) -> None:
    module = build("DistilBertForSequenceClassification", dim=16, n_layers=1, n_heads=2)
    inputs = {"input_ids": IDS, "token_type_ids": torch.zeros_like(IDS), "labels": None}
    assert set(prepare(inputs, module).arguments) == {"input_ids"}


def test_switches_pass(bert: nn.Module) -> None:
    prepared = prepare({"input_ids": IDS, "output_attentions": True}, bert)
    assert prepared.arguments["output_attentions"] is True


def test_the_users_tensor_stays_out_of_the_graph(bert: nn.Module) -> None:
    states = torch.randn(1, 3, 16, requires_grad=True)
    prepared = prepare({"inputs_embeds": states}, bert)
    assert not prepared.arguments["inputs_embeds"].requires_grad
    assert states.requires_grad


def test_floats_take_the_precision_of_the_model(bert: nn.Module) -> None:
    prepared = prepare(torch.randn(1, 3, 16), bert.double())
    assert prepared.arguments["inputs_embeds"].dtype == torch.float64


def test_a_module_of_the_users_own() -> None:
    states = torch.randn(2, 3, 4)
    prepared = prepare(states, Encoder())
    assert torch.equal(prepared.arguments["src"], states)
    assert (prepared.stream, prepared.size, prepared.mask) == ("tokens", 2, None)
    padding = torch.tensor([[False, False, True], [False, False, False]])
    masked = prepare({"src": states, "key_padding_mask": padding, "scale": 2.0}, Encoder())
    assert masked.mask is not None
    assert masked.mask.tolist() == (~padding).tolist()
    assert masked.arguments["scale"] == 2.0
    moved = prepare({"src": states, "key_padding_mask": padding.flip(1)}, Encoder())
    assert moved.layout is not None
    assert torch.equal(moved.arguments["src"][0, :2], states[0, 1:])


def test_the_user_names_the_argument_that_carries_tokens() -> None:
    class Two(nn.Module):
        def forward(self, side: Tensor, words: Tensor) -> Tensor:
            return side

    inputs = {"side": torch.randn(3, 2), "words": torch.randn(1, 5, 2)}
    assert prepare(inputs, Two()).size == 3
    assert prepare(inputs, Two(), carrier="words").size == 1
    with pytest.raises(InputError, match="takes no argument 'tokens'; it takes side, words"):
        prepare(inputs, Two(), carrier="tokens")
    with pytest.raises(InputError, match="the mapping has no 'words'"):
        prepare({"side": torch.randn(3, 2)}, Two(), carrier="words")


@pytest.mark.parametrize("batch_first", [True, False])
def test_torch_encoders_count_samples_on_their_own_axis(batch_first: bool) -> None:
    layer = nn.TransformerEncoderLayer(4, 2, 8, batch_first=batch_first)
    module = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
    states = torch.randn((2, 5, 4) if batch_first else (5, 2, 4))
    padding = torch.zeros(2, 5, dtype=torch.bool)
    padding[1, 3:] = True
    prepared = prepare({"src": states, "src_key_padding_mask": padding}, module)
    assert prepared.size == 2
    assert len(prepared.content) == 2
    assert prepared.mask is not None
    assert prepared.mask.sum(1).tolist() == [5, 3]


def test_forward_without_names() -> None:
    class Anything(nn.Module):
        def forward(self, *arguments: Any) -> Any:
            return arguments

    with pytest.raises(InputError, match="forward of Anything names no arguments"):
        prepare(torch.ones(1, 2), Anything())


def test_content_is_the_same_in_any_company_and_precision(bert: nn.Module) -> None:
    alone = prepare(IDS[1, :3], bert).content[0]
    assert prepare({"input_ids": IDS, "attention_mask": MASK}, bert).content[1] == alone
    assert prepare(IDS[0], bert).content[0] != alone
    states = torch.randn(1, 3, 16)
    assert prepare(states, bert).content == prepare(states, bert.double()).content


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({}, "the mapping is empty"),
        ({"attention_mask": MASK}, "lacks 'input_ids' or 'inputs_embeds'"),
        ({"input_ids": None, "attention_mask": MASK}, "lacks 'input_ids'"),
        (
            {"input_ids": IDS, "atention_mask": MASK},
            r"has 'atention_mask', which the forward of BertForSequenceClassification does not"
            r" take; it takes input_ids, attention_mask",
        ),
        ({"input_ids": IDS, "inputs_embeds": IDS.float()}, "has both 'input_ids'"),
        ({"input_ids": "film"}, "'input_ids' is of type str"),
        ({"input_ids": [["film"]]}, "'input_ids' cannot be made a tensor"),
        ({"input_ids": IDS, "attention_mask": MASK[:1]}, "'attention_mask' has 1 samples .* has 2"),
        ({"input_ids": IDS, "attention_mask": MASK[:, :2]}, r"'attention_mask' has shape \(2, 2\)"),
        ({"input_ids": IDS, "attention_mask": MASK * 0}, "hides every token of sample 0"),
        ({"input_ids": IDS.unsqueeze(0)}, r"'input_ids' .* shape \(1, 2, 4\); expected integers"),
        ({"input_ids": IDS.float()}, "'input_ids' is a tensor of torch.float32"),
        ({"inputs_embeds": IDS}, "'inputs_embeds' .* expected floating numbers of rank 3"),
        ({"inputs_embeds": torch.ones(1, 2, 8)}, r"\(1, 2, 8\), the model's .* have 16 numbers"),
        ({"input_ids": IDS[:, :0]}, r"'input_ids' is empty: its shape is \(2, 0\)"),
        ({"input_ids": IDS - 3}, r"'input_ids' has 3 ids outside .* 0\.\.59, the first is -1"),
        ({"input_ids": IDS, "token_type_ids": MASK * 2}, r"'token_type_ids' has 7 ids outside"),
        ({"inputs_embeds": torch.full((1, 2, 16), float("nan"))}, "has 32 NaN or infinite"),
        (torch.ones(1, 2, 3, dtype=torch.long), r"shape \(1, 2, 3\) was given to a text model"),
        (torch.tensor(3), r"integers of rank 2 \(batch, tokens\), or rank 1"),
        (torch.ones(2, 3), "torch.float32 .* expected token ids"),
        (torch.ones(2, 3, dtype=torch.bool), "torch.bool"),
        (numpy.array(["film"]), "the input cannot be made a tensor"),
        (torch.ones(1, 50, dtype=torch.long), "'input_ids' has 50 tokens, the model takes 40"),
    ],
)
def test_bad_tensors(bert: nn.Module, inputs: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        prepare(inputs, bert)


def test_a_mapping_is_never_truncated(bert: nn.Module) -> None:
    with pytest.raises(InputError, match="'input_ids' has 50 tokens, the model takes 40"):
        prepare({"input_ids": torch.ones(1, 50, dtype=torch.long)}, bert, truncation=True)


def test_only_special_tokens(bert: nn.Module, wordpiece: Any) -> None:
    inputs = {"input_ids": torch.tensor([[2, 8, 3], [2, 3, 0]]), "attention_mask": MASK[:, 1:]}
    with pytest.raises(InputError, match=r"sample 1 has only special tokens, \[CLS\] \[SEP\]"):
        prepare(inputs, bert, wordpiece)


def test_an_encoding_of_nothing(bert: nn.Module, wordpiece: Any) -> None:
    with pytest.raises(InputError, match="only special tokens"):
        prepare(wordpiece("", return_tensors="pt"), bert, wordpiece)


def test_wrong_rank_for_a_module_of_the_users_own() -> None:
    with pytest.raises(InputError, match=r"rank 1 with shape \(3,\) was given to Encoder"):
        prepare(torch.ones(3), Encoder())


def test_nan_for_a_module_of_the_users_own() -> None:
    with pytest.raises(InputError, match="'src' has 24 NaN"):
        prepare(torch.full((2, 3, 4), float("nan")), Encoder())


def test_additive_masks_may_be_infinite(bert: nn.Module) -> None:
    additive = torch.zeros(2, 1, 4, 4).masked_fill(MASK[:, None, None] == 0, float("-inf"))
    prepared = prepare({"input_ids": IDS, "attention_mask": additive}, bert)
    assert prepared.mask is not None
    assert prepared.mask.all()


def test_labels_and_shared_positions_are_no_mismatch(bert: nn.Module) -> None:
    inputs = {"input_ids": IDS, "position_ids": torch.arange(4)[None], "labels": torch.ones(2)}
    assert prepare(inputs, bert).size == 2

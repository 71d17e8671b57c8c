"""Padding never changes a number: left, right and none agree for every text family."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from whyformer.attribution import Attribution, Layer, Stream
from whyformer.errors import InputError
from whyformer.inputs.padding import pad_rows, padding_id
from whyformer.inputs.padding_layout import Layout, restore_output, restore_padding
from whyformer.inputs.prepare import prepare

DECODER = {"num_key_value_heads": 2, "head_dim": 4, "pad_token_id": 0}
MODERN = {"global_attn_every_n_layers": 2, "local_attention": 8, "pad_token_id": 0}
CASES: dict[str, dict[str, Any]] = {
    "BertForSequenceClassification": {},
    "BertForTokenClassification": {},
    "BertForQuestionAnswering": {},
    "RobertaForSequenceClassification": {"pad_token_id": 1, "type_vocab_size": 1},
    "XLMRobertaForSequenceClassification": {"pad_token_id": 1, "type_vocab_size": 1},
    "CamembertForSequenceClassification": {"pad_token_id": 1, "type_vocab_size": 1},
    "DistilBertForSequenceClassification": {"dim": 16, "n_layers": 2, "n_heads": 4},
    "AlbertForSequenceClassification": {"embedding_size": 8},
    "ElectraForSequenceClassification": {"embedding_size": 8},
    "MPNetForSequenceClassification": {"pad_token_id": 1},
    "ModernBertForSequenceClassification": {**MODERN, "classifier_pooling": "mean"},
    "ModernBertForMaskedLM": MODERN,
    "DebertaV2ForSequenceClassification": {
        "relative_attention": True,
        "pos_att_type": ["p2c", "c2p"],
    },
    "GPT2LMHeadModel": {},
    "GPT2ForSequenceClassification": {"pad_token_id": 0},
    "LlamaForCausalLM": DECODER,
    "LlamaForSequenceClassification": DECODER,
    "Qwen2ForCausalLM": DECODER,
    "Qwen3ForCausalLM": DECODER,
    "Qwen3ForSequenceClassification": DECODER,
    "GemmaForCausalLM": DECODER,
}
LENGTHS = (5, 9, 3)
COLUMNS = 12


def rows() -> list[list[int]]:
    """Token ids that never look like padding."""
    generator = torch.Generator().manual_seed(1)
    return [torch.randint(5, 60, (n,), generator=generator).tolist() for n in LENGTHS]


def pad_batch(left: bool, fill: int) -> dict[str, Tensor]:
    """The rows in one batch, padded left or right, with extra padding on both sides."""
    ids = torch.full((len(LENGTHS), COLUMNS), fill)
    mask = torch.zeros_like(ids)
    for index, row in enumerate(rows()):
        start = COLUMNS - len(row) if left else 0
        ids[index, start : start + len(row)] = torch.tensor(row)
        mask[index, start : start + len(row)] = 1
    return {"input_ids": ids, "attention_mask": mask}


def scores(module: nn.Module, inputs: Any) -> list[Tensor]:
    """The module's output for each sample, at its real tokens only."""
    prepared = prepare(inputs, module)
    with torch.no_grad():
        output = module(**prepared.arguments)
    logits = output["logits"] if "logits" in output else output["start_logits"]
    assert prepared.mask is not None
    per_token = logits.ndim > 1 and logits.shape[1] == prepared.mask.shape[1]
    return [
        row[real] if per_token else row for row, real in zip(logits, prepared.mask, strict=True)
    ]


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("fill", [0, 1, 7])
def test_left_right_and_no_padding_agree(
    build: Callable[..., nn.Module], name: str, fill: int
) -> None:
    module = build(name, **CASES[name]).double()
    alone = [scores(module, torch.tensor(row))[0] for row in rows()]
    for left in (False, True):
        together = scores(module, pad_batch(left, fill))
        for one, other in zip(alone, together, strict=True):
            torch.testing.assert_close(one, other, rtol=0, atol=1e-10)


def test_only_moved_where_it_must_be(build: Callable[..., nn.Module]) -> None:
    module = build("BertForSequenceClassification")
    right, left = (prepare(pad_batch(side, 0), module) for side in (False, True))
    assert right.layout is None
    assert left.layout == Layout((7, 3, 9), 12, 9)
    assert left.content == right.content


def test_a_hole_in_the_mask_keeps_its_place(build: Callable[..., nn.Module]) -> None:
    module = build("BertForSequenceClassification")
    mask = torch.tensor([[1, 0, 1, 1]])
    prepared = prepare({"input_ids": torch.tensor([[5, 6, 7, 8]]), "attention_mask": mask}, module)
    assert prepared.layout is None
    assert prepared.arguments["attention_mask"].tolist() == mask.tolist()


def test_positions_that_the_user_passed_move_along(build: Callable[..., nn.Module]) -> None:
    module = build("BertForSequenceClassification")
    inputs = pad_batch(True, 0) | {"position_ids": torch.arange(COLUMNS).unsqueeze(0)}
    prepared = prepare(inputs, module)
    assert prepared.arguments["position_ids"][0, :5].tolist() == [7, 8, 9, 10, 11]


def test_padding_beyond_the_positions_is_cut(build: Callable[..., nn.Module]) -> None:
    module = build("BertForSequenceClassification", max_position_embeddings=10).double()
    together = scores(module, pad_batch(False, 0))
    torch.testing.assert_close(together[1], scores(module, torch.tensor(rows()[1]))[0])


def test_decoder_classifier_without_pad_id(build: Callable[..., nn.Module]) -> None:
    module = build("GPT2ForSequenceClassification", pad_token_id=None).double()
    with pytest.raises(InputError, match=r"pad_token_id, which is None, and 3 texts"):
        prepare(pad_batch(False, 0), module)
    alone = scores(module, torch.tensor(rows()[0]))[0]
    for left in (False, True):
        single = {name: value[:1] for name, value in pad_batch(left, 0).items()}
        torch.testing.assert_close(scores(module, single)[0], alone)


def test_decoder_classifier_cannot_tell_padding_in_embeddings(
    build: Callable[..., nn.Module],
) -> None:
    module = build("GPT2ForSequenceClassification", pad_token_id=0)
    inputs = pad_batch(False, 0)
    states = module.get_input_embeddings()(inputs["input_ids"])
    with pytest.raises(InputError, match="cannot recognise padding in 'inputs_embeds'"):
        prepare({"inputs_embeds": states, "attention_mask": inputs["attention_mask"]}, module)


def test_layout_there_and_back() -> None:
    layout = Layout((2, 0), user_columns=4, model_columns=3)
    given = torch.tensor([[0, 0, 1, 2], [3, 4, 5, 0]])
    to_model = layout.to_model(given)
    assert to_model.tolist() == [[1, 2, 0], [3, 4, 5]]
    assert layout.to_user(to_model).tolist() == given.tolist()
    assert layout.row_to_model("..ab", 0) == ["a", "b", "."]
    assert [layout.position(0, layout.column(0, p)) for p in range(4)] == [0, 1, 2, 3]


def test_attribution_comes_back_as_given() -> None:
    layout = Layout((1, 0), user_columns=3, model_columns=2)
    stream = Stream(
        "text",
        scores=torch.tensor([[1.0, 2.0], [3.0, 0.0]]),
        mask=torch.tensor([[True, True], [True, False]]),
        tokens=(("a", "b"), ("c", "[PAD]")),
        word_ids=((0, 1), (0, None)),
        states=torch.ones(2, 2, 4),
    )
    attention = torch.arange(8.0).reshape(2, 1, 2, 2)
    moved = restore_padding(
        Attribution(
            method="gae",
            streams={"text": stream},
            main="text",
            target=torch.tensor([0, 0]),
            output=torch.ones(2),
            labels=("x", "x"),
            layers=(Layer(attention=attention, asking="text", answering="text"),),
            maps={("text", "text"): attention[:, 0]},
        ),
        {"text": layout},
    )
    text = moved.streams["text"]
    assert text.scores.tolist() == [[0, 1, 2], [3, 0, 0]]
    assert text.mask.tolist() == [[False, True, True], [True, False, False]]
    assert text.tokens == (("", "a", "b"), ("c", "[PAD]", ""))
    assert text.word_ids == ((None, 0, 1), (0, None, None))
    assert text.states is not None
    assert text.states.shape == (2, 3, 4)
    kept = moved.layers[0].attention
    assert kept is not None
    assert kept[0, 0].tolist() == [[0, 0, 0], [0, 0, 1], [0, 2, 3]]
    assert moved.maps["text", "text"][1].tolist() == [[4, 5, 0], [6, 7, 0], [0, 0, 0]]
    assert restore_padding(moved, None) is moved


def test_a_callable_sees_its_own_columns(build: Callable[..., nn.Module]) -> None:
    module = build("GPT2LMHeadModel").double()
    prepared = prepare(pad_batch(True, 0), module)
    assert prepared.layout is not None
    output = restore_output(module(**prepared.arguments), prepared.layout)
    assert output.logits.shape[:2] == (3, COLUMNS)
    for index, row in enumerate(rows()):
        alone = module(torch.tensor([row])).logits[0, -1]
        torch.testing.assert_close(output.logits[index, -1], alone)


def test_padded_rows_and_the_id_that_fills_them(build: Callable[..., nn.Module]) -> None:
    assert pad_rows([[1, 2], [3]], 9).tolist() == [[1, 2], [3, 9]]
    assert padding_id(build("RobertaForMaskedLM", pad_token_id=1), None) == 1
    assert padding_id(build("GPT2LMHeadModel", pad_token_id=None), None) == 0
    assert (
        padding_id(nn.Linear(1, 1), type("T", (), {"pad_token_id": None, "eos_token_id": 7})) == 7
    )

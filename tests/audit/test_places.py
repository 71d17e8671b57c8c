"""The tokens of a stretch of text are found: sub-words, punctuation, ends, twice, pairs."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from whyformer.attribution import Stream
from whyformer.audit.places import Span, covered, token_spans
from whyformer.inputs.text import tokenize
from whyformer.inputs.words import read_words


def stream_of(tokenizer: Any, text: Any, limit: int | None = None) -> Stream:
    """The stream that an explanation of this text would have."""
    rows, groups = tokenize(tokenizer, [text], False, limit)
    ids = rows["input_ids"][0]
    pieces, words = read_words(tokenizer, ids, [True] * len(ids), groups[0])
    mask = torch.ones(1, len(ids), dtype=torch.bool)
    return Stream("text", torch.zeros(1, len(ids)), mask, (pieces,), (words,))


class Slow:
    """The same tokenizer without what only a fast one tells."""

    is_fast = False


def found(tokenizer: Any, text: Any, limit: int | None = None, slow: bool = False) -> list[Span]:
    stream = stream_of(tokenizer, text, limit)
    return list(token_spans(text, stream, Slow() if slow else tokenizer, limit))  # type: ignore[arg-type]


def pieces_at(tokenizer: Any, text: str, part: str, slow: bool, nth: int = 0) -> list[str]:
    """The tokens of the n-th occurrence of a part."""
    start = -1
    for _ in range(nth + 1):
        start = text.index(part, start + 1)
    own = covered(found(tokenizer, text, slow=slow), 0, start, start + len(part))
    tokens = stream_of(tokenizer, text).tokens
    assert tokens is not None
    return [tokens[0][i] for i in own]


@pytest.mark.parametrize("slow", [False, True])
@pytest.mark.parametrize(
    ("text", "name", "pieces"),
    [
        ("the film by Anna is good", "Anna", ["ann", "a"]),
        ("Anna is good", "Anna", ["ann", "a"]),
        ("the film is by Anna", "Anna", ["ann", "a"]),
        ("Anna's film", "Anna", ["ann", "a"]),
        ("'Anna', the film!", "Anna", ["ann", "a"]),
        ("with Mary Annalee, it is good", "Mary Annalee", ["mary", "ann", "a", "lee"]),
        ("the film by Zoë is good", "Zoë", ["[UNK]"]),
        ("the film is by Zoë", "Zoë", ["[UNK]"]),
        ("the film by Anná is good", "Anná", ["ann", "a"]),
    ],
)
def test_the_tokens_of_a_name(
    tokenizer: Any, slow: bool, text: str, name: str, pieces: list[str]
) -> None:
    assert pieces_at(tokenizer, text, name, slow) == pieces


@pytest.mark.parametrize("slow", [False, True])
def test_a_name_that_stands_twice(tokenizer: Any, slow: bool) -> None:
    text = "Bob saw Bob and a film"
    spans = found(tokenizer, text, slow=slow)
    assert covered(spans, 0, 0, 3) == [1, 2]
    assert covered(spans, 0, 8, 11) == [4, 5]
    assert pieces_at(tokenizer, text, "Bob", slow, nth=1) == ["bo", "b"]


@pytest.mark.parametrize("slow", [False, True])
def test_special_tokens_stand_nowhere(tokenizer: Any, slow: bool) -> None:
    spans = found(tokenizer, "the film", slow=slow)
    assert spans == [None, (0, 0, 3), (0, 4, 8), None]


@pytest.mark.parametrize("slow", [False, True])
def test_the_second_text_of_a_pair_is_its_own(tokenizer: Any, slow: bool) -> None:
    spans = found(tokenizer, ("the film", "the Anna"), slow=slow)
    assert [span and span[0] for span in spans] == [None, 0, 0, None, 1, 1, 1, None]
    assert covered(spans, 1, 4, 8) == [5, 6]
    assert covered(spans, 0, 4, 8) == [2]


def test_a_text_that_is_cut_has_the_places_of_what_is_left(tokenizer: Any) -> None:
    spans = found(tokenizer, "the film by Anna is good", limit=5)
    assert spans == [None, (0, 0, 3), (0, 4, 8), (0, 9, 11), None]


def test_the_space_before_a_word_is_not_the_words() -> None:
    backend = Tokenizer(models.Unigram())
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=30, special_tokens=["<unk>"], unk_token="<unk>", show_progress=False
    )
    backend.train_from_iterator(["the film by Anna", "by Anna and Bob"], trainer)
    pieces = transformers.PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="<unk>")
    text = "the film by Anna"
    spans = found(pieces, text)
    assert not any(text[a:b].startswith(" ") for _, a, b in spans)
    own = covered(spans, 0, 12, 16)
    assert "".join(text[spans[i][1] : spans[i][2]] for i in own) == "Anna"
    assert not covered(spans, 0, 11, 12)


def test_byte_level_pieces_of_one_character_belong_to_it() -> None:
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=270, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    backend.train_from_iterator(["the film"], trainer)
    pieces = transformers.PreTrainedTokenizerFast(tokenizer_object=backend)
    text = "by Zoë!"
    own = covered(found(pieces, text), 0, 3, 6)
    assert len(own) >= 4  # the ë alone is two bytes
    tokens = pieces.convert_ids_to_tokens(pieces(text)["input_ids"])
    assert pieces.convert_tokens_to_string([tokens[i] for i in own]).strip() == "Zoë"

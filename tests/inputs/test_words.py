"""Pieces are readable, and the pieces of a word joined are the word, in all three schemes."""

from __future__ import annotations

from typing import Any

import pytest
import transformers
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models

from whyformer.inputs.text import tokenize
from whyformer.inputs.words import (
    BYTE_OF,
    decode_pieces,
    piece_bytes,
    read_words,
    scheme_of,
    special_ids,
    token_texts,
)


def read(tokenizer: Any, text: str, known: bool = True) -> tuple[list[str], list[int | None]]:
    """Pieces and word numbers of one text, with or without what the tokenizer says of words."""
    rows, groups = tokenize(tokenizer, [text], types=False)
    ids = rows["input_ids"][0]
    pieces, words = read_words(tokenizer, ids, [True] * len(ids), groups[0] if known else None)
    return list(pieces), list(words)


def join_words(pieces: list[str], words: list[int | None]) -> list[str]:
    """The words, as an attribution joins them."""
    whole: dict[int, str] = {}
    for piece, word in zip(pieces, words, strict=True):
        if word is not None:
            whole[word] = whole.get(word, "") + piece
    return list(whole.values())


@pytest.mark.parametrize("known", [True, False])
def test_wordpiece(wordpiece: Any, known: bool) -> None:
    pieces, words = read(wordpiece, "a gripping film, isn't it", known)
    assert pieces[:5] == ["[CLS]", "a", "grip", "ping", "film"]
    assert words == [None, 0, 1, 1, 2, 3, 4, 4, 5, 6, 7, None]
    assert join_words(pieces, words) == ["a", "gripping", "film", ",", "isn", "'", "t", "[UNK]"]


@pytest.mark.parametrize("known", [True, False])
def test_byte_level(byte_bpe: Any, known: bool) -> None:
    pieces, words = read(byte_bpe, "what a gripping film! naïve café", known)
    assert join_words(pieces, words) == ["what", "a", "gripping", "film", "!", "naïve", "café"]
    assert not any("Ġ" in piece for piece in pieces)


def test_characters_split_between_tokens_are_neither_lost_nor_doubled(byte_bpe: Any) -> None:
    text = "😀😃 漢字 ok"
    pieces, words = read(byte_bpe, text)
    assert len(pieces) > len(text.replace(" ", ""))  # some characters need several tokens
    assert "".join(join_words(pieces, words)) == text.replace(" ", "")
    cut, numbers = read(byte_bpe, "😃")
    ids = byte_bpe("😃")["input_ids"][:-1]
    broken, _ = read_words(byte_bpe, ids, [True] * len(ids))
    assert cut[0] == "😃"
    assert set(cut[1:]) <= {""}
    assert set(numbers) == {0}
    assert set("".join(broken)) == {"\ufffd"}


def test_white_space_is_made_visible(byte_bpe: Any) -> None:
    pieces, words = read(byte_bpe, "a\n\nfilm  film")
    assert "⏎" in "".join(pieces)
    assert "␣" in pieces
    assert len(set(words)) == len(join_words(pieces, words))


@pytest.mark.parametrize("known", [True, False])
def test_sentencepiece(sentencepiece: Any, known: bool) -> None:
    pieces, words = read(sentencepiece, "the acting is unforgettable film", known)
    assert pieces[0] == "<s>"
    assert words[0] is None
    assert words[-1] is None
    assert join_words(pieces, words) == ["the", "acting", "is", "unforgettable", "film"]


def test_markers_refine_a_tokenizer_that_calls_everything_one_word(sentencepiece: Any) -> None:
    ids = sentencepiece("the film")["input_ids"]
    pieces, words = read_words(sentencepiece, ids, [True] * len(ids), [None] + [0] * (len(ids) - 1))
    assert join_words(list(pieces), list(words)) == ["the", "film"]


def test_second_text_of_a_pair_starts_its_own_words(wordpiece: Any) -> None:
    rows, groups = tokenize(wordpiece, [("film", "film good")], types=True)
    ids = rows["input_ids"][0]
    _, words = read_words(wordpiece, ids, [True] * len(ids), groups[0])
    assert words == (None, 0, None, 1, 2, None)
    assert rows["token_type_ids"][0] == [0, 0, 0, 1, 1, 1]


def test_padding_is_in_no_word(wordpiece: Any) -> None:
    pieces, words = read_words(wordpiece, [2, 8, 3, 0], [True, True, True, False])
    assert pieces == ("[CLS]", "film", "[SEP]", "[PAD]")
    assert words == (None, 0, None, None)
    assert read_words(wordpiece, [8, 9], [True, False])[1] == (0, None)


def test_added_tokens_are_shown_as_they_are(byte_bpe: Any) -> None:
    byte_bpe.add_tokens(["<née>"])
    pieces, words = read(byte_bpe, "a <née> film")
    assert "<née>" in join_words(pieces, words)


def test_ids_without_a_token_do_not_crash(wordpiece: Any) -> None:
    assert read_words(wordpiece, [8, 999], [True, True])[0] == ("film", "<999>")


def test_byte_fallback_pieces_are_bytes() -> None:
    pieces = [piece_bytes(p, "sentencepiece") for p in ("▁a", "<0xC3>", "<0xA9>", "b")]
    assert decode_pieces(pieces) == [" a", "é", "", "b"]


def test_schemes_and_special_ids(wordpiece: Any, byte_bpe: Any, sentencepiece: Any) -> None:
    schemes = [scheme_of(t) for t in (wordpiece, byte_bpe, sentencepiece)]
    assert schemes == ["wordpiece", "bytes", "sentencepiece"]
    assert wordpiece.unk_token_id not in special_ids(wordpiece)
    assert special_ids(byte_bpe) == {0}  # unknown and end of text share it
    assert len(BYTE_OF) == len(set(BYTE_OF.values())) == 256


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(text=st.text(min_size=1, max_size=30))
def test_any_text_is_read_without_loss(byte_bpe: Any, text: str) -> None:
    ids = byte_bpe(text)["input_ids"]
    if set(ids) & special_ids(byte_bpe):
        return
    pieces, words = read(byte_bpe, text)
    bare = "".join(text.encode(errors="replace").decode().split())
    shown = "".join("".join(pieces).split()).translate(str.maketrans("", "", "␣⏎⇥"))
    assert shown == bare.translate(str.maketrans("", "", "␣⏎⇥"))
    assert all(word is not None for word in words)
    assert [w for w in words if w is not None] == sorted(w for w in words if w is not None)


@pytest.mark.parametrize("known", [True, False])
def test_line_breaks_inside_tokens_are_signs(byte_bpe: Any, known: bool) -> None:
    """Tokens such as ".\n\n" are common in vocabularies of code and chats."""
    byte_bpe.add_tokens([".\n\n", "\n    film", "\t"])
    pieces, words = read(byte_bpe, "a film.\n\na\n    film\ta", known)
    assert [piece for piece in pieces if set(piece) & set("⏎␣⇥")] == [".⏎⏎", "⏎    film", "⇥"]
    assert join_words(pieces, words) == ["a", "film", ".⏎⏎", "a", "⏎    film", "⇥", "a"]


def test_output_tokens_are_never_empty_and_never_ids(byte_bpe: Any, sentencepiece: Any) -> None:
    ids = byte_bpe("\n\n a 😃")["input_ids"]
    texts = token_texts(ids, byte_bpe)
    assert len(texts) == len(ids)
    assert all(texts)
    assert "".join(texts).startswith("⏎⏎")
    assert "😃" in texts
    assert not any(character.isdigit() for text in texts for character in text)
    assert token_texts([5, 6], None) == ("5", "6")
    line = sentencepiece.convert_tokens_to_ids("▁")
    assert token_texts([line, line], sentencepiece) == ("␣", "␣")


def test_a_line_break_ends_a_word_of_sentencepiece() -> None:
    """Byte pieces have no marker: without the break, both lines would be one word."""
    backend = Tokenizer(models.BPE({"▁a": 0, "<0x0A>": 1, "b": 2}, []))
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=backend)
    assert read_words(tokenizer, [0, 1, 2], [True] * 3) == (("a", "⏎", "b"), (0, 1, 2))

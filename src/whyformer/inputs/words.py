"""Token ids as readable pieces, and which word each piece belongs to.

Three markers are in use: WordPiece writes "##" before a piece that continues a word, byte-level
BPE and SentencePiece write a sign for the space before a piece that begins one.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable, Sequence
from typing import Any
from weakref import WeakKeyDictionary

CONTINUES, BYTE_SPACE, PIECE_SPACE = "##", "Ġ", "▁"
WORDPIECE, BYTES, SENTENCEPIECE, PLAIN = "wordpiece", "bytes", "sentencepiece", "plain"
VISIBLE_SPACE = str.maketrans({" ": "␣", "\n": "⏎", "\r": "⏎", "\t": "⇥"})

_schemes: WeakKeyDictionary[Any, str] = WeakKeyDictionary()
_lock = threading.Lock()


def read_words(
    tokenizer: Any,
    ids: Sequence[int],
    real: Sequence[bool],
    groups: Sequence[Hashable | None] | None = None,
) -> tuple[tuple[str, ...], tuple[int | None, ...]]:
    """One sample's pieces as display text, and the number of the word each is part of."""
    return WordReader(tokenizer).read(ids, real, groups)


class WordReader:
    """A tokenizer's pieces as words; what it says about its vocabulary is asked once."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        self.scheme = scheme_of(tokenizer)
        self.outside = special_ids(tokenizer)
        self.added = set(getattr(tokenizer, "added_tokens_decoder", None) or ())

    def read(
        self,
        ids: Sequence[int],
        real: Sequence[bool],
        groups: Sequence[Hashable | None] | None = None,
    ) -> tuple[tuple[str, ...], tuple[int | None, ...]]:
        """One sample's pieces as display text, and the number of the word each is part of.

        `groups` is what the tokenizer itself says about words, where the text is known; markers
        refine it, as some tokenizers call a whole text one word. Special tokens and padding are in
        no word. The pieces of one word, joined, are the word: a character split between tokens is
        shown by the first of them.
        """
        raw = self.tokenizer.convert_ids_to_tokens(list(ids))
        names = [f"<{i}>" if p is None else str(p) for i, p in zip(ids, raw, strict=True)]
        inside = [is_real and i not in self.outside for i, is_real in zip(ids, real, strict=True)]
        spoken = [k for k, within in enumerate(inside) if within]
        pieces = [piece_bytes(names[k], self.scheme, ids[k] in self.added) for k in spoken]
        texts = dict(zip(spoken, decode_pieces(pieces), strict=True))
        word_ids: list[int | None] = [None] * len(names)
        word = -1
        for k in spoken:
            before = k - 1 if k and inside[k - 1] else None
            if before is None or _begins_word(k, before, names, texts, self.scheme, groups):
                word += 1
            word_ids[k] = word
        shown = [
            _display_text(texts[k], joined=k + 1 < len(names) and word_ids[k + 1] == word_ids[k])
            if inside[k]
            else name
            for k, name in enumerate(names)
        ]
        return tuple(shown), tuple(word_ids)


def special_ids(tokenizer: Any) -> frozenset[int]:
    """Ids that say nothing of their own; an unknown word is a word, unless its id is shared."""
    unknown = getattr(tokenizer, "unk_token_id", None)
    roles = ("bos", "eos", "sep", "pad", "cls", "mask")
    shared = any(getattr(tokenizer, f"{role}_token_id", None) == unknown for role in roles)
    special = set(getattr(tokenizer, "all_special_ids", ()))
    return frozenset(special if shared else special - {unknown})


def scheme_of(tokenizer: Any) -> str:
    """Which marker the vocabulary uses most; a few tokens of any vocabulary look like another's."""
    with _lock:
        if tokenizer not in _schemes:
            vocabulary = tokenizer.get_vocab()
            counts = {
                WORDPIECE: sum(t.startswith(CONTINUES) and len(t) > 2 for t in vocabulary),
                BYTES: sum(t.startswith(BYTE_SPACE) for t in vocabulary),
                SENTENCEPIECE: sum(t.startswith(PIECE_SPACE) for t in vocabulary),
            }
            best = max(counts, key=counts.__getitem__)
            _schemes[tokenizer] = best if counts[best] else PLAIN
        return _schemes[tokenizer]


def piece_bytes(piece: str, scheme: str, added: bool = False) -> bytes:
    """The text of a piece without its marker, a space where the marker stood for one."""
    if scheme == WORDPIECE and piece.startswith(CONTINUES) and len(piece) > len(CONTINUES):
        return piece[len(CONTINUES) :].encode()
    if scheme == BYTES and not added and all(sign in BYTE_OF for sign in piece):
        return bytes(BYTE_OF[sign] for sign in piece)
    if scheme == SENTENCEPIECE and not added:
        if len(piece) == 6 and piece.startswith("<0x") and piece.endswith(">"):
            return bytes.fromhex(piece[3:5])
        return piece.replace(PIECE_SPACE, " ").encode()
    return piece.encode(errors="replace")


def decode_pieces(pieces: Sequence[bytes]) -> list[str]:
    """The text of each piece; a character belongs to the piece that has its first byte."""
    if all(map(bytes.isascii, pieces)):
        return [piece.decode() for piece in pieces]
    owner = [index for index, piece in enumerate(pieces) for _ in piece]
    texts = [""] * len(pieces)
    data = b"".join(pieces)
    at = 0
    while at < len(data):
        # How many bytes a character has, UTF-8 says in the leading bits of its first.
        lead = data[at]
        length = 1 + (lead >= 0xC0) + (lead >= 0xE0) + (lead >= 0xF0)
        try:
            character = data[at : at + length].decode()
        except UnicodeDecodeError:
            character, length = "\ufffd", 1
        texts[owner[at]] += character
        at += length
    return texts


def _begins_word(
    k: int,
    before: int,
    names: Sequence[str],
    texts: dict[int, str],
    scheme: str,
    groups: Sequence[Hashable | None] | None,
) -> bool:
    """Whether piece `k` begins a new word after the piece `before` it."""
    if scheme == WORDPIECE:
        if names[k].startswith(CONTINUES) and len(names[k]) > len(CONTINUES):
            return False
        return groups is None or groups[k] != groups[before]
    if texts[k][:1].isspace() and scheme != PLAIN:
        return True
    if groups is not None:
        return groups[k] != groups[before]
    if scheme == BYTES:
        # Byte-level tokenizers cut the text into letters and signs first: so does this.
        left, right = texts[before][-1:], texts[k][:1]
        cut = bool(left and right) and left != " "
        return cut and left.isalnum() != right.isalnum()
    return scheme == PLAIN


def _display_text(text: str, joined: bool) -> str:
    """The piece without its leading space; a piece of spaces alone is made visible."""
    bare = text.lstrip()
    if bare or not text:
        return bare
    return "" if joined else text.translate(VISIBLE_SPACE)


def _byte_signs() -> dict[str, int]:
    """The byte that each sign of a byte-level vocabulary stands for.

    Printable Latin-1 bytes stand for themselves, the others for the signs from 256 on, in order.
    """
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [byte for byte in range(256) if byte not in printable]
    signs = {chr(byte): byte for byte in printable}
    return signs | {chr(256 + rank): byte for rank, byte in enumerate(hidden)}


BYTE_OF = _byte_signs()

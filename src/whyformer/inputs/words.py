"""Show token ids as readable pieces, and find the word that each piece belongs to.

Vocabularies mark words in three ways. WordPiece writes "##" before a piece that continues a word.
Byte-level BPE and SentencePiece write a symbol for the space before a piece that begins a word.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from whyformer.models.fork_safe import fork_safe

CONTINUES, BYTE_SPACE, PIECE_SPACE = "##", "Ġ", "▁"
WORDPIECE, BYTES, SENTENCEPIECE, PLAIN = "wordpiece", "bytes", "sentencepiece", "plain"
LINE_BREAKS = {"\n": "⏎", "\r": "⏎", "\t": "⇥"}
VISIBLE_BREAKS = str.maketrans(LINE_BREAKS)
VISIBLE_SPACE = str.maketrans({" ": "␣", **LINE_BREAKS})
CONTINUED = "⋯"  # a token with the later bytes of a character that is shown before it

_schemes: WeakKeyDictionary[Any, str] = WeakKeyDictionary()
_lock = fork_safe(threading.Lock())


def read_words(
    tokenizer: Any,
    ids: Sequence[int],
    real: Sequence[bool],
    groups: Sequence[Hashable | None] | None = None,
) -> tuple[tuple[str, ...], tuple[int | None, ...]]:
    """Return one sample's pieces as display text, and the word number of each."""
    return WordReader(tokenizer).read(ids, real, groups)


def token_texts(ids: Sequence[int], tokenizer: Any | None) -> tuple[str, ...]:
    """Return tokens as display text, one by one, none of them empty; ids without a tokenizer.

    White space is drawn as signs. A character that is split between tokens is shown at the first.
    """
    if tokenizer is None:
        return tuple(map(str, ids))
    real = [True] * len(ids)
    shown, _ = read_words(tokenizer, ids, real)
    exact = exact_pieces(tokenizer, ids, real)
    return tuple(
        text or visible_text(piece) or CONTINUED for text, piece in zip(shown, exact, strict=True)
    )


def exact_pieces(tokenizer: Any, ids: Sequence[int], real: Sequence[bool]) -> list[str]:
    """Return the text of each token with its spaces; special tokens and padding by name."""
    names, texts = WordReader(tokenizer).texts(ids, real)
    return [texts.get(k, name) for k, name in enumerate(names)]


def visible_text(text: str) -> str:
    """Return the text on one line: line breaks as signs; spaces too if there is nothing else."""
    return text.translate(VISIBLE_BREAKS if text.strip() else VISIBLE_SPACE)


class WordReader:
    """Reads a tokenizer's pieces as words; the vocabulary is analysed once."""

    def __init__(self, tokenizer: Any, special: frozenset[int] | None = None) -> None:
        self.tokenizer = tokenizer
        self.scheme = scheme_of(tokenizer)
        self.special = special_ids(tokenizer) if special is None else special
        self.added = set(getattr(tokenizer, "added_tokens_decoder", None) or ())

    def read(
        self,
        ids: Sequence[int],
        real: Sequence[bool],
        groups: Sequence[Hashable | None] | None = None,
    ) -> tuple[tuple[str, ...], tuple[int | None, ...]]:
        """Return one sample's pieces as display text, and the word number of each.

        Special tokens and padding belong to no word. The pieces of a word, joined, are the word:
        a character that is split between tokens is shown at the first of them.

        Args:
            ids: The token ids.
            real: False at padding.
            groups: The tokenizer's own word of each token, if known. Markers refine it, because
                some tokenizers treat a whole text as one word.
        """
        names, texts = self.texts(ids, real)
        word_ids: list[int | None] = [None] * len(names)
        word = -1
        for k in texts:
            before = k - 1 if k - 1 in texts else None
            if before is None or _begins_word(k, before, names, texts, self.scheme, groups):
                word += 1
            word_ids[k] = word
        shown = [
            _display_text(texts[k], joined=k + 1 < len(names) and word_ids[k + 1] == word_ids[k])
            if k in texts
            else name
            for k, name in enumerate(names)
        ]
        return tuple(shown), tuple(word_ids)

    def texts(self, ids: Sequence[int], real: Sequence[bool]) -> tuple[list[str], dict[int, str]]:
        """Return the vocabulary's name of each token, and the texts of tokens in words by place."""
        raw = self.tokenizer.convert_ids_to_tokens(list(ids))
        names = [f"<{i}>" if p is None else str(p) for i, p in zip(ids, raw, strict=True)]
        both = enumerate(zip(ids, real, strict=True))
        words = [k for k, (i, is_real) in both if is_real and i not in self.special]
        pieces = [piece_bytes(names[k], self.scheme, ids[k] in self.added) for k in words]
        return names, dict(zip(words, decode_pieces(pieces), strict=True))


def special_ids(tokenizer: Any) -> frozenset[int]:
    """Ids of special tokens; the unknown token counts as a word unless its id has another role."""
    unknown = getattr(tokenizer, "unk_token_id", None)
    roles = ("bos", "eos", "sep", "pad", "cls", "mask")
    shared = any(getattr(tokenizer, f"{role}_token_id", None) == unknown for role in roles)
    special = set(getattr(tokenizer, "all_special_ids", ()))
    return frozenset(special if shared else special - {unknown})


def scheme_of(tokenizer: Any) -> str:
    """The marker that the vocabulary uses most: any vocabulary has a few tokens with others."""
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
    """The bytes of a piece without its marker, with a space if the marker stands for one."""
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
    """Return the text of each piece; a character belongs to the piece with its first byte."""
    if all(map(bytes.isascii, pieces)):
        return [piece.decode() for piece in pieces]
    owner = [index for index, piece in enumerate(pieces) for _ in piece]
    texts = [""] * len(pieces)
    data = b"".join(pieces)
    at = 0
    while at < len(data):
        # The first byte of a UTF-8 character tells how many bytes it has.
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
    if texts[before][-1:] in LINE_BREAKS:
        return True
    if groups is not None:
        return groups[k] != groups[before]
    if scheme == BYTES:
        # Byte-level tokenizers first split a text into letters and punctuation.
        left, right = texts[before][-1:], texts[k][:1]
        cut = bool(left and right) and left != " "
        return cut and left.isalnum() != right.isalnum()
    return scheme == PLAIN


def _display_text(text: str, joined: bool) -> str:
    """The piece without the space in front; other white space as visible symbols."""
    bare = text.removeprefix(" ")
    if not bare.strip():
        return "" if joined and not bare else text.translate(VISIBLE_SPACE)
    indent = len(bare) - len(bare.lstrip(" "))
    return "␣" * indent + bare[indent:].translate(VISIBLE_BREAKS)


def _byte_signs() -> dict[str, int]:
    """The byte of each symbol in a byte-level vocabulary.

    Printable Latin-1 characters are their own byte; the other bytes are numbered from 256 on.
    """
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [byte for byte in range(256) if byte not in printable]
    signs = {chr(byte): byte for byte in printable}
    return signs | {chr(256 + rank): byte for rank, byte in enumerate(hidden)}


BYTE_OF = _byte_signs()

"""Sentences and lines of a text that is given as words."""

from __future__ import annotations

from collections.abc import Collection, Sequence

NEWLINES = "\n⏎↵"  # a newline, and the signs that are shown for it
LONGEST = 60  # words; a longer sentence is cut, so that code and lists can be unfolded too
_ENDS = ".!?…。\N{FULLWIDTH EXCLAMATION MARK}\N{FULLWIDTH QUESTION MARK}"
_CLOSES = "\"'”»)]}」』\N{RIGHT SINGLE QUOTATION MARK}"


def split_sentences(
    words: Sequence[str], breaks: Collection[int] = (), longest: int = LONGEST
) -> tuple[tuple[int, int], ...]:
    """Return the (start, end) of every sentence or line, in words.

    A sentence ends after a full stop or its like, and after the quotes and brackets that close it,
    unless the next word starts with a small letter in a text that has capital ones. A line ends at
    a newline.

    Args:
        words: The words, with newlines as they are or as signs.
        breaks: Words before which a sentence always ends, such as the start of a chat message.
        longest: Words of the longest sentence.
    """
    sentences, start = [], 0
    cased = any(word[:1].isupper() for word in words)
    for place in range(1, len(words) + 1):
        full = place - start >= longest
        last = place == len(words)
        if last or full or place in breaks or _ends_before(words, start, place, cased):
            sentences.append((start, place))
            start = place
    return tuple(sentences)


def ends_line(word: str) -> bool:
    """Return whether a line ends after this word."""
    return bool(word) and word[-1] in NEWLINES


def _ends_before(words: Sequence[str], start: int, place: int, cased: bool) -> bool:
    following = words[place].lstrip()
    if ends_line(words[place - 1]):
        return not _is_newline(following)  # several newlines end one line
    if _is_newline(following) or _is_closing(following):
        return False
    last = place - 1
    while last > start and _is_closing(words[last]):
        last -= 1
    ended = words[last].rstrip(_CLOSES)
    if not ended or ended[-1] not in _ENDS:
        return False
    number = last > start and words[last - 1][-1:].isdigit() and following[:1].isdigit()
    # Single letters are initials: J. Smith.
    initial = _is_initial(ended) or (ended == "." and last > start and _is_initial(words[last - 1]))
    goes_on = cased and following[:1].islower()
    return not (number or initial or goes_on or following[:1] in _ENDS)


def _is_newline(word: str) -> bool:
    return bool(word) and all(character in NEWLINES for character in word)


def _is_closing(word: str) -> bool:
    return bool(word) and all(character in _CLOSES for character in word)


def _is_initial(word: str) -> bool:
    letters = word.removesuffix(".")
    return len(letters) == 1 and letters.isalpha() and letters.isupper() and letters != "I"

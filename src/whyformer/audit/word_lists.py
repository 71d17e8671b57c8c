"""The lists of an audit: names and terms by group, templates, function words.

Bundled lists are JSON files beside this module and state their source. A user's list is a text
file with one entry per line, CSV, or JSON.
"""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from whyformer.errors import InputError
from whyformer.registry import nearest

HERE = Path(__file__).parent
SLOT = "{name}"
NO_TONE = "own"  # the tone of a template without one

Groups = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class WordGroups:
    """Words by group, in the order of their list, and their source."""

    name: str
    groups: Groups
    title: str = ""
    source: str = ""
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "groups", MappingProxyType(dict(self.groups)))

    def first(self, count: int | None) -> WordGroups:
        """Return the first `count` words of each group."""
        if count is None:
            return self
        if isinstance(count, bool) or count < 1:
            raise InputError(
                f"per_group={count!r} is not a number of names",
                argument="per_group",
                remedy="Pass a whole number from 1",
            )
        cut = {group: words[:count] for group, words in self.groups.items()}
        return WordGroups(self.name, cut, self.title, self.source, self.notes)


@dataclass(frozen=True)
class Template:
    """A sentence with a slot for a name, and its tone: positive, negative or neutral."""

    text: str
    tone: str = NO_TONE

    def fill(self, name: str) -> tuple[str, tuple[tuple[int, int], ...]]:
        """Return the sentence with the name in it, and the character ranges of the name."""
        text, places = "", []
        *before, last = self.text.split(SLOT)
        for part in before:
            text += part
            places.append((len(text), len(text) + len(name)))
            text += name
        return text + last, tuple(places)


def name_lists() -> dict[str, WordGroups]:
    """Return the bundled lists of names, by name."""
    return {path.stem: _bundled_list(path) for path in sorted((HERE / "names").glob("*.json"))}


def read_names(source: Any) -> WordGroups:
    """Return names by group from a bundled list, a file, or a mapping."""
    if isinstance(source, WordGroups):
        return source
    if isinstance(source, Mapping):
        return WordGroups("own", _groups(source, "names", "name"))
    known = name_lists()
    if source in known:
        return known[source]
    path = _file(
        source, "names", f"{nearest(str(source), known)} Bundled lists: {', '.join(known)}"
    )
    return WordGroups(path.name, _read_groups(path, "name"), source=str(path))


def read_terms(source: Any) -> WordGroups | None:
    """Return terms by group from a file, a list, or a mapping; None for None."""
    if source is None or isinstance(source, WordGroups):
        return source
    if isinstance(source, Mapping):
        return WordGroups("own", _groups(source, "terms", "term"))
    if isinstance(source, Sequence) and not isinstance(source, str):
        return WordGroups("own", _groups({"terms": source}, "terms", "term"))
    path = _file(source, "terms")
    return WordGroups(path.name, _read_groups(path, "term"), source=str(path))


def read_templates(source: Any = None) -> tuple[Template, ...]:
    """Return the templates of a file or a list; the bundled ones for None."""
    if source is None:
        source = HERE / "templates" / "film.json"
    if isinstance(source, str | os.PathLike):
        path = _file(source, "templates")
        origin = str(path)
        if path.suffix.lower() == ".json":
            entries = list(_template_entries(_json(path), origin))
        else:
            entries = [(f"{path}, line {at}", text, NO_TONE) for at, text in _lines(path)]
    else:
        origin = "templates"
        entries = list(_template_entries(source, origin))
    found = dict.fromkeys(_template(*entry) for entry in entries)
    if not found:
        raise InputError(
            f"{origin}: there is no template",
            argument="templates",
            remedy=f"Write sentences that contain {SLOT}",
        )
    return tuple(found)


def read_function_words(source: Any = None) -> frozenset[str]:
    """Return function words in lower case, from a file or a list; English ones for None."""
    if source is None:
        return _function_words()
    if isinstance(source, str | os.PathLike):
        return frozenset(text.casefold() for _, text in _lines(_file(source, "function_words")))
    return frozenset(str(word).casefold() for word in source)


@cache
def _function_words() -> frozenset[str]:
    classes = _json(HERE / "words" / "function_words.json")["words"].values()
    return frozenset(word.casefold() for words in classes for word in words)


@cache
def _bundled_list(path: Path) -> WordGroups:
    facts = _json(path)
    groups = _groups(facts["groups"], path.name, "name")
    return WordGroups(path.stem, groups, facts["title"], facts["source"], tuple(facts["notes"]))


# -- checks of one entry -----------------------------------------------------------------------


def _template(origin: str, text: Any, tone: Any) -> Template:
    if not isinstance(text, str) or SLOT not in text:
        raise InputError(
            f"{origin}: {text!r} has no {SLOT}",
            argument="templates",
            remedy=f"Write {SLOT} where the name goes",
        )
    return Template(_clean(text, origin), str(tone))


def _clean(text: Any, origin: str) -> str:
    """The text without white space around it; raise InputError if it is empty or not printable."""
    if not isinstance(text, str) or not text.strip():
        raise InputError(f"{origin}: {text!r} is not a text", remedy="Write at least one word")
    if not text.strip().isprintable():
        raise InputError(
            f"{origin}: {text.strip()!r} has invisible characters", remedy="Remove them"
        )
    return text.strip()


def _groups(mapping: Mapping[Any, Any], origin: str, kind: str) -> dict[str, tuple[str, ...]]:
    """The words of each group, in order, each once."""
    found: dict[str, tuple[str, ...]] = {}
    for group, words in mapping.items():
        if isinstance(words, str) or not isinstance(words, Sequence) or not words:
            raise InputError(
                f"{origin}: the group {group!r} is {words!r}; expected a list of {kind}s"
            )
        place = f"{origin}, group {group!r}"
        found[_clean(str(group), origin)] = tuple(
            dict.fromkeys(_clean(word, place) for word in words)
        )
    if not found:
        raise InputError(f"{origin} has no group of {kind}s")
    return found


# -- files -------------------------------------------------------------------------------------


def _file(source: Any, argument: str, more: str = "") -> Path:
    if not isinstance(source, str | os.PathLike):
        raise InputError(
            f"{argument}= is a {type(source).__name__}",
            argument=argument,
            remedy="Pass a file or a mapping",
        )
    path = Path(source).expanduser()
    if not path.is_file():
        raise InputError(
            f"there is no file {os.fspath(source)!r} to read {argument} from.{more}",
            argument=argument,
        )
    return path


def _read_groups(path: Path, kind: str) -> dict[str, tuple[str, ...]]:
    """The groups in a file: JSON by its suffix, CSV if lines have a comma, else one group."""
    if path.suffix.lower() == ".json":
        found = _json(path)
        if isinstance(found, Mapping) and isinstance(found.get("groups"), Mapping):
            found = found["groups"]  # the form of the bundled lists
        if isinstance(found, list):
            found = {f"{kind}s": found}
        if not isinstance(found, Mapping):
            raise InputError(f'{path}: expected JSON such as {{"group": ["{kind}", ...]}}')
        return _groups(found, str(path), kind)
    groups: dict[str, list[str]] = {}
    for place, word, group in _cells(path, kind):
        groups.setdefault(group, []).append(_clean(word, place))
    return _groups(groups, str(path), kind)


def _cells(path: Path, kind: str) -> Iterator[tuple[str, str, str]]:
    """(place, word, group) of every line of a text file or a CSV file."""
    order = (0, 1)
    for number, (at, line) in enumerate(_lines(path)):
        place = f"{path}, line {at}"
        cells = [cell.strip() for cell in next(csv.reader([line]))]
        if path.suffix.lower() != ".csv" and len(cells) == 1:
            yield place, line, f"{kind}s"
            continue
        if number == 0 and sorted(cell.casefold() for cell in cells) == sorted(("group", kind)):
            order = (0, 1) if cells[1].casefold() == "group" else (1, 0)
            continue
        if len(cells) == 1:
            cells = [*cells, f"{kind}s"]
        if len(cells) != 2:
            raise InputError(f"{place}: {len(cells)} cells; expected two, {kind},group")
        yield place, cells[order[0]], cells[order[1]]


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """(number, line) of every line that is not blank."""
    for number, line in enumerate(_read(path).splitlines(), 1):
        if line.strip():
            yield number, line.strip()


def _read(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path} is not UTF-8 at byte {error.start}", remedy="Save it as UTF-8"
        ) from error
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from error


def _json(path: Path) -> Any:
    try:
        return json.loads(_read(path))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not JSON ({error})") from error


def _template_entries(found: Any, origin: str) -> Iterator[tuple[str, Any, Any]]:
    """(place, text, tone) of templates: a list, lists by tone, or objects with text and tone."""
    if isinstance(found, Mapping) and "templates" in found:
        found = found["templates"]  # the form of the bundled templates
    if isinstance(found, Mapping):
        for tone, texts in found.items():
            if not isinstance(texts, list | tuple):
                raise InputError(f"{origin}: {tone!r} is {texts!r}; expected a list of sentences")
            yield from ((f"{origin}, {tone!r}", text, tone) for text in texts)
    elif isinstance(found, list | tuple):
        for number, entry in enumerate(found, 1):
            place = f"{origin}, entry {number}"
            if isinstance(entry, Template):
                yield place, entry.text, entry.tone
            elif isinstance(entry, Mapping):
                yield place, entry.get("text"), entry.get("tone", NO_TONE)
            else:
                yield place, entry, NO_TONE
    else:
        raise InputError(f"{origin}: expected a list of sentences, or lists by tone")

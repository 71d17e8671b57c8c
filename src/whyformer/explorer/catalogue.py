"""The models on offer, set at the start: what each reads, and inputs to try it on."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain, count
from pathlib import Path
from typing import Any

from whyformer.errors import InputError
from whyformer.models import bundled
from whyformer.models.families import family_of
from whyformer.models.load import Loaded, load_model
from whyformer.models.signature import needed_streams

EXAMPLES = 12  # shown of each model


@dataclass(frozen=True)
class Example:
    """An input to try: a text, an image that comes with the package, or both."""

    text: str | None = None
    image: Path | None = None


@dataclass
class Entry:
    """One model on offer; it is loaded when it is first asked."""

    name: str  # what it is called on the page
    source: str
    title: str
    reads: frozenset[str]
    examples: tuple[Example, ...] = ()
    detects: bool = False  # whether an object query can be asked about
    _loaded: Loaded | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def load(self) -> Loaded:
        """The model, once per process and shared by all threads."""
        with self._lock:
            if self._loaded is None:
                self._loaded = load_model(self.source)
            return self._loaded


class Catalogue:
    """The models by the names that a browser may use, and no others."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self.entries = {entry.name: entry for entry in entries}

    def __getitem__(self, name: object) -> Entry:
        if not isinstance(name, str) or name not in self.entries:
            raise InputError(
                f"there is no model {str(name)[:80]!r} here; choose one of"
                f" {', '.join(self.entries)}, or name it with --model when the explorer starts"
            )
        return self.entries[name]

    def example(self, name: object, index: object) -> Example:
        """One of the inputs to try a model on."""
        examples = self[name].examples
        if not isinstance(index, int) or isinstance(index, bool) or not 0 <= index < len(examples):
            raise InputError(f"{name} has no example {str(index)[:20]}; choose one of the page's")
        return examples[index]


def catalogue(named: Sequence[str] = ()) -> Catalogue:
    """The models that the user named, loaded so that mistakes show at once, and the bundled."""
    known = bundled.models()
    own = [_named(source) for source in dict.fromkeys(named) if source not in known]
    first = [known[source] for source in dict.fromkeys(named) if source in known]
    rest = [model for model in _usual_first(known) if model not in first]
    entries = [*own, *map(_bundled, (*first, *rest))]
    taken: set[str] = set()
    for entry in entries:  # two folders may have the same last name
        names = chain([entry.name], (f"{entry.name} ({n})" for n in count(2)))
        entry.name = next(name for name in names if name not in taken)
        taken.add(entry.name)
    return Catalogue(entries)


def _usual_first(known: dict[str, bundled.BundledModel]) -> list[bundled.BundledModel]:
    """Text before images before both, so that the page opens on a sentence."""
    order = ("text", "image", "text+image")
    return sorted(known.values(), key=lambda m: (order.index(m.stream), m.task == "image-to-text"))


def _bundled(model: bundled.BundledModel) -> Entry:
    examples = [_example(sample) for sample in model.samples()[:EXAMPLES]]
    return Entry(
        model.name,
        model.name,
        model.title,
        frozenset(model.streams),
        tuple(examples),
        detects=model.task == "object-detection",
    )


def _example(sample: bundled.Sample) -> Example:
    if isinstance(sample, str):
        return Example(text=sample)
    if isinstance(sample, Path):
        return Example(image=sample)
    return Example(str(sample["text"]), Path(sample["image"]))


def _named(source: str) -> Entry:
    loaded = load_model(source)
    # A folder is shown by its last name: where it lies is nobody's business in a browser.
    folder = Path(source).expanduser()
    name = folder.resolve().name if folder.is_dir() else source
    family = family_of(loaded.module)
    reads = needed_streams(loaded.module, family)
    if not reads <= {"text", "image"}:
        raise InputError(
            f"{source} reads {' and '.join(sorted(reads))}, and the explorer has text and images"
            " only; use whyformer.explain in Python"
        )
    title = f"{type(loaded.module).__name__}, named at the start"
    detects = family is not None and family.detects
    return Entry(name, source, title, frozenset(reads), (), detects, loaded)


def menu(offered: Catalogue) -> list[dict[str, Any]]:
    """What the page has to know about each model, as plain data."""
    return [
        {
            "name": entry.name,
            "title": entry.title,
            "reads": sorted(entry.reads),
            "detects": entry.detects,
            "examples": [
                {"text": example.text, "image": example.image is not None}
                for example in entry.examples
            ],
        }
        for entry in offered.entries.values()
    ]

"""The models that the explorer offers, with example inputs for each."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain, count
from pathlib import Path
from typing import Any

from whyformer.errors import InputError
from whyformer.explorer.samples import SampleTable
from whyformer.models import bundled
from whyformer.models.families import family_of
from whyformer.models.load import Loaded, load_model
from whyformer.models.signature import needed_streams, placeholder_streams

EXAMPLES = 12  # per model
NO_SAMPLES = SampleTable()
# Tasks of bundled models that write text.
WRITING = frozenset(
    {"image-to-text", "image-text-to-text", "text-generation", "text2text-generation"}
)


@dataclass(frozen=True)
class ExampleInput:
    """A bundled input: a text, an image file, or both."""

    text: str | None = None
    image: Path | None = None


@dataclass
class OfferedModel:
    """A model on the page; it is loaded on first use."""

    name: str  # shown on the page
    source: str
    title: str
    reads: frozenset[str]
    examples: tuple[ExampleInput, ...] = ()
    detects: bool = False  # a detector: the page asks for an object query
    writes: bool = False  # writes text: the page asks for a prompt and an answer
    _loaded: Loaded | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def load(self) -> Loaded:
        """Return the model, loaded once and shared by all threads."""
        with self._lock:
            if self._loaded is None:
                self._loaded = load_model(self.source)
            return self._loaded


class Catalogue:
    """The offered models by name, and samples for them; a browser cannot load any other."""

    def __init__(self, entries: Sequence[OfferedModel], samples: SampleTable = NO_SAMPLES) -> None:
        self.entries = {entry.name: entry for entry in entries}
        self.samples = samples

    def __getitem__(self, name: object) -> OfferedModel:
        if not isinstance(name, str) or name not in self.entries:
            raise InputError(
                f"there is no model {str(name)[:80]!r} here",
                remedy=f"Choose one of {', '.join(self.entries)}, or start the explorer with"
                " --model NAME to add it",
            )
        return self.entries[name]

    def example(self, name: object, index: object) -> ExampleInput:
        """Return one of the model's example inputs."""
        examples = self[name].examples
        if not isinstance(index, int) or isinstance(index, bool) or not 0 <= index < len(examples):
            raise InputError(
                f"{name} has no example {str(index)[:20]}", remedy="Choose an example on the page"
            )
        return examples[index]


def catalogue(sources: Sequence[str] = (), samples: SampleTable = NO_SAMPLES) -> Catalogue:
    """Return the models in `sources` and the bundled ones, with the samples of a dataset.

    Models in `sources` are loaded now, so that errors show before the server starts.
    """
    known = bundled.models()
    own = [_from_source(source) for source in dict.fromkeys(sources) if source not in known]
    first = [known[source] for source in dict.fromkeys(sources) if source in known]
    rest = [model for model in _text_first(known) if model not in first]
    entries = [*own, *map(_bundled_model, (*first, *rest))]
    taken: set[str] = set()
    for entry in entries:  # two folders can have the same name
        names = chain([entry.name], (f"{entry.name} ({n})" for n in count(2)))
        entry.name = next(name for name in names if name not in taken)
        taken.add(entry.name)
    return Catalogue(entries, samples)


def _text_first(known: dict[str, bundled.BundledModel]) -> list[bundled.BundledModel]:
    """Return text models first, then images, then both: the page opens with the first.

    Within a kind, models that write text come last.
    """
    order = ("text", "image", "text+image")
    writing = ("image-to-text", "text-generation", "image-text-to-text")
    return sorted(known.values(), key=lambda m: (order.index(m.stream), m.task in writing))


def _bundled_model(model: bundled.BundledModel) -> OfferedModel:
    examples = [_example(sample) for sample in model.samples()[:EXAMPLES]]
    return OfferedModel(
        model.name,
        model.name,
        model.title,
        frozenset(model.streams),
        tuple(examples),
        detects=model.task == "object-detection",
        writes=model.task in WRITING,
    )


def _example(sample: bundled.Sample) -> ExampleInput:
    if isinstance(sample, str):
        return ExampleInput(text=sample)
    if isinstance(sample, Path):
        return ExampleInput(image=sample)
    return ExampleInput(str(sample["text"]), Path(sample["image"]))


def _from_source(source: str) -> OfferedModel:
    loaded = load_model(source)
    # Browsers see only the last part of the path.
    folder = Path(source).expanduser()
    name = folder.resolve().name if folder.is_dir() else source
    family = family_of(loaded.module)
    reads = needed_streams(loaded.module, family)
    reads |= placeholder_streams(loaded.module, family) & {"image"}
    if not reads <= {"text", "image"}:
        raise InputError(
            f"{source} reads {' and '.join(sorted(reads))}, but the explorer has only text and"
            " images",
            remedy="Use whyformer.explain in Python",
        )
    title = f"{type(loaded.module).__name__}, added with --model"
    detects = family is not None and family.detects
    return OfferedModel(
        name, source, title, frozenset(reads), (), detects, _writes(loaded), _loaded=loaded
    )


def _writes(loaded: Loaded) -> bool:
    """Whether the model writes text: an encoder-decoder, or a decoder with a language head."""
    family = family_of(loaded.module)
    can = getattr(loaded.module, "can_generate", None)
    return (family is not None and family.generates_text) or bool(can and can())


def menu(offered: Catalogue) -> list[dict[str, Any]]:
    """Return what the page shows of each model, as JSON values."""
    return [
        {
            "name": entry.name,
            "title": entry.title,
            "reads": sorted(entry.reads),
            "detects": entry.detects,
            "writes": entry.writes,
            "examples": [
                {"text": example.text, "image": example.image is not None}
                for example in entry.examples
            ],
        }
        for entry in offered.entries.values()
    ]

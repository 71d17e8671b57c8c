"""The small trained models in the package: one folder each, described by bundled.json."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from whyformer.errors import ModelError

ROOT = Path(__file__).parent
FACTS = "bundled.json"
QUESTIONS = "questions.json"  # in the folder of the images

Sample = str | Path | Mapping[str, str | Path]


@dataclass(frozen=True)
class BundledModel:
    """The description of one bundled model."""

    name: str
    title: str
    task: str
    stream: str  # text, image or text+image
    folder: Path
    licence: str
    accuracy: float
    metric: str  # what `accuracy` was measured on
    samples_path: str  # the file or folder of sample inputs, inside `folder`

    @property
    def streams(self) -> tuple[str, ...]:
        """The streams that the model reads."""
        return tuple(self.stream.split("+"))

    def samples(self) -> list[Sample]:
        """Example inputs: sentences, paths of PNG files, or {"text": ..., "image": ...}."""
        place = self.folder / self.samples_path
        if place.is_dir() and len(self.streams) > 1:
            questions = json.loads((place / QUESTIONS).read_text(encoding="utf-8"))
            return [{"text": one["text"], "image": place / one["image"]} for one in questions]
        if place.is_dir():
            return [*sorted(place.glob("*.png"))]
        return [*json.loads(place.read_text(encoding="utf-8"))]


def models() -> dict[str, BundledModel]:
    """All bundled models by name."""
    found = (_read(path) for path in sorted(ROOT.glob(f"*/{FACTS}")))
    return {model.name: model for model in found}


def _read(path: Path) -> BundledModel:
    """The model that one bundled.json describes."""
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
        return BundledModel(
            name=facts["name"],
            title=facts["title"],
            task=facts["task"],
            stream=facts["stream"],
            folder=path.parent,
            licence=facts["licence"],
            accuracy=float(facts["accuracy"]),
            metric=facts["metric"],
            samples_path=facts["samples"],
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ModelError(
            f"the description of a bundled model, '{path.parent.name}/{path.name}', cannot be"
            f" read ({error!r})",
            remedy="Install whyformer again",
        ) from error

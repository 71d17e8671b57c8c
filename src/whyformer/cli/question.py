"""What a command asks: text, an image or both, a target; and whether a model can be asked that."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import whyformer
from whyformer.attribution import Attribution
from whyformer.cli.arguments import STDIN, read_image, read_input, read_target
from whyformer.errors import InputError, TargetError
from whyformer.inputs.detect import kind_of
from whyformer.models.families import family_of
from whyformer.models.load import Loaded, load_model
from whyformer.models.signature import needed_streams
from whyformer.targets.specs import at_query

SPOKEN = {"text": "text", "image": "images", "audio": "sound"}
EXAMPLE = "whyformer explain --image scene.png 'what colour is the circle?'"


@dataclass(frozen=True)
class Question:
    """Inputs and target as `explain` takes them, by what the user typed."""

    inputs: Any
    target: Any
    query: int | None = None

    @property
    def has(self) -> set[str]:
        """Which of text and image were given."""
        if isinstance(self.inputs, dict):
            return set(self.inputs)
        return {"text" if isinstance(self.inputs, str) else "image"}

    def load(self, model: str | None) -> Loaded:
        """The model, which can be asked this; raises where it reads something else."""
        loaded = load_model(model, None, kind_of(self.inputs) if model is None else None)
        family = family_of(loaded.module)
        reads = needed_streams(loaded.module, family)
        _check_streams(self.has, reads, loaded.name, family is not None and family.writes)
        if self.query is not None and family is not None and not family.detects:
            raise TargetError(
                f"--query {self.query} asks an object query and {loaded.name} has none; leave it"
                f" out, or choose a detector as --model{_listed('object-detection')}"
            )
        return loaded


def read_question(
    given: str | None, image: Path | None, target: str | None, query: int | None
) -> Question:
    """The question out of INPUT, --image, --target and --query."""
    wanted = at_query(query, read_target(target))
    if image is None:
        return Question(read_input(given), wanted, query)
    if given == STDIN and str(image) == STDIN:
        raise InputError("INPUT and --image are both '-', and stdin holds one of them only")
    picture = read_image(image)
    # Without a text stdin is left alone: most models that read images need none.
    text = None if given is None else read_input(given)
    if text is None:
        return Question(picture, wanted, query)
    if not isinstance(text, str):
        raise InputError(
            f"INPUT is an image and so is --image {str(image)!r}; give one image, and the text as"
            f" INPUT: {EXAMPLE}"
        )
    return Question({"text": text, "image": picture}, wanted, query)


def named(attribution: Attribution, loaded: Loaded) -> Attribution:
    """The attribution under the name that the user gave the model."""
    return replace(attribution, provenance={**attribution.provenance, "model": loaded.name})


def _check_streams(has: set[str], reads: set[str], name: str, writes: bool) -> None:
    """Nothing; raises where the model lacks an input or was given one that it does not read.

    `writes` says that it gives text, which somebody may have passed as INPUT.
    """
    if not reads <= set(SPOKEN) or has == reads:
        return
    said = f"{name} reads {' and '.join(SPOKEN[one] for one in sorted(reads, reverse=True))}"
    if has < reads:
        how = {"text": "a text as INPUT", "image": "--image FILE"}
        missing = " and ".join(how.get(one, one) for one in sorted(reads - has))
        raise InputError(f"{said}: give {missing} as well, as in {EXAMPLE}")
    extra = sorted(has - reads)[0]
    other = f"choose another --model{_listed(streams=has)}"
    if not has > reads:
        raise InputError(f"{said} and was given {SPOKEN[extra]}; {other}")
    what = "an image" if extra == "image" else "a text"
    meant = "; what it writes is named by --target" if writes and extra == "text" else ""
    raise InputError(f"{said} and was given {what}; leave it out, or {other}{meant}")


def _listed(task: str = "", streams: set[str] | None = None) -> str:
    """The bundled models for a task or for these inputs, to be named behind `--model`."""
    names = [
        model.name
        for model in whyformer.models().values()
        if model.task == task or set(model.streams) == streams
    ]
    return f", such as {', '.join(names)}" if names else ""

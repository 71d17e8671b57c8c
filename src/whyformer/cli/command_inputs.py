"""The inputs and target of `explain` and `compare`, and a model that can read them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import whyformer
from whyformer.cli.arguments import STDIN, read_chats, read_image, read_input
from whyformer.cli.target_options import TargetOptions
from whyformer.errors import InputError, OptionError, TargetError
from whyformer.inputs.detect import is_chat, is_chats, kind_of
from whyformer.models.families import family_of
from whyformer.models.load import Loaded, load_model
from whyformer.models.signature import needed_streams, placeholder_streams

STREAM_NAMES = {"text": "text", "image": "images", "audio": "sound"}
EXAMPLE = "whyformer explain --image scene.png 'what colour is the circle?'"
PAIR_EXAMPLE = "Write for example whyformer explain 'who wrote it?' --context passage.txt"


@dataclass(frozen=True)
class CommandInputs:
    """Inputs and target as `whyformer.explain` takes them."""

    inputs: Any
    target: Any
    query: int | None = None

    @property
    def streams(self) -> set[str]:
        """The streams of the inputs: "text", "image" or both."""
        if isinstance(self.inputs, dict):
            return set(self.inputs)
        if is_chats(self.inputs):
            chats = [self.inputs] if is_chat(self.inputs) else self.inputs
            contents = [message.get("content") for chat in chats for message in chat]
            parts = [part for one in contents if isinstance(one, list) for part in one]
            kinds = {part.get("type") for part in parts if isinstance(part, dict)}
            return {"text", "image"} if "image" in kinds else {"text"}
        return {"text" if isinstance(self.inputs, str | tuple) else "image"}

    def load(
        self, model: str | None, device: str | None = None, dtype: str | None = None
    ) -> Loaded:
        """Load the model; raise InputError if it does not read these inputs."""
        kind = kind_of(self.inputs) if model is None else None
        loaded = load_model(model, None, kind, device, dtype)
        family = family_of(loaded.module)
        needed = needed_streams(loaded.module, family)
        also = placeholder_streams(loaded.module, family)
        writes = family is not None and family.generates_text
        _check_streams(self.streams, needed, also, loaded.name, writes)
        if family is not None and family.detects and self.query is None and self.target is not None:
            raise TargetError(
                f"{loaded.name} predicts a class for each object query, so --target needs a query",
                remedy="Add --query N, or leave out --target",
            )
        if self.query is not None and family is not None and not family.detects:
            raise TargetError(
                f"--query {self.query} needs a detector, but {loaded.name} has no object queries",
                remedy="Leave out --query, or choose a detector as"
                f" --model{_bundled_names('object-detection')}",
            )
        return loaded


def read_command_inputs(
    input_text: str | None,
    image: Path | None,
    target: str | None,
    options: TargetOptions,
    *,
    pair: str | None = None,
    chat: Sequence[Path] | None = None,
) -> CommandInputs:
    """Return the inputs from INPUT, --image, --pair and --chat, and the target."""
    parsed = options.read(target)
    if chat:
        _refuse_beside("--chat holds the whole prompt", INPUT=input_text, image=image, pair=pair)
        return CommandInputs(read_chats(chat), parsed, options.query)
    if pair is not None:
        _refuse_beside("--pair is a second text", image=image)
        return CommandInputs(_read_pair(input_text, pair), parsed, options.query)
    if image is None:
        return CommandInputs(read_input(input_text), parsed, options.query)
    if input_text == STDIN and str(image) == STDIN:
        raise InputError(
            "INPUT and --image are both '-', but stdin holds only one of them",
            remedy="Name a file for the other",
        )
    picture = read_image(image)
    # Without INPUT stdin is not read: most models that read images need no text.
    text = None if input_text is None else read_input(input_text)
    if text is None:
        return CommandInputs(picture, parsed, options.query)
    if not isinstance(text, str):
        raise InputError(
            f"INPUT is an image, and so is --image {str(image)!r}",
            remedy=f"Pass one image, and the text as INPUT: {EXAMPLE}",
        )
    return CommandInputs({"text": text, "image": picture}, parsed, options.query)


def _refuse_beside(reason: str, **others: Any) -> None:
    """Raise OptionError if one of these options has a value too."""
    for name, other in others.items():
        if other is not None:
            option = name if name == "INPUT" else f"--{name}"
            raise OptionError(
                f"{reason}, and {option} was given too", remedy="Leave out one of the two"
            )


def _read_pair(first: str | None, second: str) -> tuple[str, str]:
    """Both texts; raise InputError if one is an image."""
    if first == STDIN and second == STDIN:
        raise InputError(
            "INPUT and --pair are both '-', but stdin holds only one of them",
            remedy="Name a file for the other",
        )
    texts = read_input(first), read_input(second)
    for name, text in zip(("INPUT", "--pair"), texts, strict=True):
        if not isinstance(text, str):
            raise InputError(f"{name} is an image, and --pair needs two texts", remedy=PAIR_EXAMPLE)
    return texts


def _check_streams(
    streams: set[str], needed: set[str], also: set[str], name: str, writes: bool
) -> None:
    """Raise InputError if the model lacks an input, or does not read one of these.

    Args:
        streams: Those of the inputs.
        needed: Those that the model needs.
        also: Those that it reads too, if they are there.
        name: The model, for the error.
        writes: Whether the model generates text, which a user may have passed as INPUT.
    """
    missing, extra = needed - streams, streams - needed - also
    if not needed <= set(STREAM_NAMES) or not (missing or extra):
        return
    reads = sorted((needed | also) & set(STREAM_NAMES), reverse=True)
    fact = f"{name} reads {' and '.join(STREAM_NAMES[one] for one in reads)}"
    if not extra:
        options = {"text": "a text as INPUT", "image": "--image FILE"}
        asked = " and ".join(options.get(one, one) for one in sorted(missing))
        raise InputError(fact, remedy=f"Also pass {asked}, as in {EXAMPLE}")
    others = _bundled_names(streams=streams)
    one = sorted(extra)[0]
    if missing:
        raise InputError(
            f"{fact}, but was given {STREAM_NAMES[one]}",
            remedy=f"Choose another --model{others}",
        )
    what = "an image" if one == "image" else "a text"
    hint = ". Name the text it generates with --answer" if writes and one == "text" else ""
    raise InputError(
        f"{fact}, but was given {what}",
        remedy=f"Leave it out, or choose another --model{others}{hint}",
    )


def _bundled_names(task: str = "", streams: set[str] | None = None) -> str:
    """Return ", such as a, b" with the bundled models for a task or for these inputs."""
    names = [
        model.name
        for model in whyformer.models().values()
        if model.task == task or set(model.streams) == streams
    ]
    return f", such as {', '.join(names)}" if names else ""

"""What metrics take besides the attribution, and where an evaluation gets it from.

A metric names its needs as arguments. An argument that is not listed here is declared in the
metric's own file: `@metric(..., needs=(Need("gaze", "where people looked", extra="gaze"),))`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Source = Literal["model", "labels", "sample", "methods", "randomised", "caller"]


@dataclass(frozen=True)
class Need:
    """One argument of a metric.

    Args:
        name: The argument's name.
        description: What to pass, with its shape.
        source: Where an evaluation gets it: running the model again, the labels, the sample's
            extras, the attributions of the other methods, the attributions of models with
            randomised weights; "caller" if an evaluation never passes it.
        extra: The key of `Sample.extras` that holds it, if the source is "sample".
        stream: "image" if it refers to the image, also when text is the main stream.
        dataset_words: Whether it counts words as the dataset does, not as the tokenizer does.
    """

    name: str
    description: str
    source: Source = "sample"
    extra: str = ""
    stream: Literal["image"] | None = None
    dataset_words: bool = False


RERUN = Need("rerun", "a callable that runs the model on the kept tokens", "model")
LABELS = Need("labels", "the true classes, (batch,)", "labels")
MASKS = Need("masks", "where the object is, (batch, height, width)", extra="mask", stream="image")
REGIONS = Need(
    "regions",
    "where the object is, (batch, height, width) or (batch, tokens)",
    extra="mask",
    stream="image",
)
RATIONALES = Need(
    "rationales",
    "which words or tokens a person marked, (batch, words or tokens)",
    extra="rationale",
    dataset_words=True,
)
OTHER_METHOD = Need("other", "another attribution of the same inputs", "methods")
RANDOMISED = Need(
    "other", "the attributions of the same inputs by models with randomised weights", "randomised"
)
KEEP = Need("keep", "tokens that are never removed, (batch, tokens)", "caller")

NEEDS = {
    need.name: need for need in (RERUN, LABELS, MASKS, RATIONALES, REGIONS, OTHER_METHOD, KEEP)
}

"""The labels that a multi-label model predicts, each on its own."""

from __future__ import annotations

from typing import Any

from whyformer.engine.predict import predict
from whyformer.errors import OptionError
from whyformer.inputs.prepare import prepare
from whyformer.models.load import Loaded
from whyformer.models.signature import config_of
from whyformer.targets.labels import ClassNames

MULTI_LABEL = "multi_label_classification"


def is_multi_label(loaded: Loaded) -> bool:
    """Return whether the model's config says that labels do not exclude each other."""
    return getattr(config_of(loaded.module), "problem_type", None) == MULTI_LABEL


def predicted_labels(loaded: Loaded, inputs: Any, truncation: bool) -> list[tuple[int, str, float]]:
    """Return (index, name, probability) of the labels over 50 %, the highest first.

    Raises:
        OptionError: The model is not a multi-label model, or predicts no label.
    """
    if not is_multi_label(loaded):
        raise OptionError(
            f"--predicted is for multi-label models, and {loaded.name} chooses one class",
            remedy="Leave out --predicted, or name the classes with --targets A,B",
        )
    batch = prepare(inputs, loaded.module, loaded.processor, loaded.family, truncation)
    logits = predict(loaded.module, batch)[0]
    names = ClassNames(loaded.module, len(logits))
    found = [int(i) for i in logits.argsort(descending=True) if float(logits[i]) > 0]
    if not found:
        raise OptionError(
            f"{loaded.name} gives no label a probability over 50 %",
            remedy="Name the labels with --targets A,B",
        )
    chances = logits.float().sigmoid()
    return [(index, names.name(index), float(chances[index])) for index in found]

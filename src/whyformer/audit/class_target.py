"""The class that a names audit compares, and what the model predicts for every text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from whyformer.targets.labels import ClassNames
from whyformer.targets.specs import Contrast

# Labels of a favourable class. If the model has none of them, the last class is compared.
FAVOURABLE = ("positive", "pos", "favorable", "favourable", "good", "yes", "entailment")


@dataclass(frozen=True)
class ClassTarget:
    """One class for all texts, or the difference between two classes."""

    index: int
    label: str
    other: int | None = None
    other_label: str = ""

    @property
    def name(self) -> str:
        """The target in words."""
        return self.label if self.other is None else f"{self.label} rather than {self.other_label}"

    @property
    def target(self) -> int | Contrast:
        """The target as `explain` takes it."""
        return self.index if self.other is None else Contrast(self.index, self.other)


@dataclass(frozen=True)
class Prediction:
    """The probability of the target and the predicted class; None if the model has no classes."""

    probability: float | None
    label: str | None


def choose_class(module: nn.Module, count: int, target: Any = None) -> ClassTarget:
    """Return the class to explain: `target`, else the favourable one, else the last one.

    Args:
        module: The model, whose config names the classes.
        count: How many classes it has.
        target: A label, an index, or a contrast of two.

    Raises:
        TargetError: The model has no such class.
    """
    names = ClassNames(module, count)
    if isinstance(target, Contrast):
        index, other = names.index(target.chosen), names.index(target.other)
        return ClassTarget(index, names.name(index), other, names.name(other))
    if target is not None:
        index = names.index(target)
    else:
        folded = [name.casefold() for name in names.names]
        found = [folded.index(name) for name in FAVOURABLE if name in folded]
        index = found[0] if found else names.count - 1
    return ClassTarget(index, names.name(index))


def predictions(scores: Tensor, target: ClassTarget, module: nn.Module) -> list[Prediction]:
    """Return one prediction per row of `scores` (texts, classes)."""
    if scores.shape[1] == 1:
        return [Prediction(None, None)] * len(scores)
    own = scores[:, target.index]
    if _is_multi_label(module):
        probabilities = own.sigmoid()
        labels = [target.label if score > 0 else f"not {target.label}" for score in own]
    else:
        names = ClassNames(module, scores.shape[1])
        probabilities = scores.double().softmax(1)[:, target.index]
        labels = [names.name(int(best)) for best in scores.argmax(1)]
    return [Prediction(p, label) for p, label in zip(probabilities.tolist(), labels, strict=True)]


def _is_multi_label(module: nn.Module) -> bool:
    kind = getattr(getattr(module, "config", None), "problem_type", None)
    return kind == "multi_label_classification"

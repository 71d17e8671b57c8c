"""The answer of a classifier beside the one score that is explained: classes and probability."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from whyformer.errors import TargetError
from whyformer.targets.labels import ClassNames
from whyformer.targets.specs import Contrast

# What the favourable class is called; where no label reads like it, the last one is taken.
FAVOURABLE = ("positive", "pos", "favorable", "favourable", "good", "yes", "entailment")


@dataclass(frozen=True)
class Prediction:
    """What a model says of one text; a model of one number has no classes and no probability."""

    value: float
    probability: float | None
    said: str | None  # the predicted class

    @property
    def has_classes(self) -> bool:
        """Whether there is a decision that could flip."""
        return self.said is not None


class ClassTarget:
    """A target that is the same class for every text, and hears the whole answer.

    It is handed to `explain` as a callable, so that probability and prediction come out of the
    very pass that is explained.
    """

    def __init__(self, module: nn.Module, wanted: Any = None) -> None:
        self.module, self.wanted = module, wanted
        self.label = ""
        self.against = ""
        self.index = -1
        self._heard: list[tuple[Tensor, Tensor]] = []  # value and scores, call by call

    @property
    def __name__(self) -> str:  # what an attribution calls this target
        return self.label if not self.against else f"{self.label} rather than {self.against}"

    def __call__(self, output: Any) -> Tensor:
        scores = _scores(output, self.module)
        names = ClassNames(self.module, scores.shape[1])
        index, other = self._classes(names)
        self.index, self.label = index, names.name(index)
        value = scores[:, index]
        if other is not None:
            self.against = names.name(other)
            value = value - scores[:, other]
        self._heard.append((value.detach(), scores.detach()))
        return value

    def answers(self, values: Tensor) -> list[Prediction]:
        """What the model said in the pass whose values these are; forgets all passes."""
        heard, self._heard = self._heard, []
        # A method may look at other inputs too: the explained pass is the one with these values.
        value, scores = min(heard, key=lambda call: float((call[0].cpu() - values).abs().max()))
        names = ClassNames(self.module, scores.shape[1])
        if scores.shape[1] == 1:
            return [Prediction(v, None, None) for v in value.tolist()]
        if _is_multi_label(self.module):
            chance = scores[:, self.index].sigmoid()
            said = [self.label if s > 0 else f"not {self.label}" for s in scores[:, self.index]]
        else:
            chance = scores.double().softmax(1)[:, self.index]
            said = [names.name(int(best)) for best in scores.argmax(1)]
        together = zip(value.tolist(), chance.tolist(), said, strict=True)
        return [Prediction(v, p, s) for v, p, s in together]

    def _classes(self, names: ClassNames) -> tuple[int, int | None]:
        """The class that is explained, and the one it is set against."""
        if isinstance(self.wanted, Contrast):
            return names.index(self.wanted.chosen), names.index(self.wanted.other)
        if self.wanted is not None:
            return names.index(self.wanted), None
        folded = [name.casefold() for name in names.names]
        likely = next((folded.index(name) for name in FAVOURABLE if name in folded), None)
        return names.count - 1 if likely is None else likely, None


def _scores(output: Any, module: nn.Module) -> Tensor:
    """The scores of the classes, (batch, classes)."""
    found = output
    if isinstance(output, Mapping):
        found = output.get("logits")
    elif isinstance(output, tuple | list):
        found = next((v for v in output if isinstance(v, Tensor) and v.ndim), None)
    if isinstance(found, Tensor) and found.ndim == 1:
        found = found.unsqueeze(1)
    if not isinstance(found, Tensor) or found.ndim != 2:
        raise TargetError(
            f"{type(module).__name__} gives no list of classes per text, which is what an audit"
            " compares; load a model with a head for sequence classification"
        )
    return found


def _is_multi_label(module: nn.Module) -> bool:
    kind = getattr(getattr(module, "config", None), "problem_type", None)
    return kind == "multi_label_classification"

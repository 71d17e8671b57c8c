"""Deletion curves: the class probability while the most relevant tokens are removed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor

from whyformer.attribution import Attribution
from whyformer.engine.rerun import Rerun
from whyformer.inputs.prepare import prepare
from whyformer.inputs.removal import Removal
from whyformer.metrics import metrics
from whyformer.metrics.predictor import Against, followed_class, kept_logits
from whyformer.models.families import family_of
from whyformer.models.load import Loaded
from whyformer.targets.labels import ClassNames

STEPS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
METRIC = "perturbation_positive"
MOST_CLASSES = 1000  # more "classes" than this are a vocabulary, and are not listed
TOP = 6  # classes shown

Point = Callable[[float, float], None]


class DeletionCurves:
    """Measures deletion curves of one input, by running the model again at each step."""

    def __init__(self, inputs: Any, loaded: Loaded) -> None:
        self._module = loaded.module
        family = family_of(loaded.module)
        self._prepared = prepare(inputs, loaded.module, loaded.processor, family)
        self._rerun = Rerun(Removal(self._prepared, loaded.module, family))

    def streams(self, attribution: Attribution) -> list[str]:
        """Return the streams whose tokens can be removed, the main one first."""
        names = [name for name in attribution.streams if self._prepared.of(name) is not None]
        return sorted(names, key=lambda name: name != attribution.main)

    def probabilities(self, attribution: Attribution) -> Tensor:
        """Return the class probabilities of the whole input, (classes,)."""
        rerun = self._rerun.with_grids_of(attribution)
        stream = attribution.streams[self.streams(attribution)[0]]
        return kept_logits(rerun, stream.name, stream.mask)[0].softmax(0)

    def classes(self, shares: Tensor) -> list[dict[str, Any]]:
        """Return the most probable classes with names; empty if the output is not classes."""
        if not 1 < len(shares) <= MOST_CLASSES:
            return []
        names = ClassNames(self._module, len(shares))
        best = shares.topk(min(TOP, len(shares)))
        found = zip(best.indices.tolist(), best.values.tolist(), strict=True)
        return [{"name": names.name(index), "share": share} for index, share in found]

    def curve(self, attribution: Attribution, stream: str, point: Point) -> float:
        """Return the area under the curve of one stream.

        `point` is called with each (share removed, probability). The curve follows the explained
        class, or the predicted one if the target is not a class.
        """
        rerun = self._rerun.with_grids_of(attribution)
        one = attribution.streams[stream]
        full = kept_logits(rerun, stream, one.mask)
        target = int(attribution.target[0])
        against: Against = "target" if 0 <= target < full.shape[1] else "predicted"
        followed = int(followed_class(against, full, attribution, None)[0])
        reporting = _ReportingRerun(rerun, followed, point)
        score = metrics[METRIC](
            attribution[0],
            rerun=reporting,
            stream=stream,
            steps=STEPS,
            against=against,
            measure="probability",
        )
        return float(score.values[0])


class _ReportingRerun:
    """A rerun that reports each probability; it is no `Rerun`, so steps run one by one."""

    def __init__(self, rerun: Rerun, followed: int, point: Point) -> None:
        self._rerun, self._followed, self._point = rerun, followed, point
        self._steps_done = -1  # the first call has the whole input

    def __call__(self, kept: Mapping[str, Tensor]) -> Tensor:
        logits = self._rerun(kept)
        if self._steps_done >= 0:
            share = STEPS[self._steps_done]
            self._point(share, float(logits[0].double().softmax(0)[self._followed]))
        self._steps_done += 1
        return logits

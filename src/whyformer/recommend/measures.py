"""What decides: measures that rerun the model, and those that masks or marked words allow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from whyformer.datasets import Sample
from whyformer.errors import InputError, ModelError, OptionError
from whyformer.evaluation.default_metrics import no_classes_reason
from whyformer.evaluation.plan import MetricSpec, metric_specs
from whyformer.metrics import metrics
from whyformer.models.load import Loaded

# Dense where the most relevant tokens are. Half as many as in the paper, for twice the samples;
# both measures share the empty and the full input.
STEPS = (0.0, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0)
DELETION = MetricSpec(
    "deletion",
    "perturbation_positive",
    {"measure": "probability", "steps": STEPS, "rounding": "up"},
)
MASKS = (
    MetricSpec("segmentation/miou", "segmentation", {"measure": "miou"}),
    MetricSpec("segmentation/map", "segmentation", {"measure": "map"}),
)


def default_measures(
    loaded: Loaded, samples: Sequence[Sample], fill: str | None
) -> tuple[MetricSpec, ...]:
    """AUAC and deletion; segmentation if all samples have masks, token-F1 if all have words marked.

    Raises:
        ModelError: The model gives no class probabilities, and the data has nothing else.
    """
    reason = no_classes_reason(loaded, samples[0])
    found: tuple[MetricSpec, ...] = ()
    if not reason:
        found = (*metric_specs(["auac"], {"auac": {"steps": STEPS}}, fill), DELETION)
    if all("mask" in sample.extras for sample in samples):
        found += MASKS
    if all("rationale" in sample.extras for sample in samples):
        found += metric_specs(["token_f1"], None, fill)
    if not found:
        raise ModelError(
            f"methods cannot be compared by removing tokens: {reason}",
            argument="metrics",
            remedy="Use a model with classes, or data with masks or marked words",
        )
    return found


def named_measures(names: Sequence[Any], fill: str | None) -> tuple[MetricSpec, ...]:
    """The metrics that the user named; "deletion" is ours.

    Raises:
        UnknownNameError: There is no such metric.
        OptionError: A metric cannot decide: it compares methods, or has no better direction.
    """
    if isinstance(names, str):
        raise OptionError(
            f"metrics={names!r} is one text",
            argument="metrics",
            remedy="Pass a list, as in metrics=['auac', 'deletion']",
        )
    found: list[MetricSpec] = []
    for one in names:
        if isinstance(one, MetricSpec):
            found.append(one)
        elif one == DELETION.label:
            found.append(DELETION)
        else:
            found += metric_specs([one], None, fill)
    for spec in found:
        known = metrics[spec.metric]
        if known.compares_methods or known.better == "neither":
            raise OptionError(
                f"metric {spec.label!r} does not say which method is better",
                argument="metrics",
                remedy="Name metrics with a better direction, such as auac and deletion",
            )
    return tuple(found)


def check_needs(specs: Sequence[MetricSpec], samples: Sequence[Sample]) -> None:
    """Raise InputError if a sample lacks the label or the extras that a metric needs."""
    for spec in specs:
        for need in metrics[spec.metric].required(spec.options):
            for sample in samples:
                label = need.source == "labels" and sample.label is None
                if label or (need.source == "sample" and need.extra not in sample.extras):
                    what = "label" if label else need.extra or need.name
                    raise InputError(
                        f"metric {spec.label!r} needs {need.description}, and sample {sample.id!r}"
                        f" has no {what}",
                        argument="metrics",
                        remedy="Use data that has it, or leave out this metric",
                    )

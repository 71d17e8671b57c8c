"""The metrics that fit a model and its data, used if the user names no metrics."""

from __future__ import annotations

from collections.abc import Sequence

from whyformer.datasets import Sample
from whyformer.engine.predict import predict
from whyformer.errors import InputError, ModelError, TargetError
from whyformer.evaluation.collation import inputs_of
from whyformer.inputs.prepare import prepare
from whyformer.metrics import Metric, metrics
from whyformer.models.load import Loaded


def default_metrics(loaded: Loaded, samples: Sequence[Sample]) -> tuple[tuple[str, ...], str]:
    """The names of the metrics that fit, and why metrics that rerun the model do not fit, or "".

    A metric fits if the model and the first sample provide all that it needs. Metrics that rerun
    the model come first, those that need data from the sample last.
    """
    reason = no_classes_reason(loaded, samples[0])
    extras = set(samples[0].extras)

    def fits(metric: Metric) -> bool:
        return all(
            need.extra in extras
            if need.source == "sample"
            else need.source == "model" and not reason
            for need in metric.required({})
        )

    found = [metric for metric in metrics.values() if fits(metric)]
    found.sort(key=lambda metric: (not metric.reruns, len(metric.needs)))
    return tuple(metric.name for metric in found), reason


def no_classes_reason(loaded: Loaded, sample: Sample) -> str:
    """Why the model gives no class probabilities for a sample; "" if it does."""
    module = loaded.module
    try:
        inputs = inputs_of([sample], loaded)
        prepared = prepare(inputs, module, loaded.processor, loaded.family, True)
        logits = predict(module, prepared)
    except (ModelError, InputError, TargetError) as error:
        return error.message
    if logits.shape[1] < 2:
        return f"{type(module).__name__} gives one number, which has no probability"
    return ""

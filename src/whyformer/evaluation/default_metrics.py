"""Which metrics a model and a dataset allow, where the user names none."""

from __future__ import annotations

from collections.abc import Sequence

from whyformer.datasets import Sample
from whyformer.engine.predict import predict
from whyformer.errors import InputError, ModelError, TargetError
from whyformer.evaluation.collation import inputs_of
from whyformer.inputs.prepare import prepare
from whyformer.metrics import metrics
from whyformer.models.families import family_of
from whyformer.models.load import Loaded

# What needs nothing from the data, and what needs a model that answers with classes.
ALWAYS = ("conservation",)
WITH_CLASSES = (
    "auac",
    "au_mse",
    "perturbation_positive",
    "perturbation_negative",
    "comprehensiveness",
    "sufficiency",
)
WITH = {"masks": "mask", "regions": "mask", "rationales": "rationale"}  # need -> extra


def default_metrics(loaded: Loaded, samples: Sequence[Sample]) -> tuple[tuple[str, ...], str]:
    """The names of the metrics that fit, and why others do not, if so."""
    found = [*ALWAYS]
    left_out = no_classes_reason(loaded, samples[0])
    if not left_out:
        found = [*WITH_CLASSES, *found]
    extras = set(samples[0].extras)
    for name, metric in metrics.items():
        wanted = [WITH[need] for need in metric.needs if need in WITH]
        if wanted and set(wanted) <= extras and "rerun" not in metric.needs:
            found.append(name)
    return tuple(found), left_out


def no_classes_reason(loaded: Loaded, sample: Sample) -> str:
    """Why the model cannot be asked again about its classes; nothing where it can."""
    module = loaded.module
    try:
        inputs = inputs_of([sample], loaded)
        prepared = prepare(inputs, module, loaded.processor, family_of(module), True)
        logits = predict(module, prepared)
    except (ModelError, InputError, TargetError) as error:
        return str(error)
    if logits.shape[1] < 2:
        return f"{type(module).__name__} answers with one number, which has no probability"
    return ""

"""One batch of samples: its attributions and reruns, each computed once, and its result rows."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from whyformer.attribution import Attribution
from whyformer.engine.predict import predict
from whyformer.errors import InputError, TrustWarning, WhyformerError
from whyformer.evaluation.collation import inputs_of
from whyformer.evaluation.metric_inputs import read_need, with_dataset_words
from whyformer.evaluation.plan import MethodSpec, MetricSpec, Plan
from whyformer.evaluation.randomised_models import randomise_weights
from whyformer.evaluation.sample_batches import SampleBatch
from whyformer.evaluation.units import EvaluatedModel, ResultRow, row_facts, row_label, unit_id
from whyformer.inputs.batch import Batch
from whyformer.inputs.images import plain_processor
from whyformer.inputs.prepare import prepare
from whyformer.inputs.removal import Removal
from whyformer.metrics import Rerun, Score, metrics
from whyformer.metrics.needs import Need
from whyformer.models.load import Loaded
from whyformer.models.processors import image_processor_of
from whyformer.pipeline.explain_each import Ask, explain_each

Pair = tuple[MethodSpec, str]  # a method and a target


@dataclass
class BatchEvaluation:
    """One batch: what its methods and metrics need, computed once and on demand."""

    model: EvaluatedModel
    plan: Plan
    samples: SampleBatch
    _known: dict[tuple[str, str], Attribution] = field(default_factory=dict)

    @cached_property
    def prepared(self) -> Batch:
        """The inputs as the model expects them."""
        loaded = self.model.loaded
        try:
            inputs = inputs_of(self.samples.samples, loaded)
            return _prepare(inputs, loaded, self.plan.truncation)
        except InputError as error:
            raise self._about_sample(error) from error

    @cached_property
    def removal(self) -> Removal:
        """How tokens are removed from these samples."""
        loaded = self.model.loaded
        steps = None
        if any("pixel_values" in one.carrier for one in self.prepared):
            steps = image_processor_of(loaded.processor, loaded.module) or plain_processor(
                loaded.module
            )
        return Removal(self.prepared, loaded.module, loaded.family, self.plan.fill, steps)

    @cached_property
    def rerun(self) -> Rerun:
        """Runs the model again; metrics share the logits of the whole input."""
        return Rerun(self.removal)

    @cached_property
    def predicted_classes(self) -> tuple[int, ...]:
        """The classes that the model predicts."""
        return tuple(predict(self.model.loaded.module, self.prepared).argmax(1).tolist())

    # -- attributions ----------------------------------------------------------------------------

    def attribution(self, method: MethodSpec, target: str) -> Attribution:
        """The attribution of all samples by one method, of the predicted or the true class."""
        return self.attributions([(method, target)])[0]

    def attributions(self, pairs: Iterable[Pair]) -> list[Attribution]:
        """The attribution for each method and target."""
        keys = [(method, self._explained_target(target)) for method, target in pairs]
        new = {
            (method.label, target): Ask(method.method, self._classes(target), method.options)
            for method, target in keys
            if (method.label, target) not in self._known
        }
        self._known.update(zip(new, self._explain(self.model.loaded, new.values()), strict=True))
        return [self._known[method.label, target] for method, target in keys]

    def _explained_target(self, target: str) -> str:
        """ "predicted" if the true classes are those that the model predicts, else the target."""
        if target == "label" and tuple(self.samples.labels) == self.predicted_classes:
            return "predicted"
        return target

    def _classes(self, target: str) -> list[int] | None:
        return self.samples.classes().tolist() if target == "label" else None

    def _explain(self, model: Loaded, asks: Iterable[Ask]) -> list[Attribution]:
        with warnings.catch_warnings():  # one per batch would hide the results
            warnings.simplefilter("ignore", TrustWarning)
            try:
                answers = list(explain_each(self.prepared, model, asks))
            except InputError as error:
                raise self._about_sample(error) from error
        return [answer.attribution for answer in answers if answer.attribution is not None]

    def _about_sample(self, error: InputError) -> WhyformerError:
        """The error of the first sample that cannot be read alone; else the error itself."""
        for sample in self.samples.samples:
            try:
                alone = inputs_of([sample], self.model.loaded)
                _prepare(alone, self.model.loaded, self.plan.truncation)
            except InputError as sample_error:
                return sample_error.with_prefix(f"sample {sample.id!r}")
        return error

    def randomised_attributions(self, method: MethodSpec, target: str) -> list[Attribution]:
        """The attributions of the same classes by models with randomised weights."""
        attribution = self.attribution(method, target)
        loaded = self.model.loaded
        ask = Ask(method.method, attribution.target.tolist(), method.options)
        return [
            one
            for copy in randomise_weights(loaded.module, attribution.main, self.plan.seed)
            for one in self._explain(replace(loaded, module=copy), [ask])
        ]

    # -- rows ------------------------------------------------------------------------------------

    def rows(
        self, method: MethodSpec, pending: Mapping[str, Sequence[MetricSpec]]
    ) -> list[ResultRow]:
        """The rows of one method: every sample by every pending metric of each target."""
        rows: list[ResultRow] = []
        for target, specs in pending.items():
            attribution = self.attribution(method, target)
            for spec in specs:
                for label, score in self._scores(attribution, method, target, spec).items():
                    rows += self._rows(label, score, attribution, method, target, spec)
        return rows

    def _scores(
        self, attribution: Attribution, method: MethodSpec, target: str, spec: MetricSpec
    ) -> dict[str, Score]:
        """The scores of one metric by label in the table: its measures, or the other methods."""
        metric = metrics[spec.metric]
        needs = metric.required(spec.options)
        options = dict(spec.options)
        if any(need.stream == "image" for need in needs) and "stream" in metric.options:
            options.setdefault("stream", _image_stream(attribution))
        if any(need.dataset_words for need in needs) and options.get("level", "word") == "word":
            samples = self.samples.samples
            attribution = with_dataset_words(attribution, samples, self.model.loaded)
        needed = {
            need.name: self._value(need, attribution, method, target)
            for need in needs
            if need.source != "methods"
        }
        if not metric.compares_methods:
            found = metric.scores(attribution, **needed, **options)
            return {row_label(spec, measure): score for measure, score in found.items()}
        (compared,) = (need.name for need in needs if need.source == "methods")
        others = self.attributions([(other, target) for other in self.plan.methods])
        return {
            row_label(spec, other.label): metric(
                attribution, **{compared: found}, **needed, **options
            )
            for other, found in zip(self.plan.methods, others, strict=True)
        }

    def _value(self, need: Need, attribution: Attribution, method: MethodSpec, target: str) -> Any:
        """What a metric needs, for these samples."""
        if need.source == "model":
            # Not with the logits of other metrics: a value must not depend on what ran before.
            return self.rerun.with_grids_of(attribution).without_answers()
        if need.source == "labels":
            return self.samples.classes()
        if need.source == "randomised":
            return self.randomised_attributions(method, target)
        return read_need(need, self.samples.samples, self.model.loaded)

    def _rows(
        self,
        label: str,
        score: Score,
        attribution: Attribution,
        method: MethodSpec,
        target: str,
        spec: MetricSpec,
    ) -> list[ResultRow]:
        """One row per sample."""
        facts = row_facts(spec, self.plan)[label]
        fill, convention = None, score.convention
        if metrics[spec.metric].reruns:
            fill = self.removal.fill_of(spec.options.get("stream") or attribution.main)
            convention = f"{convention}; removed tokens filled: {fill}"
        return [
            {
                "unit": unit_id(self.model, name, method, target, facts, self.plan),
                "sample": sample.id,
                "method": method.label,
                "target": target,
                "metric": label,
                "value": float(score.values[i]),
                "explained": int(attribution.target[i]),
                "label": self.samples.labels[i],
                "curve": None if score.curve is None else score.curve[i].tolist(),
                "found": None if score.shares is None else score.shares[0][i].tolist(),
                "there": None if score.shares is None else score.shares[1][i].tolist(),
                "convention": convention,
                "steps": None if score.steps is None else list(score.steps),
                "fill": fill,
            }
            for i, (sample, name) in enumerate(
                zip(self.samples.samples, self.samples.fingerprints, strict=True)
            )
        ]


def _prepare(inputs: Any, loaded: Loaded, truncation: bool) -> Batch:
    return prepare(inputs, loaded.module, loaded.processor, loaded.family, truncation)


def _image_stream(attribution: Attribution) -> str:
    """The stream that is an image: the main one if it has a grid, else the first that has one."""
    grids = [name for name, stream in attribution.streams.items() if stream.grid is not None]
    return attribution.main if attribution.main in grids or not grids else grids[0]

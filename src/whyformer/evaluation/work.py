"""One piece of work: some samples, one method, all metrics; it needs nothing but its inputs."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, get_args

import torch
from torch import Tensor

from whyformer.attribution import Attribution
from whyformer.datasets import Sample
from whyformer.engine.predict import predict
from whyformer.errors import ConservationWarning, InputError, RelevanceWarning
from whyformer.evaluation.collation import inputs_of
from whyformer.evaluation.fingerprint import named
from whyformer.evaluation.metric_inputs import PROVIDERS, in_words_of
from whyformer.evaluation.plan import Contender, Measure, Plan
from whyformer.evaluation.randomised import randomised
from whyformer.evaluation.rerun import Rerun
from whyformer.explain import explain
from whyformer.inputs.images import plain_processor
from whyformer.inputs.prepare import prepare
from whyformer.inputs.removal import Removal
from whyformer.metrics import metrics
from whyformer.metrics.score import Score
from whyformer.models.families import family_of
from whyformer.models.load import Loaded
from whyformer.models.processors import image_processor_of

FORMAT = 2  # of units: raised when the same settings would give other numbers
AGREEMENT = "agreement"
Row = dict[str, Any]


@dataclass(frozen=True)
class Subject:
    """What is explained: the model, and its name by content."""

    loaded: Loaded
    fingerprint: str


@dataclass(frozen=True)
class Chunk:
    """Samples of similar length that run together, their names by content, and their classes."""

    samples: tuple[Sample, ...]
    fingerprints: tuple[str, ...]
    labels: tuple[int | None, ...]

    def classes(self) -> Tensor:
        """The true classes, (batch,); raises where a sample has none."""
        for sample, label in zip(self.samples, self.labels, strict=True):
            if label is None:
                raise InputError(
                    f"sample {sample.id!r} has no label; explain the predicted class and use"
                    " metrics that need no labels"
                )
        return torch.tensor(self.labels)

    def among(self, places: Sequence[int]) -> Chunk:
        """Only the samples at some places."""
        return Chunk(
            tuple(self.samples[i] for i in places),
            tuple(self.fingerprints[i] for i in places),
            tuple(self.labels[i] for i in places),
        )


def unit(
    subject: Subject, sample: str, contender: Contender, target: str, measure: Any, plan: Plan
) -> str:
    """The name of sample x method x target x metric: all that decides its value."""
    return named(
        {
            "format": FORMAT,
            "model": subject.fingerprint,
            "sample": sample,
            "method": contender.facts,
            "target": target,
            "metric": measure,
            "fill": plan.fill,
            "seed": plan.seed,
            "truncation": plan.truncation,
        }
    )


def parts_of(measure: Measure, plan: Plan) -> dict[str, dict[str, Any]]:
    """The rows that one metric gives for a sample: their names in the table, and their facts."""
    if measure.metric == AGREEMENT:
        return {
            f"{measure.label}/{other.label}": measure.facts | {"other": other.facts}
            for other in plan.contenders
        }
    metric = metrics[measure.metric]
    if metric.measures is None or "measure" in measure.options:
        return {measure.label: measure.facts}
    return {
        f"{measure.label}/{part}": measure.facts | {"part": part}
        for part in get_args(metric.kinds["measure"])
    }


@dataclass
class Bench:
    """One chunk on the bench: what methods and metrics ask for, worked out once."""

    subject: Subject
    plan: Plan
    chunk: Chunk
    _explained: dict[tuple[str, str], Attribution] = field(default_factory=dict)

    @cached_property
    def inputs(self) -> Any:
        """What `explain` takes."""
        return inputs_of(self.chunk.samples, self.subject.loaded)

    @cached_property
    def removal(self) -> Removal:
        """How tokens are taken away from these samples."""
        module, processor = self.subject.loaded.module, self.subject.loaded.processor
        family = family_of(module)
        try:
            prepared = prepare(self.inputs, module, processor, family, self.plan.truncation)
        except InputError as error:
            raise self._told(error) from error
        steps = None
        if any("pixel_values" in one.carrier for one in prepared):
            steps = image_processor_of(processor, module) or plain_processor(module)
        return Removal(prepared, module, family, self.plan.fill, steps)

    @cached_property
    def rerun(self) -> Rerun:
        """The model asked again; methods that keep the same tokens share the answer."""
        return Rerun(self.removal)

    @cached_property
    def predicted(self) -> tuple[int, ...]:
        """The classes that the model predicts."""
        logits = predict(self.subject.loaded.module, self.removal.batch)
        return tuple(logits.argmax(1).tolist())

    def explained(self, contender: Contender, target: str) -> Attribution:
        """The attribution of all samples by one method, for the predicted or the true class."""
        key = (contender.label, target)
        if key not in self._explained:
            if target == "label" and tuple(self.chunk.labels) == self.predicted:
                self._explained[key] = self.explained(contender, "predicted")
            else:
                wanted = self.chunk.classes().tolist() if target == "label" else None
                self._explained[key] = self._explain(self.subject.loaded.module, contender, wanted)
        return self._explained[key]

    def _explain(self, module: Any, contender: Contender, target: Any) -> Attribution:
        with warnings.catch_warnings():  # figures say it better, for every sample
            warnings.simplefilter("ignore", ConservationWarning)
            warnings.simplefilter("ignore", RelevanceWarning)
            try:
                return explain(
                    self.inputs,
                    module,
                    method=contender.method,
                    target=target,
                    processor=self.subject.loaded.processor,
                    truncation=self.plan.truncation,
                    **contender.options,
                )
            except InputError as error:
                raise self._told(error) from error

    def _told(self, error: InputError) -> InputError:
        """The error with the name of the sample that it is about, where it is about one."""
        loaded, family = self.subject.loaded, family_of(self.subject.loaded.module)
        for sample in self.chunk.samples:
            try:
                alone = inputs_of([sample], loaded)
                prepare(alone, loaded.module, loaded.processor, family, self.plan.truncation)
            except InputError as own:
                return InputError(f"sample {sample.id!r}: {own}")
        return error

    def randomised(self, contender: Contender, target: str) -> list[Attribution]:
        """The attributions of the same classes by models with shuffled weights."""
        stream = self.explained(contender, target).main
        classes = self.explained(contender, target).target.tolist()
        copies = randomised(self.subject.loaded.module, stream, self.plan.seed)
        return [self._explain(one, contender, classes) for one in copies]

    # -- rows ------------------------------------------------------------------------------------

    def rows(self, contender: Contender, wanted: Mapping[str, Sequence[Measure]]) -> list[Row]:
        """The rows of one method: every sample by every wanted metric, for each target."""
        rerun = self.rerun if self._reruns(wanted) else None
        rows: list[Row] = []
        for target, measures in wanted.items():
            attribution = self.explained(contender, target)
            for measure in measures:
                for label, score in self._scores(attribution, contender, target, measure, rerun):
                    rows += self._listed(label, score, attribution, contender, target, measure)
        return rows

    @staticmethod
    def _reruns(wanted: Mapping[str, Sequence[Measure]]) -> bool:
        return any(measure.reruns for measures in wanted.values() for measure in measures)

    def _scores(
        self,
        attribution: Attribution,
        contender: Contender,
        target: str,
        measure: Measure,
        rerun: Rerun | None,
    ) -> list[tuple[str, Score]]:
        """The scores of one metric, or of each of its measures, by the name in the table."""
        if measure.metric == AGREEMENT:
            metric = metrics[AGREEMENT]
            return [
                (
                    f"{measure.label}/{other.label}",
                    metric(attribution, other=self.explained(other, target), **measure.options),
                )
                for other in self.plan.contenders
            ]
        metric = metrics[measure.metric]
        needs: dict[str, Any] = {}
        for need in metric.needs:
            if need == "rerun":
                assert rerun is not None
                needs[need] = rerun.told(attribution)
            elif need == "other":
                needs[need] = self.randomised(contender, target)
            elif need == "labels":
                needs[need] = self.chunk.classes()
            else:
                needs[need] = PROVIDERS[need](self.chunk.samples, self.subject.loaded)
        if measure.options.get("against") == "label":
            needs["labels"] = self.chunk.classes()
        options = dict(measure.options)
        if needs.keys() & {"masks", "regions"} and "stream" in metric.options:
            # Masks are of the image, also where the text is the main stream.
            options.setdefault("stream", _pictured(attribution))
        if "rationales" in needs and measure.options.get("level", "word") == "word":
            attribution = in_words_of(attribution, self.chunk.samples, self.subject.loaded)
        found = metric.each(attribution, **needs, **options)
        return [(f"{measure.label}/{n}" if n else measure.label, s) for n, s in found.items()]

    def _listed(
        self,
        label: str,
        score: Score,
        attribution: Attribution,
        contender: Contender,
        target: str,
        measure: Measure,
    ) -> list[Row]:
        """One row per sample."""
        facts = parts_of(measure, self.plan)[label]
        filled = ""
        if measure.reruns:
            stream = measure.options.get("stream") or attribution.main
            fill = self.removal.fill_of(stream)
            filled = f"; what is taken away is filled: {fill}"
        return [
            {
                "unit": unit(self.subject, name, contender, target, facts, self.plan),
                "sample": sample.id,
                "method": contender.label,
                "target": target,
                "metric": label,
                "value": float(score.values[i]),
                "explained": int(attribution.target[i]),
                "label": self.chunk.labels[i],
                "curve": None if score.curve is None else score.curve[i].tolist(),
                "found": None if score.shares is None else score.shares[0][i].tolist(),
                "there": None if score.shares is None else score.shares[1][i].tolist(),
                "convention": score.convention + filled,
                "steps": None if score.steps is None else list(score.steps),
            }
            for i, (sample, name) in enumerate(
                zip(self.chunk.samples, self.chunk.fingerprints, strict=True)
            )
        ]


def _pictured(attribution: Attribution) -> str:
    """The stream that is an image: the main one, or the first with a grid."""
    grids = [name for name, stream in attribution.streams.items() if stream.grid is not None]
    return attribution.main if attribution.main in grids or not grids else grids[0]

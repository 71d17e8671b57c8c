"""Explain samples on an engine and keep what is needed of each: audits and summaries use it.

An explanation with its maps is large and a finding is small, so a worker returns findings. Samples
are always cut into the same chunks: the findings do not depend on the engine.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from whyformer.audit.sample_explainer import ExplainSettings, SampleExplainer
from whyformer.datasets import Sample
from whyformer.errors import InputError, OptionError, TrustWarning, WhyformerError, warn_caller
from whyformer.evaluation.sent_model import SentModel, send_model
from whyformer.models.load import Loaded
from whyformer.workers import Chunk, EngineOptions, Finished, open_engine
from whyformer.workers.chunk import Work

ON_ERROR = ("raise", "skip")
ABOUT_MODEL = ("model", "processor")  # arguments of errors that every sample would raise

# From an explainer and samples to one finding per sample. It is sent to the workers.
Reduce = Callable[[SampleExplainer, Sequence[Sample]], list[Any]]


@dataclass(frozen=True)
class FailedSample:
    """A sample that was left out because it could not be explained."""

    sample: str
    error: str


@dataclass(frozen=True)
class SampleResults:
    """The findings by the place of their sample, and the samples without any."""

    findings: Mapping[int, Any]
    failed: Mapping[int, FailedSample]


@dataclass(frozen=True)
class ChunkFindings:
    """What a worker returns: a finding per sample or an error, and the warnings on the way."""

    findings: list[Any] = field(default_factory=list)
    warnings: list[Warning] = field(default_factory=list)
    error: WhyformerError | None = None


@dataclass(frozen=True)
class ReduceTask:
    """Explains samples and reduces each explanation to a finding.

    Args:
        model: The model.
        settings: How to explain.
        reduce: Returns one finding per sample.
    """

    model: SentModel
    settings: ExplainSettings
    reduce: Reduce

    def open(self) -> Work:
        """Load the model; return the function from samples to their findings."""
        return partial(_reduce, SampleExplainer(self.model.load(), self.settings), self.reduce)


def _reduce(explainer: SampleExplainer, reduce: Reduce, samples: Sequence[Sample]) -> ChunkFindings:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", TrustWarning)
        try:
            findings = reduce(explainer, samples)
        except WhyformerError as error:
            return ChunkFindings(error=error)
    said = [one.message for one in caught if isinstance(one.message, Warning)]
    return ChunkFindings(findings, said)


def explain_samples(
    loaded: Loaded,
    settings: ExplainSettings,
    reduce: Reduce,
    samples: Sequence[Sample],
    engine: EngineOptions,
    on_error: str = "raise",
) -> Iterator[int | SampleResults]:
    """Yield how many samples are finished, after every chunk, and the results at the end.

    Args:
        loaded: The model.
        settings: How to explain.
        reduce: Returns one finding per sample.
        samples: The samples.
        engine: Where to explain.
        on_error: What to do with a sample that cannot be explained: "raise" the error, or "skip"
            it and list it.

    Raises:
        OptionError: `on_error` is unknown.
        InputError: A sample cannot be explained, or with "skip": all cannot.
    """
    if on_error not in ON_ERROR:
        raise OptionError(
            f"on_error={on_error!r} is unknown",
            argument="on_error",
            remedy="Pass 'raise' or 'skip'",
        )
    task = ReduceTask(send_model(loaded, engine), settings, reduce)
    findings: dict[int, Any] = {}
    errors: dict[int, WhyformerError] = {}
    said: dict[tuple[type[Warning], str], None] = {}
    places = range(len(samples))
    chunks = [places[start : start + settings.batch] for start in places[:: settings.batch]]
    alone: list[range] = []  # the samples of a chunk that failed: one of them is to blame
    blamed: WhyformerError | None = None
    for round_chunks in (chunks, alone):
        for chunk, finished in _run(task, samples, round_chunks, engine):
            found = _findings_of(finished)
            if found.error is None:
                findings.update(zip(chunk, found.findings, strict=True))
                said.update(dict.fromkeys((type(one), str(one)) for one in found.warnings))
            elif not isinstance(found.error, InputError) or found.error.argument in ABOUT_MODEL:
                raise found.error
            elif len(chunk) > 1:
                alone += [range(place, place + 1) for place in chunk]
                blamed = found.error
                if on_error == "raise":
                    break  # the rest would be computed for nothing
                continue
            else:
                error = found.error.with_prefix(f"sample {samples[chunk[0]].id!r}")
                if on_error == "raise":
                    raise error
                errors[chunk[0]] = error
            yield len(findings) + len(errors)
    if errors and not findings:
        raise errors[min(errors)]
    if blamed is not None and len(findings) + len(errors) < len(samples):
        raise blamed  # each sample can be explained alone
    for category, text in said:
        warn_caller(text, category)
    failed = {
        place: FailedSample(samples[place].id, str(errors[place])) for place in sorted(errors)
    }
    yield SampleResults({place: findings[place] for place in sorted(findings)}, failed)


def _run(
    task: ReduceTask, samples: Sequence[Sample], chunks: Sequence[range], engine: EngineOptions
) -> Iterator[tuple[range, Finished]]:
    """Each chunk, given by the places of its samples, as it is finished."""
    if not chunks:
        return
    named = {str(chunk[0]): chunk for chunk in chunks}
    work = [Chunk(name, [samples[place] for place in chunk]) for name, chunk in named.items()]
    for finished in open_engine(engine).run(task, iter(work), len(work)):
        yield named[finished.name], finished


def _findings_of(finished: Finished) -> ChunkFindings:
    """What the worker returned; an error if it raised another one, or died."""
    if finished.failure is None:
        found: ChunkFindings = finished.result
        return found
    return ChunkFindings(
        error=InputError(
            f"it cannot be explained: {finished.failure.error}",
            argument="data",
            remedy="Correct it or leave it out",
        )
    )


def failure_notes(failed: Sequence[FailedSample]) -> list[str]:
    """Return a sentence about the samples that were left out; none if all were explained."""
    if not failed:
        return []
    more = f" And {len(failed) - 1} more." if len(failed) > 1 else ""
    count = f"{len(failed)} sample{'s' * (len(failed) > 1)}"
    first = failed[0].error.rstrip(".")
    return [f"{count} could not be explained and left out: {first}.{more}"]


def failure_facts(failed: Sequence[FailedSample]) -> list[dict[str, str]]:
    """Return the samples that were left out, for the settings of a report."""
    return [{"sample": one.sample, "error": one.error} for one in failed]

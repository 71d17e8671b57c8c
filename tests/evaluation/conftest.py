"""Runs with invented values, to test tables and pages without a model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
import torch

from whyformer.attribution import Attribution, Stream
from whyformer.evaluation.results import Results

Make = Callable[..., Results]

STEPS = [0.0, 0.25, 0.5, 0.75, 1.0]


def row(method: str, metric: str, sample: str, value: float, **more: Any) -> dict[str, Any]:
    """One row of a run's table."""
    empty = {"curve": None, "found": None, "there": None, "target": "predicted"}
    return {**empty, "method": method, "metric": metric, "sample": sample, "value": value, **more}


def known(better: str = "higher", **more: Any) -> dict[str, Any]:
    """The entry of a metric in the settings."""
    return {
        "title": "A metric: made by hand",
        "better": better,
        "paper": "Nobody 2026",
        "convention": "by hand",
        "range": [0.0, 1.0],
        "options": {},
        "steps": None,
        **more,
    }


@pytest.fixture
def tiny() -> Make:
    """Make a run from values by metric and method; `metrics` replaces entries of the settings."""

    def make(
        values: Mapping[str, Mapping[str, Sequence[float]]],
        metrics: Mapping[str, Mapping[str, Any]] | None = None,
        **settings: Any,
    ) -> Results:
        rows = [
            row(method, metric, f"s{i}", value)
            for metric, by_method in values.items()
            for method, found in by_method.items()
            for i, value in enumerate(found)
        ]
        metric_settings = {metric: known() for metric in values} | dict(metrics or {})
        return Results(rows, {"metrics": metric_settings, "bootstrap": {"draws": 200}, **settings})

    return make


@pytest.fixture
def run() -> Make:
    """Make a whole run of any size: curves, shares, agreement and two explained classes."""

    def make(
        methods: int = 4,
        samples: int = 40,
        metrics: Sequence[str] = ("auac", "au_mse", "segmentation/miou", "pointing_game"),
        targets: Sequence[str] = ("predicted", "label"),
        agreement: bool = True,
        draws: int = 200,
    ) -> Results:
        generator = torch.Generator().manual_seed(0)
        names = [*("lrp_ah_ln", "gae", "rollout", "random"), *(f"m{i}" for i in range(4, 99))]
        names = names[:methods]
        hard = torch.rand(samples, generator=generator)
        rows = []
        for at, method in enumerate(names):
            for metric in metrics:
                noise = 0.25 * torch.rand(samples, generator=generator)
                low = metric == "au_mse"
                quality = 0.04 * at + 0.3 * hard + noise
                values = (quality if low else 1 - quality).clamp(0, 1)
                if metric == "pointing_game":
                    values = (values > 0.6).double()
                for target in targets:
                    for i, value in enumerate(values.tolist()):
                        more: dict[str, Any] = {}
                        if metric.startswith("au"):
                            more["curve"] = [
                                0.5 + (value - 0.5) * (1 - abs(2 * step - 1)) + 0.4 * (step - 0.5)
                                for step in STEPS
                            ]
                        if metric.endswith("miou"):
                            more = {"found": [40 * value, 20 * value], "there": [40.0, 20.0]}
                        rows.append(row(method, metric, f"s{i}", value, target=target, **more))
            for other in names if agreement else ():
                far = abs(at - names.index(other))
                near = 1.0 if other == method else max(-0.8, 0.9 - 0.35 * far)
                rows += [
                    row(method, f"agreement/{other}", f"s{i}", near - 0.1 * h, target=target)
                    for target in targets
                    for i, h in enumerate(hard.tolist())
                ]
        metric_settings = {
            m: known(
                "lower" if m == "au_mse" else "higher",
                title=f"{m}: how good the method is by this metric",
                convention=f"how {m} was taken, against the target class",
                steps=STEPS if m.startswith("au") else None,
            )
            for m in metrics
        }
        agrees = {f"agreement/{n}": known("neither", range=[-1.0, None]) for n in names}
        return Results(
            rows,
            {
                "command": "whyformer evaluate --model sst2",
                "model": {
                    "name": "sst2",
                    "class": "BertForSequenceClassification",
                    "family": "bert",
                    "fingerprint": "0123abcd",
                },
                "data": {
                    "source": "SST-2",
                    "split": "validation",
                    "samples": samples,
                    "skipped": ["s99: empty text"],
                },
                "methods": {n: {"method": n, "options": {}} for n in names},
                "metrics": metric_settings | (agrees if agreement else {}),
                "targets": list(targets),
                "fill": "mask",
                "seed": 7,
                "versions": {"whyformer": "0.1.0", "torch": "2.13"},
                "bootstrap": {"level": 0.95, "draws": draws, "seed": 0},
            },
        )

    return make


@pytest.fixture
def words() -> Callable[..., Attribution]:
    """Make an attribution of a short text."""

    def make(
        tokens: Sequence[str] = ("a", "gripping", "film"), method: str = "gae", label: str = "good"
    ) -> Attribution:
        scores = torch.linspace(-0.5, 1, len(tokens))[None]
        mask = torch.ones(1, len(tokens), dtype=torch.bool)
        ids = (tuple(range(len(tokens))),)
        stream = Stream("text", scores, mask, (tuple(tokens),), ids)
        return Attribution(
            method=method,
            streams={"text": stream},
            main="text",
            target=torch.zeros(1, dtype=torch.long),
            output=torch.ones(1),
            labels=(label,),
            provenance={"model": "tiny"},
        )

    return make


@pytest.fixture
def linked(words: Callable[..., Attribution]) -> Callable[..., Attribution]:
    """Make an attribution of a text and numbered regions, whose page has a script."""

    def make(method: str = "gae", label: str = "dog") -> Attribution:
        from dataclasses import replace

        text = words(method=method, label=label)
        regions = Stream("image", torch.rand(1, 4), torch.ones(1, 4, dtype=torch.bool))
        return replace(
            text,
            streams={**text.streams, "image": regions},
            maps={("text", "image"): torch.rand(1, 3, 4)},
        )

    return make

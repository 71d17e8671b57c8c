"""Everything that decides the numbers of a run, in words that JSON can keep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from whyformer.datasets import Sample
from whyformer.evaluation.plan import Plan
from whyformer.evaluation.work import Row, Subject, parts_of
from whyformer.metrics import metrics
from whyformer.models.families import family_of
from whyformer.models.versions import version_of

VERSIONS = ("whyformer", "torch", "transformers", "tokenizers")
BOOTSTRAP = {"level": 0.95, "draws": 1000, "seed": 0}


def settings_of(
    rows: Sequence[Row],
    samples: Sequence[Sample],
    subject: Subject,
    plan: Plan,
    skipped: Sequence[object],
    facts: Mapping[str, Any],
) -> dict[str, Any]:
    """Everything that decides the numbers, and what they mean; no clock, no machine."""
    module = subject.loaded.module
    family = family_of(module)
    told = {row["metric"]: row["convention"] for row in rows}
    # Curves over a method's own layers have no steps in common, and are not drawn together.
    steps: dict[str, Any] = {}
    for row in rows:
        same = steps.setdefault(row["metric"], row["steps"]) == row["steps"]
        steps[row["metric"]] = row["steps"] if same else None
    return {
        **{k: v for k, v in facts.items() if k != "data"},
        "model": {
            "name": subject.loaded.name,
            "class": type(module).__name__,
            "family": family.name if family else "default",
            "fingerprint": subject.fingerprint,
        },
        "data": {
            **facts.get("data", {}),
            "samples": len(samples),
            "skipped": list(map(str, skipped)),
        },
        "methods": {one.label: one.facts for one in plan.contenders},
        "metrics": {
            label: {
                **measure.facts,
                "title": metrics[measure.metric].title,
                "better": metrics[measure.metric].better,
                "range": list(metrics[measure.metric].range),
                "paper": metrics[measure.metric].paper,
                "convention": told[label],
                "steps": steps[label],
            }
            for measure in plan.measures
            for label in parts_of(measure, plan)
            if label in told
        },
        "targets": list(plan.targets),
        "fill": plan.fill or "each stream's default",
        "seed": plan.seed,
        "truncation": plan.truncation,
        "threads": torch.get_num_threads(),
        "bootstrap": BOOTSTRAP,
        "versions": {package: version_of(package) for package in VERSIONS},
    }

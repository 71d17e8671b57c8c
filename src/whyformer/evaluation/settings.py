"""The settings of a run: everything that decides its numbers, for settings.json."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from whyformer.evaluation.evaluation_task import SampleFailure
from whyformer.evaluation.plan import Plan
from whyformer.evaluation.units import EvaluatedModel, ResultRow, row_facts, versions
from whyformer.metrics import metrics

BOOTSTRAP = {"level": 0.95, "draws": 1000, "seed": 0}


def settings_of(
    rows: Sequence[ResultRow],
    samples: int,
    model: EvaluatedModel,
    plan: Plan,
    skipped: Sequence[object],
    failures: Sequence[SampleFailure],
    facts: Mapping[str, Any],
) -> dict[str, Any]:
    """Everything that decides the numbers, and what they mean; no times and no machine names."""
    module = model.loaded.module
    family = model.loaded.family
    last = {row["metric"]: row for row in rows}
    # Curves over the layers of each method have no common steps, and are not drawn together.
    steps: dict[str, Any] = {}
    for row in rows:
        same = steps.setdefault(row["metric"], row["steps"]) == row["steps"]
        steps[row["metric"]] = row["steps"] if same else None
    return {
        **{k: v for k, v in facts.items() if k != "data"},
        "model": {
            "name": model.loaded.name,
            "class": type(module).__name__,
            "family": family.name if family else "default",
            "fingerprint": model.fingerprint,
        },
        "data": {
            **facts.get("data", {}),
            "samples": samples + len(failures),
            "skipped": list(map(str, skipped)),
        },
        "failures": [
            {
                "sample": one.sample,
                "error": one.failure.error,
                "attempts": one.failure.attempts,
            }
            for one in failures
        ],
        "methods": {one.label: one.facts for one in plan.methods},
        "metrics": {
            label: {
                **spec.facts,
                "title": metrics[spec.metric].title,
                "better": metrics[spec.metric].better,
                "range": list(metrics[spec.metric].range),
                "paper": metrics[spec.metric].paper,
                "convention": last[label]["convention"],
                "steps": steps[label],
                "fill": last[label]["fill"],
            }
            for spec in plan.metrics
            for label in row_facts(spec, plan)
            if label in last
        },
        "targets": list(plan.targets),
        "fill": plan.fill or "each stream's default",
        "seed": plan.seed,
        "truncation": plan.truncation,
        "threads": plan.threads,
        "bootstrap": BOOTSTRAP,
        "versions": versions(),
    }

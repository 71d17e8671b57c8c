"""How long AUAC over a dataset takes: in batches by length, and one sentence and step at a time.

    python benchmarks/evaluation.py --data $WHYFORMER_DATA [--limit N] [--alone 48] [--threads 2]
                                    [--methods a,b,...] [--json FILE]

The bundled model sst2 and the 872 dev sentences of SST-2, every method of the papers but attention
flow. "batched" is `whyformer evaluate --metrics auac` into an empty folder, report left out.
"alone" is a simple loop: explain one sentence at a time, and call the model once
for each of the eleven steps. Sentences are scored both ways and the areas compared. The
loop is timed on --alone sentences, every n-th by length, in pieces between the pieces of the
batched run, so that noise hits both alike; its time is scaled to all sentences.
Seconds are elapsed time with torch's default number of threads, unless --threads is given: a batch
can use them, a single sentence hardly can. CPU seconds are given too.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
from torch import Tensor

from report import finish
from whyformer import explain
from whyformer.datasets import Sample, open_dataset
from whyformer.engine.predict import predict
from whyformer.evaluation.evaluate import RunOptions, run_evaluation
from whyformer.evaluation.plan import Plan, method_specs, metric_specs
from whyformer.evaluation.results import ResultKey, Results
from whyformer.inputs.prepare import prepare
from whyformer.inputs.removal import Removal
from whyformer.methods import methods
from whyformer.metrics import metrics
from whyformer.models.families import family_of
from whyformer.models.load import Loaded, load_model

BEYOND = ("attn_lrp", "integrated_gradients")  # not from the three papers


def alone(loaded: Loaded, sample: Sample, method: str, options: Mapping[str, object]) -> float:
    """The area of one sentence, the model called once per step."""
    module = loaded.module
    attribution = explain(sample.inputs, module, method=method, processor=loaded.processor)
    prepared = prepare(sample.inputs, module, loaded.processor, family_of(module))
    removal = Removal(prepared, module, family_of(module))

    def rerun(kept: Mapping[str, Tensor]) -> Tensor:
        ((stream, mask),) = kept.items()
        return predict(module, removal.remove(stream, mask, torch.tensor([0])).batch)

    return float(metrics["auac"](attribution, rerun=rerun, **options).values[0])


class Clock:
    """Elapsed and CPU seconds, stopped while something else is timed."""

    def __init__(self) -> None:
        self.wall = self.cpu = 0.0

    def __enter__(self) -> Clock:
        self._start = time.perf_counter(), time.process_time()
        return self

    def __exit__(self, *error: object) -> None:
        self.wall += time.perf_counter() - self._start[0]
        self.cpu += time.process_time() - self._start[1]


def measure(data: Path, limit: int | None, few: int, names: list[str]) -> dict[str, Any]:
    """Seconds both ways, and by how much the areas differ."""
    loaded = load_model("sst2")
    dataset = open_dataset(f"sst2:{data / 'sst2'}", "dev", limit=limit, seed=0)
    samples = sorted(dataset, key=lambda sample: len(sample.inputs))
    some = samples[:: max(1, len(samples) // few)][:few]
    plan = Plan(method_specs(names), metric_specs(["auac"]))
    options = plan.metrics[0].options
    own: dict[tuple[str, str], float] = {}
    loop, everything = Clock(), Clock()

    def meanwhile(done: int, total: int) -> None:
        """Run a part of the loop between two batches: `few` sentences in all."""
        due = some[: -(-len(some) * done // total)] if total else []
        for sample in due:
            for name in names:
                if (sample.id, name) not in own:
                    with loop:
                        own[sample.id, name] = alone(loaded, sample, name, options)

    with tempfile.TemporaryDirectory() as folder, everything:
        for event in run_evaluation(loaded, samples, plan, folder, RunOptions(report=False)):
            if isinstance(event, Results):
                found = event
            else:
                meanwhile(event.done, event.total)
    batched = {"wall": everything.wall - loop.wall, "cpu": everything.cpu - loop.cpu}
    meanwhile(1, 1)
    scale = len(samples) / len(some)
    single = {"wall": loop.wall * scale, "cpu": loop.cpu * scale}
    off = {}
    for name in names:
        cell = ResultKey(name, "predicted", "auac")
        score = found.score(cell)
        assert score is not None
        areas = dict(zip(found.samples(cell), score.values.tolist(), strict=True))
        off[name] = max(abs(areas[s.id] - own[s.id, name]) for s in some)
        print(f"{name:24s}{score.mean:8.4f}{off[name]:14.1e}")
    for kind in ("wall", "cpu"):
        ratio = single[kind] / batched[kind]
        print(f"{kind:4s}  alone {single[kind]:.1f} s, batched {batched[kind]:.1f} s: {ratio:.1f}x")
    return {
        "sentences": len(samples),
        "alone_measured_on": len(some),
        "batched_seconds": batched,
        "alone_seconds": single,
        "difference": off,
        "threads": torch.get_num_threads(),
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    default = os.environ.get("WHYFORMER_DATA")
    parser.add_argument("--data", type=Path, default=default, required=default is None)
    parser.add_argument("--limit", type=int)
    parser.add_argument("--alone", type=int, default=48)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    every = [name for name, one in methods.items() if one.in_all and name not in BEYOND]
    parser.add_argument("--methods", default=",".join(every))
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    print(f"{'':24s}{'AUAC':>8s}{'difference':>14s}")
    found = measure(options.data, options.limit, options.alone, options.methods.split(","))
    return finish(found, [], options.json)


if __name__ == "__main__":
    raise SystemExit(main())

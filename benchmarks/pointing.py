"""How well each method points at the shape that decides an answer, and how good its ranking is.

    python benchmarks/pointing.py [--questions 500] [--models a,b] [--methods a,b,...] [--seed 0]
                                  [--batch 50] [--threads 1] [--json FILE]

The bundled models of scenes answer questions about held-out scenes
(`whyformer.reproduce.scenes`), where it is known which shape a question is about. One question is
drawn from each scene, so that they are independent; questions whose answer is "no" are about no
shape and are left out. Every method explains the answer that the model gives, right or wrong. For
`detr_shapes`, one of the shapes that it detects in each scene (right label, IoU at least 0.5) is
explained by its query. `vlm_shapes` answers in a chat; the first token of its answer is explained.

Pointing. The region with the highest score counts as a hit
  strictly     if the shape covers at least a quarter of it, or covers no other region more
  loosely      if the shape covers any of it
and a miss counts as `other` if another shape covers any of it. `mass` is the share of
the positive relevance of all regions that lies in the loose hits. "colour", "kind" and "yes" are
strict hits at the questions with such answers. The row "chance" is the
expected score of a region drawn at random.

Perturbation (ICCV 2021), question answering only. Tokens are removed at the fractions 0, .25,
.5, .75, .8, .85, .9, .95 and 1, what remains is rounded down, and the area under the share of
unchanged answers is computed by trapezoids: 100 % if no answer ever changes. Positive removes
the most relevant first (lower is better), negative the least relevant (higher is better); signed
scores are ranked with their sign. Regions and words are deleted, not masked; [CLS] and [SEP]
stay. Areas against the true answer are in the JSON.

Equal scores are ranked at random, by --seed. Each figure has one standard error over the
questions. Times are CPU milliseconds for a question, explained in batches.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("HF_HUB_OFFLINE", "1")
sys.path.insert(0, str(Path(__file__).parents[1]))  # for `training`, which is not installed

import numpy
import torch
import transformers
from rich.console import Console
from rich.progress import Progress
from torch import Tensor, nn

import perturbation
import whyformer as wf
from whyformer.errors import WhyformerError
from whyformer.inputs.regions import RegionGrid
from whyformer.models.load import load_folder
from whyformer.reproduce import scenes
from whyformer.reproduce.scene_questions import held_out_questions
from whyformer.reproduce.scenes import Scene, Shape

MODELS = ("lxmert_shapes", "visualbert_shapes", "detr_shapes", "vlm_shapes")

QUARTER = 0.25
TYPES = {**dict.fromkeys(scenes.COLOURS, "colour"), scenes.YES: "yes"}  # by answer; else "kind"
SURE, OVERLAP = 0.5, 0.5  # least probability and IoU of a shape that DETR has found


# Left out by default: the maximum flow of 144 regions, one by one, takes long.
SLOW = {("detr_shapes", "attention_flow")}


class Contender(NamedTuple):
    """A method and the options that it runs with."""

    method: str
    options: dict[str, Any]


CONTENDERS = {name: Contender(name, {}) for name in wf.methods()} | {
    "gae:use_lrp": Contender("gae", {"use_lrp": True}),
    "integrated_gradients": Contender("integrated_gradients", {"steps": 8}),
}


class Figure(NamedTuple):
    """A mean over the questions and its standard error."""

    mean: float
    error: float

    @classmethod
    def of(cls, values: Tensor) -> Figure:
        """Return the figure of one value per question."""
        values = values.double()
        error = float(values.std(correction=1)) / math.sqrt(len(values)) if len(values) > 1 else 0.0
        return cls(float(values.mean()), error)


@dataclass(frozen=True)
class Trial:
    """A model, its questions, and the shape that each question is about."""

    model: nn.Module
    inputs: dict[str, Tensor]
    targets: Sequence[Any] | None  # per question; None for the prediction
    cover: Tensor  # (questions, regions): the share of each that the shape covers
    others: Tensor  # the same, of all other shapes of the scene
    right: float  # the share of questions that the model answers correctly
    answers: perturbation.Answers | None = None  # its answers with tokens removed
    true: Tensor | None = None  # (questions,) answers
    removable: Tensor | None = None  # (questions, tokens): words, not [CLS], [SEP] and padding
    types: dict[str, Tensor] = field(default_factory=dict)  # (questions,): whether it is of a type
    placeholder: int | None = None  # the id of the tokens that stand for patches in a text

    def explained(self, contender: Contender, batch: int) -> Iterator[dict[str, Tensor]]:
        """The scores of every stream, a batch at a time."""
        for places in torch.arange(len(self.cover)).split(batch):
            part = {name: value[places] for name, value in self.inputs.items()}
            target = self.targets and [self.targets[i] for i in places.tolist()]
            found = wf.explain(
                part, self.model, method=contender.method, target=target, **contender.options
            )
            scores = {name: stream.scores for name, stream in found.streams.items()}
            yield scores if self.placeholder is None else self._with_patches(scores, part)

    def _with_patches(
        self, scores: dict[str, Tensor], inputs: dict[str, Tensor]
    ) -> dict[str, Tensor]:
        """The scores with a stream "image", taken from the placeholders of the text if needed."""
        if "image" in scores:
            return scores
        text = scores["text"]
        patches = inputs["input_ids"] == self.placeholder
        return {**scores, "image": text[patches].reshape(len(text), -1)}


# -- questions -------------------------------------------------------------------------------------


def answering(name: str, count: int, seed: int) -> Trial:
    """Questions to LXMERT or VisualBERT about one shape each, one from each held-out scene."""
    folder = wf.models()[name].folder
    model: Any = load_folder(folder, torch.float32).eval()
    words = transformers.AutoTokenizer.from_pretrained(folder)
    drawings, asked = zip(*held_out_questions(count, seed), strict=True)
    grid = RegionGrid.load(folder)
    features, boxes, _ = grid([drawing.render() for drawing in drawings])
    inputs = dict(words([one.text for one in asked], padding=True, return_tensors="pt"))
    if grid.boxes_in_features:
        inputs["visual_embeds"] = features
    else:
        inputs |= {"visual_feats": features, "visual_pos": boxes}

    @torch.inference_mode()
    def predict(given: dict[str, Tensor]) -> Tensor:
        output = model(**given)
        logits = getattr(output, "logits", None)
        return (output.question_answering_score if logits is None else logits).argmax(-1)

    true = torch.tensor([model.config.label2id[one.answer] for one in asked])
    special = torch.tensor(words.all_special_ids)
    about = [d.shapes[one.about or 0] for d, one in zip(drawings, asked, strict=True)]
    covered, others = covers(drawings, about, grid.grid)
    kinds = [TYPES.get(one.answer, "kind") for one in asked]
    return Trial(
        model=model,
        inputs=inputs,
        targets=None,
        cover=covered,
        others=others,
        right=float((predict(inputs) == true).double().mean()),
        answers=perturbation.Answers(predict, inputs),
        true=true,
        removable=~torch.isin(inputs["input_ids"], special),
        types={kind: torch.tensor([each == kind for each in kinds]) for kind in sorted({*kinds})},
    )


@torch.inference_mode()
def chatting(name: str, count: int, seed: int) -> Trial:
    """Questions to a vision-language model about one shape each, one from each held-out scene."""
    folder = wf.models()[name].folder
    model: Any = load_folder(folder, torch.float32).eval()
    processor = transformers.AutoProcessor.from_pretrained(folder)
    drawings, asked = zip(*held_out_questions(count, seed), strict=True)
    texts = [
        processor.apply_chat_template(
            [
                {
                    "role": "user",
                    "content": [{"type": "image"}, {"type": "text", "text": one.text}],
                }
            ],
            add_generation_prompt=True,
        )
        for one in asked
    ]
    inputs = processor(
        text=texts,
        images=[drawing.render() for drawing in drawings],
        padding=True,
        return_tensors="pt",
    )
    parts = [
        model(**{name: values[places] for name, values in inputs.items()}).logits[:, -1].argmax(-1)
        for places in torch.arange(count).split(100)
    ]
    written = torch.cat(parts).tolist()
    words = [processor.tokenizer.decode([word]) for word in written]
    about = [d.shapes[one.about or 0] for d, one in zip(drawings, asked, strict=True)]
    side = math.isqrt(model.config.image_seq_length)
    covered, others = covers(drawings, about, (side, side))
    kinds = [TYPES.get(one.answer, "kind") for one in asked]
    right = [word == one.answer for word, one in zip(words, asked, strict=True)]
    return Trial(
        model=model,
        inputs=dict(inputs),
        targets=written,
        cover=covered,
        others=others,
        right=sum(right) / count,
        types={kind: torch.tensor([each == kind for each in kinds]) for kind in sorted({*kinds})},
        placeholder=model.config.image_token_id,
    )


@torch.inference_mode()
def detecting(name: str, count: int, seed: int) -> Trial:
    """One of the objects that DETR found in each held-out scene, and the shape that it is."""
    from training.shapes_detr import boxes, corners, overlaps

    folder = wf.models()[name].folder
    model: Any = load_folder(folder, torch.float32).eval()
    processor = transformers.AutoImageProcessor.from_pretrained(folder)
    chance = numpy.random.default_rng(seed)
    pixels, targets, chosen, about = [], [], [], []
    present = found = 0
    for first in range(0, count, 100):
        drawings = list(scenes.scenes(scenes.HELD_OUT + first, min(100, count - first)))
        shown = processor(images=[d.render() for d in drawings], return_tensors="pt")
        output = model(**shown)
        chances = output.logits.softmax(-1)[..., :-1]
        for i, drawing in enumerate(drawings):
            sureness, labels = chances[i].max(-1)
            shared = overlaps(corners(output.pred_boxes[i]), corners(boxes(drawing)))
            true = torch.tensor([scenes.LABELS.index(shape.label) for shape in drawing.shapes])
            fits = (sureness[:, None] >= SURE) & (labels[:, None] == true) & (shared >= OVERLAP)
            present, found = present + len(true), found + int(fits.any(0).sum())
            hits = fits.nonzero().tolist()
            if hits:
                query, shape = hits[int(chance.integers(len(hits)))]
                pixels.append(shown["pixel_values"][i])
                targets.append(wf.query(query, int(labels[query])))
                chosen.append(drawing)
                about.append(drawing.shapes[shape])
    inputs = {"pixel_values": torch.stack(pixels)}
    first_map = wf.explain(
        {"pixel_values": inputs["pixel_values"][:1]}, model, method="random", target=targets[0]
    )
    grid = first_map.streams["image"].grid
    assert grid is not None
    covered, others = covers(chosen, about, grid)
    return Trial(
        model=model,
        inputs=inputs,
        targets=targets,
        cover=covered,
        others=others,
        right=found / present,
    )


TRIALS: dict[str, Callable[[str, int, int], Trial]] = {
    "lxmert_shapes": answering,
    "visualbert_shapes": answering,
    "detr_shapes": detecting,
    "vlm_shapes": chatting,
}


def covers(
    drawings: Sequence[Scene], about: Sequence[Shape], grid: tuple[int, int]
) -> tuple[Tensor, Tensor]:
    """The share of each cell that the shape covers, and that the others do, (scenes, cells)."""
    rows, columns = grid

    def cover(drawing: Scene, shape: Shape) -> Tensor:
        mask = torch.from_numpy(drawing.mask(shape))
        return mask.reshape(rows, scenes.SIDE // rows, columns, -1).mean((1, 3)).flatten()

    own, others = [], []
    for drawing, shape in zip(drawings, about, strict=True):
        own.append(cover(drawing, shape))
        rest = [cover(drawing, other) for other in drawing.shapes if other is not shape]
        others.append(torch.stack(rest).sum(0))
    return torch.stack(own), torch.stack(others)


# -- measures --------------------------------------------------------------------------------------


def strict(cover: Tensor) -> Tensor:
    """The regions that are a hit in the strict sense, (questions, regions)."""
    return (cover >= QUARTER) | (cover == cover.max(1, keepdim=True).values)


def pointing(scores: Tensor, trial: Trial, seed: int) -> dict[str, Tensor]:
    """Hits and mass, one value per question.

    "flat" is whether all regions score the same: then there is nothing to point with.
    """
    best = perturbation.order(scores, seed)[:, :1]
    touched = trial.cover > 0
    positive = scores.clamp(min=0).double()
    total = positive.sum(1)
    inside = (positive * touched).sum(1)
    return {
        **{name: regions.gather(1, best).squeeze(1) for name, regions in hits(trial).items()},
        "mass": torch.where(total > 0, inside / total.clamp(min=1e-300), 0.0),
        "flat": scores.amax(1) == scores.amin(1),
    }


def hits(trial: Trial) -> dict[str, Tensor]:
    """The regions by what they count as, each (questions, regions)."""
    touched = trial.cover > 0
    return {
        "strict": strict(trial.cover),
        "loose": touched,
        "other": (trial.others > 0) & ~touched,
    }


def by_type(trial: Trial, values: Tensor) -> dict[str, Figure]:
    """The figures of the questions of each type."""
    return {name: Figure.of(values[these]) for name, these in trial.types.items()}


def chance(trial: Trial) -> dict[str, Figure]:
    """Return the expected scores of a region drawn at random."""
    shares = {name: regions.double().mean(1) for name, regions in hits(trial).items()}
    shares["mass"] = shares["loose"]
    figures = {name: Figure.of(values) for name, values in shares.items()}
    return figures | by_type(trial, shares["strict"])


def perturbation_areas(trial: Trial, scores: dict[str, Tensor], seed: int) -> dict[str, Any]:
    """Areas under the four curves against the model's own and the true answers, and the curves."""
    assert trial.answers is not None
    assert trial.removable is not None
    assert trial.true is not None
    removable = {
        "text": trial.removable,
        "image": torch.ones_like(scores["image"], dtype=torch.bool),
    }
    figures: dict[str, Any] = {}
    for stream, way in perturbation.WAYS:
        given = trial.answers.curve(stream, way, scores[stream], removable[stream], seed)
        own = given == given[0]  # at the first fraction nothing is removed
        true = given == trial.true
        figures[f"{stream} {way}"] = Figure.of(perturbation.area(own))
        figures[f"{stream} {way}, true answer"] = Figure.of(perturbation.area(true))
        figures[f"{stream} {way}, curve"] = own.double().mean(1).tolist()
    return figures


def measure(
    trial: Trial, names: Sequence[str], batch: int, seed: int, step: Callable[[str], None]
) -> dict[str, dict[str, Any]]:
    """{contender: figures}; `step` is called with each contender before it runs.

    A contender that refuses the model is reported and left out.
    """
    results: dict[str, dict[str, Any]] = {}
    for name in names:
        step(name)
        start = time.process_time()
        try:
            parts = list(trial.explained(CONTENDERS[name], batch))
        except WhyformerError as error:
            print(f"{name} refused: {error}", file=sys.stderr)
            continue
        spent = time.process_time() - start
        scores = {stream: torch.cat([part[stream] for part in parts]) for stream in parts[0]}
        pointed = pointing(scores["image"], trial, seed)
        results[name] = {key: Figure.of(values) for key, values in pointed.items()}
        results[name] |= by_type(trial, pointed["strict"])
        if trial.answers is not None:
            results[name] |= perturbation_areas(trial, scores, seed)
        results[name]["ms"] = 1000 * spent / len(trial.cover)
    return results


# -- tables ----------------------------------------------------------------------------------------


def tables(results: dict[str, dict[str, Any]], by_chance: dict[str, Any]) -> str:
    """Markdown tables in per cent, of pointing and of perturbation, the best first."""
    some = next(iter(results.values()))
    ways = [f"{stream} {way}" for stream, way in perturbation.WAYS if f"{stream} {way}" in some]
    hits = [c for c in ("strict", "colour", "kind", "yes", "loose", "other", "mass") if c in some]
    pointed = sorted(results, key=lambda name: -results[name]["strict"].mean)
    rows = [(f"`{name}`", results[name]) for name in pointed]
    made = [table([*hits, "ms"], [*rows, ("chance", by_chance)])]
    if ways:
        rows.sort(key=lambda row: row[1][ways[0]].mean)
        made.append(table(ways, rows))
    return "\n\n".join(made)


def table(columns: Sequence[str], rows: Sequence[tuple[str, dict[str, Any]]]) -> str:
    """One Markdown table; cells without a figure are empty."""
    lines = [["", *columns], ["---"] * (len(columns) + 1)]
    lines += [
        [title, *(format_figure(found.get(column)) for column in columns)] for title, found in rows
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def format_figure(value: Figure | float | None) -> str:
    """A figure in per cent with its standard error, or a time."""
    if isinstance(value, Figure):
        return f"{100 * value.mean:.1f} ± {100 * value.error:.1f}"
    return "" if value is None else f"{value:.1f}"


def plain(value: Any) -> Any:
    """Return the results for JSON, with figures as objects."""
    if isinstance(value, Figure):
        return value._asdict()
    return {key: plain(v) for key, v in value.items()} if isinstance(value, dict) else value


def main() -> int:
    there = [name for name in MODELS if name in wf.models()]
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--questions", type=int, default=500)
    parser.add_argument("--models", default=",".join(there))
    parser.add_argument("--methods", help="all that are quick enough, by default")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--batch", type=int, default=50)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    models = options.models.split(",")
    names = options.methods.split(",") if options.methods else [*CONTENDERS]
    for given, known in ((models, there), (names, [*CONTENDERS])):
        unknown = [one for one in given if one not in known]
        if unknown:
            print(f"unknown: {', '.join(unknown)}; there are {', '.join(known)}", file=sys.stderr)
            return 2
    torch.set_num_threads(options.threads)
    transformers.utils.logging.disable_progress_bar()
    results: dict[str, Any] = {"questions": options.questions, "seed": options.seed, "models": {}}
    for model in models:
        with Progress(console=Console(stderr=True), transient=True) as bar:
            chosen = names if options.methods else [n for n in names if (model, n) not in SLOW]
            task = bar.add_task(f"{model}: scenes", total=len(chosen) + 1)
            trial = TRIALS[model](model, options.questions, options.seed)

            def step(name: str, model: str = model, bar: Progress = bar, task: Any = task) -> None:
                bar.update(task, advance=1, description=f"{model}: {name}")

            found = measure(trial, chosen, options.batch, options.seed, step)
        by_chance = chance(trial)
        results["models"][model] = {
            "explained": len(trial.cover),
            "right": trial.right,
            "chance": by_chance,
            "methods": found,
        }
        said = "shapes found" if model == "detr_shapes" else "answers right"
        print(f"\n{model}: {len(trial.cover)} explained, {100 * trial.right:.1f} % of {said}\n")
        print(tables(found, by_chance), flush=True)
    if options.json:
        options.json.write_text(json.dumps(plain(results), indent=2), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

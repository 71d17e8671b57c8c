"""Train LXMERT or VisualBERT to answer questions about scenes, and write the bundled model."""

from __future__ import annotations

import argparse
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import (
    AutoTokenizer,
    LxmertConfig,
    LxmertForQuestionAnswering,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    VisualBertConfig,
    VisualBertForQuestionAnswering,
)

from training import common, shapes, start
from whyformer.inputs.regions import RegionGrid
from whyformer.models.load import load_folder
from whyformer.reproduce import scenes
from whyformer.reproduce.scenes import Question, Scene
from whyformer.reproduce.training_loop import LabelledBatch

LXMERT, VISUALBERT = "lxmert_shapes", "visualbert_shapes"
GRIDS = {
    LXMERT: RegionGrid((shapes.SIDE, shapes.SIDE), 16),
    VISUALBERT: RegionGrid((shapes.SIDE, shapes.SIDE), 16, boxes_in_features=True),
}
TITLES = {
    LXMERT: "A small LXMERT trained on scenes of coloured shapes: answers questions about them",
    VISUALBERT: (
        "A small VisualBERT trained on scenes of coloured shapes: answers questions about them"
    ),
}
LENGTH = 32  # tokens of a question, at most
REGION_LAYERS = 2  # layers of VisualBERT after which the second head reads the regions
WITHOUT_MARK = 0.15  # share of training questions without a question mark
HELD_OUT = 1_000  # scenes to measure on

TYPES = {
    **dict.fromkeys(scenes.COLOURS, "colour"),
    **dict.fromkeys(scenes.KINDS, "kind"),
    **dict.fromkeys((scenes.YES, scenes.NO), "presence"),
}


def build_model(name: str, vocabulary: int) -> PreTrainedModel:
    """Return an untrained model."""
    shared: dict[str, Any] = {
        "vocab_size": vocabulary,
        "hidden_size": 128,
        "num_attention_heads": 4,
        "intermediate_size": 256,
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
        "max_position_embeddings": LENGTH,
        "initializer_range": start.SPREAD,
        "pad_token_id": 0,
        "id2label": dict(enumerate(scenes.ANSWERS)),
        "label2id": {answer: i for i, answer in enumerate(scenes.ANSWERS)},
    }
    if name == VISUALBERT:
        return VisualBertForQuestionAnswering(
            VisualBertConfig(
                **shared,
                num_hidden_layers=4,
                visual_embedding_dim=GRIDS[name].width,
                bos_token_id=None,
                eos_token_id=None,
            )
        )
    return LxmertForQuestionAnswering(
        LxmertConfig(
            **shared,
            l_layers=1,
            r_layers=2,
            x_layers=2,
            visual_feat_dim=GRIDS[name].width,
            num_qa_labels=len(scenes.ANSWERS),
        )
    )


@torch.no_grad()
def start_well(name: str, model: PreTrainedModel, shown: Tensor) -> None:
    """Set initial weights that make training faster."""
    grid, heads = GRIDS[name], model.config.num_attention_heads
    features = grid.features(shown.float() / 255).flatten(0, 1)
    matrix, bias = start.whitening(features[:, : 3 * grid.cell**2], model.config.hidden_size)
    boxes, offset = start.box_embedding(model.config.hidden_size)
    if name == VISUALBERT:
        projection = model.visual_bert.embeddings.visual_projection
        projection.weight.copy_(torch.cat([matrix, boxes], dim=1))
        projection.bias.copy_(bias + offset)
        lower = model.visual_bert.encoder.layer[:REGION_LAYERS]
        attentions = [layer.attention.self for layer in lower]
    else:
        encoder = model.lxmert.encoder
        encoder.visn_fc.visn_fc.weight.copy_(matrix)
        encoder.visn_fc.visn_fc.bias.copy_(bias)
        encoder.visn_fc.box_fc.weight.copy_(boxes)
        encoder.visn_fc.box_fc.bias.copy_(offset)
        attentions = [layer.attention.self for layer in encoder.r_layers]
    start.share_queries_and_keys(
        ((attention.query, attention.key) for attention in attentions), heads
    )


def make_tokenizer() -> PreTrainedTokenizerBase:
    """Return a tokenizer of whole words between [CLS] and [SEP]."""
    return shapes.build_tokenizer("[CLS]", "[SEP]", LENGTH, types=True)


def visual_inputs(name: str, features: Tensor, boxes: Tensor) -> dict[str, Tensor]:
    """Return the regions as arguments of the model."""
    if name == VISUALBERT:
        return {"visual_embeds": features, "visual_attention_mask": torch.ones(features.shape[:2])}
    return {"visual_feats": features, "visual_pos": boxes}


def scores(output: Any) -> Tensor:
    """(batch, answers) of what either model returns."""
    found = getattr(output, "logits", None)
    return output.question_answering_score if found is None else found


class AnswererWithRegionHead(nn.Module):
    """A model with a second head for training only: which shape does a region show?

    It reads a middle layer, where text and regions are hardly mixed. Without it, the loss stays on
    a plateau until attention finds the regions.
    """

    def __init__(self, name: str, model: PreTrainedModel) -> None:
        super().__init__()
        self.name = name
        self.model = model
        self.head = nn.Linear(model.config.hidden_size, shapes.NOTHING + 1)

    def losses(self, inputs: dict[str, Tensor], answers: Tensor, cells: Tensor) -> Tensor:
        """The loss of the answers and half of that of the regions."""
        output = self.model(**inputs, output_hidden_states=True)
        regions = self.regions(output, inputs["input_ids"].shape[1])
        shown = functional.cross_entropy(self.head(regions).flatten(0, 1), cells.flatten())
        return functional.cross_entropy(scores(output), answers) + 0.5 * shown

    def regions(self, output: Any, words: int) -> Tensor:
        """The states of the regions in a middle layer, (batch, regions, hidden)."""
        if self.name == VISUALBERT:
            return output.hidden_states[REGION_LAYERS][:, words:]
        return output.vision_hidden_states[self.model.config.r_layers - 1]


class Questions:
    """Questions about scenes, in batches of the model's arguments."""

    def __init__(
        self,
        name: str,
        tokenizer: PreTrainedTokenizerBase,
        drawings: Sequence[Scene],
        generator: torch.Generator | None = None,
    ) -> None:
        """If there is a generator, remove some question marks."""
        self.name = name
        self.grid = GRIDS[name]
        self.pixels = shapes.pixels(drawings)
        self.cells = shapes.cell_labels(drawings, self.grid.grid[0])
        self.questions_by_scene = shapes.all_questions(drawings)
        texts = [question.text for _, question in self.questions_by_scene]
        if generator is not None:
            unmarked = torch.rand(len(texts), generator=generator) < WITHOUT_MARK
            texts = [
                text.rstrip("?") if bare else text
                for text, bare in zip(texts, unmarked, strict=True)
            ]
        self.words = tokenizer(texts, padding=True, return_tensors="pt")
        self.scenes = torch.tensor([place for place, _ in self.questions_by_scene])
        self.answers = torch.tensor(
            [scenes.ANSWERS.index(question.answer) for _, question in self.questions_by_scene]
        )

    def inputs(self, indices: Tensor, mirrored: bool = False) -> dict[str, Tensor]:
        """Return the arguments of the model for these questions, padded to the longest."""
        words = {name: values[indices] for name, values in self.words.items()}
        longest = int(words["attention_mask"].sum(1).max())
        shown = self.pixels[self.scenes[indices]].float() / 255
        features = self.grid.features(shown.flip(-1) if mirrored else shown)
        boxes = self.grid.boxes().expand(len(indices), -1, -1)
        regions = visual_inputs(self.name, features, boxes)
        return {name: values[:, :longest] for name, values in words.items()} | regions

    def labels(self, indices: Tensor, mirrored: bool = False) -> Tensor:
        """What each region shows, (batch, regions)."""
        rows, columns = self.grid.grid
        cells = self.cells[self.scenes[indices]]
        if not mirrored:
            return cells
        return cells.reshape(-1, rows, columns).flip(-1).flatten(1)

    def batches_in_order(self, size: int = 250) -> Iterator[LabelledBatch]:
        """Yield every question once."""
        for indices in torch.arange(len(self.answers)).split(size):
            yield self.inputs(indices), self.answers[indices]


def train(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, options: argparse.Namespace
) -> None:
    """Train the model; the weights of the last step are saved in --work."""
    generator = common.prepare(options.seed, options.threads)
    known = Questions(options.model, tokenizer, shapes.draw_scenes(0, options.scenes), generator)
    fresh = Questions(options.model, tokenizer, shapes.draw_scenes(shapes.PROGRESS, 300))
    steps = len(known.answers) // options.batch * options.epochs
    start_well(options.model, model, known.pixels[:2_000])
    trained = AnswererWithRegionHead(options.model, model)

    def loss(batch: LabelledBatch) -> Tensor:
        inputs, labels = batch
        return trained.losses(inputs, labels[:, 0], labels[:, 1:])

    def batches() -> Iterator[LabelledBatch]:
        for indices in shapes.shuffled_indices(
            len(known.answers), options.batch, options.epochs, generator
        ):
            # A mirrored scene has the same answers: no question is about left and right.
            mirrored = bool(torch.rand((), generator=generator) < 0.5)
            labels = [known.answers[indices].unsqueeze(1), known.labels(indices, mirrored)]
            yield known.inputs(indices, mirrored), torch.cat(labels, dim=1)

    run = common.TrainingRun(steps, options.peak, 0.05, "cosine", 250, options.most_steps)
    for step in run.train(trained, batches(), loss):
        measured = accuracy(model, fresh.batches_in_order())
        common.save_weights(model, options.work / shapes.CHECKPOINT)
        common.write_run(options, step, steps, measured)
        print(f"  accuracy on fresh scenes {measured:.4f} after step {step}", flush=True)


@torch.inference_mode()
def accuracy(model: nn.Module, batches: Iterator[LabelledBatch]) -> float:
    """Return the share of right answers."""
    right = [scores(model(**inputs)).argmax(-1) == answers for inputs, answers in batches]
    return float(torch.cat(right).float().mean())


def measure(folder: Path, drawings: int = HELD_OUT) -> dict[str, float]:
    """Return figures of a stored folder on held-out scenes, loaded as a user would load it.

    "test" is the share of right answers; "colour", "kind" and "presence" are that of one type of
    question; "blind" is that of the most frequent answer to each wording, without an image;
    "swapped" is that of the model with the image of another scene.
    """
    tokenizer = AutoTokenizer.from_pretrained(folder)
    grid = RegionGrid.load(folder)
    model: Any = load_folder(folder, dtype=torch.float32)
    name = VISUALBERT if grid.boxes_in_features else LXMERT
    shown = shapes.draw_scenes(scenes.HELD_OUT, drawings)
    features, boxes, _ = grid([drawing.render() for drawing in shown])
    questions_by_scene = shapes.all_questions(shown)

    def replies(turn: int) -> list[str]:
        found: list[str] = []
        for first in range(0, len(questions_by_scene), 250):
            part = questions_by_scene[first : first + 250]
            words = tokenizer(
                [question.text for _, question in part], padding=True, return_tensors="pt"
            )
            places = (torch.tensor([place for place, _ in part]) + turn) % len(shown)
            regions = visual_inputs(name, features[places], boxes[places])
            with torch.inference_mode():
                best = scores(model(**words, **regions)).argmax(-1)
            found.extend(model.config.id2label[i] for i in best.tolist())
        return found

    questions = [question for _, question in questions_by_scene]
    right = [reply == q.answer for reply, q in zip(replies(0), questions, strict=True)]
    swapped = [reply == q.answer for reply, q in zip(replies(1), questions, strict=True)]
    by_type: dict[str, list[bool]] = defaultdict(list)
    for question, correct in zip(questions, right, strict=True):
        by_type[TYPES[question.answer]].append(correct)
    return {
        "test": share(right),
        **{kind: share(correct) for kind, correct in by_type.items()},
        "blind": blind(questions),
        "swapped": share(swapped),
    }


def blind(questions: Sequence[Question]) -> float:
    """The share of questions that the most frequent answer to their wording gets right."""
    answers: dict[str, Counter[str]] = defaultdict(Counter)
    for question in questions:
        answers[question.text][question.answer] += 1
    return sum(counts.most_common(1)[0][1] for counts in answers.values()) / len(questions)


def share(values: Sequence[bool]) -> float:
    """Return the share of true values."""
    return sum(values) / len(values)


def store(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, options: argparse.Namespace
) -> dict[str, float]:
    """Write the folder; return the figures measured from its files."""
    folder, name = options.output, options.model
    common.store_model(model, folder, packed=True)
    common.store_tokenizer(tokenizer, folder)
    GRIDS[name].save(folder)
    shapes.store_questions(folder / "samples")
    measured = measure(folder)
    counts = {
        "questions": len(shapes.all_questions(shapes.draw_scenes(scenes.HELD_OUT, HELD_OUT))),
        "words": len(shapes.words()),
    }
    facts = {
        "name": name,
        "task": "visual-question-answering",
        "stream": "text+image",
        "title": TITLES[name],
        "licence": shapes.LICENCE,
        "accuracy": round(measured["test"], 4),
        "metric": (
            f"accuracy on {counts['questions']:,} questions about {HELD_OUT:,} held-out scenes"
        ),
        "samples": "samples",
    }
    common.write_json(folder / "bundled.json", facts)
    common.write_card(options, name, measured, counts)
    return measured


def main() -> None:
    """Train, write the folder, and print the accuracy of its files."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--model", choices=(LXMERT, VISUALBERT), default=LXMERT)
    name = parser.parse_known_args()[0].model
    peak = {LXMERT: 1.5e-3, VISUALBERT: 1e-3}[name]
    shapes.add_options(parser, name, count=25_000, epochs=2, batch=64, peak=peak)
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    tokenizer = make_tokenizer()
    model = build_model(name, len(tokenizer))
    if not options.store_only:
        train(model, tokenizer, options)
    common.load_weights(model, options.work / shapes.CHECKPOINT)
    measured = store(model, tokenizer, options)
    print(
        f"{options.output}: {common.megabytes(options.output):.2f} MB,"
        f" test accuracy {measured['test']:.4f}"
    )


if __name__ == "__main__":
    main()

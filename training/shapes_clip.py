"""Train a small CLIP to match captions and scenes and write the bundled model `clip_shapes`."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import (
    AutoImageProcessor,
    AutoTokenizer,
    CLIPConfig,
    CLIPModel,
    PreTrainedTokenizerBase,
)

from training import common, shapes, start
from whyformer.models.load import load_folder
from whyformer.reproduce import scenes
from whyformer.reproduce.scenes import Scene
from whyformer.reproduce.training_loop import LabelledBatch

NAME = "clip_shapes"
LENGTH = 24  # tokens of a caption, at most
PATCH = 16
POOL = 100  # captions to choose from
HELD_OUT = 1_000
WHOLE = 0.5  # share of training captions that name all shapes; the others name some


def make_tokenizer() -> PreTrainedTokenizerBase:
    """Return a tokenizer of whole words between CLIP's first and last token."""
    return shapes.build_tokenizer("<|startoftext|>", "<|endoftext|>", LENGTH, types=False)


def build_model(tokenizer: PreTrainedTokenizerBase) -> CLIPModel:
    """An untrained CLIP: 6 x 6 patches of 16 x 16 pixels, and a tower of the same size for text."""
    shared = {
        "hidden_size": 128,
        "intermediate_size": 256,
        "num_attention_heads": 4,
        "attention_dropout": 0.0,
    }
    special = {
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
    }
    text = {"vocab_size": len(tokenizer), "max_position_embeddings": LENGTH, "num_hidden_layers": 2}
    vision = {"image_size": shapes.SIDE, "patch_size": PATCH, "num_hidden_layers": 3}
    return CLIPModel(
        CLIPConfig(
            text_config=shared | special | text,
            vision_config=shared | vision,
            projection_dim=64,
        )
    )


@torch.no_grad()
def start_well(model: CLIPModel, shown: Tensor) -> None:
    """Set initial weights of the image tower that make training faster."""
    tower = model.vision_model
    start.set_patches(
        tower.embeddings.patch_embedding,
        tower.embeddings.position_embedding.weight[1:],
        shapes.normalise(shown),
    )
    for layer in tower.encoder.layers:
        for part in (
            layer.mlp.fc1,
            layer.mlp.fc2,
            layer.self_attn.v_proj,
            layer.self_attn.out_proj,
        ):
            nn.init.normal_(part.weight, std=start.SPREAD)
    heads = model.config.vision_config.num_attention_heads
    # Not the last layer: there the class token has to find the patches.
    lower = dict(tower.encoder.layers[:-1].named_modules())
    start.share_queries_and_keys(start.query_key_pairs(lower), heads)


def caption(labels: Sequence[str]) -> str:
    """The text that names these shapes, in this order."""
    names = [f"a {label}" for label in labels]
    return " and ".join([part for part in (", ".join(names[:-1]), names[-1]) if part])


def swap_colours(labels: Sequence[str]) -> list[str]:
    """The same shapes with each colour moved to the next one; mostly false for the scene."""
    colours, kinds = zip(*(label.split() for label in labels), strict=True)
    turned = (*colours[1:], colours[0])
    return [f"{colour} {kind}" for colour, kind in zip(turned, kinds, strict=True)]


def label_marks(lists: Sequence[Sequence[str]]) -> Tensor:
    """(count, labels): 1 for each label in a list."""
    marks = torch.zeros(len(lists), len(scenes.LABELS))
    for i, labels in enumerate(lists):
        marks[i, [scenes.LABELS.index(label) for label in labels]] = 1
    return marks


class ClipWithPatchHead(nn.Module):
    """CLIP with a second head for training only: which shape does a patch show?"""

    def __init__(self, model: CLIPModel, tokenizer: PreTrainedTokenizerBase) -> None:
        super().__init__()
        self.model = model
        self.tokenizer = tokenizer
        self.head = nn.Linear(model.config.vision_config.hidden_size, shapes.NOTHING + 1)

    def losses(
        self, shown: Tensor, names: list[list[str]], present: Tensor, cells: Tensor
    ) -> Tensor:
        """The contrastive loss over captions, also with swapped colours, plus the patch loss.

        A caption that is also true of another scene does not count as wrong there.
        """
        captions = names + [swap_colours(labels) for labels in names]
        words = self.tokenizer(
            [caption(labels) for labels in captions], padding=True, return_tensors="pt"
        )
        output = self.model(**words, pixel_values=shown)
        true = label_marks(captions) @ (1 - present).T == 0  # (captions, scenes)
        own = torch.arange(len(shown))
        true[own, own] = False
        scores = output.logits_per_text.masked_fill(true, -1e4)
        patches = output.vision_model_output.last_hidden_state[:, 1:]
        patch_loss = functional.cross_entropy(self.head(patches).flatten(0, 1), cells.flatten())
        by_scene = functional.cross_entropy(scores.T, own)
        by_caption = functional.cross_entropy(scores[: len(shown)], own)
        return (by_scene + by_caption) / 2 + 0.5 * patch_loss


def train(
    model: CLIPModel, tokenizer: PreTrainedTokenizerBase, options: argparse.Namespace
) -> None:
    """Train the model; the weights of the last step are saved in --work."""
    generator = common.prepare(options.seed, options.threads)
    drawings = shapes.draw_scenes(0, options.scenes)
    shown = shapes.pixels(drawings)
    cells = shapes.cell_labels(drawings, shapes.SIDE // PATCH)
    labels = [[shape.label for shape in drawing.shapes] for drawing in drawings]
    present = label_marks(labels)
    fresh = shapes.draw_scenes(shapes.PROGRESS, 300)
    fresh_shown = shapes.normalise(shapes.pixels(fresh))
    steps = len(drawings) // options.batch * options.epochs
    start_well(model, shown[:2_000])
    trained = ClipWithPatchHead(model, tokenizer)

    def some(i: int) -> list[str]:
        """All shapes of a scene, or some of them."""
        names = labels[i]
        if float(torch.rand((), generator=generator)) < WHOLE:
            return names
        count = int(torch.randint(1, len(names) + 1, (), generator=generator))
        kept = torch.randperm(len(names), generator=generator)[:count].sort().values
        return [names[place] for place in kept.tolist()]

    def loss(batch: LabelledBatch) -> Tensor:
        inputs, indices = batch
        names = [some(i) for i in indices.tolist()]
        return trained.losses(inputs["pixel_values"], names, present[indices], cells[indices])

    def batches() -> Iterator[LabelledBatch]:
        for indices in shapes.shuffled_indices(
            len(drawings), options.batch, options.epochs, generator
        ):
            yield {"pixel_values": shapes.normalise(shown[indices])}, indices

    run = common.TrainingRun(steps, options.peak, 0.05, "cosine", 250, options.most_steps)
    for step in run.train(trained, batches(), loss):
        measured = retrieval(model, tokenizer, fresh_shown, fresh)
        common.save_weights(model, options.work / shapes.CHECKPOINT)
        common.write_run(options, step, steps, measured)
        print(f"  right caption of {POOL} {measured:.4f} after step {step}", flush=True)


@torch.inference_mode()
def similarity(
    model: CLIPModel, tokenizer: PreTrainedTokenizerBase, shown: Tensor, texts: list[str]
) -> Tensor:
    """(scenes, texts): how well each text fits each scene."""
    words = tokenizer(texts, padding=True, return_tensors="pt")
    return model(**words, pixel_values=shown).logits_per_image


def retrieval(
    model: CLIPModel, tokenizer: PreTrainedTokenizerBase, shown: Tensor, drawings: Sequence[Scene]
) -> float:
    """The share of scenes that choose their own caption among those of POOL scenes."""
    right = 0
    for first in range(0, len(drawings), POOL):
        texts = [drawing.caption() for drawing in drawings[first : first + POOL]]
        best = similarity(model, tokenizer, shown[first : first + POOL], texts).argmax(1)
        right += sum(texts[i] == texts[j] for i, j in enumerate(best.tolist()))
    return right / len(drawings)


def binding(
    model: CLIPModel, tokenizer: PreTrainedTokenizerBase, shown: Tensor, drawings: Sequence[Scene]
) -> float:
    """The share of scenes that prefer their caption to one with swapped colours.

    Scenes for which the swapped caption is also true are left out.
    """
    right = total = 0
    for drawing, image in zip(drawings, shown, strict=True):
        labels = [shape.label for shape in drawing.shapes]
        if set(swap_colours(labels)) <= set(labels):
            continue
        texts = [caption(labels), caption(swap_colours(labels))]
        total += 1
        right += int(similarity(model, tokenizer, image[None], texts).argmax()) == 0
    return right / total


def naming(
    model: CLIPModel, tokenizer: PreTrainedTokenizerBase, shown: Tensor, drawings: Sequence[Scene]
) -> float:
    """The share of scenes whose best text among "a red circle" and the like names a shape in it."""
    texts = [caption([label]) for label in scenes.LABELS]
    best = similarity(model, tokenizer, shown, texts).argmax(1).tolist()
    here = ({shape.label for shape in drawing.shapes} for drawing in drawings)
    found = [scenes.LABELS[i] in labels for i, labels in zip(best, here, strict=True)]
    return sum(found) / len(found)


def measure(folder: Path, count: int = HELD_OUT) -> dict[str, float]:
    """Return figures of a stored folder on held-out scenes, loaded as a user would load it.

    "test" is `retrieval`, "binding" is `binding` and "naming" is `naming`.
    """
    model = load_folder(folder, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    processor = AutoImageProcessor.from_pretrained(folder)
    drawings = shapes.draw_scenes(scenes.HELD_OUT, count)
    images = [drawing.render() for drawing in drawings]
    shown = processor(images=images, return_tensors="pt")["pixel_values"]
    return {
        "test": retrieval(model, tokenizer, shown, drawings),
        "binding": binding(model, tokenizer, shown, drawings),
        "naming": naming(model, tokenizer, shown, drawings),
    }


def store_texts(folder: Path) -> None:
    """Write the sample scenes, and questions.json: one text per shape, and the box of the shape.

    `answer` is the scene's whole caption, `text` names one of its shapes.
    """
    texts = [
        {
            "image": name,
            "text": caption([shape.label]),
            "answer": drawing.caption(),
            "about": list(shape.box),
        }
        for name, drawing in shapes.store_samples(folder)
        for shape in drawing.shapes
    ]
    common.write_json(folder / "questions.json", texts)


def store(
    model: CLIPModel, tokenizer: PreTrainedTokenizerBase, options: argparse.Namespace
) -> dict[str, float]:
    """Write the folder; return the figures measured from its files."""
    folder = options.output
    common.store_model(model, folder, packed=True)
    common.store_tokenizer(tokenizer, folder)
    shapes.store_processor(folder, "CLIPImageProcessor", do_center_crop=False, do_convert_rgb=True)
    store_texts(folder / "samples")
    measured = measure(folder)
    facts = {
        "name": NAME,
        "task": "zero-shot-image-classification",
        "stream": "text+image",
        "title": "A small CLIP trained on scenes of coloured shapes: which text fits which scene?",
        "licence": shapes.LICENCE,
        "accuracy": round(measured["test"], 4),
        "metric": (
            f"right caption among those of {POOL} scenes, over {HELD_OUT:,} held-out scenes"
        ),
        "samples": "samples",
    }
    common.write_json(folder / "bundled.json", facts)
    common.write_card(options, NAME, measured, {"words": len(shapes.words())})
    return measured


def main() -> None:
    """Train, write the folder, and print the accuracy of its files."""
    options = shapes.arguments(__doc__, NAME, count=30_000, epochs=4, batch=64, peak=1e-3)
    torch.manual_seed(options.seed)
    tokenizer = make_tokenizer()
    model = build_model(tokenizer)
    if not options.store_only:
        train(model, tokenizer, options)
    common.load_weights(model, options.work / shapes.CHECKPOINT)
    measured = store(model, tokenizer, options)
    print(
        f"{options.output}: {common.megabytes(options.output):.2f} MB,"
        f" right caption {measured['test']:.4f}"
    )


if __name__ == "__main__":
    main()

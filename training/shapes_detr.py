"""Train a small DETR to find the shapes of a scene and write the bundled model `detr_shapes`."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import (
    AutoImageProcessor,
    AutoModelForObjectDetection,
    DetrConfig,
    DetrForObjectDetection,
    ResNetBackbone,
    ResNetConfig,
)

from training import common, shapes, start
from whyformer.reproduce import scenes
from whyformer.reproduce.scenes import Scene
from whyformer.reproduce.training_loop import LabelledBatch

NAME = "detr_shapes"
BACKBONE = "backbone.safetensors"
BATCH = 64  # scenes in one step of the backbone
CELLS = 12  # rows and columns of the backbone's map; one cell covers 8 x 8 pixels
HELD_OUT = 1_000
SURE = 0.5  # least probability of a detection
OVERLAP = 0.5  # least IoU of its box with the true one


def backbone_config() -> ResNetConfig:
    """A ResNet of two stages, with a map of 12 x 12 for 96 x 96 pixels."""
    return ResNetConfig(
        embedding_size=24,
        hidden_sizes=[32, 64],
        depths=[1, 2],
        layer_type="basic",
        out_features=["stage2"],
    )


def build_model() -> DetrForObjectDetection:
    """Return an untrained DETR with twice as many queries as a scene can have shapes."""
    return DetrForObjectDetection(
        DetrConfig(
            use_timm_backbone=False,
            backbone_config=backbone_config(),
            d_model=64,
            encoder_layers=2,
            decoder_layers=3,
            encoder_attention_heads=4,
            decoder_attention_heads=4,
            encoder_ffn_dim=128,
            decoder_ffn_dim=128,
            dropout=0.0,
            num_queries=8,
            eos_coefficient=0.3,
            id2label=dict(enumerate(scenes.LABELS)),
            label2id={label: i for i, label in enumerate(scenes.LABELS)},
        )
    )


class BackboneWithCellHead(nn.Module):
    """The backbone with a head that predicts which shape each cell shows, and where its edges are.

    DETR keeps the batch normalisation of its backbone fixed, so it has to be trained before.
    """

    def __init__(self) -> None:
        super().__init__()
        self.backbone = ResNetBackbone(backbone_config())
        self.head = nn.Conv2d(64, shapes.NOTHING + 1 + 4, 1)

    def losses(self, inputs: dict[str, Tensor], labels: Tensor, edges: Tensor) -> Tensor:
        """The loss of the labels, and that of the edges where there is a shape."""
        found = self.head(self.backbone(**inputs).feature_maps[0]).flatten(2).transpose(1, 2)
        shown = functional.cross_entropy(
            found[..., :-4].flatten(0, 1), labels.flatten(), label_smoothing=0.02
        )
        there = labels != shapes.NOTHING
        return shown + 2 * functional.l1_loss(found[..., -4:][there], edges[there])


def cell_edges(drawings: Sequence[Scene], labels: Tensor) -> Tensor:
    """(count, cells, 4): where the edges of a cell's shape are from its middle, in shape sizes."""
    middles = (torch.arange(CELLS) + 0.5) / CELLS * scenes.SIDE
    down, right = torch.meshgrid(middles, middles, indexing="ij")
    places = torch.stack([right, down, right, down], dim=-1).reshape(-1, 4)
    edges = torch.zeros(*labels.shape, 4)
    for i, drawing in enumerate(drawings):
        for shape in drawing.shapes:
            here = labels[i] == scenes.LABELS.index(shape.label)
            edges[i, here] = (torch.tensor(shape.box) - places[here]) / scenes.LARGEST
    return edges


def boxes(drawing: Scene) -> Tensor:
    """(shapes, 4): middle x, middle y, width and height, as shares of the canvas."""
    corners = torch.tensor([shape.box for shape in drawing.shapes]) / scenes.SIDE
    low, high = corners[:, :2], corners[:, 2:]
    return torch.cat([(low + high) / 2, high - low], dim=1)


def training_labels(drawing: Scene) -> dict[str, Tensor]:
    """Return the labels and boxes of a scene as DETR's loss takes them."""
    labels = [scenes.LABELS.index(shape.label) for shape in drawing.shapes]
    return {"class_labels": torch.tensor(labels), "boxes": boxes(drawing)}


def train_backbone(drawings: Sequence[Scene], shown: Tensor, options: argparse.Namespace) -> None:
    """Train the backbone alone; its weights are saved in --work."""
    generator = common.prepare(options.seed, options.threads)
    cells = BackboneWithCellHead()
    labels = shapes.cell_labels(drawings, CELLS, 0.5)
    edges = cell_edges(drawings, labels)
    steps = len(drawings) // BATCH

    def loss(batch: LabelledBatch) -> Tensor:
        inputs, indices = batch
        return cells.losses(inputs, labels[indices], edges[indices])

    def batches() -> Iterator[LabelledBatch]:
        for indices in shapes.shuffled_indices(len(drawings), BATCH, 1, generator):
            yield {"pixel_values": shapes.normalise(shown[indices])}, indices

    run = common.TrainingRun(steps, 3e-3, 0.01, "cosine", steps, options.most_steps)
    for step in run.train(cells, batches(), loss):
        common.save_weights(cells.backbone, options.work / BACKBONE)
        print(f"  backbone saved after step {step}", flush=True)


def load_backbone(model: DetrForObjectDetection, path: Path) -> None:
    """Load the trained backbone into the model, with its batch normalisation."""
    trained = ResNetBackbone(backbone_config())
    common.load_weights(trained, path)
    weights = trained.state_dict()
    inner = model.model.backbone.model
    inner.load_state_dict({name: weights[name] for name in inner.state_dict()})


class StoredMaps(nn.Module):
    """Replaces the fixed backbone in training: the inputs are its stored maps, not pixels."""

    def forward(self, maps: Tensor, mask: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Return the maps unchanged."""
        return [(maps, mask.bool())]


@torch.inference_mode()
def maps(model: DetrForObjectDetection, shown: Tensor) -> Tensor:
    """(count, channels, cells, cells): the output of the model's backbone."""
    backbone = model.model.backbone.model.eval()
    parts = [backbone(shapes.normalise(part)).feature_maps[0].half() for part in shown.split(200)]
    return torch.cat(parts)


def losses(
    model: DetrForObjectDetection, inputs: dict[str, Tensor], labels: list[dict[str, Tensor]]
) -> Tensor:
    """Return the sum of DETR's loss after every decoder layer.

    With auxiliary_loss in its config, transformers would also normalise between the layers.
    """
    after: list[Tensor] = []
    hooks = [
        layer.register_forward_hook(lambda _module, _inputs, output: after.append(output))
        for layer in model.model.decoder.layers
    ]
    model(**inputs)
    for hook in hooks:
        hook.remove()
    total = torch.zeros(())
    for hidden in after:
        states = model.model.decoder.layernorm(hidden)
        places = model.bbox_predictor(states).sigmoid()
        chances = model.class_labels_classifier(states)
        loss, _, _ = model.loss_function(
            chances, labels, states.device, places, model.config, None, None
        )
        total = total + loss
    return total


def train(model: DetrForObjectDetection, options: argparse.Namespace) -> None:
    """Train the model; the weights of the last step are saved in --work.

    A backbone that is already in --work is not trained again.
    """
    drawings = shapes.draw_scenes(0, options.scenes)
    shown = shapes.pixels(drawings)
    if not (options.work / BACKBONE).is_file():
        train_backbone(drawings, shown, options)
    load_backbone(model, options.work / BACKBONE)
    generator = common.prepare(options.seed, options.threads)
    stored_maps = maps(model, shown)
    answers = [training_labels(drawing) for drawing in drawings]
    fresh = shapes.draw_scenes(shapes.PROGRESS, 300)
    fresh_maps = maps(model, shapes.pixels(fresh)).float()
    backbone, model.model.backbone = model.model.backbone, StoredMaps()
    start.share_queries_and_keys(
        start.query_key_pairs(dict(model.model.encoder.named_modules())), 4
    )
    steps = len(drawings) // options.batch * options.epochs

    def loss(batch: LabelledBatch) -> Tensor:
        inputs, indices = batch
        return losses(model, inputs, [answers[i] for i in indices.tolist()])

    def batches() -> Iterator[LabelledBatch]:
        for indices in shapes.shuffled_indices(
            len(drawings), options.batch, options.epochs, generator
        ):
            yield {"pixel_values": stored_maps[indices].float()}, indices

    run = common.TrainingRun(steps, options.peak, 0.01, "cosine", 500, options.most_steps)
    for step in run.train(model, batches(), loss):
        with torch.inference_mode():
            measured = figures(model(pixel_values=fresh_maps), fresh)
        model.model.backbone, stored = backbone, model.model.backbone
        common.save_weights(model, options.work / shapes.CHECKPOINT)
        model.model.backbone = stored
        common.write_run(options, step, steps, measured["found"])
        print(
            f"  found {measured['found']:.4f}, right {measured['right']:.4f} after step {step}",
            flush=True,
        )
    model.model.backbone = backbone


def corners(middles: Tensor) -> Tensor:
    """(..., 4): x0, y0, x1, y1 of boxes given by middle and size."""
    middle, size = middles[..., :2], middles[..., 2:]
    return torch.cat([middle - size / 2, middle + size / 2], dim=-1)


def overlaps(found: Tensor, true: Tensor) -> Tensor:
    """(found, true): the IoU of each pair of boxes x0, y0, x1, y1."""
    low = torch.maximum(found[:, None, :2], true[None, :, :2])
    high = torch.minimum(found[:, None, 2:], true[None, :, 2:])
    common_area = (high - low).clamp(min=0).prod(-1)
    areas = [(box[:, 2:] - box[:, :2]).prod(-1) for box in (found, true)]
    return common_area / (areas[0][:, None] + areas[1][None] - common_area)


def figures(output: Any, drawings: Sequence[Scene]) -> dict[str, float]:
    """Return recall ("found") and precision ("right") of the detections."""
    hits, claimed, present = tally(output, drawings)
    return {"found": hits / present, "right": hits / max(1, claimed)}


def tally(output: Any, drawings: Sequence[Scene]) -> tuple[int, int, int]:
    """How many shapes were found, how many detections there are, and how many shapes.

    A shape is found by a query that is sure of the right label, with a box that overlaps the true
    one enough; each shape is found once, and every other sure query is wrong.
    """
    hits = claimed = 0
    chances = output.logits.softmax(-1)[..., :-1]
    for row, placed, drawing in zip(chances, output.pred_boxes, drawings, strict=True):
        sureness, labels = row.max(-1)
        true = corners(boxes(drawing))
        kinds = [scenes.LABELS.index(shape.label) for shape in drawing.shapes]
        left = set(range(len(kinds)))
        for query in sureness.argsort(descending=True).tolist():
            if sureness[query] < SURE:
                break
            claimed += 1
            shared = overlaps(corners(placed[query : query + 1]), true)[0]
            for i in sorted(left):
                if kinds[i] == labels[query] and shared[i] >= OVERLAP:
                    left.remove(i)
                    hits += 1
                    break
    return hits, claimed, sum(len(drawing.shapes) for drawing in drawings)


@torch.inference_mode()
def measure(folder: Path, count: int = HELD_OUT) -> dict[str, float]:
    """Return recall and precision of a stored folder on held-out scenes."""
    model = AutoModelForObjectDetection.from_pretrained(folder, dtype=torch.float32).eval()
    processor = AutoImageProcessor.from_pretrained(folder)
    drawings = shapes.draw_scenes(scenes.HELD_OUT, count)
    hits = claimed = present = 0
    for first in range(0, count, 100):
        part = drawings[first : first + 100]
        inputs = processor(images=[drawing.render() for drawing in part], return_tensors="pt")
        counts = tally(model(**inputs), part)
        hits, claimed, present = hits + counts[0], claimed + counts[1], present + counts[2]
    return {"found": hits / present, "right": hits / max(1, claimed)}


def store(model: DetrForObjectDetection, options: argparse.Namespace) -> dict[str, float]:
    """Write the folder; return the figures measured from its files."""
    folder = options.output
    common.store_model(model, folder)
    shapes.store_processor(folder, "DetrImageProcessor", format="coco_detection", do_pad=True)
    shapes.store_samples(folder / "samples")
    measured = measure(folder)
    present = sum(len(drawing.shapes) for drawing in shapes.draw_scenes(scenes.HELD_OUT, HELD_OUT))
    facts = {
        "name": NAME,
        "task": "object-detection",
        "stream": "image",
        "title": "A small DETR trained on scenes of coloured shapes: which shapes are where?",
        "licence": shapes.LICENCE,
        "accuracy": round(measured["found"], 4),
        "metric": (
            f"share of the {present:,} shapes in {HELD_OUT:,} held-out scenes found"
            " with the right label, IoU at least 0.5"
        ),
        "samples": "samples",
    }
    common.write_json(folder / "bundled.json", facts)
    common.write_card(options, NAME, measured, {"shapes": present})
    return measured


def main() -> None:
    """Train, write the folder, and print the accuracy of its files."""
    options = shapes.arguments(__doc__, NAME, count=30_000, epochs=4, batch=32, peak=1e-3)
    torch.manual_seed(options.seed)
    model = build_model()
    if not options.store_only:
        train(model, options)
    common.load_weights(model, options.work / shapes.CHECKPOINT)
    measured = store(model, options)
    print(
        f"{options.output}: {common.megabytes(options.output):.2f} MB,"
        f" found {measured['found']:.4f}, right {measured['right']:.4f}"
    )


if __name__ == "__main__":
    main()

"""Train a small vision transformer on MNIST and write the bundled model `mnist`."""

from __future__ import annotations

import argparse
import gzip
import math
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy
import torch
from PIL import Image
from torch import Tensor
from torch.nn import functional
from transformers import (
    AutoImageProcessor,
    AutoModelForImageClassification,
    ViTConfig,
    ViTForImageClassification,
)

from training import common
from whyformer.reproduce.training_loop import LabelledBatch, classification_loss

HELD_OUT = 2_000
CHECKPOINT = "last.safetensors"
PIXELS = {"size": {"height": 28, "width": 28}, "image_mean": [0.5], "image_std": [0.5]}


def read_idx(path: Path) -> Tensor:
    """Return the bytes of a gzipped idx file in the shape that its header states."""
    if not path.is_file():
        raise SystemExit(f"{path} is missing: --data must be a folder that holds mnist/*.gz")
    content = gzip.decompress(path.read_bytes())
    dimensions = content[3]
    shape = numpy.frombuffer(content, ">i4", count=dimensions, offset=4).tolist()
    values = numpy.frombuffer(content, numpy.uint8, offset=4 + 4 * dimensions)
    return torch.from_numpy(values.copy()).reshape(shape)


def read_split(data: Path, split: str) -> tuple[Tensor, Tensor]:
    """The digits (count, 28, 28) as bytes and the labels (count,) of "train" or "t10k"."""
    images = read_idx(data / "mnist" / f"{split}-images-idx3-ubyte.gz")
    labels = read_idx(data / "mnist" / f"{split}-labels-idx1-ubyte.gz")
    return images, labels.long()


def normalise(images: Tensor) -> Tensor:
    """Pixels (batch, 1, 28, 28) in -1..1 from bytes (batch, 28, 28)."""
    return (images.unsqueeze(1).float() / 255 - 0.5) / 0.5


def augment(pixels: Tensor, generator: torch.Generator) -> Tensor:
    """The digits turned by up to 12 degrees, scaled by 10 % and moved by up to 2 pixels."""
    count = len(pixels)
    angle, scale, right, down = (2 * torch.rand(4, count, generator=generator) - 1).unbind()
    angle, scale = angle * math.radians(12), 1 + 0.1 * scale
    cosine, sine = angle.cos() * scale, angle.sin() * scale
    move = 2 * 2 / pixels.shape[-1]
    rows = [cosine, -sine, move * right, sine, cosine, move * down]
    affine = torch.stack(rows, dim=1).reshape(count, 2, 3)
    grid = functional.affine_grid(affine, list(pixels.shape), align_corners=False)
    # The area outside is black, which is -1 here. grid_sample pads with 0, hence the shift by 1.
    return functional.grid_sample(pixels + 1, grid, align_corners=False) - 1


def build_model() -> ViTForImageClassification:
    """An untrained vision transformer over 7 x 7 patches of 4 x 4 pixels."""
    names = {i: str(i) for i in range(10)}
    config = ViTConfig(
        image_size=28,
        patch_size=4,
        num_channels=1,
        hidden_size=96,
        num_hidden_layers=4,
        num_attention_heads=4,
        intermediate_size=288,
        hidden_act="gelu",
        id2label=names,
        label2id={name: i for i, name in names.items()},
        attn_implementation="sdpa",
    )
    return ViTForImageClassification(config)


def batches_in_order(images: Tensor, labels: Tensor, size: int = 250) -> Iterator[LabelledBatch]:
    """Yield every digit once, without augmentation."""
    for part, answers in zip(images.split(size), labels.split(size), strict=True):
        yield {"pixel_values": normalise(part)}, answers


def shuffled_batches(
    images: Tensor, labels: Tensor, size: int, generator: torch.Generator
) -> Iterator[LabelledBatch]:
    """Yield every digit once, shuffled and augmented, without an incomplete last batch."""
    order = torch.randperm(len(images), generator=generator)
    for indices in order[: len(order) // size * size].split(size):
        pixels = augment(normalise(images[indices]), generator)
        yield {"pixel_values": pixels}, labels[indices]


def train(model: ViTForImageClassification, options: argparse.Namespace) -> None:
    """Train the model; the weights of the last step are saved in --work.

    Progress is measured on held-out training digits; the test digits are not used.
    """
    generator = common.prepare(options.seed, options.threads)
    images, labels = read_split(options.data, "train")
    held_images, held_labels = images[-HELD_OUT:], labels[-HELD_OUT:]
    images, labels = images[:-HELD_OUT], labels[:-HELD_OUT]
    per_epoch = len(images) // options.batch
    steps = per_epoch * options.epochs
    batches = (
        batch
        for _ in range(options.epochs)
        for batch in shuffled_batches(images, labels, options.batch, generator)
    )
    run = common.TrainingRun(steps, options.peak, 0.05, "cosine", per_epoch, options.most_steps)
    for step in run.train(model, batches, partial(classification_loss, model, smoothing=0.05)):
        measured = common.accuracy(model, batches_in_order(held_images, held_labels))
        common.save_weights(model, options.work / CHECKPOINT)
        common.write_run(options, step, steps, measured)
        print(f"  held-out accuracy {measured:.4f} after step {step}", flush=True)


def store_processor(folder: Path) -> None:
    """Write what AutoImageProcessor needs to `folder`; Pillow alone is enough for it."""
    settings = {
        "image_processor_type": "ViTImageProcessor",
        "do_resize": True,
        "resample": int(Image.Resampling.BILINEAR),
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_normalize": True,
        **PIXELS,
    }
    common.write_json(folder / "preprocessor_config.json", settings)


@torch.inference_mode()
def store_samples(
    model: ViTForImageClassification, folder: Path, images: Tensor, labels: Tensor
) -> None:
    """Write the first correctly classified digit of every class to `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    model.eval()
    right = model(normalise(images)).logits.argmax(-1) == labels
    for digit in range(10):
        here = labels == digit
        chosen = right & here if bool((right & here).any()) else here
        first = int(chosen.nonzero()[0])
        Image.fromarray(images[first].numpy()).save(folder / f"digit_{digit}.png", optimize=True)


def measure(folder: Path, data: Path) -> float:
    """The accuracy on the test digits of a stored folder, loaded as a user would load it."""
    model = AutoModelForImageClassification.from_pretrained(folder, dtype=torch.float32)
    processor = AutoImageProcessor.from_pretrained(folder)
    images, labels = read_split(data, "t10k")

    def batches() -> Iterator[LabelledBatch]:
        for part, answers in zip(images.split(250), labels.split(250), strict=True):
            pictures = [Image.fromarray(image) for image in part.numpy()]
            yield dict(processor(pictures, return_tensors="pt")), answers

    return common.accuracy(model, batches())


def store(model: ViTForImageClassification, options: argparse.Namespace) -> float:
    """Write the folder; return the accuracy measured from its files."""
    folder = options.output
    images, labels = read_split(options.data, "t10k")
    common.store_model(model, folder)
    store_processor(folder)
    store_samples(model, folder / "samples", images[:500], labels[:500])
    measured = measure(folder, options.data)
    facts = {
        "name": "mnist",
        "task": "image-classification",
        "stream": "image",
        "title": "A small vision transformer trained on MNIST: which digit is this?",
        "licence": "the licence of whyformer; MNIST and the sample digits CC BY-SA 3.0",
        "accuracy": round(measured, 4),
        "metric": "accuracy on the 10,000 MNIST test digits",
        "samples": "samples",
        "channels": 1,
        **PIXELS,
    }
    common.write_json(folder / "bundled.json", facts)
    common.write_card(options, "mnist", {"test": measured})
    return measured


def main() -> None:
    """Train, write the folder, and print the accuracy of its files."""
    options = common.arguments(__doc__, "mnist", epochs=12, batch=100, peak=1.5e-3)
    torch.manual_seed(options.seed)
    model = build_model()
    if not options.store_only:
        train(model, options)
    common.load_weights(model, options.work / CHECKPOINT)
    measured = store(model, options)
    print(
        f"{options.output}: {common.megabytes(options.output):.2f} MB, test accuracy {measured:.4f}"
    )


if __name__ == "__main__":
    main()

"""Train a small captioning model on scenes and write the bundled model `caption_shapes`."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import (
    AutoImageProcessor,
    AutoTokenizer,
    BertConfig,
    BertLMHeadModel,
    GenerationConfig,
    PreTrainedTokenizerBase,
    VisionEncoderDecoderModel,
    ViTConfig,
    ViTModel,
)

from training import common, shapes, start
from whyformer.models.load import load_folder
from whyformer.reproduce import scenes
from whyformer.reproduce.scenes import Scene
from whyformer.reproduce.training_loop import LabelledBatch

NAME = "caption_shapes"
LENGTH = 24  # tokens of a caption, at most
PATCH = 16
HELD_OUT = 1_000
IGNORED = -100  # label of padding, which the loss ignores


def make_tokenizer() -> PreTrainedTokenizerBase:
    """Return a tokenizer of whole words between [CLS] and [SEP]."""
    return shapes.build_tokenizer("[CLS]", "[SEP]", LENGTH, types=True)


def build_model(tokenizer: PreTrainedTokenizerBase) -> VisionEncoderDecoderModel:
    """An untrained vision transformer over 6 x 6 patches, and a BERT decoder that attends to it."""
    shared = {
        "hidden_size": 128,
        "intermediate_size": 256,
        "num_attention_heads": 4,
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
        "initializer_range": start.SPREAD,
    }
    encoder = ViTConfig(
        **shared, image_size=shapes.SIDE, patch_size=PATCH, num_hidden_layers=3, hidden_act="gelu"
    )
    decoder = BertConfig(
        **shared,
        vocab_size=len(tokenizer),
        max_position_embeddings=LENGTH,
        num_hidden_layers=2,
        type_vocab_size=1,
        pad_token_id=tokenizer.pad_token_id,
        is_decoder=True,
        add_cross_attention=True,
        tie_word_embeddings=False,
    )
    model = VisionEncoderDecoderModel(
        encoder=ViTModel(encoder, add_pooling_layer=False), decoder=BertLMHeadModel(decoder)
    )
    special = {
        "decoder_start_token_id": tokenizer.cls_token_id,
        "eos_token_id": tokenizer.sep_token_id,
        "pad_token_id": tokenizer.pad_token_id,
    }
    for name, token in special.items():
        setattr(model.config, name, token)
    model.generation_config = GenerationConfig(**special, max_length=LENGTH, num_beams=1)
    return model


@torch.no_grad()
def start_well(model: VisionEncoderDecoderModel, shown: Tensor) -> None:
    """Set initial weights of the encoder that make training faster."""
    start.set_patches(
        model.encoder.embeddings.patch_embeddings.projection,
        model.encoder.embeddings.position_embeddings[0, 1:],
        shapes.normalise(shown),
    )
    lower = dict(model.encoder.layers[:-1].named_modules())
    start.share_queries_and_keys(
        start.query_key_pairs(lower), model.config.encoder.num_attention_heads
    )


class CaptionerWithPatchHead(nn.Module):
    """The model with a second head for training only: which shape does a patch show?"""

    def __init__(self, model: VisionEncoderDecoderModel) -> None:
        super().__init__()
        self.model = model
        self.head = nn.Linear(model.config.encoder.hidden_size, shapes.NOTHING + 1)

    def losses(self, shown: Tensor, words: Tensor, cells: Tensor) -> Tensor:
        """The loss of the next words and half of that of the patches."""
        output = self.model(pixel_values=shown, decoder_input_ids=words[:, :-1])
        next_words = words[:, 1:].masked_fill(words[:, 1:] == 0, IGNORED)
        word_loss = functional.cross_entropy(
            output.logits.flatten(0, 1), next_words.flatten(), ignore_index=IGNORED
        )
        patches = self.head(output.encoder_last_hidden_state[:, 1:])
        return word_loss + 0.5 * functional.cross_entropy(patches.flatten(0, 1), cells.flatten())


def train(
    model: VisionEncoderDecoderModel,
    tokenizer: PreTrainedTokenizerBase,
    options: argparse.Namespace,
) -> None:
    """Train the model; the weights of the last step are saved in --work."""
    generator = common.prepare(options.seed, options.threads)
    drawings = shapes.draw_scenes(0, options.scenes)
    shown = shapes.pixels(drawings)
    cells = shapes.cell_labels(drawings, shapes.SIDE // PATCH)
    texts = [drawing.caption() for drawing in drawings]
    words = tokenizer(texts, padding=True, return_tensors="pt")["input_ids"]
    fresh = shapes.draw_scenes(shapes.PROGRESS, 200)
    fresh_shown = shapes.normalise(shapes.pixels(fresh))
    steps = len(drawings) // options.batch * options.epochs
    start_well(model, shown[:2_000])
    trained = CaptionerWithPatchHead(model)

    def loss(batch: LabelledBatch) -> Tensor:
        inputs, indices = batch
        return trained.losses(inputs["pixel_values"], words[indices], cells[indices])

    def batches() -> Iterator[LabelledBatch]:
        for indices in shapes.shuffled_indices(
            len(drawings), options.batch, options.epochs, generator
        ):
            yield {"pixel_values": shapes.normalise(shown[indices])}, indices

    run = common.TrainingRun(steps, options.peak, 0.05, "cosine", 250, options.most_steps)
    for step in run.train(trained, batches(), loss):
        measured = share_exact(model, tokenizer, fresh_shown, fresh)
        common.save_weights(model, options.work / shapes.CHECKPOINT)
        common.write_run(options, step, steps, measured)
        print(f"  captions right word by word {measured:.4f} after step {step}", flush=True)


@torch.inference_mode()
def generate_captions(
    model: VisionEncoderDecoderModel, tokenizer: PreTrainedTokenizerBase, shown: Tensor
) -> list[list[str]]:
    """Return the words of the captions that the model generates greedily."""
    was_training = model.training
    model.eval()
    ids = model.generate(pixel_values=shown, do_sample=False)
    model.train(was_training)
    return [
        tokenizer.tokenize(text) for text in tokenizer.batch_decode(ids, skip_special_tokens=True)
    ]


def share_exact(
    model: VisionEncoderDecoderModel,
    tokenizer: PreTrainedTokenizerBase,
    shown: Tensor,
    drawings: Sequence[Scene],
) -> float:
    """The share of scenes whose caption is right word by word."""
    right = 0
    for start_at in range(0, len(drawings), 100):
        part = drawings[start_at : start_at + 100]
        captions = generate_captions(model, tokenizer, shown[start_at : start_at + 100])
        right += sum(
            words == tokenizer.tokenize(drawing.caption())
            for words, drawing in zip(captions, part, strict=True)
        )
    return right / len(drawings)


def share_named(
    model: VisionEncoderDecoderModel,
    tokenizer: PreTrainedTokenizerBase,
    shown: Tensor,
    drawings: Sequence[Scene],
) -> float:
    """The share of scenes whose caption names the right shapes, in any order."""
    right = 0
    for words, drawing in zip(generate_captions(model, tokenizer, shown), drawings, strict=True):
        pairs = pairwise(words)
        labels = sorted(f"{one} {two}" for one, two in pairs if two in scenes.KINDS)
        right += labels == sorted(shape.label for shape in drawing.shapes)
    return right / len(drawings)


def measure(folder: Path, count: int = HELD_OUT) -> dict[str, float]:
    """Return figures of a stored folder on held-out scenes, loaded as a user would load it.

    "test" is the share of captions right word by word, "named" that of the right shapes in any
    order.
    """
    model = load_folder(folder, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    processor = AutoImageProcessor.from_pretrained(folder)
    drawings = shapes.draw_scenes(scenes.HELD_OUT, count)
    images = [drawing.render() for drawing in drawings]
    shown = processor(images=images, return_tensors="pt")["pixel_values"]
    return {
        "test": share_exact(model, tokenizer, shown, drawings),
        "named": share_named(model, tokenizer, shown, drawings),
    }


@torch.no_grad()
def add_pooler(model: VisionEncoderDecoderModel) -> None:
    """Add a pooler of zeros to the encoder.

    Nothing uses it, but transformers builds one on loading and would warn about missing weights.
    """
    encoder = ViTModel(model.config.encoder)
    encoder.load_state_dict(model.encoder.state_dict(), strict=False)
    for parameter in encoder.pooler.parameters():
        parameter.zero_()
    model.encoder = encoder


def store(
    model: VisionEncoderDecoderModel,
    tokenizer: PreTrainedTokenizerBase,
    options: argparse.Namespace,
) -> dict[str, float]:
    """Write the folder; return the figures measured from its files."""
    folder = options.output
    add_pooler(model)
    common.store_model(model, folder, packed=True)
    model.generation_config.save_pretrained(folder)
    common.store_tokenizer(tokenizer, folder)
    # Without a processor class, AutoProcessor would load the tokenizer only.
    shapes.store_processor(folder, "ViTImageProcessor", processor_class="TrOCRProcessor")
    shapes.store_samples(folder / "samples")
    measured = measure(folder)
    facts = {
        "name": NAME,
        "task": "image-to-text",
        "stream": "image",
        "title": "A small captioning model trained on scenes of coloured shapes: what is there?",
        "licence": shapes.LICENCE,
        "accuracy": round(measured["test"], 4),
        "metric": f"captions of {HELD_OUT:,} held-out scenes that are right word by word",
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
        f" captions right {measured['test']:.4f}"
    )


if __name__ == "__main__":
    main()

"""Train a small LLaVA on questions about scenes, and write the bundled model `vlm_shapes`."""

from __future__ import annotations

import argparse
import json
import random
import shutil
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from torch import Tensor, nn
from torch.nn import functional
from transformers import (
    AutoProcessor,
    GenerationConfig,
    LlamaConfig,
    LlavaConfig,
    LlavaForConditionalGeneration,
    PreTrainedTokenizerFast,
)

from training import common, shapes, shapes_qa, start_llama
from training.chat_tokenizer import (
    ASSISTANT,
    BEGIN,
    END,
    USER,
    build_tokenizer,
    special_ids,
    store_tokenizer,
)
from whyformer.models.load import load_folder
from whyformer.reproduce import scenes
from whyformer.reproduce.scenes import Scene
from whyformer.reproduce.training_loop import LabelledBatch

NAME = "vlm_shapes"
IMAGE = "<image>"
TEMPLATE = (
    "{{ bos_token }}"
    "{% for message in messages %}"
    "{{ '<|' + message['role'] + '|>' }}"
    "{% if message['content'] is string %}{{ message['content'] }}{% else %}"
    "{% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}{{ '<image>' }}{% else %}{{ part['text'] }}{% endif %}"
    "{% endfor %}{% endif %}"
    "{{ eos_token }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)
LENGTH = 128  # tokens of a chat, at most
PATCH = 16
PATCHES = (shapes.SIDE // PATCH) ** 2
HELD_OUT = 400  # scenes to measure on
TURNS = 5  # questions about one scene in a step
PLAIN = 0.3  # share of training scenes without the signs of a chat
CAPITAL = 0.3  # share of training questions that start with a capital letter
# How far the heads of the first layer look back before training, in tokens. From the end of a
# prompt it is 3 or 4, and without the signs of a chat 1 or 2, to the shape or the colour.
DISTANCES = (3, 4, 1, 2)
SHARPNESS = 8.0  # of the second head
# Epochs and highest learning rate: without, and with the vision transformer.
STAGES = {1: (1, 1.5e-3), 2: (3, 1e-3)}
CHECKPOINTS = {1: "first.safetensors", 2: "last.safetensors"}
FIRST_RUN = "first_run.json"  # about the first stage
IGNORED = -100  # label of tokens that are not learnt


def make_tokenizer() -> PreTrainedTokenizerFast:
    """Return a tokenizer in which every word of the questions is one token."""
    questions = [
        wording.format(kind=kind, colour=colour)
        for wording in scenes.COLOUR_QUESTIONS + scenes.KIND_QUESTIONS + scenes.PRESENCE_QUESTIONS
        for kind in scenes.KINDS
        for colour in scenes.COLOURS
    ]
    texts = [*questions, *map(capitalise, questions)]
    texts += [word for answer in scenes.ANSWERS for word in (answer, f" {answer}") * 2]
    return build_tokenizer(texts, LENGTH, TEMPLATE, more=[IMAGE], begins=False)


def capitalise(text: str) -> str:
    """Return the text with a capital letter at its start."""
    return text[:1].upper() + text[1:]


def build_model(tokenizer: PreTrainedTokenizerFast) -> LlavaForConditionalGeneration:
    """Return the vision transformer of clip_shapes, and an untrained Llama that reads it."""
    clip: Any = load_folder(common.BUNDLED / "clip_shapes", dtype=torch.float32)
    special = special_ids(tokenizer)
    config = LlavaConfig(
        vision_config=clip.config.vision_config,
        text_config=LlamaConfig(
            **special,
            hidden_size=start_llama.HIDDEN,
            intermediate_size=2 * start_llama.HIDDEN,
            num_hidden_layers=3,
            num_attention_heads=start_llama.HEADS,
            vocab_size=len(tokenizer),
            max_position_embeddings=LENGTH,
            rope_parameters={"rope_type": "default", "rope_theta": start_llama.BASE},
            initializer_range=start_llama.SPREAD,
            tie_word_embeddings=False,
        ),
        image_token_id=tokenizer.convert_tokens_to_ids(IMAGE),
        image_seq_length=PATCHES,
        vision_feature_layer=-1,
        tie_word_embeddings=False,
    )
    model = LlavaForConditionalGeneration(config)
    model.model.vision_tower.load_state_dict(clip.vision_model.state_dict())
    model.generation_config = GenerationConfig(**special, do_sample=False, max_new_tokens=4)
    return model


@torch.no_grad()
def start_well(model: LlavaForConditionalGeneration, tokenizer: PreTrainedTokenizerFast) -> None:
    """Set initial weights that make training faster.

    The first layer of the language model reads the words before a token; the others look up
    patches that show what a question names.
    """
    text, head = model.model.language_model, model.lm_head.weight
    content = word_ids(tokenizer, (*scenes.COLOURS, *scenes.KINDS))
    start_llama.set_words(text.embed_tokens, model.lm_head, content)
    for answer in (*scenes.COLOURS, *scenes.KINDS):
        bare, spaced = tokenizer.convert_tokens_to_ids([answer, f"Ġ{answer}"])
        # What the question names is not the answer.
        head[spaced, start_llama.READ] = -head[spaced, start_llama.FOUND]
        head[bare] = head[spaced]
    # Like a token: the same number as all tokens, a name for all patches, and the content of each.
    projector = model.model.multi_modal_projector
    nn.init.normal_(projector.linear_1.weight, std=0.09)
    nn.init.normal_(projector.linear_2.weight, std=0.005)
    nn.init.normal_(projector.linear_2.weight[start_llama.CONTENT], std=0.02)
    patch = start_llama.random_names(1)[0]
    projector.linear_2.bias[start_llama.CONSTANT] = 4.0
    projector.linear_2.bias[start_llama.NAME] = patch
    first, *others = (layer.self_attn for layer in text.layers)
    start_llama.look_back(first, DISTANCES, 0.7)
    for attention in others:
        start_llama.look_up(attention, start_llama.CONTENT, patch, 2.5)


def word_ids(tokenizer: PreTrainedTokenizerFast, words: Sequence[str]) -> list[int]:
    """Return the ids of words after a space."""
    return [int(tokenizer.convert_tokens_to_ids(f"Ġ{word}")) for word in words]


class Turns:
    """Questions about scenes and their answers as token ids."""

    def __init__(self, tokenizer: PreTrainedTokenizerFast, drawings: Sequence[Scene]) -> None:
        self.tokenizer = tokenizer
        self.questions = [drawing.questions() for drawing in drawings]
        self.encode = lru_cache(maxsize=None)(self._encode)

    def _encode(self, text: str) -> list[int]:
        return list(self.tokenizer.backend_tokenizer.encode(text, add_special_tokens=False).ids)

    def batch(self, indices: Tensor, chance: random.Random) -> tuple[Tensor, Tensor, Tensor]:
        """Return the tokens before the image, and ids and labels (scenes, TURNS, tokens).

        All scenes of a batch are chats, or all are plain texts.
        """
        plain = chance.random() < PLAIN
        assistant, space = ("", " ") if plain else (END + ASSISTANT, "")
        rows: list[list[tuple[list[int], list[int]]]] = []
        for index in indices.tolist():
            known = self.questions[index]
            rows.append([])
            for one in chance.sample(known, min(TURNS, len(known))):
                text = capitalise(one.text) if chance.random() < CAPITAL else one.text
                answer = self.encode(space + one.answer + END)
                rows[-1].append((self.encode(text + assistant), answer))
        width = max(len(asked) + len(answer) for row in rows for asked, answer in row)
        ids = torch.full((len(rows), TURNS, width), self.tokenizer.pad_token_id)
        labels = torch.full_like(ids, IGNORED)
        for i, row in enumerate(rows):
            for turn, (asked, answer) in enumerate(row):
                end = len(asked) + len(answer)
                ids[i, turn, :end] = torch.tensor(asked + answer)
                labels[i, turn, len(asked) : end] = torch.tensor(answer)
        before = self.encode("" if plain else BEGIN + USER)
        return torch.tensor(before, dtype=torch.long), ids, labels


def turn_mask(before: int, turns: int, width: int) -> Tensor:
    """Return which token may attend to which, (tokens, tokens).

    Several questions stand behind one image; each sees the image and itself, but no other question.
    """
    turn = torch.cat([torch.full((before,), -1), torch.arange(turns).repeat_interleave(width)])
    mine = (turn[:, None] == turn[None]) | (turn[None] == -1)
    return mine & torch.ones(len(turn), len(turn), dtype=torch.bool).tril()


class VlmWithPatchHead(nn.Module):
    """The model with a second head for training only: which shape does a patch show?

    A patch has the colour and the kind whose words its projected features are most similar to.
    Without this head, the loss stays on a plateau until attention finds the patches.
    """

    def __init__(
        self, model: LlavaForConditionalGeneration, tokenizer: PreTrainedTokenizerFast
    ) -> None:
        super().__init__()
        self.model = model
        self.nothing = nn.Linear(model.config.text_config.hidden_size, 2)
        self.names = [
            torch.tensor(word_ids(tokenizer, [*names])) for names in (scenes.COLOURS, scenes.KINDS)
        ]

    def losses(self, batch: LabelledBatch) -> Tensor:
        """The loss of the answers and half of that of the patches."""
        inputs, labels = batch
        patches = self.features(inputs["pixel_values"])
        words = self.model.get_input_embeddings()
        count, turns, width = inputs["ids"].shape
        before = words(inputs["before"]).expand(count, -1, -1)
        states = torch.cat([before, patches, words(inputs["ids"].flatten(1))], dim=1)
        start_at = states.shape[1] - turns * width
        places = [torch.arange(start_at), start_at + torch.arange(width).repeat(turns)]
        output = (
            self.model.model.language_model(
                inputs_embeds=states,
                attention_mask=turn_mask(start_at, turns, width).expand(count, 1, -1, -1),
                position_ids=torch.cat(places).expand(count, -1),
                use_cache=False,
            )
            .last_hidden_state[:, start_at:]
            .reshape(count, turns, width, -1)[:, :, :-1]
        )
        next_words = labels[..., 1:]
        written = next_words != IGNORED
        logits = self.model.lm_head(output[written])
        return functional.cross_entropy(logits, next_words[written]) + 0.5 * self.patch_loss(
            patches, inputs["cells"]
        )

    def features(self, shown: Tensor) -> Tensor:
        """The projected features of the patches, (scenes, patches, hidden)."""
        found = self.model.model.get_image_features(pixel_values=shown, return_dict=True)
        return torch.stack(tuple(found.pooler_output))

    def patch_loss(self, patches: Tensor, cells: Tensor) -> Tensor:
        """The loss of the colour and the kind of each patch; either may be nothing."""
        empty = cells == shapes.NOTHING
        kinds = len(scenes.KINDS)
        words = self.model.get_input_embeddings().weight[:, start_llama.CONTENT]
        loss = patches.new_zeros(())
        for i, (names, labels) in enumerate(
            zip(self.names, (cells // kinds, cells % kinds), strict=True)
        ):
            similar = SHARPNESS * patches[..., start_llama.CONTENT] @ words[names].T
            logits = torch.cat([similar, self.nothing(patches)[..., i : i + 1]], dim=-1)
            labels = labels.masked_fill(empty, len(names))
            loss = loss + 0.5 * functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
        return loss


def train(
    model: LlavaForConditionalGeneration,
    tokenizer: PreTrainedTokenizerFast,
    options: argparse.Namespace,
) -> None:
    """Train the model in two stages; the weights of the last step are saved in --work.

    The vision transformer is trained in the second stage only.
    """
    generator = common.prepare(options.seed, options.threads)
    chance = random.Random(options.seed)
    drawings = shapes.draw_scenes(0, options.scenes)
    shown = shapes.pixels(drawings)
    cells = shapes.cell_labels(drawings, shapes.SIDE // PATCH)
    turns = Turns(tokenizer, drawings)
    fresh = shapes.draw_scenes(shapes.PROGRESS, 60)
    fresh_turns = Turns(tokenizer, fresh)
    fresh_shown = shapes.normalise(shapes.pixels(fresh))
    start_well(model, tokenizer)
    trained = VlmWithPatchHead(model, tokenizer)

    def batches(epochs: int) -> Iterator[LabelledBatch]:
        side = shapes.SIDE // PATCH
        for indices in shapes.shuffled_indices(len(drawings), options.batch, epochs, generator):
            before, ids, labels = turns.batch(indices, chance)
            pictures, patches = shown[indices], cells[indices]
            # A mirrored scene has the same answers: no question is about left and right.
            if chance.random() < 0.5:
                pictures = pictures.flip(-1)
                patches = patches.reshape(-1, side, side).flip(-1).flatten(1)
            pixels = shapes.normalise(pictures)
            yield {"pixel_values": pixels, "cells": patches, "before": before, "ids": ids}, labels

    for stage, (epochs, peak) in STAGES.items():
        if stage < options.stage:
            common.load_weights(trained, options.work / CHECKPOINTS[stage])
            continue
        model.model.vision_tower.requires_grad_(stage == 2)
        steps = len(drawings) // options.batch * epochs
        run = common.TrainingRun(steps, peak, 0.05, "cosine", 100, options.most_steps)
        for step in run.train(trained, batches(epochs), trained.losses):
            measured = share_known(trained, fresh_turns, fresh_shown)
            common.save_weights(trained, options.work / CHECKPOINTS[stage])
            common.write_run(options, step, steps, measured)
            if stage == 1:
                shutil.copy(options.work / "run.json", options.work / FIRST_RUN)
            print(f"  stage {stage}: answers right {measured:.4f} after step {step}", flush=True)


@torch.inference_mode()
def share_known(trained: VlmWithPatchHead, turns: Turns, shown: Tensor) -> float:
    """Return the share of answers whose first word has the highest logit, in chats."""
    model, right = trained.model, []
    for index, questions in enumerate(turns.questions):
        before = turns.encode(BEGIN + USER) + [model.config.image_token_id] * PATCHES
        for one in questions:
            ids = torch.tensor([before + turns.encode(one.text + END + ASSISTANT)])
            logits = model(input_ids=ids, pixel_values=shown[index : index + 1]).logits[0, -1]
            right.append(int(logits.argmax()) == turns.encode(one.answer)[0])
    return sum(right) / len(right)


def prompt(processor: Any, question: str, *, plain: bool) -> str:
    """Return an image and a question as one message of the user, or as they are."""
    if plain:
        return f"{IMAGE}{question}"
    parts = [{"type": "image"}, {"type": "text", "text": question}]
    chat = [{"role": "user", "content": parts}]
    return str(processor.apply_chat_template(chat, add_generation_prompt=True))


@torch.inference_mode()
def write_answers(
    model: LlavaForConditionalGeneration,
    processor: Any,
    asked: Sequence[tuple[Image.Image, str]],
    *,
    plain: bool = False,
) -> list[str]:
    """Return the answers that the model writes to questions about images."""
    answers: list[str] = []
    for first in range(0, len(asked), 100):
        images, questions = zip(*asked[first : first + 100], strict=True)
        inputs = processor(
            text=[prompt(processor, one, plain=plain) for one in questions],
            images=list(images),
            padding=True,
            return_tensors="pt",
        )
        ids = model.generate(**inputs)[:, inputs["input_ids"].shape[1] :]
        answers += processor.batch_decode(ids, skip_special_tokens=True)
    return [answer.removeprefix(" ") for answer in answers]


def measure(folder: Path, count: int = HELD_OUT) -> dict[str, float]:
    """Return figures of a stored folder on held-out scenes, loaded as a user would load it.

    "test" is the share of right answers to chats; "colour", "kind" and "presence" are that of one
    type of question; "plain" is that of prompts without the signs of a chat; "blind" is that of
    the most frequent answer to each wording, without an image; "swapped" is that of the model with
    the image of another scene.
    """
    model = load_folder(folder, dtype=torch.float32)
    processor = AutoProcessor.from_pretrained(folder)
    drawings = shapes.draw_scenes(scenes.HELD_OUT, count)
    images = [drawing.render() for drawing in drawings]
    places, questions = zip(*shapes.all_questions(drawings), strict=True)

    def right(turn: int, plain: bool = False) -> list[bool]:
        asked = [
            (images[(place + turn) % count], question.text)
            for place, question in zip(places, questions, strict=True)
        ]
        answers = write_answers(model, processor, asked, plain=plain)
        return [a == question.answer for a, question in zip(answers, questions, strict=True)]

    correct = right(0)
    by_type: dict[str, list[bool]] = defaultdict(list)
    for question, one in zip(questions, correct, strict=True):
        by_type[shapes_qa.TYPES[question.answer]].append(one)
    return {
        "test": shapes_qa.share(correct),
        **{kind: shapes_qa.share(part) for kind, part in by_type.items()},
        "plain": shapes_qa.share(right(0, plain=True)),
        "blind": shapes_qa.blind(questions),
        "swapped": shapes_qa.share(right(1)),
    }


def store(
    model: LlavaForConditionalGeneration,
    tokenizer: PreTrainedTokenizerFast,
    options: argparse.Namespace,
) -> dict[str, float]:
    """Write the folder; return the figures measured from its files."""
    folder = options.output
    common.store_model(model, folder, packed=True)
    model.generation_config.save_pretrained(folder)
    store_tokenizer(tokenizer, folder)
    shapes.store_processor(folder, "CLIPImageProcessor", do_center_crop=False, do_convert_rgb=True)
    common.write_json(
        folder / "processor_config.json",
        {
            "processor_class": "LlavaProcessor",
            "image_token": IMAGE,
            "patch_size": PATCH,
            "num_additional_image_tokens": 1,  # the class token of the vision transformer,
            "vision_feature_select_strategy": "default",  # which is left out
        },
    )
    (folder / "chat_template.jinja").write_text(TEMPLATE, encoding="utf-8")
    shapes.store_questions(folder / "samples")
    measured = measure(folder)
    count = len(shapes.all_questions(shapes.draw_scenes(scenes.HELD_OUT, HELD_OUT)))
    facts = {
        "name": NAME,
        "task": "image-text-to-text",
        "stream": "text+image",
        "title": "A small LLaVA trained on scenes of coloured shapes: a chat model that answers"
        " questions about them",
        "licence": shapes.LICENCE,
        "accuracy": round(measured["test"], 4),
        "metric": f"answers to {count:,} questions about {HELD_OUT:,} held-out scenes",
        "samples": "samples",
    }
    common.write_json(folder / "bundled.json", facts)
    first = json.loads((options.work / FIRST_RUN).read_text(encoding="utf-8"))
    counts = {
        "questions": count,
        "held_out": HELD_OUT,
        "tokens": len(tokenizer),
        "first_minutes": first["cpu_minutes"],
    }
    common.write_card(options, NAME, measured, counts)
    return measured


def arguments() -> argparse.Namespace:
    """Return the options of the script."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--scenes", type=int, default=12_000, help="scenes to train on")
    parser.add_argument("--stage", type=int, choices=(1, 2), default=1, help="stage to start with")
    common.add_options(parser, NAME, batch=32, peak=STAGES[1][1])
    return parser.parse_args()


def main() -> None:
    """Train, write the folder, and print the accuracy of its files."""
    options = arguments()
    torch.manual_seed(options.seed)
    tokenizer = make_tokenizer()
    model = build_model(tokenizer)
    if not options.store_only:
        train(model, tokenizer, options)
    common.load_weights(VlmWithPatchHead(model, tokenizer), options.work / CHECKPOINTS[2])
    measured = store(model, tokenizer, options)
    print(
        f"{options.output}: {common.megabytes(options.output):.2f} MB,"
        f" answers right {measured['test']:.4f}"
    )


if __name__ == "__main__":
    main()

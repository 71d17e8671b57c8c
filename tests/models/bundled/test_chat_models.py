"""The bundled chat models load offline and answer held-out questions."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers

from whyformer.models.bundled import ROOT, models
from whyformer.models.load import load_folder
from whyformer.reproduce import scenes
from whyformer.reproduce.passages import held_out_questions
from whyformer.reproduce.scene_questions import held_out_questions as scene_questions

NAMES = ("reader", "vlm_shapes")


@pytest.mark.parametrize("name", NAMES)
def test_it_is_small_loads_as_float32_and_has_a_card(name: str) -> None:
    folder = ROOT / name
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    assert size <= 6_000_000
    model = load_folder(folder)
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    assert models()[name].accuracy >= 0.95
    assert f"{models()[name].accuracy:.2%}" in (folder / "card.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", NAMES)
def test_every_word_is_a_token_and_any_text_comes_back(name: str) -> None:
    tokenizer = transformers.AutoTokenizer.from_pretrained(ROOT / name)
    words = {"reader": " Anna hid the red ball?", "vlm_shapes": "what colour is the circle?"}[name]
    assert len(tokenizer.tokenize(words)) == 6
    for text in (words, words.strip(), "  two spaces\nand a line", "Grüße 東京 🦊"):
        ids = tokenizer.encode(text, add_special_tokens=False)
        assert tokenizer.decode(ids) == text
    padded = tokenizer(["red", "the red ball"], padding=True)["input_ids"]
    assert padded[0][0] == tokenizer.pad_token_id


def answers(model: Any, tokenizer: Any, inputs: Any) -> list[str]:
    """What the model writes, greedily as its generation config says."""
    with torch.inference_mode():
        written = model.generate(**inputs)[:, inputs["input_ids"].shape[1] :]
    found: list[str] = tokenizer.batch_decode(written, skip_special_tokens=True)
    return found


@pytest.mark.parametrize("plain", [False, True], ids=["chat", "plain"])
def test_reader_answers_held_out_questions(plain: bool) -> None:
    model = transformers.LlamaForCausalLM.from_pretrained(ROOT / "reader").eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(ROOT / "reader")
    asked = list(held_out_questions(80))
    texts = [f"{read.text} {question.text}" for read, question in asked]
    if plain:
        inputs = tokenizer(texts, padding=True, return_tensors="pt")
    else:
        inputs = tokenizer.apply_chat_template(
            [[{"role": "user", "content": text}] for text in texts],
            add_generation_prompt=True,
            padding=True,
            return_tensors="pt",
            return_dict=True,
        )
    assert (inputs["input_ids"] == tokenizer.bos_token_id).sum(1).tolist() == [1] * len(asked)
    space = " " if plain else ""
    replies = answers(model, tokenizer, inputs)
    right = [
        reply == f"{space}{question.answer}"
        for reply, (_, question) in zip(replies, asked, strict=True)
    ]
    assert sum(right) >= 0.95 * len(right)


def test_reader_reads_the_passage_and_remembers_the_chat() -> None:
    model = transformers.LlamaForCausalLM.from_pretrained(ROOT / "reader").eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(ROOT / "reader")
    passage = (
        "Anna put the red ball in the {}. Ben hid the blue hat in the garage. Leo left the red"
    )
    passage += " cup in the office. Where is the red ball?"
    for place in ("kitchen", "garden", "attic"):
        chat = [{"role": "user", "content": passage.format(place)}]
        for reply, then in ((f"In the {place}.", "Who had the blue hat?"), ("It was Ben.", "")):
            inputs = tokenizer.apply_chat_template(
                chat, add_generation_prompt=True, return_tensors="pt", return_dict=True
            )
            assert answers(model, tokenizer, inputs) == [reply]
            chat += [
                {"role": "assistant", "content": reply},
                {"role": "user", "content": then},
            ]


def test_vlm_shapes_answers_questions_about_held_out_scenes() -> None:
    folder = ROOT / "vlm_shapes"
    model = load_folder(folder)
    processor = transformers.AutoProcessor.from_pretrained(folder)
    asked = list(scene_questions(80))
    texts = [
        processor.apply_chat_template(
            [
                {
                    "role": "user",
                    "content": [{"type": "image"}, {"type": "text", "text": question.text}],
                }
            ],
            add_generation_prompt=True,
        )
        for _, question in asked
    ]
    images = [drawing.render() for drawing, _ in asked]
    inputs = processor(text=texts, images=images, padding=True, return_tensors="pt")
    places = inputs["input_ids"] == model.config.image_token_id
    assert places.sum(1).tolist() == [36] * len(asked)
    assert (inputs["input_ids"] == model.config.text_config.bos_token_id).sum() == len(asked)
    replies = answers(model, processor.tokenizer, inputs)
    right = [reply == question.answer for reply, (_, question) in zip(replies, asked, strict=True)]
    assert sum(right) >= 0.93 * len(right)
    assert {*replies} <= {*scenes.ANSWERS}
    swapped = {**inputs, "pixel_values": inputs["pixel_values"].roll(1, 0)}
    lost = answers(model, processor.tokenizer, swapped)
    assert sum(a == question.answer for a, (_, question) in zip(lost, asked, strict=True)) < 50

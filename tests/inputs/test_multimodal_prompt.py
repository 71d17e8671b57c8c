"""Texts with images: the model's processor writes the placeholders, and counts are checked."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from PIL import Image
from tokenizers import Tokenizer, pre_tokenizers
from tokenizers import models as tokenizer_models
from torch import nn

import whyformer as wf
from whyformer.errors import InputError
from whyformer.models.families.tiny import tiny_models

SIGNS = ["<pad>", "<s>", "</s>", "<unk>"]
WORDS = [*SIGNS, "what", "colour", "is", "the", "ball", "red", "blue", "?"]
TILES = [f"<row_{row}_col_{column}>" for row in (1, 2) for column in (1, 2)]


@cache
def tokenizer(*signs: str) -> Any:
    """Words and signs; the first sign has id 50, the placeholder of tiny models."""
    known = {word: index for index, word in enumerate(WORDS)}
    backend = Tokenizer(tokenizer_models.WordLevel(known, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    made = transformers.PreTrainedTokenizerFast(
        tokenizer_object=backend,
        pad_token="<pad>",
        bos_token="<s>",
        eos_token="</s>",
        unk_token="<unk>",
    )
    made.add_tokens([f"w{index}" for index in range(50 - len(made))])
    made.add_special_tokens({"extra_special_tokens": [*signs]})
    assert made.convert_tokens_to_ids(signs[0]) == 50
    return made


def clip_images() -> Any:
    size = {"height": 12, "width": 12}
    return transformers.CLIPImageProcessorPil(size={"shortest_edge": 12}, crop_size=size)


def llava_processor(**options: Any) -> Any:
    return transformers.LlavaProcessor(
        image_processor=clip_images(),
        tokenizer=tokenizer("<image>"),
        patch_size=4,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        **options,
    )


@cache
def model_of(name: str) -> nn.Module:
    return tiny_models()[name][1]()


def picture(width: int, height: int, seed: int = 0) -> Image.Image:
    numbers = torch.rand(height, width, 3, generator=torch.Generator().manual_seed(seed))
    return Image.fromarray((numbers * 255).to(torch.uint8).numpy())


def explain(inputs: Any, processor: Any = None, model: str = "llava") -> wf.Attribution:
    return wf.explain(inputs, model_of(model), processor=processor or llava_processor(), target=6)


def test_a_text_with_an_image_is_what_the_processor_makes_of_it() -> None:
    image, text = picture(20, 14), "<image> what colour is the ball ?"
    found = explain({"text": text, "image": image})
    made = llava_processor()(text=[text], images=[image], return_tensors="pt")
    expected = explain(dict(made))
    assert found.streams.keys() == expected.streams.keys() == {"text", "image"}
    assert torch.equal(found.scores, expected.scores)
    assert torch.equal(found.streams["image"].scores, expected.streams["image"].scores)
    assert [word for word, _ in found[0].words()] == ["what", "colour", "is", "the", "ball", "?"]


def test_the_picture_is_what_the_model_saw() -> None:
    image = picture(12, 12)
    shown = explain({"text": "what ?", "image": image}).streams["image"].image
    assert shown is not None
    from numpy import asarray

    original = torch.tensor(asarray(image)).permute(2, 0, 1) / 255
    torch.testing.assert_close(shown[0], original, rtol=0, atol=1e-5)


@pytest.mark.parametrize("swap", [False, True])
def test_a_pair_is_a_text_with_an_image(swap: bool) -> None:
    image, text = picture(20, 14), "<image> is the ball red ?"
    pair = (image, text) if swap else (text, image)
    expected = explain({"text": text, "image": image})
    assert torch.equal(explain(pair).scores, expected.scores)


def test_samples_may_have_several_images() -> None:
    first, second, third = (picture(12, 12, seed) for seed in range(3))
    samples = [
        ("<image> what colour ?", first),
        {"text": "<image> is <image> red ?", "image": [second, third]},
    ]
    together = explain(samples)
    assert set(together.streams) == {"text", "image", "image 2"}
    for index, sample in enumerate(samples):
        alone = explain(sample)[0]
        for name, stream in alone.streams.items():
            mine = together[index].streams[name].scores
            torch.testing.assert_close(mine, stream.scores, rtol=1e-4, atol=1e-5)
    lists = {"text": [samples[0][0], samples[1]["text"]], "image": [first, [second, third]]}  # type: ignore[index]
    assert torch.equal(explain(lists).scores, together.scores)


def test_a_file_is_an_image(tmp_path: Path) -> None:
    image = picture(12, 12)
    image.save(tmp_path / "ball.png")
    text = "<image> what ?"
    found = explain({"text": text, "image": tmp_path / "ball.png"})
    assert torch.equal(found.scores, explain({"text": text, "image": image}).scores)


def test_a_text_without_a_place_gets_one() -> None:
    image = picture(12, 12)
    found = explain({"text": "what colour ?", "image": image})
    written = explain({"text": "<image>what colour ?", "image": image})
    assert torch.equal(found.scores, written.scores)
    assert "placeholders added" in found.provenance["notes"][0]
    assert written.provenance["notes"] != found.provenance["notes"]


def test_the_chat_template_writes_the_place() -> None:
    template = (
        "{% for m in messages %}{% for c in m['content'] %}{% if c['type'] == 'image' %}<image>"
        "{% else %}is {{ c['text'] }}{% endif %}{% endfor %}{% endfor %} red"
    )
    image = picture(12, 12)
    found = explain({"text": "the ball", "image": image}, llava_processor(chat_template=template))
    assert [word for word, _ in found[0].words()] == ["is", "the", "ball", "red"]
    assert "the chat template added" in found.provenance["notes"][0]


def test_too_few_and_too_many_images_are_refused() -> None:
    image, text = picture(12, 12), "<image> is <image> red ?"
    with pytest.raises(
        InputError, match=r"sample 0 has 2 places for images \('<image>'\).* with 1"
    ):
        explain({"text": text, "image": image})
    with pytest.raises(InputError, match=r"2 places for images .* with 3"):
        explain({"text": text, "image": [image] * 3})
    with pytest.raises(InputError, match="'image' has 1 entries and 'text' has 2"):
        explain({"text": [text, text], "image": [image]})


def test_a_model_without_a_processor_says_what_it_needs() -> None:
    with pytest.raises(InputError, match="without a processor"):
        wf.explain({"text": "what ?", "image": picture(12, 12)}, model_of("llava"))
    with pytest.raises(InputError, match="without a processor"):
        explain({"text": "what ?", "image": picture(12, 12)}, tokenizer("<image>"))


def test_a_mosaic_has_an_overview_apart() -> None:
    """LLaVA-NeXT cuts a wide image into tiles and leaves out the padding around them."""
    processor = transformers.LlavaNextProcessor(
        image_processor=transformers.LlavaNextImageProcessorPil(
            size={"shortest_edge": 12},
            crop_size={"height": 12, "width": 12},
            image_grid_pinpoints=[[12, 24], [24, 12]],
        ),
        tokenizer=tokenizer("<image>"),
        patch_size=4,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
    )
    a = explain({"text": "what ?", "image": picture(72, 12)}, processor, "llava_next")
    assert a.streams["image"].grid == (1, 6)
    assert a.streams["image overview"].grid == (3, 3)
    assert a.streams["image"].image is not None
    assert a.streams["image"].image.shape == (1, 3, 4, 24)


def test_tiles_stand_where_the_text_says() -> None:
    """Idefics3 names the row and the column of each tile, and the whole image comes last."""
    signs = tokenizer("<image>", "<fake_token_around_image>", "<global-img>", *TILES)
    signs.add_special_tokens({"extra_special_tokens": ["<end_of_utterance>"]})
    processor = transformers.Idefics3Processor(
        image_processor=transformers.Idefics3ImageProcessorPil(
            size={"longest_edge": 32}, max_image_size={"longest_edge": 16}
        ),
        tokenizer=signs,
        image_seq_len=4,
    )
    image = picture(32, 16)
    a = explain({"text": "what ?", "image": image}, processor, "idefics3")
    assert {name: s.grid for name, s in a.streams.items() if s.grid} == {
        "image": (2, 4),
        "image overview": (2, 2),
    }
    made = processor(text=["<image>what ?"], images=[[image]], return_tensors="pt")
    ids = made["input_ids"][0].tolist()
    left, right = (ids.index(signs.convert_tokens_to_ids(tile)) + 1 for tile in TILES[:2])
    whole = wf.explain(
        {k: v for k, v in made.items() if k in ("input_ids", "pixel_values", "attention_mask")},
        model_of("idefics3"),
        method="libragrad",
        target=6,
    )  # without names each tile is an image
    tiles = [whole.streams[name].scores[0] for name in ("image", "image 2", "image 3")]
    assert left < right
    mosaic = torch.cat([tiles[0].reshape(2, 2), tiles[1].reshape(2, 2)], 1)
    torch.testing.assert_close(a.streams["image"].score_map[0], mosaic)
    torch.testing.assert_close(a.streams["image overview"].scores[0], tiles[2])
    shown = a.streams["image"].image
    assert shown is not None
    assert shown.shape == (1, 3, 16, 32)


def test_pixtral_has_ends_of_lines_in_the_text() -> None:
    """LLaVA with Pixtral's tower: images of any size, and a token after each row of patches."""
    from whyformer.models.families.mistral3 import PIXTRAL

    model = tiny_models()["llava"][1](vision_config=PIXTRAL, vision_feature_select_strategy="full")
    generator = torch.Generator().manual_seed(0)
    pixels = torch.randn(2, 3, 8, 12, generator=generator)
    line, break_id = [50] * 3, 40
    wide = [5, *line, break_id, *line, 6]
    narrow = [7, 50, 50, break_id, 50, 50, 8, 9, 10]
    inputs = {
        "input_ids": torch.tensor([wide, narrow]),
        "pixel_values": pixels,
        "image_sizes": torch.tensor([[8, 12], [8, 8]]),
    }
    a = wf.explain(inputs, model, method="libragrad", target=6)
    assert a.streams["image"].grid == (2, 3)
    assert a.streams["image"].mask.tolist() == [[True] * 6, [True, True, False] * 2]
    assert a[1].streams["image"].grid == (2, 2)
    assert a.streams["text"].mask[0].nonzero().flatten().tolist() == [0, 4, 8]
    torch.testing.assert_close(a.conservation, torch.ones(2), rtol=0, atol=1e-4)

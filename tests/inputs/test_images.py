"""Images become pixel values, and the pixels the model saw can be shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
import transformers
from PIL import Image
from torch import Tensor, nn

from whyformer.errors import InputError
from whyformer.inputs.images import PlainImageProcessor, display_pixels, patch_of
from whyformer.inputs.prepare import prepare
from whyformer.inputs.sequence import narrow_to_module
from whyformer.models.families import family_of


def tiny(name: str = "ViT", **settings: Any) -> nn.Module:
    """A small random image classifier."""
    sizes = {
        "image_size": 8,
        "patch_size": 4,
        "hidden_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 16,
    }
    config = getattr(transformers, f"{name}Config")(**{**sizes, **settings})
    module: nn.Module = getattr(transformers, f"{name}ForImageClassification")(config).eval()
    return module


def pil_processor(**settings: Any) -> Any:
    """The image processor of transformers that needs no torchvision."""
    return transformers.ViTImageProcessorPil(size={"height": 8, "width": 8}, **settings)


def test_a_path_and_an_image_are_the_same(vit: nn.Module, picture: Path) -> None:
    forms = [picture, str(picture), Image.open(picture), [picture], (str(picture),)]
    values = [prepare(form, vit).arguments["pixel_values"] for form in forms]
    assert all(torch.equal(value, values[0]) for value in values)
    assert values[0].shape == (1, 3, 8, 8)


def test_without_a_processor_the_image_is_resized_and_scaled(vit: nn.Module, picture: Path) -> None:
    prepared = prepare(picture, vit)
    pixels = prepared.arguments["pixel_values"]
    assert pixels[0, :, 0, 0].tolist() == pytest.approx([1, -1, -1])  # red, top left
    assert pixels[0, :, 0, -1].tolist() == pytest.approx([-1, -1, 1])  # blue, top right
    assert (prepared.stream, prepared.grid, prepared.mask) == ("image", (2, 2), None)
    assert prepared.image is not None
    torch.testing.assert_close(prepared.image, pixels / 2 + 0.5)


def test_with_a_processor_of_transformers(vit: nn.Module, picture: Path) -> None:
    processor = pil_processor(image_mean=[0.1, 0.2, 0.3], image_std=[0.5, 0.6, 0.7])
    prepared = prepare([picture, Image.new("RGB", (30, 40), (0, 255, 0))], vit, processor)
    assert prepared.size == 2
    expected = processor(images=[Image.open(picture)], return_tensors="pt")["pixel_values"]
    torch.testing.assert_close(prepared.arguments["pixel_values"][:1], expected)
    assert prepared.image is not None
    torch.testing.assert_close(prepared.image[1, :, 4, 4], torch.tensor([0.0, 1.0, 0.0]))
    assert len(set(prepared.content)) == 2
    assert prepared.content[0] == prepare(picture, vit, processor).content[0]


def test_a_processor_with_both_parts(vit: nn.Module, picture: Path, wordpiece: Any) -> None:
    class Both:
        tokenizer = wordpiece
        image_processor = pil_processor()

    assert prepare(picture, vit, Both()).arguments["pixel_values"].shape == (1, 3, 8, 8)


@pytest.mark.parametrize("processor", [None, pil_processor(image_mean=[0.5], image_std=[0.5])])
def test_grey_models_get_grey_images(picture: Path, processor: Any) -> None:
    module = tiny(num_channels=1)
    prepared = prepare(picture, module, processor)
    assert prepared.arguments["pixel_values"].shape == (1, 1, 8, 8)
    assert prepared.image is not None
    assert prepared.image.shape == (1, 3, 8, 8)
    assert torch.equal(prepared.image[:, 0], prepared.image[:, 2])


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGBA", "CMYK"])
def test_every_eight_bit_mode(vit: nn.Module, mode: str) -> None:
    assert prepare(Image.new(mode, (5, 5)), vit).arguments["pixel_values"].shape == (1, 3, 8, 8)


def test_a_file_is_turned_as_its_camera_was_held(vit: nn.Module, tmp_path: Path) -> None:
    image = Image.new("RGB", (8, 8))
    image.paste((255, 255, 255), (0, 0, 8, 4))  # bright above
    exif = Image.Exif()
    exif[0x0112] = 3  # upside down
    image.save(tmp_path / "turned.png", exif=exif)
    pixels = prepare(tmp_path / "turned.png", vit).arguments["pixel_values"]
    assert pixels[0, 0, [0, -1], 0].tolist() == pytest.approx([-1, 1])


def test_precision_and_baseline(vit: nn.Module, picture: Path) -> None:
    # A model in half precision is explained in float32, so its pixels are not rounded.
    for dtype, kept in ((torch.float64, torch.float64), (torch.bfloat16, torch.float32)):
        prepared = prepare(picture, vit.to(dtype))
        assert prepared.arguments["pixel_values"].dtype == kept
        assert not prepared.baseline_arguments["pixel_values"].any()
        assert prepared.image is not None
        assert prepared.image.dtype == torch.float32
        vit(**narrow_to_module(prepared.arguments, vit))


def test_tensors_are_taken_as_they_are(vit: nn.Module) -> None:
    pixels = torch.randn(2, 3, 8, 8)
    prepared = prepare(pixels, vit, family=family_of(vit))
    assert torch.equal(prepared.arguments["pixel_values"], pixels)
    assert prepared.image is not None
    assert prepared.image.amin((1, 2, 3)).tolist() == pytest.approx([0, 0])
    assert prepared.image.amax((1, 2, 3)).tolist() == pytest.approx([1, 1])
    assert torch.equal(prepare(pixels[0], vit).arguments["pixel_values"], pixels[:1])
    assert torch.equal(prepare(pixels.numpy(), vit).arguments["pixel_values"], pixels)
    assert prepare({"pixel_values": pixels[0]}, vit).size == 1


def test_pixels_that_cannot_be_denormalised_are_stretched() -> None:
    steps = PlainImageProcessor((2, 2))
    inside = torch.tensor([-1.0, 1.0, 0.0, 0.5]).reshape(1, 1, 2, 2)
    assert display_pixels(inside, steps)[0, 0].flatten().tolist() == pytest.approx(
        [0, 1, 0.5, 0.75]
    )
    assert display_pixels(inside * 3, steps)[0, 0].flatten().tolist() == pytest.approx(
        [0, 1, 0.5, 0.75]
    )
    assert not display_pixels(torch.full((1, 1, 2, 2), 9.0), None).any()
    unscaled = pil_processor(do_normalize=False, do_rescale=False)
    assert display_pixels(
        torch.full((1, 3, 1, 1), 255.0), unscaled
    ).flatten().tolist() == pytest.approx([1, 1, 1])


def test_patches_of_other_shapes() -> None:
    assert patch_of(tiny(patch_size=(2, 4))) == (2, 4)
    prepared = prepare(torch.randn(1, 3, 8, 8), tiny(patch_size=(2, 4)))
    assert prepared.grid == (4, 2)


def test_models_that_stretch_their_positions_take_any_size() -> None:
    prepared = prepare(torch.randn(1, 3, 12, 16), tiny("Dinov2"))
    assert prepared.grid == (3, 4)
    wide = {"pixel_values": torch.randn(1, 3, 12, 16), "interpolate_pos_encoding": True}
    assert prepare(wide, tiny()).grid == (3, 4)


def test_a_module_of_the_users_own_that_cuts_patches(picture: Path) -> None:
    class Own(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cut = nn.Conv2d(3, 6, 4, 4)

        def forward(self, x: Tensor) -> Tensor:
            return self.cut(x).flatten(2).mean(2)

    prepared = prepare(torch.randn(2, 3, 8, 12), Own())
    assert (prepared.stream, prepared.grid, prepared.carrier) == ("image", (2, 3), "x")
    assert prepare(picture, Own(), pil_processor()).grid == (2, 2)
    with pytest.raises(InputError, match="Own has neither a processor nor an image size"):
        prepare(picture, Own())


def test_a_missing_file(vit: nn.Module) -> None:
    for path in ("nowhere.png", Path("nowhere.png")):
        with pytest.raises(InputError, match=r"there is no image file 'nowhere\.png'"):
            prepare(path, vit)


def test_text_for_an_image_model(vit: nn.Module) -> None:
    with pytest.raises(InputError, match="there is no image file 'a gripping film'"):
        prepare("a gripping film", vit)
    with pytest.raises(InputError, match=r"the inputs are text .* reads image"):
        prepare([("good", "film")], vit)


def test_a_folder_is_not_an_image(vit: nn.Module, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is a folder, not an image"):
        prepare(tmp_path, vit)


def test_a_file_that_is_not_an_image(vit: nn.Module, tmp_path: Path) -> None:
    path = tmp_path / "words.png"
    path.write_text("not pixels")
    with pytest.raises(InputError, match=r"words\.png' cannot be read as an image"):
        prepare(path, vit)


def test_a_truncated_image(vit: nn.Module, tmp_path: Path) -> None:
    path = tmp_path / "half.png"
    Image.effect_noise((64, 64), 50).save(path)
    path.write_bytes(path.read_bytes()[:500])
    with pytest.raises(InputError, match=r"half\.png' cannot be read as an image"):
        prepare(path, vit)


def test_deep_images_are_refused_rather_than_clipped(vit: nn.Module) -> None:
    deep = Image.fromarray(numpy.full((4, 4), 40000, dtype=numpy.uint16))
    with pytest.raises(InputError, match="more than 8 bits per channel"):
        prepare(deep, vit)


def test_wrong_rank(vit: nn.Module) -> None:
    for wrong in (torch.randn(8, 8), torch.randn(1, 1, 3, 8, 8)):
        with pytest.raises(InputError, match=r"rank 4 \(batch, channels, height, width\)"):
            prepare(wrong, vit)


def test_eight_bit_arrays(vit: nn.Module) -> None:
    with pytest.raises(InputError, match=r"PIL\.Image\.fromarray"):
        prepare(numpy.zeros((8, 8, 3), dtype=numpy.uint8), vit)


def test_wrong_channels(vit: nn.Module) -> None:
    with pytest.raises(InputError, match=r"has 1 channels .* the model takes 3"):
        prepare(torch.randn(2, 1, 8, 8), vit)


def test_wrong_size(vit: nn.Module) -> None:
    with pytest.raises(InputError, match="9 x 8 pixels, the model takes 8 x 8"):
        prepare(torch.randn(2, 3, 9, 8), vit)


def test_nan_and_infinite_pixels(vit: nn.Module) -> None:
    pixels = torch.zeros(1, 3, 8, 8)
    pixels[0, 0, 0, :2] = torch.tensor([float("nan"), float("inf")])
    with pytest.raises(InputError, match="'pixel_values' has 2 NaN or infinite values of 192"):
        prepare(pixels, vit)


def test_channels_that_no_file_has(picture: Path) -> None:
    with pytest.raises(InputError, match="takes images of 5 channels"):
        prepare(picture, tiny(num_channels=5))


def test_a_processor_that_refuses(vit: nn.Module, picture: Path) -> None:
    processor = pil_processor(image_mean=[0.5, 0.5], image_std=[0.5, 0.5])
    with pytest.raises(InputError, match="ViTImageProcessorPil cannot read the image"):
        prepare(picture, vit, processor)

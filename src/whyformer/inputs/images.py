"""Images as pixel values, and the pixels that the model saw."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy
import torch
from torch import Tensor, nn

from whyformer.errors import InputError
from whyformer.inputs.baseline import baseline_arguments
from whyformer.inputs.batch import Batch
from whyformer.inputs.detect import is_image
from whyformer.inputs.sequence import contents, move_to_module
from whyformer.models.processors import first_line
from whyformer.models.quiet import quiet_transformers
from whyformer.models.signature import Forward

DEEP_MODES = ("I", "F")  # more than eight bits per channel: converting would clip
MODES = {1: "L", 3: "RGB"}


@dataclass(frozen=True)
class PlainImageProcessor:
    """Pixel values without a processor: resized to the model's size, then from 0..1 to -1..1.

    The whole image is resized, nothing is cropped, so that every pixel can be explained.
    """

    size: tuple[int, int]  # (height, width)
    image_mean: float = 0.5
    image_std: float = 0.5

    def __call__(self, images: Sequence[Any], return_tensors: str = "pt") -> dict[str, Tensor]:
        """(batch, channels, height, width) of images that all have the same mode."""
        return {"pixel_values": torch.stack([self.preprocess(image) for image in images])}

    def preprocess(self, image: Any) -> Tensor:
        """One image, (channels, height, width)."""
        from PIL.Image import Resampling

        resized = image.resize((self.size[1], self.size[0]), Resampling.BILINEAR)
        pixels = torch.from_numpy(numpy.array(resized, dtype=numpy.float32)) / 255
        pixels = pixels.unsqueeze(0) if pixels.ndim == 2 else pixels.permute(2, 0, 1)
        return (pixels - self.image_mean) / self.image_std


def read_images(
    items: Sequence[Any], module: nn.Module, forward: Forward, processor: Any | None
) -> Batch:
    """Images and image files as the model takes them."""
    arguments, steps = image_arguments(items, module, forward, processor)
    carrier = forward.carrier("pixel_values")
    return image_batch(arguments, carrier, module, forward, steps)


def image_arguments(
    items: Sequence[Any], module: nn.Module, forward: Forward, processor: Any | None
) -> tuple[dict[str, Any], Any]:
    """Images and image files as arguments, and the steps that made them."""
    channels = channels_of(module) or 3
    mode = MODES.get(channels)
    if mode is None:
        raise InputError(
            f"{type(module).__name__} takes images of {channels} channels and an image file has 1"
            " or 3; pass pixel_values as a tensor"
        )
    opened = [open_image(item, mode) for item in items]
    steps = processor if processor is not None else plain_processor(module)
    try:
        with quiet_transformers():
            features = dict(steps(images=opened, return_tensors="pt"))
    except Exception as error:
        raise InputError(
            f"{type(steps).__name__} cannot read the image: {first_line(error)}; pass another"
            " processor=, or pixel_values as a tensor"
        ) from error
    arguments = {n: v for n, v in features.items() if n != "pixel_values" and forward.takes(n)}
    arguments[forward.carrier("pixel_values")] = features["pixel_values"]
    return arguments, steps


def open_image(item: Any, mode: str) -> Any:
    """The image in the given mode, from its file where a path was given, held as it was shot."""
    from PIL import Image, ImageOps

    name = "the image" if is_image(item) else f"the file {str(item)!r}"
    try:
        if is_image(item):
            image = item
        else:
            with Image.open(_check_file(item)) as file:
                image = ImageOps.exif_transpose(file)
        if image.mode.startswith(DEEP_MODES):
            raise InputError(
                f"{name} has mode {image.mode}, more than 8 bits per channel; scale it to 8 bits"
                " and convert it to L or RGB first"
            )
        if not all(image.size):
            raise InputError(f"{name} has no pixels: its size is {image.size}; pass another")
        return image.convert(mode)
    except InputError:
        raise
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise InputError(
            f"{name} cannot be read as an image: {first_line(error)}; pass a PNG, JPEG or another"
            " format that Pillow reads"
        ) from error


def _check_file(item: Any) -> Path:
    """The path of a file that is there."""
    path = Path(item).expanduser()
    if not path.exists():
        raise InputError(f"there is no image file {str(item)!r}; check the path")
    if not path.is_file():
        raise InputError(f"{str(item)!r} is a folder, not an image; pass the files in it")
    return path


def image_batch(
    arguments: Mapping[str, Any],
    carrier: str,
    module: nn.Module,
    forward: Forward,
    steps: Any | None,
) -> Batch:
    """Pixel values as the model is to see them, with the grid of its patches."""
    pixels: Tensor = arguments[carrier]
    check_pixels(pixels, carrier, module, forward, arguments)
    placed = move_to_module(arguments, module)
    patch = patch_of(module)
    grid = None if patch is None else (pixels.shape[-2] // patch[0], pixels.shape[-1] // patch[1])
    return Batch(
        arguments=placed,
        baseline_arguments=baseline_arguments(placed, carrier, module),
        carrier=carrier,
        size=pixels.shape[0],
        stream="image",
        content=contents(pixels),
        grid=grid,
        image=shown_pixels(pixels, steps),
    )


def check_pixels(
    pixels: Tensor, carrier: str, module: nn.Module, forward: Forward, arguments: Mapping[str, Any]
) -> None:
    """Nothing; raises where rank, channels or size are not what the model takes."""
    if pixels.ndim != 4 or not pixels.is_floating_point():
        raise InputError(
            f"'{carrier}' is a tensor of {pixels.dtype} with shape {tuple(pixels.shape)}; expected"
            " floating numbers of rank 4 (batch, channels, height, width), or rank 3 for one image;"
            " for an array of 8-bit pixels pass PIL.Image.fromarray(array)"
        )
    channels = channels_of(module)
    if channels is not None and pixels.shape[1] != channels:
        raise InputError(
            f"'{carrier}' has {pixels.shape[1]} channels in shape {tuple(pixels.shape)}, the model"
            f" takes {channels}; the order is (batch, channels, height, width)"
        )
    size = size_of(module)
    # Models that stretch their positions by themselves have no such switch.
    switch = "interpolate_pos_encoding"
    fixed = size is not None and switch in forward.names and not arguments.get(switch)
    if fixed and size and tuple(pixels.shape[-2:]) != size:
        raise InputError(
            f"'{carrier}' is {pixels.shape[-2]} x {pixels.shape[-1]} pixels, the model takes"
            f" {size[0]} x {size[1]}; resize it, or pass a mapping with {switch}=True"
        )


def shown_pixels(pixels: Tensor, steps: Any | None) -> Tensor:
    """The pixels in 0..1 as three channels, (batch, 3, height, width), for showing.

    Undoes the processor's normalisation; where none is known, or the values cannot have come from
    it, each sample is stretched from its smallest to its largest value.
    """
    values = pixels.detach().float().cpu()
    shown = _denormalise(values, steps)
    if shown is None or shown.min() < -0.01 or shown.max() > 1.01:
        low = values.amin(dim=(1, 2, 3), keepdim=True)
        reach = values.amax(dim=(1, 2, 3), keepdim=True) - low
        shown = (values - low) / torch.where(reach > 0, reach, torch.ones_like(reach))
    shown = shown.clamp(0, 1)
    return shown if shown.shape[1] == 3 else shown[:, :1].expand(-1, 3, -1, -1)


def plain_processor(module: nn.Module) -> PlainImageProcessor:
    """The steps of our own for a model that has an image size in its config."""
    size = size_of(module)
    if size is None:
        raise InputError(
            f"an image was given and {type(module).__name__} neither has a processor nor an image"
            " size in its config; pass processor=, or pixel values as a tensor"
        )
    return PlainImageProcessor(size)


def channels_of(module: nn.Module) -> int | None:
    """The number of image channels that the model takes, where that can be known."""
    found = getattr(getattr(module, "config", None), "num_channels", None)
    if isinstance(found, int):
        return found
    convolution = _patch_convolution(module)
    return None if convolution is None else convolution.in_channels


def size_of(module: nn.Module) -> tuple[int, int] | None:
    """(height, width) of the images that the model's config names."""
    return _height_and_width(getattr(getattr(module, "config", None), "image_size", None))


def patch_of(module: nn.Module) -> tuple[int, int] | None:
    """(height, width) of a patch, from the config or else from the patch convolution."""
    named = _height_and_width(getattr(getattr(module, "config", None), "patch_size", None))
    convolution = _patch_convolution(module)
    if named is None and convolution is not None:
        return _height_and_width(convolution.kernel_size)
    return named


def _patch_convolution(module: nn.Module) -> nn.Conv2d | None:
    """The first convolution whose steps do not overlap: it cuts an image into patches."""
    for part in module.modules():
        if isinstance(part, nn.Conv2d):
            return part if part.kernel_size == part.stride and max(part.stride) > 1 else None
    return None


def _denormalise(values: Tensor, steps: Any | None) -> Tensor | None:
    """The values before the processor normalised them, None where it does not say how."""
    if steps is None:
        return None
    if getattr(steps, "do_normalize", True) is False:
        return values if getattr(steps, "do_rescale", True) else values / 255
    moments = (getattr(steps, "image_mean", None), getattr(steps, "image_std", None))
    if any(moment is None for moment in moments):
        return None
    mean, std = (torch.as_tensor(m, dtype=values.dtype).reshape(1, -1, 1, 1) for m in moments)
    if {mean.shape[1], std.shape[1]} - {1, values.shape[1]}:
        return None
    return values * std + mean


def _height_and_width(value: Any) -> tuple[int, int] | None:
    """(height, width) of one number or two."""
    if isinstance(value, int):
        return value, value
    if isinstance(value, list | tuple) and len(value) == 2:
        return int(value[0]), int(value[1])
    return None

"""Turn images into pixel values, and pixel values back into images for display."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy
import torch
from torch import Tensor, nn

from whyformer.errors import InputError
from whyformer.image_files import open_image_file, refuse_programs
from whyformer.inputs.baseline import baseline_arguments
from whyformer.inputs.batch import Batch
from whyformer.inputs.detect import is_image
from whyformer.inputs.sequence import contents, move_to_module
from whyformer.models.processors import first_line
from whyformer.models.quiet import quiet_transformers
from whyformer.models.signature import Forward

DEEP_MODES = ("I", "F")  # more than 8 bits per channel: conversion would clip
MODES = {1: "L", 3: "RGB"}

MOST_PIXELS = 89_478_485  # where Pillow warns of a bomb


@dataclass(frozen=True)
class PlainImageProcessor:
    """The default image processor: resize to the model's size, then scale from 0..1 to -1..1.

    Nothing is cropped, so that every pixel can be explained.
    """

    size: tuple[int, int]  # (height, width)
    image_mean: float = 0.5
    image_std: float = 0.5

    def __call__(self, images: Sequence[Any], return_tensors: str = "pt") -> dict[str, Tensor]:
        """Return (batch, channels, height, width) of images in the same mode."""
        return {"pixel_values": torch.stack([self.preprocess(image) for image in images])}

    def preprocess(self, image: Any) -> Tensor:
        """Return one image as (channels, height, width)."""
        from PIL.Image import Resampling

        resized = image.resize((self.size[1], self.size[0]), Resampling.BILINEAR)
        pixels = torch.from_numpy(numpy.array(resized, dtype=numpy.float32)) / 255
        pixels = pixels.unsqueeze(0) if pixels.ndim == 2 else pixels.permute(2, 0, 1)
        return (pixels - self.image_mean) / self.image_std


def read_images(
    items: Sequence[Any], module: nn.Module, forward: Forward, processor: Any | None
) -> Batch:
    """Return images and image files as one batch."""
    arguments, used = image_arguments(items, module, forward, processor)
    carrier = forward.carrier("pixel_values")
    return image_batch(arguments, carrier, module, forward, used)


def image_arguments(
    items: Sequence[Any], module: nn.Module, forward: Forward, processor: Any | None
) -> tuple[dict[str, Any], Any]:
    """Return the arguments of forward, and the image processor that made them."""
    channels = channels_of(module) or 3
    mode = MODES.get(channels)
    if mode is None:
        raise InputError(
            f"{type(module).__name__} takes images of {channels} channels and an image file has 1"
            " or 3",
            argument="inputs",
            remedy="Pass pixel_values as a tensor",
        )
    images = [open_image(item, mode) for item in items]
    used = processor if processor is not None else plain_processor(module)
    try:
        with quiet_transformers():
            features = dict(used(images=images, return_tensors="pt"))
    except Exception as error:
        raise InputError(
            f"{type(used).__name__} cannot read the image: {first_line(error)}",
            argument="processor",
            remedy="Pass another processor=, or pixel_values as a tensor",
        ) from error
    arguments = {n: v for n, v in features.items() if n != "pixel_values" and forward.takes(n)}
    arguments[forward.carrier("pixel_values")] = features["pixel_values"]
    return arguments, used


def open_image(item: Any, mode: str) -> Any:
    """Return an image or image file in the given mode, rotated as its EXIF data say."""
    from PIL import ImageOps

    name = "the image" if is_image(item) else f"the file {str(item)!r}"
    try:
        if is_image(item):
            refuse_programs(item, name)
            image = item
        else:
            with open_image_file(_check_file(item)) as file:
                if file.width * file.height > MOST_PIXELS:  # before it is decoded
                    raise InputError(
                        f"{name} states {file.width} x {file.height} pixels; at most"
                        f" {MOST_PIXELS:,} are read",
                        argument="inputs",
                        remedy="Scale the image down first",
                    )
                image = ImageOps.exif_transpose(file)
        if image.mode.startswith(DEEP_MODES):
            raise InputError(
                f"{name} has mode {image.mode}, more than 8 bits per channel",
                argument="inputs",
                remedy="Scale it to 8 bits and convert it to L or RGB first",
            )
        if not all(image.size):
            raise InputError(
                f"{name} has no pixels: its size is {image.size}",
                argument="inputs",
                remedy="Pass another image",
            )
        return image.convert(mode)
    except InputError:
        raise
    except Exception as error:  # a broken file can fail anywhere within Pillow
        raise InputError(
            f"{name} cannot be read as an image: {first_line(error)}",
            argument="inputs",
            remedy="Pass a PNG, JPEG or another format that Pillow reads",
        ) from error


def _check_file(item: Any) -> Path:
    """Return the path of an image file; raise InputError if there is no such file."""
    path = Path(item).expanduser()
    if not path.exists():
        words = isinstance(item, str) and any(one.isspace() for one in item)
        hint = (
            ". If it is a text, choose a model that reads text" if words and not path.suffix else ""
        )
        raise InputError(
            f"there is no image file {str(item)!r}",
            argument="inputs",
            remedy=f"Check the path{hint}",
        )
    if path.is_dir():
        raise InputError(
            f"{str(item)!r} is a folder, not an image",
            argument="inputs",
            remedy="Pass the files in it",
        )
    if not path.is_file():
        raise InputError(
            f"{str(item)!r} is a pipe or a device, not an image file",
            argument="inputs",
            remedy="Pass a file",
        )
    return path


def image_batch(
    arguments: Mapping[str, Any],
    carrier: str,
    module: nn.Module,
    forward: Forward,
    processor: Any | None,
) -> Batch:
    """Return pixel values as a batch, with the grid of patches."""
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
        image=display_pixels(pixels, processor),
    )


def check_pixels(
    pixels: Tensor, carrier: str, module: nn.Module, forward: Forward, arguments: Mapping[str, Any]
) -> None:
    """Raise InputError if the model does not take this rank, number of channels or size."""
    if pixels.ndim != 4 or not pixels.is_floating_point():
        raise InputError(
            f"'{carrier}' is a tensor of {pixels.dtype} with shape {tuple(pixels.shape)}; expected"
            " floating numbers of rank 4 (batch, channels, height, width), or rank 3 for one image",
            argument="inputs",
            remedy="For an array of 8-bit pixels pass PIL.Image.fromarray(array)",
        )
    channels = channels_of(module)
    if channels is not None and pixels.shape[1] != channels:
        raise InputError(
            f"'{carrier}' has {pixels.shape[1]} channels in shape {tuple(pixels.shape)}, the model"
            f" takes {channels}",
            argument="inputs",
            remedy=f"Pass (batch, channels, height, width) with {channels} channels",
        )
    size = size_of(module)
    # Models that always interpolate their positions have no such switch.
    switch = "interpolate_pos_encoding"
    fixed = size is not None and switch in forward.names and not arguments.get(switch)
    if fixed and size and tuple(pixels.shape[-2:]) != size:
        raise InputError(
            f"'{carrier}' is {pixels.shape[-2]} x {pixels.shape[-1]} pixels, the model takes"
            f" {size[0]} x {size[1]}",
            argument="inputs",
            remedy=f"Resize it, or pass a mapping with {switch}=True",
        )


def display_pixels(pixels: Tensor, processor: Any | None) -> Tensor:
    """Pixel values for display: (batch, 3, height, width) in 0..1.

    The processor's normalisation is undone. If it is unknown, or the result is outside of 0..1,
    each sample is scaled from its smallest to its largest value.
    """
    values = pixels.detach().float().cpu()
    shown = _denormalise(values, processor)
    if shown is None or shown.min() < -0.01 or shown.max() > 1.01:
        low = values.amin(dim=(1, 2, 3), keepdim=True)
        reach = values.amax(dim=(1, 2, 3), keepdim=True) - low
        shown = (values - low) / torch.where(reach > 0, reach, torch.ones_like(reach))
    shown = shown.clamp(0, 1)
    return shown if shown.shape[1] == 3 else shown[:, :1].expand(-1, 3, -1, -1)


def plain_processor(module: nn.Module) -> PlainImageProcessor:
    """The default image processor for a model with an image size in its config."""
    size = size_of(module)
    if size is None:
        raise InputError(
            f"an image was given and {type(module).__name__} has neither a processor nor an image"
            " size in its config",
            argument="processor",
            remedy="Pass processor=, or pixel values as a tensor",
        )
    return PlainImageProcessor(size)


def channels_of(module: nn.Module) -> int | None:
    """The number of image channels that the model takes, or None if unknown."""
    found = getattr(getattr(module, "config", None), "num_channels", None)
    if isinstance(found, int):
        return found
    convolution = _patch_convolution(module)
    return None if convolution is None else convolution.in_channels


def size_of(module: nn.Module) -> tuple[int, int] | None:
    """(height, width) of the model's images, from its config, or None."""
    return _height_and_width(getattr(getattr(module, "config", None), "image_size", None))


def patch_of(module: nn.Module) -> tuple[int, int] | None:
    """(height, width) of a patch, from the config or else from the patch convolution."""
    named = _height_and_width(getattr(getattr(module, "config", None), "patch_size", None))
    convolution = _patch_convolution(module)
    if named is None and convolution is not None:
        return _height_and_width(convolution.kernel_size)
    return named


def _patch_convolution(module: nn.Module) -> nn.Conv2d | None:
    """The first convolution, if its windows do not overlap: it cuts an image into patches."""
    for part in module.modules():
        if isinstance(part, nn.Conv2d):
            return part if part.kernel_size == part.stride and max(part.stride) > 1 else None
    return None


def _denormalise(values: Tensor, processor: Any | None) -> Tensor | None:
    """Undo the processor's normalisation; None if it is unknown."""
    if processor is None:
        return None
    if getattr(processor, "do_normalize", True) is False:
        return values if getattr(processor, "do_rescale", True) else values / 255
    moments = (getattr(processor, "image_mean", None), getattr(processor, "image_std", None))
    if any(moment is None for moment in moments):
        return None
    mean, std = (torch.as_tensor(m, dtype=values.dtype).reshape(1, -1, 1, 1) for m in moments)
    if {mean.shape[1], std.shape[1]} - {1, values.shape[1]}:
        return None
    return values * std + mean


def _height_and_width(value: Any) -> tuple[int, int] | None:
    """(height, width) from one number or two."""
    if isinstance(value, int):
        return value, value
    if isinstance(value, list | tuple) and len(value) == 2:
        return int(value[0]), int(value[1])
    return None

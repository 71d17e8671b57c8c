"""Random inputs for the forward of a shrunk model, by the names of its arguments."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from tests.matrix.shrink import TEXT_IDS, VOCABULARY

FILMS = ("Timesformer", "Vivit", "XCLIP", "VJEPA2")
FRAMES, SAMPLES, WRITTEN = 32, 1200, 4
IMAGE_TOKENS = (
    "image_token_id",
    "image_token_index",
    "img_token_id",
    "image_token",
    "image_pad_token_id",
)
AUDIO_TOKENS = ("audio_token_id", "audio_token_index", "audio_pad_token_id")
PLACEHOLDERS = ((IMAGE_TOKENS, "get_image_features"), (AUDIO_TOKENS, "get_audio_features"))
VISION = (
    "vision_config",
    "image_config",
    "encoder",
    "backbone_config",
    "image_model_config",
    "qformer_config",
)
AUDIO = (
    "audio_config",
    "speech_config",
    "encoder_config",
    "encoder",
    "audio_encoder",
    "audio_encoder_config",
)


def argument_names(model: nn.Module) -> set[str]:
    """The names of the arguments of a model's forward."""
    return {*inspect.signature(model.forward).parameters}


def model_inputs(
    model: nn.Module, lengths: Sequence[int], given: dict[str, Any] | None = None, seed: int = 0
) -> dict[str, Any]:
    """Inputs for the model's forward, one sample per length; texts are padded on the right.

    `given` are the shapes of arguments that no rule knows, without the batch axis: a tuple of
    sizes for random numbers, ("ids", *sizes) for whole numbers, ("ones", *sizes) for a mask,
    ("same", value) for one value per sample, ("packed", *sizes) for random numbers of all samples
    in one long sample, joined along the last axis, None to leave the argument out, or a value.
    """
    given = given or {}
    random = Random(model, len(lengths), seed)
    names = argument_names(model)
    inputs: dict[str, Any] = {}
    main = getattr(model, "main_input_name", "input_ids")
    if names & {"image_grid_thw", "grid_thw"} and "pixel_values" not in given:
        inputs |= random.patches(names)
    elif "pixel_values_videos" in names and "pixel_values" not in names:
        inputs["pixel_values_videos"] = random.pixels()
    elif "pixel_values" in names:
        inputs["pixel_values"] = random.pixels()
    if "input_features" in names:
        inputs["input_features"] = random.features()
    elif "input_values" in names:
        inputs["input_values"] = random.sound()
    elif "past_values" in names:
        inputs["past_values"] = random.series()
    for name, shape in given.items():
        inputs.pop(name, None)
        if shape is not None and name != "images":
            inputs[name] = random.given(shape)
    if "input_ids" in names and "input_ids" not in given and (main == "input_ids" or inputs):
        inputs |= random.text(lengths, names, inputs)
    writes = getattr(model.config, "is_encoder_decoder", False) is True
    if writes and "decoder_input_ids" in names and "decoder_input_ids" not in given:
        inputs["decoder_input_ids"] = random.ids(len(lengths), WRITTEN)
    return inputs


class Random:
    """Random tensors that fit one model; a sample does not depend on the number of samples."""

    def __init__(self, model: nn.Module, size: int, seed: int) -> None:
        self.model, self.size, self.seed = model, size, seed
        self.config: Any = model.config
        self.dtype = next(model.parameters()).dtype

    def numbers(self, *shape: int) -> Tensor:
        rows = []
        for i in range(self.size):
            generator = torch.Generator().manual_seed(self.seed + i)
            rows.append(torch.randn(shape, generator=generator, dtype=torch.float64))
        return torch.stack(rows).to(self.dtype)

    def ids(self, size: int, *shape: int) -> Tensor:
        rows = []
        for i in range(size):
            generator = torch.Generator().manual_seed(self.seed + 50 + i)
            rows.append(torch.randint(TEXT_IDS, VOCABULARY - 1, shape, generator=generator))
        return torch.stack(rows)

    def given(self, shape: Any) -> Any:
        if not isinstance(shape, tuple):
            return shape
        if shape[0] == "ids":
            return self.ids(self.size, *shape[1:])
        if shape[0] == "same":
            return torch.tensor([shape[1]] * self.size)
        if shape[0] == "packed":
            return torch.cat([*self.numbers(*shape[1:])], dim=-1).unsqueeze(0)
        if shape[0] == "ones":
            return torch.ones(self.size, *shape[1:], dtype=torch.long)
        return self.numbers(*shape)

    def part(self, names: Sequence[str], wanted: Sequence[str]) -> Any:
        """The config that has one of the wanted fields: the model's own or a part's."""
        for config in [self.config, *(getattr(self.config, name, None) for name in names)]:
            if config is not None and any(getattr(config, one, None) is not None for one in wanted):
                return config
        for name in names:
            inner = getattr(self.config, name, None)
            for one in names:
                if getattr(inner, one, None) is not None:
                    return getattr(inner, one)
        return self.config

    def pixels(self) -> Tensor:
        config = self.part(VISION, ("image_size", "img_size", "patch_size"))
        side = getattr(config, "image_size", None) or 64
        side = side["height"] if isinstance(side, dict) else side
        sides = (side, side) if isinstance(side, int) else tuple(side)[:2]
        if self.has_stages(config):
            sides = (64, 64)
        shape = (getattr(config, "num_channels", None) or getattr(config, "in_channels", 3), *sides)
        shape = shape if isinstance(shape[0], int) else (3, *sides)
        frames = getattr(config, "num_frames", None) or getattr(config, "frames_per_clip", None)
        name = type(self.model).__name__
        if frames and ("Video" in name or name.startswith(FILMS)):
            shape = (frames, *shape)
        return self.numbers(*shape)

    def has_stages(self, config: Any) -> bool:
        return isinstance(getattr(config, "depths", None), list | tuple)

    def patches(self, names: set[str]) -> dict[str, Tensor]:
        """One image of 4 x 4 patches per sample, all in one long list."""
        config = self.part(VISION, ("patch_size",))
        channels = getattr(config, "in_channels", None) or getattr(config, "num_channels", 3)
        width = (
            channels * config.patch_size**2 * (getattr(config, "temporal_patch_size", None) or 1)
        )
        grid = torch.tensor([[1, 4, 4]] * self.size)
        pixels = self.numbers(16, width).flatten(0, 1)
        carrier = "pixel_values" if "pixel_values" in names else "hidden_states"
        return {
            carrier: pixels,
            "image_grid_thw" if "image_grid_thw" in names else "grid_thw": grid,
        }

    def features(self) -> Tensor:
        config = self.part(
            AUDIO,
            (
                "num_mel_bins",
                "feature_projection_input_dim",
                "input_feat_per_channel",
                "feature_size",
            ),
        )
        for name in (
            "feature_projection_input_dim",
            "input_feat_per_channel",
            "num_mel_bins",
            "feature_size",
            "input_dim",
            "mel_bins",
        ):
            width = getattr(config, name, None)
            if isinstance(width, int):
                break
        else:
            width = 16
        transposed = getattr(config, "max_source_positions", None) and not hasattr(
            config, "input_feat_per_channel"
        )
        return (
            self.numbers(width, 2 * config.max_source_positions)
            if transposed
            else self.numbers(FRAMES, width)
        )

    def sound(self) -> Tensor:
        if hasattr(self.config, "max_length") and hasattr(self.config, "num_mel_bins"):
            return self.numbers(self.config.max_length, self.config.num_mel_bins)
        return self.numbers(SAMPLES)

    def series(self) -> Tensor:
        config = self.config
        return self.numbers(config.context_length, getattr(config, "num_input_channels", 1))

    def text(
        self, lengths: Sequence[int], names: set[str], inputs: dict[str, Any]
    ) -> dict[str, Any]:
        """Ids, with placeholders in front for the image or the sound, and their mask."""
        longest, ends = max(lengths), torch.tensor(list(lengths)).unsqueeze(1)
        places = torch.arange(longest)
        text: Any = self.config.get_text_config()
        ids, mask = self.ids(self.size, longest), places < ends
        last = getattr(text, "eos_token_id", None)
        if isinstance(last, int) and "For" not in type(self.model).__name__:
            ids = ids.where(places != ends - 1, last)  # where CLIP and its kin pool
        ids = ids.where(mask, getattr(text, "pad_token_id", None) or 0)
        for names_of_token, ask in PLACEHOLDERS:
            given = [getattr(self.config, name, None) for name in names_of_token]
            tokens = [token for token in given if isinstance(token, int)]
            count = self.placeholders(ask, inputs) if tokens else 0
            if count:
                ids = torch.cat([torch.full((self.size, count), tokens[0]), ids], 1)
                mask = torch.cat([torch.ones(self.size, count, dtype=torch.bool), mask], 1)
        found: dict[str, Any] = {"input_ids": ids}
        if "attention_mask" in names:
            found["attention_mask"] = mask.long()
        if "mm_token_type_ids" in names and inputs:
            found["mm_token_type_ids"] = (ids < TEXT_IDS).long() * mask
        if "bbox" in names:
            found["bbox"] = self.ids(self.size, longest, 4).sort(-1).values
        return found

    def placeholders(self, ask: str, inputs: dict[str, Any]) -> int:
        """How many tokens the image or the sound of one sample takes, asked of the model."""
        inner = getattr(self.model, "model", None)
        part = getattr(inner, ask, None) or getattr(self.model, ask, None)
        if part is None:
            return 0
        wanted = inspect.signature(part).parameters
        arguments = {name: value for name, value in inputs.items() if name in wanted}
        if not arguments:
            return 0
        with torch.no_grad():
            features = part(**arguments)
        features = getattr(features, "pooler_output", features)
        if not isinstance(features, list | tuple):
            return features.numel() // features.shape[-1] // self.size
        if features[0].ndim == 2:  # one entry per image
            return sum(one.shape[0] for one in features) // self.size
        return features[0].shape[-2]

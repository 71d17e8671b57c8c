"""Prompts and their answers as one sequence each, padded left: all answers start together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from whyformer.errors import InputError
from whyformer.inputs.batch import Batch
from whyformer.inputs.padding import padding_id
from whyformer.inputs.placeholders import continue_soft
from whyformer.models.families import family_of
from whyformer.models.signature import forward_of

# Arguments of forward about the tokens of the prompt that cannot be continued.
FIXED = ("position_ids", "labels", "inputs_embeds", "past_key_values")


def prompt_rows(batch: Batch) -> list[list[int]]:
    """Return the token ids of each prompt, without padding; hidden tokens keep their place."""
    return _without_padding(batch.arguments["input_ids"], batch)


def _without_padding(values: Tensor, batch: Batch) -> list[list[Any]]:
    """The values of each sample, (batch, tokens), from its first to its last real token."""
    assert batch.mask is not None
    columns = [mask.nonzero().flatten().tolist() for mask in batch.mask]
    return [row[at[0] : at[-1] + 1].tolist() for row, at in zip(values, columns, strict=True)]


def continue_prompts(
    batch: Batch, answers: Sequence[Sequence[int]], module: nn.Module
) -> tuple[dict[str, Any], int]:
    """Return the arguments of forward for prompts and answers, and the columns of the prompts.

    Args:
        batch: The prompts.
        answers: The token ids of each answer; empty for prompts alone.
        module: The model.

    Raises:
        InputError: An argument is about the tokens of the prompt alone, or forward takes no mask
            and the prompts have different lengths.
    """
    prompts = prompt_rows(batch)
    width, length = max(map(len, prompts)), max(map(len, answers))
    assert batch.mask is not None
    pad = padding_id(module, batch.tokenizer)

    def fill(rows: Sequence[Sequence[Any]], ends: Sequence[Sequence[Any]], empty: Any) -> Tensor:
        return torch.tensor(
            [
                [*[empty] * (width - len(row)), *row, *end, *[empty] * (length - len(end))]
                for row, end in zip(rows, ends, strict=True)
            ]
        )

    arguments: dict[str, Any] = {}
    for name, value in batch.arguments.items():
        map_like = isinstance(value, Tensor) and name == "attention_mask" and value.ndim > 2
        if name in FIXED or map_like:
            raise InputError(
                f"'{name}' is about the tokens of the prompt, and an answer follows them",
                argument="inputs",
                remedy=f"Leave out '{name}', or pass target=wf.token(-1) for the next token only",
            )
        if name in ("input_ids", "attention_mask"):
            continue
        if isinstance(value, Tensor) and value.shape == batch.mask.shape:  # a kind of each token
            value = fill(
                _without_padding(value, batch), [[0] * len(answer) for answer in answers], 0
            ).to(value.dtype)
        arguments[name] = value
    arguments["input_ids"] = fill(prompts, answers, pad)
    if forward_of(module).takes("attention_mask"):
        seen = _without_padding(batch.mask.long(), batch)
        arguments["attention_mask"] = fill(seen, [[1] * len(answer) for answer in answers], 0)
    elif len({*map(len, prompts)}) > 1 or len({*map(len, answers)}) > 1:
        raise InputError(
            f"the prompts or answers have different lengths and the forward of"
            f" {type(module).__name__} takes no attention_mask: padding would change the result",
            argument="inputs",
            remedy="Explain them one at a time",
        )
    family = family_of(module)
    if family is not None and batch.soft is not None:
        arguments |= continue_soft(batch, answers, width, family)
    return arguments, width

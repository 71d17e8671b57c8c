"""Prompts and their answers as one sequence each, padded left: all answers start together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from whyformer.errors import InputError
from whyformer.inputs.batch import NOT_PER_SAMPLE, Batch
from whyformer.inputs.padding import padding_id
from whyformer.models.signature import forward_of

# Arguments of forward about the tokens of the prompt that cannot be continued.
FIXED = ("position_ids", "labels", "inputs_embeds", "past_key_values")


def prompt_rows(batch: Batch) -> list[list[int]]:
    """Return the token ids of each prompt, without padding."""
    assert batch.mask is not None
    ids: Tensor = batch.arguments["input_ids"]
    return [row[real].tolist() for row, real in zip(ids, batch.mask, strict=True)]


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
        if name in ("input_ids", "attention_mask"):
            continue
        per_token = isinstance(value, Tensor) and value.shape[:2] == batch.mask.shape
        if name in FIXED or (per_token and value.ndim > 2 and name not in NOT_PER_SAMPLE):
            raise InputError(
                f"'{name}' is about the tokens of the prompt, and an answer follows them",
                argument="inputs",
                remedy=f"Leave out '{name}', or pass target=wf.token(-1) for the next token only",
            )
        if per_token and value.ndim == 2:  # such as the kind of each token
            rows = [row[real].tolist() for row, real in zip(value, batch.mask, strict=True)]
            value = fill(rows, [[0] * len(answer) for answer in answers], 0).to(value.dtype)
        arguments[name] = value
    arguments["input_ids"] = fill(prompts, answers, pad)
    if forward_of(module).takes("attention_mask"):
        ones = [[1] * len(prompt) for prompt in prompts]
        arguments["attention_mask"] = fill(ones, [[1] * len(answer) for answer in answers], 0)
    elif len({*map(len, prompts)}) > 1 or len({*map(len, answers)}) > 1:
        raise InputError(
            f"the prompts or answers have different lengths and the forward of"
            f" {type(module).__name__} takes no attention_mask: padding would change the result",
            argument="inputs",
            remedy="Explain them one at a time",
        )
    return arguments, width

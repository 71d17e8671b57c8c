"""Generated text as a target: explain each of its tokens, with teacher forcing, in one batch.

Each generated token becomes a row of the batch: the same sample with another target position.
The target is token ids (as `model.generate` returns them) or, for an encoder-decoder, text. If it
is neither, an encoder-decoder generates the text first.

    plan = plan_generation(target, batch, module, family)
    if plan is not None:
        ids = generate_ids(module, batch.arguments) if plan.ids is None else plan.ids
        batch, target, generation = teacher_force(plan, ids, target, batch, module, processor)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from whyformer.errors import TargetError
from whyformer.inputs.batch import Batch
from whyformer.inputs.padding import pad_rows, padding_id
from whyformer.inputs.placeholders import continue_soft
from whyformer.inputs.prepare import prepare
from whyformer.inputs.sequence import Sequences, move_to_module
from whyformer.models.families import Family, Source, family_of
from whyformer.models.signature import config_of, forward_of
from whyformer.targets.output_ids import (
    IdRows,
    cut_after_end,
    encode_output,
    id_rows,
    is_id_rows,
    is_texts,
    output_text,
    start_id,
    token_text,
    trim_output,
)
from whyformer.targets.specs import Contrast, Token

GENERATED = "generated"


@dataclass(frozen=True)
class GenerationPlan:
    """A target that is about generated text."""

    source: Source | None  # the decoder's arguments; None if prompt and output are one sequence
    ids: Any | None  # (batch, tokens) of the output; None if the model has to generate it


@dataclass(frozen=True)
class Generation:
    """Which generated token each row of a teacher-forced batch explains."""

    samples: tuple[int, ...]  # per row: its sample
    positions: tuple[int, ...]  # per row: its position among the sample's generated tokens
    tokens: tuple[tuple[str, ...], ...]  # the generated tokens as text, per sample
    texts: tuple[str, ...]  # the whole output, per sample
    prompt: int | None = None  # columns before the output, if prompt and output are one sequence


def plan_generation(
    target: Any, batch: Batch, module: nn.Module, family: Family | None
) -> GenerationPlan | None:
    """Return how to add generated text to the batch; None if the target needs none."""
    sources = family.sources if family else ()
    source = next((source for source in sources if source.stream == GENERATED), None)
    if source is None:
        can_continue = is_id_rows(target) and _can_continue(module, batch)
        return GenerationPlan(None, target) if can_continue else None
    if GENERATED in batch.others:
        if not is_id_rows(target):
            return None
        raise TargetError(
            f"the target is a generated text and the inputs already have '{source.carrier}'",
            argument="target",
            remedy="Pass one of them, or target=wf.token(position, token)",
        )
    if target is None or isinstance(target, Token | Contrast):
        return GenerationPlan(source, None)
    if is_texts(target):
        return GenerationPlan(source, encode_output(target, batch.tokenizer, module))
    if is_id_rows(target):
        return GenerationPlan(source, target)
    return GenerationPlan(source, [[]] * batch.size)  # the target is about the first token


def teacher_force(
    plan: GenerationPlan,
    ids: Any,
    target: Any,
    batch: Batch,
    module: nn.Module,
    processor: Any = None,
) -> tuple[Batch, Any, Generation | None]:
    """Return the batch that the decoder reads, its target, and the token that each row explains.

    Args:
        plan: From `plan_generation`.
        ids: (batch, tokens) of the output: `plan.ids`, or what the model generated.
        target: The user's target. A token or a contrast is explained at one position, so that the
            batch keeps one row per sample; otherwise there is one row per generated token.
        batch: The inputs, without output.
        module: The model.
        processor: The model's tokenizer or processor.
    """
    rows = id_rows(ids)
    if len(rows) != batch.size:
        raise TargetError(
            f"{len(rows)} generated texts were given for {batch.size} samples",
            argument="target",
            remedy="Pass one per sample",
        )
    if plan.source is None:
        return _continue_prompts(rows, batch, module, processor)
    rows = trim_output(rows, module, plan.source)
    start = start_id(module, plan.source)
    decoded = _add_decoder_input(batch, [[start, *row[:-1]] for row in rows], module, plan.source)
    if isinstance(target, Token | Contrast) or not any(rows):
        return decoded, target, None
    columns = [list(range(len(row))) for row in rows]
    return _repeat_per_token(decoded, rows, columns)


def _repeat_per_token(
    batch: Batch, rows: IdRows, columns: list[list[int]], prompt: int | None = None
) -> tuple[Batch, list[Token], Generation]:
    """One row per generated token; `columns` are the positions that predict them."""
    empty = [i for i, row in enumerate(rows) if not row]
    if empty:
        raise TargetError(
            f"the generated text of sample {empty[0]} is empty: there is nothing to explain",
            argument="inputs",
            remedy="Leave the sample out",
        )
    pairs = [(i, t) for i, row in enumerate(rows) for t in range(len(row))]
    samples = tuple(i for i, _ in pairs)
    generation = Generation(
        samples=samples,
        positions=tuple(t for _, t in pairs),
        tokens=tuple(tuple(token_text(token, batch.tokenizer) for token in row) for row in rows),
        texts=tuple(output_text(row, batch.tokenizer) for row in rows),
        prompt=prompt,
    )
    targets = [Token(columns[i][t], rows[i][t]) for i, t in pairs]
    return batch.take(samples), targets, generation


# -- encoder-decoders ------------------------------------------------------------------------------


def _add_decoder_input(batch: Batch, rows: IdRows, module: nn.Module, source: Source) -> Batch:
    """The batch with these ids, padded, as the decoder's input."""
    part = source.submodule(module)
    mask_name = source.mask or "attention_mask"
    arguments = {
        source.carrier: pad_rows(rows, padding_id(part, batch.tokenizer)),
        mask_name: pad_rows([[1] * len(row) for row in rows], 0),
    }
    stream = Sequences(
        arguments=move_to_module(arguments, module),
        carrier=source.carrier,
        module=part,
        forward=forward_of(module),
        stream=GENERATED,
        tokenizer=batch.tokenizer,
        mask_name=mask_name,
    ).batch()
    return replace(
        batch,
        arguments={**batch.arguments, **stream.arguments},
        # The baseline has neutral inputs and the same output.
        baseline_arguments={**batch.baseline_arguments, **stream.baseline_arguments},
        others={**batch.others, GENERATED: stream},
    )


# -- decoders --------------------------------------------------------------------------------------


def _can_continue(module: nn.Module, batch: Batch) -> bool:
    """Whether the model can continue its input text."""
    can = getattr(module, "can_generate", None)
    return batch.stream == "text" and "input_ids" in batch.arguments and bool(can and can())


def _continue_prompts(
    rows: IdRows, batch: Batch, module: nn.Module, processor: Any
) -> tuple[Batch, list[Token], Generation]:
    """Prompts and outputs as one text each, padded left so that all outputs start together."""
    assert batch.mask is not None
    ids = batch.arguments["input_ids"]
    prompts = [row[real].tolist() for row, real in zip(ids, batch.mask, strict=True)]
    pad = padding_id(module, batch.tokenizer)
    end = getattr(config_of(module), "eos_token_id", None)
    outputs = [
        cut_after_end(_without_prompt(row, prompt, pad), end, pad)
        for prompt, row in zip(prompts, rows, strict=True)
    ]
    if not all(outputs):
        raise TargetError(
            f"the generated text of sample {outputs.index([])} is empty: it only repeats the"
            " prompt",
            argument="inputs",
            remedy="Leave the sample out",
        )
    width, length = max(map(len, prompts)), max(map(len, outputs))
    texts, mask = [], []
    for prompt, output in zip(prompts, outputs, strict=True):
        before, after = width - len(prompt), length - len(output)
        texts.append([pad] * before + prompt + output + [pad] * after)
        mask.append([0] * before + [1] * (len(prompt) + len(output)) + [0] * after)
    arguments = {"input_ids": torch.tensor(texts), "attention_mask": torch.tensor(mask)}
    family = family_of(module)
    if family is not None and batch.soft is not None:
        arguments |= continue_soft(batch, outputs, width, family)
    whole = prepare(arguments, module, processor, family)
    columns = [[width + t - 1 for t in range(len(output))] for output in outputs]
    return _repeat_per_token(whole, outputs, columns, prompt=width)


def _without_prompt(row: list[int], prompt: list[int], pad: int) -> list[int]:
    """The ids after the prompt, if the row starts with it (after any padding)."""
    for start in range(len(row) - len(prompt) + 1):
        if row[start : start + len(prompt)] == prompt and set(row[:start]) <= {pad}:
            return row[start + len(prompt) :]
    return row

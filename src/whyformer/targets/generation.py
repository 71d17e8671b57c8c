"""Generated text as a target: explain each of its tokens, with teacher forcing.

The model reads the whole text at once; each token is another target in the same output.
The target is token ids (as `model.generate` returns them) or, for an encoder-decoder, text. If it
is neither, an encoder-decoder generates the text first. What a decoder-only model writes, or the
text that a user expects of it, comes as an `Answer`; see pipeline/answers.py.

    plan = plan_generation(target, batch, module, family)
    if plan is not None:
        ids = generate_ids(module, batch.arguments) if plan.ids is None else plan.ids
        batch, generation = teacher_force(plan, ids, target, batch, module, processor)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from torch import nn

from whyformer.errors import TargetError
from whyformer.inputs.batch import Batch
from whyformer.inputs.continuation import continue_prompts, prompt_rows
from whyformer.inputs.padding import pad_rows, padding_id
from whyformer.inputs.prepare import prepare
from whyformer.inputs.sequence import Sequences, move_to_module
from whyformer.inputs.words import token_texts
from whyformer.models.families import Family, Source, family_of
from whyformer.models.signature import config_of, forward_of
from whyformer.targets.answer_rows import Generation
from whyformer.targets.kept_scores import keep_scores
from whyformer.targets.output_ids import (
    IdRows,
    cut_after_end,
    encode_output,
    id_rows,
    is_id_rows,
    is_texts,
    output_text,
    start_id,
    trim_output,
)
from whyformer.targets.specs import Answer, Contrast, Token

GENERATED = "generated"


@dataclass(frozen=True)
class GenerationPlan:
    """A target that is about generated text."""

    source: Source | None  # the decoder's arguments; None if prompt and output are one sequence
    ids: Any | None  # (batch, tokens) of the output; None if the model has to generate it


def plan_generation(
    target: Any, batch: Batch, module: nn.Module, family: Family | None
) -> GenerationPlan | None:
    """Return how to add generated text to the batch; None if the target needs none."""
    sources = family.sources if family else ()
    source = next((source for source in sources if source.stream == GENERATED), None)
    if source is None:
        continues = is_id_rows(target) and can_continue(module, batch)
        return GenerationPlan(None, target) if continues else None
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
) -> tuple[Batch, Generation | None]:
    """Return the batch that the decoder reads, and the generated text that is explained.

    Args:
        plan: From `plan_generation`.
        ids: (batch, tokens) of the output: `plan.ids`, or what the model generated.
        target: The user's target. For a token or a contrast there is no text to explain: it is
            at one position.
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
        if not isinstance(ids, Answer):
            rows = _read_outputs(rows, batch, module)
        return _continue_prompts(rows, batch, module, processor)
    rows = trim_output(rows, module, plan.source)
    start = start_id(module, plan.source)
    decoded = _add_decoder_input(batch, [[start, *row[:-1]] for row in rows], module, plan.source)
    if isinstance(target, Token | Contrast) or not any(rows):
        return decoded, None
    return decoded, _read_generation(decoded, rows)


def _read_generation(batch: Batch, rows: IdRows, prompt: int | None = None) -> Generation:
    """The generated text of each sample of a batch that the decoder reads."""
    empty = [i for i, row in enumerate(rows) if not row]
    if empty:
        raise TargetError(
            f"the generated text of sample {empty[0]} is empty: there is nothing to explain",
            argument="inputs",
            remedy="Leave the sample out",
        )
    return Generation(
        ids=tuple(map(tuple, rows)),
        columns=_score_columns(batch, prompt),
        tokens=tuple(token_texts(row, batch.tokenizer) for row in rows),
        texts=tuple(output_text(row, batch.tokenizer, prompt is not None) for row in rows),
        prompt=prompt,
    )


def _score_columns(batch: Batch, prompt: int | None) -> tuple[int, ...]:
    """Where the scores of each sample's first generated token are.

    After a prompt they are counted from the end: other tokens may come before the text, and the
    model may leave out the scores of the prompt.
    """
    if prompt is None:
        return (0,) * batch.size
    assert batch.mask is not None
    last, width, layout = prompt - 1, batch.mask.shape[1], batch.layout
    return tuple(
        (last if layout is None else layout.column(sample, last)) - width
        for sample in range(batch.size)
    )


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


def can_continue(module: nn.Module, batch: Batch) -> bool:
    """Whether the model can continue its input text."""
    can = getattr(module, "can_generate", None)
    config = getattr(module, "config", None)
    # BERT and its kin see all tokens unless they are told to be decoders.
    one_way = getattr(config_of(module), "is_decoder", True) is not False
    one_way = one_way and "perm_mask" not in forward_of(module).names  # XLNet: in any order
    two_parts = getattr(config, "is_encoder_decoder", False) is True
    reads = batch.stream == "text" and batch.carrier == "input_ids" and batch.mask is not None
    return reads and one_way and not two_parts and bool(can and can())


def _continue_prompts(
    outputs: IdRows, batch: Batch, module: nn.Module, processor: Any
) -> tuple[Batch, Generation]:
    """Prompts and outputs as one text each, padded left so that all outputs start together."""
    arguments, width = continue_prompts(batch, outputs, module)
    whole = prepare(arguments, module, processor, family_of(module))
    whole = replace(whole, notes=batch.notes)
    generation = _read_generation(whole, outputs, prompt=width)
    return keep_scores(whole, -min(generation.columns), module), generation


def _read_outputs(rows: IdRows, batch: Batch, module: nn.Module) -> IdRows:
    """The outputs in what `generate` returned: without prompts, and without what follows the end.

    A user may also pass the outputs alone.
    """
    pad = padding_id(module, batch.tokenizer)
    end = getattr(config_of(module), "eos_token_id", None)
    outputs = [
        cut_after_end(_without_prompt(row, prompt, pad), end, pad)
        for prompt, row in zip(prompt_rows(batch), rows, strict=True)
    ]
    if not all(outputs):
        raise TargetError(
            f"the generated text of sample {outputs.index([])} is empty: it only repeats the"
            " prompt",
            argument="inputs",
            remedy="Leave the sample out",
        )
    return outputs


def _without_prompt(row: list[int], prompt: list[int], pad: int) -> list[int]:
    """The ids after the prompt, if the row starts with it (after any padding)."""
    for start in range(len(row) - len(prompt) + 1):
        if row[start : start + len(prompt)] == prompt and set(row[:start]) <= {pad}:
            return row[start + len(prompt) :]
    return row

"""Explain one prepared batch: split by length, run the method, assemble and merge the parts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from torch import nn

from whyformer.attribution import Attribution, Reason
from whyformer.attribution.merge import merge_parts
from whyformer.batching.budget import token_budget
from whyformer.batching.progress import report_step
from whyformer.batching.split_by_length import BatchPart, split_by_length
from whyformer.engine.block_search import search_blocks
from whyformer.engine.blocks import Chain
from whyformer.engine.generate import generate_ids
from whyformer.engine.padding_reads import padding_reads
from whyformer.engine.passes.attentions import attentions
from whyformer.engine.patch_order import check_patch_order
from whyformer.engine.result import MethodResult
from whyformer.engine.run import MAPS, Run
from whyformer.engine.scope import borrow_model
from whyformer.engine.stacks import check_one_stream, find_stacks, is_undeclared, merging_part
from whyformer.engine.structure import check_streams
from whyformer.engine.tape import Tape
from whyformer.engine.token_places import place_tokens
from whyformer.errors import ModelError, OptionError, UnsuitableMethodError, WhyformerError
from whyformer.inputs.batch import Batch
from whyformer.inputs.padding_layout import restore_padding
from whyformer.methods import Method, methods
from whyformer.models.adapters import merge_adapters
from whyformer.models.load import Loaded
from whyformer.models.quantized import refuse_opaque_layers
from whyformer.models.undo import undo_leftovers
from whyformer.models.weights import check_weights
from whyformer.pipeline.assemble import assemble
from whyformer.pipeline.checks.forward import forward_reason
from whyformer.pipeline.checks.precision import (
    FLOAT64,
    ROUNDED,
    copy_in_float64,
    is_wide,
    precision_reasons,
    rounding_noise,
)
from whyformer.pipeline.found_streams import found_reason
from whyformer.pipeline.image_scales import check_scale, with_tower_leaks
from whyformer.pipeline.request import Request
from whyformer.pipeline.soft_streams import ATTENDED, soft_reason
from whyformer.pipeline.trust import judge_generated, judge_run, judge_values, refuse_or_warn
from whyformer.targets.answer_rows import Generation
from whyformer.targets.generated_text import AnswerRow, merge_generated
from whyformer.targets.generation import plan_generation, teacher_force
from whyformer.targets.kept_scores import keep_read_scores

MERGED = Reason(
    "layers",
    "note",
    "Scores of image, video or sound are those of their placeholders in the text: the encoder that"
    " computed these tokens is not explained.",
)
BESIDE = Reason(
    "layers",
    "note",
    "Scores are those of the model's own tokens: what its blocks read from encoder_hidden_states"
    " counts as constant and is not explained.",
)


Advance = Callable[[int], None]  # takes the number of samples that were just finished


@undo_leftovers
def explain_batch(
    request: Request, loaded: Loaded, batch: Batch, target: Any, advance: Advance | None = None
) -> Attribution:
    """Return the attribution of one prepared batch; warn if it is doubtful.

    `advance` is called whenever some of the samples are finished.

    Raises:
        TrustError: It is doubtful, and the request is strict.
    """
    attribution = judge_values(_explain_unjudged(request, loaded, batch, target, advance))
    if request.check_precision:
        found = _check_precision(request, loaded, batch, target, attribution)
        attribution = replace(attribution, trust=attribution.trust.add(found))
    refuse_or_warn(attribution, request.strict)
    return attribution


def _check_precision(
    request: Request, loaded: Loaded, batch: Batch, target: Any, attribution: Attribution
) -> tuple[Reason, ...]:
    """Whether the scores are the same in float64, or else after a rounding step."""
    if is_wide(loaded.module):
        return (Reason("precision", "ok", "The model computes in float64."),)
    wide = copy_in_float64(loaded, batch)
    if wide is not None:
        try:
            twin = _explain_unjudged(request, *wide, target)
            return precision_reasons(attribution, twin, FLOAT64)
        except ModelError:
            pass  # some kernels do not exist in float64
    with rounding_noise(loaded.module, batch) as changed:
        twin = _explain_unjudged(request, loaded, changed, target)
    return precision_reasons(attribution, twin, ROUNDED)


def _explain_unjudged(
    request: Request, loaded: Loaded, batch: Batch, target: Any, advance: Advance | None = None
) -> Attribution:
    """The attribution with what its runs found, before its scores are judged."""
    module, family = loaded.module, loaded.family
    check_weights(module)
    if {"gradient", "relevance"} & set(request.method.needs):
        refuse_opaque_layers(module)
    if request.method.rules == "relevance":
        module = merge_adapters(module)
        loaded = replace(loaded, module=module)
    if request.blocks is None and family is None:
        check_one_stream(module, batch.arguments)
    batch, generation = _add_generated_text(loaded, batch, target, request.each)
    if generation is None and request.each is not None:
        raise OptionError(
            f"each={request.each!r} divides a generated text, and the target is not one",
            argument="each",
            remedy="Leave out each=, or pass the ids of a generated text as target",
        )
    if generation is not None and request.keep:
        raise OptionError(
            f"keep={sorted(request.keep)} is about one output token, and every token of the"
            " generated text is explained",
            argument="keep",
            remedy="Pass target=wf.token(position) for one token",
        )
    chain = None
    if request.blocks is None and is_undeclared(module, family):
        with borrow_model(module):
            chain = _find_chain(module, batch)
    stacks = find_stacks(module, batch.stream, family, request.blocks, request.batch_first, chain)
    if request.blocks is not None or is_undeclared(module, family):
        with borrow_model(module):
            stacks = place_tokens(stacks, module, batch)
    run = Run(
        module,
        batch,
        stacks,
        target,
        family,
        deciding=request.deciding,
        keep=request.keep,
        memory=request.memory,
        image_scale=request.image_scale,
    )
    check_scale(run)
    if stacks.outside or stacks.merged:
        with borrow_model(module):
            check_streams(run)
    if batch.packed:
        with borrow_model(module):
            check_patch_order(run)
    if generation is not None:
        rows = _explain_answers(request, loaded, run, generation, advance)
        return judge_generated(merge_generated(rows, generation))
    # Only for declared families is it known that padding changes nothing.
    whole = bool(request.keep) or request.deciding is not None
    whole = whole or family is None or family.found
    parts = [] if whole else split_by_length(batch, module, target)
    return _restore_padding(_explain_parts(request, loaded, run, parts, advance), run)


def _find_chain(module: nn.Module, batch: Batch) -> Chain | None:
    """The blocks of an undeclared model."""
    part = merging_part(module, batch.arguments)
    if batch.size == 1 and batch.can_take_rows(module):
        # One sample cannot show which axis has the samples; two can, if the model allows two.
        try:
            found = search_blocks(module, batch.take([0, 0]).arguments, 2, part)
        except ModelError:
            found = None
        if found is not None:
            return found
    return search_blocks(module, batch.arguments, batch.size, part, batch.packed)


def _add_generated_text(
    loaded: Loaded, batch: Batch, target: Any, each: str | None
) -> tuple[Batch, Generation | None]:
    """The batch with the generated text, and that text, if the target is about one."""
    plan = plan_generation(target, batch, loaded.module, loaded.family)
    if plan is None:
        return batch, None
    ids = plan.ids
    if ids is None:
        with borrow_model(loaded.module):
            ids = generate_ids(loaded.module, batch.arguments)
    batch, text = teacher_force(plan, ids, target, batch, loaded.module, loaded.processor)
    return batch, None if text is None else text.divide(each or "token", batch.tokenizer)


def _explain_answers(
    request: Request, loaded: Loaded, run: Run, generation: Generation, advance: Advance | None
) -> list[AnswerRow]:
    """Every row of the generated texts: one forward pass, and one backward pass per row.

    Samples are independent, so a backward pass serves one row of each of them.
    """
    parts: list[AnswerRow] = []
    groups = _sample_groups(run, generation)
    count = sum(max(len(generation.rows[sample]) for sample in one) for one in groups)
    for samples in groups:
        tape = Tape()
        group = replace(run, batch=run.batch.take(samples), tape=tape)
        try:
            for row in range(max(len(generation.rows[sample]) for sample in samples)):
                one = replace(group, target=generation.select(row, samples))
                result, forward = _run_method(request, one)
                attribution = judge_run(assemble(request, loaded, one, result), result, forward)
                attribution = _restore_padding(replace(attribution, layers=(), maps={}), one)
                probabilities = result.forward.goal.probabilities
                parts.append(AnswerRow(row, tuple(samples), attribution, probabilities))
                report_step("explaining the answer", len(parts), count)
        finally:
            tape.clear()
        if advance is not None:
            advance(len(samples))
    return parts


def _sample_groups(run: Run, generation: Generation) -> list[list[int]]:
    """Samples that run together, within the token budget; those with as many rows together."""
    samples = [*range(run.batch.size)]
    width = sum(one.count or 1 for one in run.batch)
    size = max(1, token_budget(run.module).tokens // width)
    if size >= len(samples) or not run.batch.can_take_rows(run.module):
        return [samples]
    samples.sort(key=lambda sample: len(generation.rows[sample]))
    return [samples[i : i + size] for i in range(0, len(samples), size)]


def _explain_parts(
    request: Request, loaded: Loaded, run: Run, parts: list[BatchPart], advance: Advance | None
) -> Attribution:
    """The merged attribution of the parts, or that of the whole run if there is only one part."""
    if len(parts) < 2:
        return _explain_run(request, loaded, run)
    try:
        found = []
        for part in parts:
            own = replace(run, batch=part.batch, target=part.target)
            found.append(_explain_run(request, loaded, own))
            if advance is not None:
                advance(len(part.rows))
    except WhyformerError:
        # Explain the whole batch instead, so that the error names the sample by its index.
        return _explain_run(request, loaded, run)
    rows = [row for part in parts for row in part.rows]
    return merge_parts(found, rows, run.batch.tokens, run.batch.word_ids)


def _restore_padding(attribution: Attribution, run: Run) -> Attribution:
    """The attribution in the user's columns."""
    layouts = {one.stream: one.layout for one in run.batch if one.layout is not None}
    for track in run.stacks.tracks.values():
        if track.stack.like in layouts:
            layouts |= dict.fromkeys(track.stack.streams, layouts[track.stack.like])
    return restore_padding(attribution, layouts)


def _explain_run(request: Request, loaded: Loaded, run: Run) -> Attribution:
    run = replace(run, batch=keep_read_scores(run.batch, run.target, run.module))
    result, forward = _run_method(request, run)
    return judge_run(assemble(request, loaded, run, result), result, forward)


def _run_method(request: Request, run: Run) -> tuple[MethodResult, Reason]:
    """What the method found, and whether the model computed what it computes without it."""
    with borrow_model(run.module) as execution:
        try:
            result = request.method(run, **request.options)
        except UnsuitableMethodError as error:
            raise _name_alternatives(error) from error
        result = with_tower_leaks(result)
        if not any(reason.kind == "target" for reason in result.reasons):
            reads = padding_reads(run, result.scores, result.forward.layout.masks)
            result = replace(result, reasons=(*result.reasons, *reads))
        if run.family is not None and run.family.found:
            result = replace(result, reasons=(*result.reasons, found_reason(run.family)))
        elif run.batch.soft is not None:
            note = soft_reason(run.batch.soft, request.method, run.image_scale)
            result = replace(result, reasons=(*result.reasons, note))
        elif any(one.order is not None for one in run.batch):
            result = replace(result, reasons=(*result.reasons, ATTENDED))
        elif run.stacks.merged and run.family is None:
            result = replace(result, reasons=(*result.reasons, MERGED))
        if run.family is None and run.batch.arguments.get("encoder_hidden_states") is not None:
            result = replace(result, reasons=(*result.reasons, BESIDE))
        if request.keep & MAPS and not result.layers:
            result = _add_layers(run, result)
        forward = forward_reason(request, run, result, bool(execution.autocast))
    return replace(result, reasons=(*result.reasons, *execution.reasons)), forward


def _name_alternatives(error: UnsuitableMethodError) -> ModelError:
    """The error with the names of methods that this model allows."""
    fitting = [f"'{one.name}'" for one in methods.values() if _can_do_without(one, error)]
    start = f"{error.remedy}, or use" if error.remedy else "Use"
    return ModelError(
        error.message,
        argument=error.argument,
        remedy=f"{start} a method that this model allows: {', '.join(fitting)}",
    )


def _can_do_without(method: Method, error: UnsuitableMethodError) -> bool:
    """Whether a method that reads the model needs nothing of what is unavailable."""
    if error.unavailable == "relevance":
        return bool(method.needs) and method.rules != "relevance"
    without_maps = bool(method.needs) and "attention" not in method.needs
    return without_maps and (error.unavailable == "maps" or method.rules is None)


def _add_layers(run: Run, result: MethodResult) -> MethodResult:
    """The result with attention layers, for a method that does not read them itself."""
    seen = attentions(run.aim_at(result.forward.goal))
    return replace(result, layers=seen.every, deciding=seen.deciding)

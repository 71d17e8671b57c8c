"""Answers of language models: written by the model, or given by the user as text or token ids."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from whyformer.batching.progress import report_step
from whyformer.engine.generate import generate_ids
from whyformer.engine.predict import run_model
from whyformer.engine.scope import add_hooks, borrow_model
from whyformer.errors import InputError, ModelError, OptionError, TargetError
from whyformer.inputs.batch import Batch
from whyformer.inputs.continuation import continue_prompts, prompt_rows
from whyformer.inputs.padding import padding_id
from whyformer.inputs.prepare import prepare
from whyformer.inputs.sequence import move_to_module
from whyformer.models.load import Loaded
from whyformer.models.signature import device_and_dtype, positions_of
from whyformer.models.undo import undo_leftovers
from whyformer.targets.answer_text import encode_answers
from whyformer.targets.generation import GENERATED, can_continue
from whyformer.targets.heads import head_of
from whyformer.targets.output_ids import cut_after_end, id_rows, is_texts
from whyformer.targets.resolve import resolve
from whyformer.targets.specs import Answer

# More than rounding changes a score, less than another token does; of the spread of the scores.
CHANGE = {torch.float16: 0.05, torch.bfloat16: 0.05}
SMALL_CHANGE = 1e-3
NEW_TOKENS = 20  # in an answer, if neither the user nor the model says so; as in transformers


@dataclass(frozen=True)
class Writing:
    """How a model writes its answer."""

    max_new_tokens: int | None = None  # None: as the generation config says
    seed: int | None = None  # of the random numbers, if the generation config says to sample
    method_draws: bool = False  # whether the method uses the seed too


def check_writing(writing: Writing) -> None:
    """Raise OptionError if a setting has a bad value."""
    for name, least in (("max_new_tokens", 1), ("seed", 0)):
        value = getattr(writing, name)
        whole = isinstance(value, int) and not isinstance(value, bool)
        if value is not None and not (whole and value >= least):
            raise OptionError(
                f"{name}={value!r} is not an integer of at least {least}",
                argument=name,
                remedy=f"Pass an integer from {least} on, or leave it out",
            )


@undo_leftovers
def with_answers(loaded: Loaded, batch: Batch, target: Any, writing: Writing) -> tuple[Batch, Any]:
    """Return the batch, and the target with the answer of a language model as token ids.

    If the target is None, the model writes its answer first. If it cannot, the target stays None,
    which means its next token, and a note on the batch says so. A text, or one per sample, is an
    answer of a decoder-only model, and so is a list of token ids for a single sample. Any other
    target, and every target of a model that writes nothing, comes back unchanged.

    Raises:
        TargetError: A given answer cannot be explained, or the user says how to write an answer
            and the model cannot.
        InputError: Prompt and answer are longer than what the model takes.
        OptionError: A setting about writing comes with a target, or for a model that cannot write.
    """
    module = loaded.module
    continues = can_continue(module, batch) and not _reads_source(loaded)
    writes = continues or (_reads_source(loaded) and GENERATED not in batch.others)
    if target is not None or not writes:
        _refuse_writing(writing, module, writes or GENERATED in batch.others)
    if not continues:
        told = writing.max_new_tokens is not None or writing.seed is not None
        if target is None and writes and told:
            target = _write_output(module, batch, writing)
        return batch, target
    if target is None:
        return _write_or_note(loaded, batch, writing)
    answer = _given_answer(target, batch, module)
    if answer is None:
        return batch, target
    _check_causal(loaded, batch)
    return batch, answer


def _write_or_note(loaded: Loaded, batch: Batch, writing: Writing) -> tuple[Batch, Answer | None]:
    """What the model writes; None and a note if it cannot, and the user did not say how to."""
    try:
        _check_causal(loaded, batch)
        return _write(loaded, batch, writing)
    except (TargetError, ModelError) as error:
        if writing.max_new_tokens is not None:
            raise
        note = f"the next token is explained, because the model wrote no answer: {error.message}"
        return replace(batch, notes=(*batch.notes, note)), None


def _reads_source(loaded: Loaded) -> bool:
    """Whether the model reads one text or image and writes another text."""
    sources = loaded.family.sources if loaded.family else ()
    return any(source.stream == GENERATED for source in sources)


def _refuse_writing(writing: Writing, module: nn.Module, can_write: bool) -> None:
    """Raise OptionError if the model is told how to write, and does not write."""
    if writing.max_new_tokens is not None:
        why = f"{type(module).__name__} does not"
        if can_write:
            why = "the target or the inputs say what to explain"
        raise OptionError(
            f"max_new_tokens={writing.max_new_tokens} is for a model that writes its answer, and"
            f" {why}",
            argument="max_new_tokens",
            remedy="Leave out max_new_tokens="
            + (", or target= and the decoder's inputs" if can_write else ""),
        )
    if writing.seed is not None and not writing.method_draws:
        raise OptionError(
            f"seed={writing.seed} has no effect: neither the method nor the model draws random"
            " numbers",
            argument="seed",
            remedy="Leave out seed=",
        )


def _given_answer(target: Any, batch: Batch, module: nn.Module) -> Answer | None:
    """The answer in the target; None if the target is something else."""
    prompts = prompt_rows(batch)
    if is_texts(target):
        texts = [target] * batch.size if isinstance(target, str) else target
        _check_count(len(texts), batch.size)
        answer = encode_answers(texts, prompts, batch.tokenizer, module)
    else:
        row = target.tolist() if isinstance(target, Tensor) and target.ndim == 1 else target
        several = isinstance(row, list | tuple) and len(row) > 1
        if batch.size != 1 or not several or not all(type(token) is int for token in row):
            return None
        answer = Answer((tuple(row),))
    _check_length(prompts, answer, positions_of(module))
    return answer


def _check_count(count: int, size: int) -> None:
    if count != size:
        raise TargetError(
            f"{count} answers were given for {size} samples",
            argument="target",
            remedy="Pass one answer, or one per sample",
        )


def _check_length(prompts: list[list[int]], answer: Answer, limit: int | None) -> None:
    """Raise InputError if a prompt and its answer do not fit into the model's context."""
    for sample, (prompt, row) in enumerate(zip(prompts, answer.rows, strict=True)):
        if limit is not None and len(prompt) + len(row) > limit:
            raise InputError(
                f"the prompt of sample {sample} has {len(prompt)} tokens and its answer"
                f" {len(row)}, {len(prompt) + len(row)} in all; the model takes {limit}",
                argument="inputs",
                remedy="Shorten the prompt or the answer",
            )


def _check_causal(loaded: Loaded, batch: Batch) -> None:
    """Raise TargetError if a token behind the prompt changes what the model predicts before it.

    Then the model reads tokens to the right, and an answer cannot be explained in one pass. Of
    declared families it is known that they do not.
    """
    module = loaded.module
    limit = positions_of(module)
    if loaded.family is not None and loaded.family.causal:
        return
    if batch.can_take_rows(module):
        batch = batch.take([0])
    if limit is not None and batch.mask is not None and int(batch.mask.sum(1).max()) >= limit:
        return  # there is no room for an answer, which is refused elsewhere
    arguments, _ = continue_prompts(batch, [row[:1] for row in prompt_rows(batch)], module)
    whole = prepare(arguments, module, loaded.processor, loaded.family)
    with borrow_model(module):
        output = run_model(module, batch)
        before = resolve(None, output, module, batch)
        after = resolve(before.target, run_model(module, whole), module, whole)
        spread = head_of(output, module, batch).scores.float().std()
    change = (before.value - after.value).abs().max()
    _, dtype = device_and_dtype(module)
    if bool(change > CHANGE.get(dtype or torch.float32, SMALL_CHANGE) * spread):
        raise TargetError(
            f"{type(module).__name__} reads what comes after a token: with one more token behind"
            f" the prompt, the score of the next token changes by {float(change):.2g}, so that an"
            " answer cannot be explained in one pass",
            argument="target",
            remedy="Pass target=wf.token(-1) for the next token only",
        )


# -- writing ---------------------------------------------------------------------------------------


def _write(loaded: Loaded, batch: Batch, writing: Writing) -> tuple[Batch, Answer]:
    """What a decoder-only model writes, and the batch with a note if the answer was cut."""
    module = loaded.module
    count = _new_tokens(module, max(map(len, prompt_rows(batch))), writing)
    arguments, width = continue_prompts(batch, [[]] * batch.size, module)
    settings: dict[str, Any] = {"max_new_tokens": count}
    config = getattr(module, "generation_config", None)
    if getattr(config, "pad_token_id", None) is None:
        settings["pad_token_id"] = padding_id(module, batch.tokenizer)
    unwritable = _placeholders(module)
    if unwritable:
        known: list[int] = list(getattr(config, "suppress_tokens", None) or ())
        settings["suppress_tokens"] = known + unwritable
    passes = itertools.count(1)  # one per token that is written

    def report(owner: Any, args: Any, output: Any) -> None:
        report_step("writing the answer", next(passes), count)

    with borrow_model(module), add_hooks([(module, "after", report)]):
        moved = move_to_module(arguments, module)
        ids = generate_ids(module, moved, writing.seed, **settings).cpu()
    if not ids[:, :width].equal(arguments["input_ids"].cpu()):
        raise TargetError(
            f"{type(module).__name__} changes the prompt while it writes (token healing, or a"
            " prefix), so that its answer cannot be explained by this prompt",
            argument="head",
            remedy="Pass the text to explain as target",
        )
    end = _end_ids(module)
    rows = [cut_after_end(row, end, None) for row in ids[:, width:].tolist()]
    cut = [i for i, row in enumerate(rows) if len(row) == count and row[-1] not in end]
    if cut:
        which = "" if batch.size == 1 else f" of samples {', '.join(map(str, cut))}"
        note = f"the answer{which} was cut after {count} tokens (max_new_tokens)"
        batch = replace(batch, notes=(*batch.notes, note))
    return batch, Answer(tuple(map(tuple, rows)))


def _write_output(module: nn.Module, batch: Batch, writing: Writing) -> Any:
    """The ids that an encoder-decoder writes, with the user's settings."""
    settings: dict[str, Any] = {}
    if writing.max_new_tokens is not None:
        settings["max_new_tokens"] = writing.max_new_tokens
    with borrow_model(module):
        return id_rows(generate_ids(module, batch.arguments, writing.seed, **settings))


def _new_tokens(module: nn.Module, prompt: int, writing: Writing) -> int:
    """How many tokens to write: what the user or the generation config says, and what fits."""
    limit = positions_of(module)
    room = None if limit is None else limit - prompt
    if room is not None and room < 1:
        raise InputError(
            f"the prompt has {prompt} tokens and the model takes {limit}: there is no room for an"
            " answer",
            argument="inputs",
            remedy="Shorten the prompt",
        )
    wanted = writing.max_new_tokens
    if wanted is not None and room is not None and wanted > room:
        raise InputError(
            f"the prompt has {prompt} tokens and the model takes {limit}: an answer of {wanted}"
            " tokens does not fit",
            argument="max_new_tokens",
            remedy=f"Pass max_new_tokens={room} or less, or shorten the prompt",
        )
    if wanted is None:
        config = getattr(module, "generation_config", None)
        wanted = getattr(config, "max_new_tokens", None)
        length = getattr(config, "max_length", None)
        if wanted is None and isinstance(length, int) and length > prompt:
            wanted = length - prompt
    wanted = wanted or NEW_TOKENS
    return wanted if room is None else min(wanted, room)


def _placeholders(module: nn.Module) -> list[int]:
    """The ids of tokens that stand for an image or sound: behind the prompt there is none."""
    config = getattr(module, "config", None)
    names = (
        f"{kind}_token_{part}" for kind in ("image", "video", "audio") for part in ("id", "index")
    )
    found = {getattr(config, name, None) for name in names}
    return sorted(one for one in found if type(one) is int and one >= 0)


def _end_ids(module: nn.Module) -> list[int]:
    """The ids that end an answer."""
    places = (getattr(module, "generation_config", None), getattr(module, "config", None))
    for place in places:
        end = getattr(place, "eos_token_id", None)
        if end is not None:
            return end if isinstance(end, list) else [end]
    return []

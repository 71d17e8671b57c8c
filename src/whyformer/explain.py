"""`explain`: inputs -> model -> batch -> method -> `Attribution`."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, overload

import torch
from torch import nn

from whyformer.attribution import Attribution
from whyformer.batching.series import (
    check_series_settings,
    is_series,
    refuse_series_settings,
    series_length,
)
from whyformer.datasets import Dataset
from whyformer.inputs.containers import plain_inputs
from whyformer.methods import methods
from whyformer.models.load import Loaded, load_model
from whyformer.models.processors import merge_processors
from whyformer.models.undo import undo_leftovers
from whyformer.options import DEFAULT_METHOD, refuse_positional
from whyformer.pipeline.answers import Writing, check_writing
from whyformer.pipeline.explain_inputs import (
    default_kind,
    explain_answers,
    judge_inputs,
    prepare_inputs,
)
from whyformer.pipeline.explain_series import Series, explain_series
from whyformer.pipeline.found_streams import with_found_streams
from whyformer.pipeline.request import make_request

log = logging.getLogger("whyformer")


@overload
def explain(
    inputs: Iterator[Any] | Dataset, model: nn.Module | str | Loaded | None = None, **settings: Any
) -> Iterator[Attribution]: ...


@overload
def explain(
    inputs: Any, model: nn.Module | str | Loaded | None = None, **settings: Any
) -> Attribution: ...


@undo_leftovers
def explain(
    inputs: Any,
    model: nn.Module | str | Loaded | None = None,
    *misplaced: Any,
    method: str = DEFAULT_METHOD,
    target: Any = None,
    processor: Any = None,
    tokenizer: Any = None,
    image_processor: Any = None,
    device: torch.device | str | None = None,
    dtype: torch.dtype | str | None = None,
    truncation: bool = False,
    keep: str | Sequence[str] = (),
    memory: str | None = None,
    tokens: str | None = None,
    blocks: str | None = None,
    batch_first: bool | None = None,
    deciding: str | int | None = None,
    strict: bool = False,
    check_precision: bool = False,
    each: str | None = None,
    image_scale: str = "tokens",
    max_new_tokens: int | None = None,
    seed: int | None = None,
    batch_size: int | None = None,
    on_error: str = "raise",
    progress: bool = False,
    **options: Any,
) -> Attribution | Iterator[Attribution]:
    """Find out which tokens or image patches drove a model's prediction.

    Args:
        inputs: A text, a list of texts (also a pandas Series, a numpy array or a column of
            `datasets`), a (text, text) pair or a mapping of two texts such as
            `{"question": ..., "context": ...}` or `{"text": ..., "text_pair": ...}`, a chat
            (a list of messages such as `{"role": "user", "content": "..."}`) or a list of chats, an
            image or its path, a (text, image) pair or a mapping of both, a tensor, or a mapping of
            what the model's forward takes. An iterator or a dataset may have any length.
        model: An `nn.Module`, a `transformers.pipeline`, a `SentenceTransformer`, the name of a
            bundled model, a local folder or a hub id. A compiled, parallel or PEFT model is
            explained through the module inside. By default the bundled model that fits the inputs.
        *misplaced: Must be empty: everything else is given by name.
        method: The name of a method; see `whyformer.methods()`. The default "auto" runs `blend`
            if the inputs have an image and `libragrad` otherwise; the result names the method
            that ran, and a note says why.
        target: What to explain. None for the predicted class (for a detector the most confident
            query, for a class per token or pixel the most confident one, for a model that writes
            text every token that it writes). Otherwise a class index, a label, one of them per
            sample, `contrast`, `query`, `token`, `span`, a text that the model may write (as text
            or as ids), or a callable from the model's output to one value per sample. For a
            language model an integer is the id of the next token, and `token(-1)` the likeliest.
        processor: The tokenizer or image processor, if it is not found beside the model.
        tokenizer: Another name of `processor`, for a tokenizer.
        image_processor: Another name of `processor`, for an image processor.
        device: Where to run a model that is loaded by its name or folder, such as "cuda".
        dtype: The precision of a model that is loaded by its name or folder, such as "float64".
        truncation: Cut texts that are too long instead of refusing them.
        keep: What to keep beside the scores: "states", "attention", "gradient", and for methods
            that have them "maps", "relevance" and "nodes" (layers, heads and MLP units).
        memory: "maps" holds attention maps; "streamed" computes their rows again when needed, so
            that memory is linear in tokens. By default chosen by size. "checkpoint" keeps the
            graph of one block at a time, for long prompts and large models: it takes one more
            forward pass, and works for methods of one backward pass, such as "libragrad",
            "attn_lrp", "gae" and "blend". The scores are always the same.
        tokens: For a model of an unknown family: the argument of forward that carries the tokens.
        blocks: For a model of an unknown family: the path of its transformer blocks.
        batch_first: For a model of an unknown family: whether states are (batch, tokens, hidden).
        deciding: The token that the head reads: "first", "last", "mean" or an index. By default
            inferred from the gradient.
        strict: Raise TrustError instead of warning if the result is doubtful; see
            `Attribution.trust`.
        check_precision: Explain once more in float64, and compare: is the model's precision high
            enough for this method?
        each: For a generated text: what each row of `maps["generated", stream]` explains, a
            "token" (the default), a "sentence", a "line", or the whole "answer". A row's value is
            the sum of its tokens' logits.
        image_scale: For a language model with images: where their relevance is read. "tokens" are
            those of the language model (the default), "patches" what enters the image encoder
            below, "both" has streams of both, such as `streams["image patches"]`.
        max_new_tokens: For a model that writes text: how many tokens at most. By default what its
            generation config says, else 20.
        seed: Of random numbers: those of the method, and those of a model whose generation config
            says that it samples. Both are the same in every call, also without a seed.
        batch_size: For iterators: inputs per batch. By default chosen by length.
        on_error: For iterators: "raise" stops at an input that cannot be explained, "skip" warns
            and leaves it out.
        progress: Show a progress bar on stderr. One batch moves it in steps of as many samples
            as run together.
        **options: Options of the method; see `whyformer.methods()[name].options`.

    Returns:
        One `Attribution` of all samples. For an iterator or a dataset, an iterator of one
        `Attribution` per input, in order, while the inputs are read a few hundred ahead.

    Raises:
        InputError: The inputs cannot be read as what the model takes.
        TargetError: The model's output has no such target.
        OptionError: An option is unknown or has a bad value.
        ModelError: The model cannot be loaded, run or explained.
        TrustError: The result is doubtful, and `strict` is set.

    Example:
        >>> import whyformer as wf
        >>> attribution = wf.explain("a gripping, beautifully acted film")
        >>> attribution.labels, attribution.method
        (('positive',), 'libragrad')
    """
    refuse_positional("explain", misplaced)
    start = time.perf_counter()
    draws = "seed" in methods[method].options
    writing = Writing(max_new_tokens, seed, method_draws=draws)
    check_writing(writing)
    if draws and seed is not None:
        options["seed"] = seed
    request = make_request(
        method,
        keep=keep,
        memory=memory,
        blocks=blocks,
        batch_first=batch_first,
        deciding=deciding,
        strict=strict,
        check_precision=check_precision,
        each=each,
        image_scale=image_scale,
        **options,
    )
    processor = merge_processors(processor, tokenizer, image_processor)
    if is_series(inputs):
        check_series_settings(batch_size, on_error)
        place = {"device": device, "dtype": dtype}
        series = Series(inputs, target, model, processor, place, truncation, tokens, batch_size)
        attributions = explain_series(request, writing, series, on_error)
        return _show_progress(attributions, series_length(inputs)) if progress else attributions
    refuse_series_settings(batch_size, on_error)
    inputs = plain_inputs(inputs)
    kind = default_kind(model, inputs)
    loaded = with_found_streams(load_model(model, processor, kind, device, dtype), inputs)
    batch, implied = prepare_inputs(inputs, loaded, truncation, tokens, kind)
    target = implied if target is None else target
    if not progress:
        found = explain_answers(request, writing, loaded, batch, target)
    else:
        with _progress_bar() as bar:
            task = bar.add_task("", total=batch.size)
            advance = partial(bar.advance, task)
            found = explain_answers(request, writing, loaded, batch, target, advance)
            bar.update(task, completed=batch.size)
    seconds = time.perf_counter() - start
    name = type(loaded.module).__name__
    log.info("%s: %d samples by %s in %.2f s", name, len(found), found.method, seconds)
    return judge_inputs(found, inputs, loaded, by_default=model is None)


def _show_progress(attributions: Iterator[Attribution], count: int | None) -> Iterator[Attribution]:
    """The same attributions, with a progress bar on stderr."""
    with _progress_bar() as bar:
        yield from bar.track(attributions, total=count)


def _progress_bar() -> Any:
    """A bar of rich on stderr; a scope."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (TextColumn("explaining"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*columns, console=Console(stderr=True))

"""`explain` and `explain_each`: inputs -> model -> batch -> method -> `Attribution`."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, overload

import torch
from torch import nn

from whyformer.attribution import Attribution, Reason
from whyformer.batching.series import (
    InOrder,
    SeriesBatch,
    SeriesItem,
    SeriesPlanner,
    SeriesReader,
    check_series_settings,
    is_series,
    read_batches,
    refuse_series_settings,
    series_length,
)
from whyformer.datasets import Dataset
from whyformer.errors import SkippedWarning, TrustWarning, WhyformerError, warn_caller
from whyformer.inputs.batch import Batch
from whyformer.inputs.containers import plain_inputs
from whyformer.inputs.detect import kind_of
from whyformer.inputs.familiar import TRAINING, unfamiliar_reasons
from whyformer.inputs.prepare import prepare
from whyformer.methods import methods
from whyformer.models.load import Loaded, load_model
from whyformer.models.processors import merge_processors
from whyformer.models.sentence_encoder import SentenceEncoder
from whyformer.models.undo import undo_leftovers
from whyformer.options import DEFAULT_METHOD, refuse_positional
from whyformer.pipeline.answers import Writing, check_writing, with_answers
from whyformer.pipeline.chat_roles import with_roles
from whyformer.pipeline.explain_batch import Advance, explain_batch
from whyformer.pipeline.found_streams import with_found_streams
from whyformer.pipeline.request import Request, make_request
from whyformer.pipeline.sentence_pairs import PairSimilarity, pair_similarity, split_pairs

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
            forward pass, and works for methods that read no attention maps, such as "libragrad"
            and "attn_lrp". The scores are always the same.
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
        series = _Series(inputs, target, model, processor, place, truncation, tokens, batch_size)
        attributions = _explain_series(request, writing, series, on_error)
        return _show_progress(attributions, series_length(inputs)) if progress else attributions
    refuse_series_settings(batch_size, on_error)
    inputs = plain_inputs(inputs)
    kind = _default_kind(model, inputs)
    loaded = with_found_streams(load_model(model, processor, kind, device, dtype), inputs)
    batch, implied = _prepare(inputs, loaded, truncation, tokens, kind)
    target = implied if target is None else target
    if not progress:
        found = _explain_answers(request, writing, loaded, batch, target)
    else:
        with _progress_bar() as bar:
            task = bar.add_task("", total=batch.size)
            advance = partial(bar.advance, task)
            found = _explain_answers(request, writing, loaded, batch, target, advance)
            bar.update(task, completed=batch.size)
    seconds = time.perf_counter() - start
    name = type(loaded.module).__name__
    log.info("%s: %d samples by %s in %.2f s", name, len(found), found.method, seconds)
    return _judge_inputs(found, inputs, loaded, by_default=model is None)


def _explain_answers(
    request: Request,
    writing: Writing,
    loaded: Loaded,
    batch: Batch,
    target: Any,
    advance: Advance | None = None,
) -> Attribution:
    """The attribution of one batch; a language model writes its answer first, if none is given."""
    batch, target = with_answers(loaded, batch, target, writing)
    return with_roles(explain_batch(request, loaded, batch, target, advance), batch, target)


def _judge_inputs(
    attribution: Attribution, inputs: Any, loaded: Loaded, by_default: bool
) -> Attribution:
    """Note on inputs that are not like what a bundled model was trained on.

    Warn if the user did not choose the model: `by_default`.
    """
    found = unfamiliar_reasons(inputs, loaded.name)
    if not found or max(found) >= len(attribution):
        return attribution
    chosen = f"No model was named, so that {loaded.name} was used. " if by_default else ""
    reasons = []
    for reason in dict.fromkeys(found.values()):
        samples = tuple(index for index, one in found.items() if one == reason)
        text = (
            f"{chosen}{reason[0].upper()}{reason[1:]}, and"
            f" {loaded.name} was trained on {TRAINING[loaded.name].data}: its answer may mean"
            " nothing. Choose a model that fits."
        )
        every = None if len(samples) == len(attribution) else samples
        reasons.append(Reason("inputs", "note", text, samples=every))
        if by_default:
            warn_caller(text, TrustWarning)
    return replace(attribution, trust=attribution.trust.add(reasons))


def _default_kind(model: nn.Module | str | Loaded | None, inputs: Any) -> str | None:
    """The kind of inputs that chooses the bundled model; None if the user named a model."""
    return kind_of(inputs) if model is None else None


@undo_leftovers
def _prepare(
    inputs: Any, loaded: Loaded, truncation: bool, tokens: str | None, kind: str | None
) -> tuple[Batch, PairSimilarity | None]:
    """The inputs as one batch of what the model's forward takes, and the target of pairs."""
    module = loaded.module
    texts = split_pairs(inputs, module)
    batch = prepare(
        inputs if texts is None else texts,
        module,
        loaded.processor,
        loaded.family,
        truncation,
        tokens,
        kind=kind,
    )
    if texts is None or not isinstance(module, SentenceEncoder):
        return batch, None
    return batch, pair_similarity(module, batch)


@dataclass(frozen=True)
class Ask:
    """One method on one target, with its options and with settings of `make_request`."""

    method: str
    target: Any = None
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Answer:
    """The attribution for one `Ask`, or its error, and how long it took."""

    ask: Ask
    attribution: Attribution | None
    error: WhyformerError | None
    seconds: float


def explain_each(
    inputs: Any,
    model: nn.Module | str | Loaded | None,
    asks: Iterable[Ask],
    *,
    processor: Any = None,
    truncation: bool = False,
    tokens: str | None = None,
    on_error: str = "raise",
    max_new_tokens: int | None = None,
    **settings: Any,
) -> Iterator[Answer]:
    """Explain one input with several methods or targets, one after the other.

    The model is loaded and the input prepared once. A language model writes its answer once, for
    all asks without a target.

    Args:
        inputs: One batch of inputs, as in `explain`, or a prepared `Batch`. A language model
            writes no answer to a prepared batch: its next token is explained.
        model: As in `explain`.
        asks: The methods and targets.
        processor: As in `explain`.
        truncation: As in `explain`.
        tokens: As in `explain`.
        on_error: "raise" stops at the first error; "return" puts the error into the answer.
        max_new_tokens: As in `explain`.
        **settings: `keep`, `memory`, `blocks`, `batch_first`, `deciding`, `strict`,
            `check_precision`, `each` and `image_scale`, as in `explain`.

    Returns:
        An iterator of one `Answer` per ask.
    """
    inputs = plain_inputs(inputs)
    kind = _default_kind(model, inputs)
    loaded = with_found_streams(load_model(model, processor, kind), inputs)
    batch, implied = inputs, None
    prepared = isinstance(inputs, Batch)
    if not prepared:
        batch, implied = _prepare(inputs, loaded, truncation, tokens, kind)
    writing = Writing(max_new_tokens)
    check_writing(writing)
    written: tuple[Batch, Any] | None = None
    for ask in asks:
        start = time.perf_counter()
        attribution, error = None, None
        try:
            request = make_request(ask.method, **{**settings, **ask.options})
            if prepared:
                attribution = explain_batch(request, loaded, batch, ask.target)
            elif ask.target is not None:
                attribution = _explain_answers(request, Writing(), loaded, batch, ask.target)
            else:
                written = written or with_answers(loaded, batch, implied, writing)
                attribution = with_roles(explain_batch(request, loaded, *written), *written)
            if not prepared:
                attribution = _judge_inputs(attribution, inputs, loaded, model is None)
        except WhyformerError as failure:
            if on_error == "raise":
                raise
            error = failure
        yield Answer(ask, attribution, error, time.perf_counter() - start)


@dataclass(frozen=True)
class _Series:
    """The inputs of a series, and how they are read."""

    inputs: Any
    target: Any
    model: nn.Module | str | Loaded | None
    processor: Any
    place: Mapping[str, Any]
    truncation: bool
    tokens: str | None
    batch_size: int | None


def _explain_series(
    request: Request, writing: Writing, series: _Series, on_error: str
) -> Iterator[Attribution]:
    """One attribution per input, in order, each as soon as all earlier ones are done."""
    reader = SeriesReader(series.inputs, series.target)
    first = reader.read(1)
    if first:
        kind = _default_kind(series.model, first[0].inputs)
        loaded = load_model(series.model, series.processor, kind, **series.place)
        loaded = with_found_streams(loaded, first[0].inputs)
        planner = SeriesPlanner(loaded, series.batch_size, series.truncation, series.tokens)
        results = InOrder()
        for batch in read_batches(reader, planner, first, sort=not request.keep):
            for item, result in _explain_items(request, writing, planner, reader, batch):
                if isinstance(result, Attribution):
                    result = _judge_inputs(result, item.inputs, loaded, series.model is None)
                results.add(item.index, _with_place(item, result))
            for result in results.ready():
                if isinstance(result, Attribution):
                    yield result
                elif on_error == "raise":
                    raise result
                else:
                    warn_caller(f"left out {result}", SkippedWarning)
    if reader.failure is not None:
        raise reader.failure


def _explain_items(
    request: Request,
    writing: Writing,
    planner: SeriesPlanner,
    reader: SeriesReader,
    batch: SeriesBatch,
) -> Iterator[tuple[SeriesItem, Attribution | WhyformerError]]:
    """Each input of a batch with its attribution, or with its error."""
    if batch.batch is None:
        assert batch.error is not None
        yield batch.items[0], batch.error
        return
    try:
        target = reader.targets(batch.items)
        found = _explain_answers(request, writing, planner.loaded, batch.batch, target)
    except WhyformerError as error:
        if len(batch.items) == 1:
            yield batch.items[0], error
            return
        for one in planner.one_by_one(batch):
            yield from _explain_items(request, writing, planner, reader, one)
        return
    yield from [(batch.items[0], found)] if batch.is_alone else zip(batch.items, found, strict=True)


def _with_place(
    item: SeriesItem, result: Attribution | WhyformerError
) -> Attribution | WhyformerError:
    """The result with its position in the series, and its id if it has one."""
    if isinstance(result, WhyformerError):
        return result.with_prefix(str(item))
    place: dict[str, Any] = {"index": item.index}
    if item.id is not None:
        place["id"] = item.id
    return replace(result, provenance={**result.provenance, **place})


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

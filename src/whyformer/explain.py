"""The pipeline: inputs -> capture -> method -> Attribution."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, overload

from torch import nn

from whyformer.assemble import assemble
from whyformer.attribution import Attribution
from whyformer.batching.batches import Steps
from whyformer.batching.series import Series, check_settings, is_series, refuse_settings, shown
from whyformer.batching.split_by_length import in_buckets
from whyformer.datasets import Dataset
from whyformer.engine.capture import Capture
from whyformer.engine.deciding_tokens import check_deciding
from whyformer.engine.generate import generate_ids
from whyformer.engine.recording import MAPS
from whyformer.engine.scope import borrow_model
from whyformer.engine.stacks import check_one_stream, find_stacks
from whyformer.errors import OptionError, WhyformerError
from whyformer.inputs.batch import Batch
from whyformer.inputs.detect import kind_of
from whyformer.inputs.padding_layout import restore_padding
from whyformer.inputs.prepare import prepare
from whyformer.methods import Method, methods
from whyformer.models.families import family_of
from whyformer.models.load import Loaded, load_model
from whyformer.models.weights import check_weights
from whyformer.targets.generated_text import merge_generated
from whyformer.targets.generation import plan_generation, teacher_force
from whyformer.targets.resolve import resolve
from whyformer.trust import warn_of_drift, warn_of_leaks


@overload
def explain(
    inputs: Iterator[Any] | Dataset, model: nn.Module | str | None = None, **settings: Any
) -> Iterator[Attribution]: ...


@overload
def explain(inputs: Any, model: nn.Module | str | None = None, **settings: Any) -> Attribution: ...


def explain(
    inputs: Any,
    model: nn.Module | str | None = None,
    *,
    method: str = "lrp_ah_ln",
    target: Any = None,
    processor: Any = None,
    truncation: bool = False,
    keep: str | Sequence[str] = (),
    memory: str | None = None,
    tokens: str | None = None,
    blocks: str | None = None,
    batch_first: bool | None = None,
    deciding: str | int | None = None,
    batch_size: int | None = None,
    on_error: str = "raise",
    progress: bool = False,
    **options: Any,
) -> Attribution | Iterator[Attribution]:
    """Which tokens made the model say that, as an `Attribution`; of an iterator, one for each.

    `inputs` is text, a list of texts, a (text, text) pair, an image or its path, a (text, image)
    pair or a mapping of both, a tensor, or a mapping of what the model's forward takes. `target`
    is what to explain: None for the predicted class (of a detector the surest query's, of an
    encoder-decoder every token that it writes), an index, a label, one per sample, `contrast`,
    `query`, `token`, `span`, a generated text as ids (batch, tokens), or a callable from the
    model's output to one value per sample. `keep` holds on to "states", "attention", "gradient",
    and where the method has them "maps" and "relevance". `memory` is how attention maps are had:
    "maps" holds them, "streamed" computes them again a few rows at a time, with the same scores
    from memory that is linear in tokens; by default whichever suits their size.

    For a model of no known family, `tokens` (the argument that carries them), `blocks` (the
    modules they go through), `batch_first` and `deciding` (the token that the head reads) name
    what cannot be inferred. The rest are options of the method: see `whyformer.methods()`.

    A list is one attribution of all its samples, whatever batches it took. An iterator or a
    dataset may be of any length: attributions come out in its order while it is read, some
    hundred inputs ahead. `target` may then be an iterator too, `batch_size` is chosen by length
    where it is None, an input that cannot be explained is an error with its position, or with
    `on_error="skip"` a warning, and `progress` shows a bar.
    """
    chosen = methods[method]
    chosen.check(options)
    check_deciding(deciding)
    kept = _kept(keep, chosen)
    _check_memory(memory, kept)
    if is_series(inputs):
        check_settings(batch_size, on_error)
        asked: dict[str, Any] = {
            "method": method,
            "truncation": truncation,
            "keep": keep,
            "memory": memory,
            "tokens": tokens,
            "blocks": blocks,
            "batch_first": batch_first,
            "deciding": deciding,
            **options,
        }
        steps = Steps(
            load=partial(_load, model, processor),
            prepare=partial(_prepared, truncation=truncation, tokens=tokens),
            explain=partial(_batch, asked),
        )
        series = Series(
            inputs, target, steps, batch_size=batch_size, on_error=on_error, sort=not kept
        )
        found = series.attributions()
        return shown(found, series.count) if progress else found
    refuse_settings(batch_size, on_error, progress)
    loaded = _load(model, processor, inputs)
    module = _unwrapped(loaded)
    check_weights(module)
    family = family_of(module)
    prepared = _prepared(inputs, loaded, truncation, tokens)
    if blocks is None and family is None:
        check_one_stream(module, prepared.arguments)
    generation = None
    plan = plan_generation(target, prepared, module, family)
    if plan is not None:
        ids = plan.ids
        if ids is None:
            with borrow_model(module):
                ids = generate_ids(module, prepared.arguments)
        prepared, target, generation = teacher_force(
            plan, ids, target, prepared, module, loaded.processor
        )
    if generation is not None and kept:
        raise OptionError(
            f"keep={sorted(kept)} is about one output token, and each of a generated text is"
            " explained; pass target=wf.token(position) for the one you want to look into"
        )
    stacks = find_stacks(module, prepared.stream, family, blocks, batch_first)

    def run(batch: Batch, wanted: Any) -> Attribution:
        capture = Capture(
            module,
            batch,
            stacks,
            lambda wanted, output, batch: resolve(wanted, output, module, batch),
            target=wanted,
            deciding=deciding,
            keep=kept,
            family=family,
            memory=memory,
        )
        with borrow_model(module):
            scores = chosen(capture, **options)
            if {"attention", "gradient"} & kept and not capture.layers:
                capture.attentions()
        found = assemble(chosen, options, capture, scores, loaded.name, family)
        warn_of_leaks(found, capture)
        warn_of_drift(found, capture)
        return found

    # Whether padding changes nothing is known of declared families only.
    whole = bool(kept) or generation is not None or deciding is not None or family is None
    attribution = in_buckets(prepared, module, target, run, whole)
    layouts = {one.stream: one.layout for one in prepared if one.layout is not None}
    attribution = restore_padding(attribution, layouts)
    return attribution if generation is None else merge_generated(attribution, generation)


@dataclass(frozen=True)
class Ask:
    """One method on one target."""

    method: str
    target: Any = None
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Answer:
    """What an ask came to: an attribution, or the error that stopped it."""

    ask: Ask
    attribution: Attribution | None
    error: WhyformerError | None
    seconds: float


def explain_each(
    inputs: Any,
    model: Any,
    asks: Iterable[Ask],
    *,
    processor: Any = None,
    truncation: bool = False,
    tokens: str | None = None,
    on_error: str = "raise",
    **settings: Any,
) -> Iterator[Answer]:
    """Answer several asks about one input, one after the other.

    The model is loaded and the input prepared once. `model` may be a `Loaded`. With
    `on_error="return"` an ask that fails is an answer with its error. The rest as in `explain`.
    """
    loaded = _load(model, processor, inputs)
    batch = _prepared(inputs, loaded, truncation, tokens)
    for ask in asks:
        start = time.perf_counter()
        attribution, error = None, None
        try:
            attribution = explain(
                batch, loaded, method=ask.method, target=ask.target, **settings, **ask.options
            )
        except WhyformerError as failure:
            if on_error == "raise":
                raise
            error = failure
        yield Answer(ask, attribution, error, time.perf_counter() - start)


def _batch(asked: dict[str, Any], batch: Batch, module: nn.Module, **own: Any) -> Attribution:
    """One batch of a series, explained as all of it is asked to be."""
    attribution: Attribution = explain(batch, module, **asked, **own)
    return attribution


def _load(model: Any, processor: Any, inputs: Any) -> Loaded:
    return load_model(model, processor, kind_of(inputs) if model is None else None)


def _unwrapped(loaded: Loaded) -> nn.Module:
    """The module itself where torch.compile wrapped it."""
    module: nn.Module = getattr(loaded.module, "_orig_mod", loaded.module)
    return module


def _prepared(inputs: Any, loaded: Loaded, truncation: bool, tokens: str | None) -> Batch:
    """The inputs as the model takes them; those of a series were prepared ahead."""
    if isinstance(inputs, Batch):
        return inputs
    module = _unwrapped(loaded)
    family = family_of(module)
    return prepare(inputs, module, loaded.processor, family, truncation, carrier=tokens)


def _kept(keep: str | Sequence[str], method: Method) -> frozenset[str]:
    names = [keep] if isinstance(keep, str) else keep
    listed = isinstance(names, (list, tuple, set, frozenset))
    if not listed or not all(isinstance(name, str) for name in names):
        raise OptionError(f"keep={keep!r}: pass a name or a list of names")
    kept = frozenset(names)
    for name in kept - set(method.keeps):
        raise OptionError(
            f"keep={name!r}: method '{method.name}' can keep {', '.join(map(repr, method.keeps))}"
        )
    return kept


def _check_memory(memory: str | None, kept: frozenset[str]) -> None:
    """Nothing; raises where there is no such way, or what is kept needs another."""
    if memory not in (None, "maps", "streamed"):
        raise OptionError(f"memory={memory!r}: choose 'maps' or 'streamed'")
    held = kept & MAPS
    if memory == "streamed" and held:
        raise OptionError(
            f"memory='streamed' holds no attention maps, and keep={sorted(held)} asks for them:"
            " leave out one of the two"
        )

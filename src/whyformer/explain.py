"""The pipeline: inputs -> capture -> method -> Attribution."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import torch
from torch import Tensor, nn

from whyformer.attribution import Attribution, Layer, Stream
from whyformer.capture.blocks import find_blocks
from whyformer.capture.capture import Capture
from whyformer.capture.scope import borrowed
from whyformer.errors import ConservationWarning, OptionError, RelevanceWarning
from whyformer.families import family_of
from whyformer.inputs.finite import check_weights
from whyformer.inputs.layout import as_given
from whyformer.inputs.models import load_model
from whyformer.inputs.prepare import prepare
from whyformer.inputs.targets import resolve
from whyformer.methods import Method, methods

KEEP = ("attention", "gradient", "relevance", "maps", "states")
# How much relevance may go missing before we speak up, by the precision of the model.
_TOLERANCE = {torch.float64: 1e-8, torch.float32: 1e-3}
_HALF_TOLERANCE = 5e-2
# Relevance should keep its sum from layer to layer; beyond this it has come loose.
_SANE_GROWTH = 100.0
_NO_START = 1e-6


def explain(
    inputs: Any,
    model: nn.Module | str | None = None,
    *,
    method: str = "lrp_ah_ln",
    target: Any = None,
    processor: Any = None,
    truncation: bool = False,
    keep: str | Sequence[str] = (),
    tokens: str | None = None,
    blocks: str | None = None,
    batch_first: bool | None = None,
    deciding: str | int | None = None,
    **options: Any,
) -> Attribution:
    """Which tokens made the model say that, as an `Attribution`.

    `inputs` is text, a list of texts, a (text, text) pair, an image or its path, a tensor, or a
    mapping of what the model's forward takes. `target` is what to explain: None for the predicted
    class, an index, a label, one per sample, `contrast`, `token`, `span`, or a callable from the
    model's output to one value per sample. `keep` holds on to "attention", "gradient", "maps" or
    "states". For a model of no known family, `tokens` (the argument that carries them), `blocks`
    (the modules they go through), `batch_first` and `deciding` (the token that the head reads)
    name what cannot be inferred. The rest are options of the method: see `whyformer.methods()`.
    """
    chosen = methods[method]
    chosen.check(options)
    kept = _kept(keep)
    loaded = load_model(model, processor, inputs)
    module = getattr(loaded.module, "_orig_mod", loaded.module)  # what torch.compile wrapped
    check_weights(module)
    family = family_of(module)
    prepared = prepare(inputs, module, loaded.processor, family, truncation, carrier=tokens)
    capture = Capture(
        module,
        prepared,
        find_blocks(module, family, blocks, batch_first),
        lambda wanted, output: resolve(wanted, output, module, prepared),
        target=target,
        deciding=deciding,
        keep=kept,
    )
    with borrowed(module):
        scores = chosen(capture, **options)
        if {"attention", "gradient"} & kept and not capture.layers:
            capture.attentions()
    attribution = _attribution(chosen, options, capture, scores, loaded.name, family)
    return as_given(attribution, prepared.layout)


def _kept(keep: str | Sequence[str]) -> frozenset[str]:
    kept = frozenset([keep] if isinstance(keep, str) else keep)
    for name in kept - set(KEEP):
        raise OptionError(f"keep={name!r}: choose among {', '.join(map(repr, KEEP))}")
    return kept


def _attribution(
    method: Method,
    options: dict[str, Any],
    capture: Capture,
    scores: Tensor,
    name: str,
    family: Any,
) -> Attribution:
    """The result, padding zeroed and prefix tokens cut off."""
    prepared, goal, prefix = capture.prepared, capture.goal, capture.prefix
    assert goal is not None
    scores = (scores * capture.mask).cpu()
    output = goal.value.detach().cpu()
    output = output if output.dtype == torch.float64 else output.float()
    sinks = {k: v.cpu() for k, v in capture.ledger.sinks.items()} if capture.ledger else {}
    if prefix and _promises_sum(method):
        sinks["prefix"] = scores[:, :prefix].sum(1)
    scores = scores[:, prefix:]
    conservation = None
    if _promises_sum(method):
        accounted = scores.sum(1) + sum(sinks.values(), torch.zeros_like(output))
        conservation = accounted / output
        _warn_of_leaks(method, capture, scores, sinks, output)
    if options.get("rules", method.options.get("rules")) == "ours":
        _warn_of_drift(method, capture)
    keep = capture.keep
    stream = Stream(
        name=prepared.stream,
        scores=scores,
        mask=capture.mask.cpu()[:, prefix:],
        tokens=prepared.tokens,
        word_ids=prepared.word_ids,
        grid=prepared.grid,
        image=None if prepared.image is None else prepared.image.cpu(),
        pixels=None if capture.pixels is None else capture.pixels.cpu(),
        states=(
            capture.states.cpu()[:, prefix:]
            if "states" in keep and capture.states is not None
            else None
        ),
    )
    return Attribution(
        method=method.name,
        streams={stream.name: stream},
        main=stream.name,
        target=goal.index.cpu(),
        output=output,
        labels=goal.labels,
        conservation=conservation,
        sinks=sinks if _promises_sum(method) else {},
        layers=_layers(capture),
        maps=_maps(capture, stream.name),
        options={**method.options, **options},
        provenance=_provenance(capture, name, family),
    )


def _promises_sum(method: Method) -> bool:
    return bool({"conservation", "completeness"} & set(method.promises))


def _layers(capture: Capture) -> tuple[Layer, ...]:
    """What was asked to be kept of each layer; sums of relevance always."""
    wanted = {
        "attention": ("attention",),
        "gradient": ("gradient",),
        "relevance": ("relevance", "entering", "leaving"),
    }
    parts = [part for name in wanted if name in capture.keep for part in wanted[name]]

    def put(layer: Layer) -> Layer:
        kept = {part: getattr(layer, part) for part in ("relevance_sum", *parts)}
        return Layer(**{k: None if v is None else v.cpu() for k, v in kept.items()})

    layers = tuple(put(layer) for layer in capture.layers)
    return layers if any(v is not None for layer in layers for v in vars(layer).values()) else ()


def _maps(capture: Capture, stream: str) -> dict[tuple[str, str], Tensor]:
    if capture.map is None:
        return {}
    return {(stream, stream): capture.map.cpu()[:, capture.prefix :, capture.prefix :]}


def _warn_of_leaks(
    method: Method, capture: Capture, scores: Tensor, sinks: dict[str, Tensor], output: Tensor
) -> None:
    """Warns where an operation without a rule lost relevance, and names it."""
    assert capture.ledger is not None
    assert capture.states is not None
    tolerance = _TOLERANCE.get(capture.states.dtype, _HALF_TOLERANCE)
    mass = scores.abs().sum(1) + sum((s.abs() for s in sinks.values()), output.abs())
    shares = {
        operation: float((leak.cpu().abs() / mass).max())
        for operation, leak in capture.ledger.leaks.items()
    }
    worst = {op: share for op, share in shares.items() if share > tolerance}
    if worst:
        named = ", ".join(
            f"{op} ({share:.1%})" for op, share in sorted(worst.items(), key=lambda x: -x[1])
        )
        warnings.warn(
            f"'{method.name}' promises that relevance adds up to the explained value, but these"
            f" operations of the model have no rule and lost a share of it: {named}. Read"
            " attribution.conservation before you trust the scores.",
            ConservationWarning,
            stacklevel=4,
        )


def _warn_of_drift(method: Method, capture: Capture) -> None:
    """Warns where the sum of relevance left a sane band between the top layer and another."""
    sums = [layer.relevance_sum for layer in capture.layers]
    top = sums[-1] if sums else None
    for number, total in enumerate(sums):
        if total is None or top is None or not (top.abs() > _NO_START).all():
            continue  # the target itself starts with nothing, as a contrast does
        growth = (total / top).abs()
        if not ((growth > 1 / _SANE_GROWTH) & (growth < _SANE_GROWTH)).all():
            warnings.warn(
                f"'{method.name}': relevance is {float(growth.max()):.3g} times that of the top"
                f" layer behind layer {number}; it should stay near 1. A denominator near 0 blew"
                " it up or cancelled it: do not trust this map. float64 may help; 'gae' does not"
                " divide.",
                RelevanceWarning,
                stacklevel=4,
            )
            return


def _provenance(capture: Capture, name: str, family: Any) -> dict[str, Any]:
    """What was run, in words that JSON can keep."""
    parameter = next(capture.module.parameters(), None)
    return {
        "model": name,
        "model_class": type(capture.module).__name__,
        "family": family.name if family else "default",
        "dtype": str(parameter.dtype).removeprefix("torch.") if parameter is not None else "",
        "device": str(parameter.device) if parameter is not None else "cpu",
        "versions": {
            package: _version(package) for package in ("whyformer", "torch", "transformers")
        },
        "notes": list(capture.prepared.notes),
    }


@cache
def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"

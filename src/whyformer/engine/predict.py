"""A plain forward pass: output or logits, also with some word embeddings overwritten."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from whyformer.engine.scope import add_hooks, borrow_model
from whyformer.errors import InputError, ModelError, WhyformerError
from whyformer.inputs.batch import Batch
from whyformer.inputs.sequence import narrow_to_module
from whyformer.models.families import Source, family_of
from whyformer.models.signature import embeddings_of
from whyformer.models.undo import keep_random_state, undo_leftovers
from whyformer.targets.heads import CLASSES, NEXT_TOKEN, NUMBER, head_of

MEASURABLE = (CLASSES, NUMBER, NEXT_TOKEN)
NO_RERUN = "Use metrics that do not run the model again"


@dataclass(frozen=True)
class Overwrite:
    """Word embeddings to overwrite in a forward pass."""

    where: Tensor  # (batch, tokens), True where the embedding is overwritten
    fill: str  # "zero", or "mean" for the mean of all embeddings


@undo_leftovers
def predict(
    module: nn.Module,
    batch: Batch,
    overwrite: Tensor | None = None,
    fill: str = "zero",
    stream: str | None = None,
) -> Tensor:
    """Return the logits (batch, classes); for a language model those at the last token.

    Args:
        module: The model.
        batch: Its inputs.
        overwrite: True where a word embedding is overwritten, (batch, tokens).
        fill: What overwrites it: "zero", or "mean" for the mean of all embeddings.
        stream: Whose embeddings; the main stream by default.
    """
    name, family = type(module).__name__, family_of(module)
    sources = {source.stream: source for source in (family.sources if family else ())}
    output_source = sources.get("generated")
    if output_source is not None and batch.of("generated") is None:
        raise ModelError(
            f"{name} generates text, and whyformer cannot measure how that changes when tokens are"
            " removed",
            argument="metrics",
            remedy=NO_RERUN,
        )
    gaps = {} if overwrite is None else {stream or batch.stream: Overwrite(overwrite, fill)}
    with borrow_model(module):
        output = run_model(module, batch, gaps)
    head = head_of(output, module, batch.of("generated") or batch)
    if head.kind not in MEASURABLE:
        raise ModelError(
            f"{name} predicts {head.kind}, and whyformer cannot measure how those change when"
            " tokens are removed",
            argument="metrics",
            remedy=NO_RERUN,
        )
    if head.kind != NEXT_TOKEN:
        return head.scores
    mask = batch.arguments.get((output_source.mask if output_source else None) or "attention_mask")
    last = torch.full((len(head.scores),), head.scores.shape[1] - 1)
    if isinstance(mask, Tensor) and mask.shape == head.scores.shape[:2]:
        # Count padding from the end only: a 0 between 1s hides a token, which keeps its place.
        last = last - mask.flip(1).int().argmax(1).cpu()
    return head.scores[torch.arange(len(last)), last]


def run_model(
    module: nn.Module,
    batch: Batch,
    overwrites: Mapping[str, Overwrite] | None = None,
    instead: str = NO_RERUN,
) -> Any:
    """Return the raw output without a graph; the model must be borrowed (`scope.borrow_model`).

    If the family declares an `output_module`, return the output of that sub-module.

    Args:
        module: The model.
        batch: Its inputs.
        overwrites: By stream the word embeddings to overwrite.
        instead: What the user can do if the model fails on these inputs.
    """
    name, family = type(module).__name__, family_of(module)
    sources = {source.stream: source for source in (family.sources if family else ())}
    hooks: list[tuple[nn.Module, str, Any]] = []
    overwritten: list[tuple[str, list[bool]]] = []
    outputs: list[Any] = []
    for stream, gap in (overwrites or {}).items():
        tokens = batch.of(stream) or batch
        ids = batch.arguments[tokens.carrier]
        part = sources.get(tokens.stream, Source(tokens.stream, tokens.carrier)).submodule(module)
        calls: list[bool] = []
        overwritten.append((gap.fill, calls))
        hooks += _overwriting_hooks(module, part, ids, gap.where, gap.fill, calls)
    if family is not None and family.output_module:
        output_module = module.get_submodule(family.output_module)
        hooks.append((output_module, "after", lambda owner, args, output: outputs.append(output)))
    with torch.no_grad(), _fixed_seed(), add_hooks(hooks):
        outputs.insert(0, _call(module, batch, instead))
    for fill, calls in overwritten:
        if not calls:
            raise ModelError(
                f"fill={fill!r} overwrites word embeddings, and {name} does not look its tokens up"
                " in its embedding table",
                argument="fill",
                remedy="Use fill='drop', 'mask' or 'unknown'",
            )
    return outputs[-1]


def _overwriting_hooks(
    module: nn.Module,
    part: nn.Module,
    ids: Tensor,
    overwrite: Tensor,
    fill: str,
    overwritten: list[bool],
) -> list[tuple[nn.Module, str, Any]]:
    """The hooks that overwrite the embeddings of these ids; each call appends to `overwritten`."""
    table = embeddings_of(part) or embeddings_of(module)
    if table is None:
        raise InputError(
            f"fill={fill!r} overwrites word embeddings, and {type(module).__name__} has no"
            " embedding table",
            argument="fill",
            remedy="Use fill='drop', 'mask' or 'unknown'",
        )
    where = overwrite.unsqueeze(-1)

    def overwrite_states(owner: Any, args: tuple, states: Tensor) -> Tensor | None:
        # Encoders and decoders share a table: only lookups of this stream's ids count.
        if not (args and isinstance(args[0], Tensor) and torch.equal(args[0], ids)):
            return None
        overwritten.append(True)
        if fill == "zero":
            return states.masked_fill(where, 0)
        # The table's own forward, because some tables scale their output.
        embeddings = owner.forward(torch.arange(owner.num_embeddings, device=ids.device))
        return torch.where(where, embeddings.mean(0), states)

    # Models that tie tables have several modules on one weight, and may call any of them.
    return [
        (owner, "after", overwrite_states)
        for owner in module.modules()
        if isinstance(owner, nn.Embedding) and owner.weight is table.weight
    ]


def _call(module: nn.Module, batch: Batch, instead: str) -> Any:
    try:
        return module(**narrow_to_module(batch.arguments, module))
    except WhyformerError:
        raise
    except Exception as error:  # the model's own code
        reason = (str(error).strip().splitlines() or ["no message"])[0]
        raise ModelError(
            f"{type(module).__name__} failed on inputs with tokens removed, with"
            f" {type(error).__name__}: {reason}",
            argument="fill",
            remedy="Check that model(**inputs) runs. If it does, keep special tokens, choose"
            f" another fill=, or: {instead[0].lower()}{instead[1:]}",
        ) from error


@contextmanager
def _fixed_seed() -> Iterator[None]:
    """A scope with a fixed seed, for models that sample at random (ViLT samples patches)."""
    with keep_random_state():
        torch.default_generator.manual_seed(0)
        yield

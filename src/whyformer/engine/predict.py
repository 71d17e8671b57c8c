"""A plain forward: what a model says about samples that have lost some of their tokens."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from whyformer.engine.scope import add_hooks, borrow_model
from whyformer.errors import InputError, ModelError, WhyformerError
from whyformer.inputs.batch import Batch
from whyformer.models.families import Source, family_of
from whyformer.models.signature import embeddings_of
from whyformer.targets.heads import CLASSES, NEXT_TOKEN, NUMBER, head_of

ANSWERS = (CLASSES, NUMBER, NEXT_TOKEN)
OTHERWISE = "use metrics that do not run the model again"


def predict(
    module: nn.Module,
    prepared: Batch,
    silenced: Tensor | None = None,
    silence: str = "zero",
    stream: str | None = None,
) -> Tensor:
    """Logits (batch, classes); of a language model those of the last token.

    Where `silenced` is True the word embedding of a stream, the main one by default, is
    overwritten by zeros or by the mean of all.
    """
    family = family_of(module)
    sources = {source.stream: source for source in (family.sources if family else ())}
    spoken = sources.get("generated")
    if spoken is not None and prepared.of("generated") is None:
        raise ModelError(
            f"{type(module).__name__} writes a text token by token: what is left of it when tokens"
            f" go cannot be measured; {OTHERWISE}"
        )
    hooks: list[tuple[nn.Module, str, Any]] = []
    heard: list[bool] = []
    outputs: list[Any] = []
    if silenced is not None:
        read = prepared.of(stream or prepared.stream) or prepared
        ids = prepared.arguments[read.carrier]
        part = sources.get(read.stream, Source(read.stream, read.carrier)).submodule(module)
        hooks = _overwriting(module, part, ids, silenced, silence, heard)
    if family is not None and family.speaks:
        speaker = module.get_submodule(family.speaks)
        hooks.append((speaker, "after", lambda owner, given, output: outputs.append(output)))
    with borrow_model(module), torch.no_grad(), _same_lots(), add_hooks(hooks):
        outputs.insert(0, _called(module, prepared))
    if silenced is not None and not heard:
        raise ModelError(
            f"fill={silence!r} overwrites word embeddings, and {type(module).__name__} does not"
            " look its tokens up in its table of them; fill with 'drop', 'mask' or 'unknown'"
        )
    told = prepared.of("generated") or prepared
    head = head_of(outputs[-1], module, told)
    if head.kind not in ANSWERS:
        raise ModelError(
            f"{type(module).__name__} answers with {head.kind}: what is left of them when tokens go"
            f" cannot be measured; {OTHERWISE}"
        )
    if head.kind != NEXT_TOKEN:
        return head.scores
    mask = prepared.arguments.get((spoken.mask if spoken else None) or "attention_mask")
    last = torch.full((len(head.scores),), head.scores.shape[1] - 1)
    if isinstance(mask, Tensor) and mask.shape == head.scores.shape[:2]:
        # Of the last one: a zero between ones hides a token, which keeps its place.
        last = last - mask.flip(1).int().argmax(1).cpu()
    return head.scores[torch.arange(len(last)), last]


def _overwriting(
    module: nn.Module,
    part: nn.Module,
    ids: Tensor,
    silenced: Tensor,
    silence: str,
    heard: list[bool],
) -> list[tuple[nn.Module, str, Any]]:
    """The hooks that overwrite what these ids are looked up as; `heard` notes that they did."""
    table = embeddings_of(part) or embeddings_of(module)
    if table is None:
        raise InputError(
            f"fill={silence!r} overwrites word embeddings, and {type(module).__name__} has no"
            " table of them; fill with 'drop', 'mask' or 'unknown'"
        )
    where = silenced.unsqueeze(-1)

    def overwrite(owner: Any, given: tuple, states: Tensor) -> Tensor | None:
        # Encoders and decoders share a table: only what was looked up for this stream counts.
        if not (given and isinstance(given[0], Tensor) and torch.equal(given[0], ids)):
            return None
        heard.append(True)
        if silence == "zero":
            return states.masked_fill(where, 0)
        # Its own forward: some tables scale what they give.
        everyone = owner.forward(torch.arange(owner.num_embeddings, device=ids.device))
        return torch.where(where, everyone.mean(0), states)

    # Models that tie tables have several modules on one weight, and may call any of them.
    return [
        (owner, "after", overwrite)
        for owner in module.modules()
        if isinstance(owner, nn.Embedding) and owner.weight is table.weight
    ]


def _called(module: nn.Module, prepared: Batch) -> Any:
    try:
        return module(**prepared.arguments)
    except WhyformerError:
        raise
    except (RuntimeError, ValueError, IndexError, TypeError) as error:
        said = (str(error).strip().splitlines() or ["it says nothing"])[0]
        raise ModelError(
            f"{type(module).__name__} failed on what is left of its inputs with"
            f" {type(error).__name__}: {said}. Check that model(**inputs) runs; if it does, keep"
            f" special tokens, fill otherwise, or {OTHERWISE}."
        ) from error


@contextmanager
def _same_lots() -> Iterator[None]:
    """A scope in which a model that draws lots (ViLT, its patches) draws the same every time."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        yield

"""The steps from inputs to an `Attribution` that every way to explain shares."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from torch import nn

from whyformer.attribution import Attribution, Reason
from whyformer.errors import TrustWarning, warn_caller
from whyformer.inputs.batch import Batch
from whyformer.inputs.detect import kind_of
from whyformer.inputs.familiar import TRAINING, unfamiliar_reasons
from whyformer.inputs.prepare import prepare
from whyformer.models.load import Loaded
from whyformer.models.sentence_encoder import SentenceEncoder
from whyformer.models.undo import undo_leftovers
from whyformer.pipeline.answers import Writing, with_answers
from whyformer.pipeline.chat_roles import with_roles
from whyformer.pipeline.explain_batch import Advance, explain_batch
from whyformer.pipeline.request import Request
from whyformer.pipeline.sentence_pairs import PairSimilarity, pair_similarity, split_pairs


def explain_answers(
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


def judge_inputs(
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


def default_kind(model: nn.Module | str | Loaded | None, inputs: Any) -> str | None:
    """The kind of inputs that chooses the bundled model; None if the user named a model."""
    return kind_of(inputs) if model is None else None


@undo_leftovers
def prepare_inputs(
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

"""Pairs of sentences for a sentence model: which tokens make the two alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from whyformer.engine.predict import run_model
from whyformer.engine.scope import borrow_model
from whyformer.inputs.batch import Batch
from whyformer.inputs.detect import is_text_pair, samples_of
from whyformer.models.sentence_encoder import SentenceEncoder


@dataclass(frozen=True)
class PairSimilarity:
    """A target: the similarity of each sentence with the other one of its pair.

    The other sentence is a constant, also if a method removes tokens: the scores of each row are
    those of its own tokens alone.
    """

    encoder: SentenceEncoder
    others: Tensor  # the embedding of the other sentence of each row, (batch, hidden)

    @property
    def __name__(self) -> str:
        """The label of the target."""
        return "similarity"

    def __call__(self, output: dict[str, Tensor]) -> Tensor:
        """Return the similarity of each row, (batch,)."""
        return self.encoder.similarity(output["sentence_embedding"], self.others)


def split_pairs(inputs: Any, module: nn.Module) -> list[str] | None:
    """Return the texts, two rows per pair; None if these are no pairs for a sentence model.

    A sentence model reads each text alone. Other models read a pair as one input.
    """
    if not isinstance(module, SentenceEncoder) or not isinstance(inputs, tuple | list):
        return None
    pairs = samples_of(inputs, "text")
    if not pairs or not all(isinstance(pair, tuple) and is_text_pair(pair) for pair in pairs):
        return None
    return [text for pair in pairs for text in pair]


def pair_similarity(encoder: SentenceEncoder, batch: Batch) -> PairSimilarity:
    """Return the target for a batch in which rows 2i and 2i + 1 are a pair."""
    with borrow_model(encoder):
        embeddings: Tensor = run_model(encoder, batch)["sentence_embedding"]
    others = embeddings.unflatten(0, (-1, 2)).flip(1).flatten(0, 1)
    return PairSimilarity(encoder, others)

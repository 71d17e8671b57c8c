"""Put the roles of a chat's messages on the stream that the messages are in."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from whyformer.attribution import Attribution
from whyformer.inputs.batch import Batch
from whyformer.targets.specs import Answer


def with_roles(attribution: Attribution, batch: Batch, target: Any) -> Attribution:
    """Return the attribution with `roles` on its main stream, if the inputs are chats."""
    if batch.roles is None or batch.mask is None:
        return attribution
    stream = attribution.streams[batch.stream]
    # Prompts with an answer behind them are padded left.
    continued = isinstance(target, Answer) and "generated" not in batch.others
    lengths = batch.mask.sum(1).tolist()
    shifts = [stream.scores.shape[1] - length if continued else 0 for length in lengths]
    roles = tuple(
        tuple((start + shift, end + shift, role) for start, end, role in row)
        for row, shift in zip(batch.roles, shifts, strict=True)
    )
    streams = {**attribution.streams, batch.stream: replace(stream, roles=roles)}
    return replace(attribution, streams=streams)

"""Merge one attribution per generated token into one per text, with an output-by-input matrix."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from whyformer.attribution import Attribution, Stream
from whyformer.targets.generation import GENERATED, Generation


def merge_generated(rows: Attribution, generation: Generation) -> Attribution:
    """Return the attribution of whole texts: `maps["generated", stream]` is (batch, output, input).

    A sample's scores and output are the sums over its generated tokens.
    """
    samples = torch.tensor(generation.samples)
    positions = torch.tensor(generation.positions)
    batch, longest = int(samples.max()) + 1, max(map(len, generation.tokens))
    first = [generation.samples.index(i) for i in range(batch)]

    def sum_rows(values: Tensor) -> Tensor:
        total = values.new_zeros(batch, *values.shape[1:])
        return total.index_add(0, samples, values)

    streams = {name: _merge_stream(one, first, sum_rows) for name, one in rows.streams.items()}
    matrices = {}
    for name, stream in rows.streams.items():
        matrix = stream.scores.new_zeros(batch, longest, stream.scores.shape[1])
        matrix[samples, positions] = stream.scores
        matrices[GENERATED, name] = matrix
    if generation.prompt is not None:
        streams, matrices = _split_prompt(streams, matrices, rows.main, generation.prompt)
    streams[GENERATED] = replace(
        streams[GENERATED],
        said=tuple((*row, *[""] * (longest - len(row))) for row in generation.tokens),
    )
    output = sum_rows(rows.output)
    sinks = {name: sum_rows(sink) for name, sink in rows.sinks.items()}
    conservation = None
    if rows.conservation is not None:
        scores = sum((s.scores.sum(1) for s in streams.values()), torch.zeros_like(output))
        conservation = (scores + sum(sinks.values(), torch.zeros_like(output))) / output
    return replace(
        rows,
        streams=streams,
        target=torch.full((batch,), -1),
        output=output,
        labels=generation.texts,
        conservation=conservation,
        sinks=sinks,
        layers=(),
        maps=matrices,
        trust=rows.trust.merge_rows(generation.samples),
    )


def _merge_stream(
    stream: Stream, first: Sequence[int], sum_rows: Callable[[Tensor], Tensor]
) -> Stream:
    """One stream of the whole samples; all fields but the scores are the same in every row."""

    def take_first(value: Tensor | None) -> Tensor | None:
        return None if value is None else value[list(first)]

    return replace(
        stream,
        scores=sum_rows(stream.scores),
        # The tokens' scores are estimated from the same coalitions, so errors may add up.
        errors=None if stream.errors is None else sum_rows(stream.errors),
        mask=stream.mask[list(first)],
        tokens=stream.tokens and tuple(stream.tokens[i] for i in first),
        word_ids=stream.word_ids and tuple(stream.word_ids[i] for i in first),
        image=take_first(stream.image),
        pixels=None,
        deciding=None,  # differs from row to row
        states=take_first(stream.states),
    )


def _split_prompt(
    streams: dict[str, Stream],
    matrices: dict[tuple[str, str], Tensor],
    main: str,
    prompt: int,
) -> tuple[dict[str, Stream], dict[tuple[str, str], Tensor]]:
    """A decoder's one sequence as two streams: the prompt and the output."""
    whole = streams[main]

    def take_columns(name: str, columns: slice) -> Stream:
        return replace(
            whole,
            name=name,
            scores=whole.scores[:, columns],
            mask=whole.mask[:, columns],
            tokens=whole.tokens and tuple(row[columns] for row in whole.tokens),
            word_ids=whole.word_ids and tuple(row[columns] for row in whole.word_ids),
            states=None if whole.states is None else whole.states[:, columns],
            errors=None if whole.errors is None else whole.errors[:, columns],
        )

    before, after = slice(0, prompt), slice(prompt, None)
    matrix = matrices[GENERATED, main]
    return (
        {**streams, main: take_columns(main, before), GENERATED: take_columns(GENERATED, after)},
        {
            **matrices,
            (GENERATED, main): matrix[:, :, before],
            (GENERATED, GENERATED): matrix[:, :, after],
        },
    )

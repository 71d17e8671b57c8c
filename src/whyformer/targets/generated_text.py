"""One attribution per generated token, put together: a matrix of output by input tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from whyformer.attribution import Attribution, Stream
from whyformer.targets.generation import GENERATED, Generation


def merge_generated(rows: Attribution, generation: Generation) -> Attribution:
    """The attribution of whole texts: `maps["generated", stream]` is (batch, output, input).

    A sample's scores and its value are the sums over its generated tokens.
    """
    samples, places = torch.tensor(generation.sample), torch.tensor(generation.place)
    batch, longest = int(samples.max()) + 1, max(map(len, generation.said))
    first = [generation.sample.index(i) for i in range(batch)]

    def added(values: Tensor) -> Tensor:
        total = values.new_zeros(batch, *values.shape[1:])
        return total.index_add(0, samples, values)

    streams = {name: _summed(stream, first, added) for name, stream in rows.streams.items()}
    matrices = {}
    for name, stream in rows.streams.items():
        matrix = stream.scores.new_zeros(batch, longest, stream.scores.shape[1])
        matrix[samples, places] = stream.scores
        matrices[GENERATED, name] = matrix
    if generation.prompt is not None:
        streams, matrices = _split(streams, matrices, rows.main, generation.prompt)
    streams[GENERATED] = replace(
        streams[GENERATED],
        said=tuple((*row, *[""] * (longest - len(row))) for row in generation.said),
    )
    output = added(rows.output)
    sinks = {name: added(sink) for name, sink in rows.sinks.items()}
    conservation = None
    if rows.conservation is not None:
        shown = sum((s.scores.sum(1) for s in streams.values()), torch.zeros_like(output))
        conservation = (shown + sum(sinks.values(), torch.zeros_like(output))) / output
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
    )


def _summed(stream: Stream, first: Sequence[int], added: Callable[[Tensor], Tensor]) -> Stream:
    """One stream of the whole samples; everything but the scores is the same in every row."""

    def tensor(value: Tensor | None) -> Tensor | None:
        return None if value is None else value[list(first)]

    return replace(
        stream,
        scores=added(stream.scores),
        mask=stream.mask[list(first)],
        tokens=stream.tokens and tuple(stream.tokens[i] for i in first),
        word_ids=stream.word_ids and tuple(stream.word_ids[i] for i in first),
        image=tensor(stream.image),
        pixels=None,
        deciding=None,  # another one in every row
        states=tensor(stream.states),
    )


def _split(
    streams: dict[str, Stream],
    matrices: dict[tuple[str, str], Tensor],
    main: str,
    prompt: int,
) -> tuple[dict[str, Stream], dict[tuple[str, str], Tensor]]:
    """A decoder's one text in two: the prompt, and what was written after it."""
    whole = streams[main]

    def part(name: str, columns: slice) -> Stream:
        return replace(
            whole,
            name=name,
            scores=whole.scores[:, columns],
            mask=whole.mask[:, columns],
            tokens=whole.tokens and tuple(row[columns] for row in whole.tokens),
            word_ids=whole.word_ids and tuple(row[columns] for row in whole.word_ids),
            states=None if whole.states is None else whole.states[:, columns],
        )

    before, behind = slice(0, prompt), slice(prompt, None)
    matrix = matrices[GENERATED, main]
    return (
        {**streams, main: part(main, before), GENERATED: part(GENERATED, behind)},
        {(GENERATED, main): matrix[:, :, before], (GENERATED, GENERATED): matrix[:, :, behind]},
    )

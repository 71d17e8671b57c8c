"""Merge one attribution per row of an answer into one per text, with an output-by-input matrix."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from whyformer.attribution import Attribution, Stream, Trust
from whyformer.attribution.trust import merge_trust
from whyformer.targets.answer_rows import Generation
from whyformer.targets.generation import GENERATED


@dataclass(frozen=True)
class AnswerRow:
    """One row of the answers of some samples, explained.

    Attributes:
        row: The number of the row.
        samples: The samples, in the order of the attribution.
        attribution: The scores of the row; meaningless for a sample with fewer rows.
        probabilities: Of each token of the row, (batch, tokens); None if they are unknown.
    """

    row: int
    samples: tuple[int, ...]
    attribution: Attribution
    probabilities: Tensor | None


def merge_generated(parts: Sequence[AnswerRow], generation: Generation) -> Attribution:
    """Return the attribution of whole texts: `maps["generated", stream]` is (batch, rows, input).

    A sample's scores and output are the sums over its rows.
    """
    table = _Table(parts, generation)
    rows = parts[0].attribution
    streams, matrices = {}, {}
    for name in rows.streams:
        matrices[GENERATED, name] = table.gather(_scores_of(name))
        streams[name] = table.merge_stream(name, matrices[GENERATED, name].sum(1))
    if generation.prompt is not None:
        streams, matrices = _split_prompt(streams, matrices, rows.main, generation.prompt)
    longest = max(map(len, generation.tokens))
    streams[GENERATED] = replace(
        streams[GENERATED],
        said=tuple((*row, *[""] * (longest - len(row))) for row in generation.tokens),
        spans=None if generation.each == "token" else generation.rows,
        probabilities=table.probabilities(longest),
    )
    output = table.gather(lambda a: a.output).sum(1)
    chances = streams[GENERATED].probabilities
    names = dict.fromkeys(name for part in parts for name in part.attribution.sinks)
    sinks = {name: table.gather(_sink_of(name)).sum(1) for name in names}
    conservation = None
    if rows.conservation is not None:
        scores = sum((s.scores.sum(1) for s in streams.values()), torch.zeros_like(output))
        conservation = (scores + sum(sinks.values(), torch.zeros_like(output))) / output
    return replace(
        rows,
        streams=streams,
        target=torch.full((len(generation.texts),), -1),
        output=output,
        labels=generation.texts,
        conservation=conservation,
        probability=None if chances is None else _products(chances, generation),
        sinks=sinks,
        layers=(),
        maps=matrices,
        trust=table.trust(),
    )


def _products(chances: Tensor, generation: Generation) -> Tensor:
    """The probability of each whole text, (batch,): the product over its tokens."""
    both = zip(chances.double(), generation.tokens, strict=True)
    return torch.stack([row[: len(tokens)].prod() for row, tokens in both]).float()


class _Table:
    """The rows of all samples: which part has them, and where."""

    def __init__(self, parts: Sequence[AnswerRow], generation: Generation) -> None:
        self._parts, self._generation = parts, generation
        self._batch = len(generation.texts)
        # The places in each part of the samples that have such a row.
        self._places = [
            [i for i, s in enumerate(one.samples) if one.row < len(generation.rows[s])]
            for one in parts
        ]
        self._first = {
            sample: (one.attribution, place)
            for one in parts
            if one.row == 0
            for place, sample in enumerate(one.samples)
        }

    def gather(self, read: Callable[[Attribution], Tensor]) -> Tensor:
        """Return what `read` gives of every row, (batch, rows, ...); 0 where there is no row."""
        count = max(map(len, self._generation.rows))
        some = read(self._parts[0].attribution)
        whole = some.new_zeros(self._batch, count, *some.shape[1:])
        for part, places in zip(self._parts, self._places, strict=True):
            whole[[part.samples[i] for i in places], part.row] = read(part.attribution)[places]
        return whole

    def merge_stream(self, name: str, scores: Tensor) -> Stream:
        """Return one stream of the whole samples; all but the scores is the same in every row."""

        def each(read: Callable[[Stream], Sequence | Tensor | None]) -> list | None:
            """What `read` gives of each sample, or None if it gives nothing."""
            found = []
            for sample in range(self._batch):
                attribution, place = self._first[sample]
                values = read(attribution.streams[name])
                if values is None:
                    return None
                found.append(values[place])
            return found

        def stack(read: Callable[[Stream], Tensor | None]) -> Tensor | None:
            found = each(read)
            return None if found is None else torch.stack(found)

        tokens, word_ids = each(lambda s: s.tokens), each(lambda s: s.word_ids)
        one = self._parts[0].attribution.streams[name]
        errors = None
        if one.errors is not None:
            # The tokens' scores are estimated from the same coalitions, so errors may add up.
            errors = self.gather(_errors_of(name)).sum(1)
        mask = stack(lambda s: s.mask)
        assert mask is not None
        return replace(
            one,
            scores=scores,
            errors=errors,
            mask=mask,
            tokens=None if tokens is None else tuple(tokens),
            word_ids=None if word_ids is None else tuple(word_ids),
            image=stack(lambda s: s.image),
            pixels=None,
            deciding=None,  # differs from row to row
            states=stack(lambda s: s.states),
        )

    def probabilities(self, longest: int) -> Tensor | None:
        """Return the probability of each generated token, (batch, tokens); 0 at padding."""
        found = torch.zeros(self._batch, longest)
        for part, places in zip(self._parts, self._places, strict=True):
            if part.probabilities is None:
                return None
            for place in places:
                sample = part.samples[place]
                start, end = self._generation.rows[sample][part.row]
                found[sample, start:end] = part.probabilities[place, : end - start]
        return found

    def trust(self) -> Trust:
        """Return the verdict about whole texts, from those about their rows."""
        found: list[tuple[Trust, range]] = []
        samples: list[int] = []
        for part, places in zip(self._parts, self._places, strict=True):
            numbers = range(len(samples), len(samples) + len(places))
            found.append((part.attribution.trust.take(places), numbers))
            samples += [part.samples[i] for i in places]
        return merge_trust(found).merge_rows(samples)


def _scores_of(stream: str) -> Callable[[Attribution], Tensor]:
    return lambda attribution: attribution.streams[stream].scores


def _errors_of(stream: str) -> Callable[[Attribution], Tensor]:
    def read(attribution: Attribution) -> Tensor:
        errors = attribution.streams[stream].errors
        assert errors is not None
        return errors

    return read


def _sink_of(account: str) -> Callable[[Attribution], Tensor]:
    """Read a sink, (batch,); zeros in a row without it."""
    return lambda one: one.sinks.get(account, torch.zeros_like(one.output))


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

"""The explained value as a function of the features that stay: a cooperative game per sample."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from whyformer.engine.passes.forward_only import ForwardPass, forward_only
from whyformer.engine.passes.removed import removed_values, runs_whole
from whyformer.engine.result import MethodResult, Scores
from whyformer.engine.run import Run
from whyformer.engine.segments import Segment
from whyformer.errors import OptionError
from whyformer.inputs.removal import FILLS, Removal, check_fill
from whyformer.methods.perturbation.features import (
    Feature,
    find_features,
    removable_segments,
)
from whyformer.methods.perturbation.units import Division
from whyformer.models.processors import image_processor_of


@dataclass(frozen=True)
class Game:
    """The explained value of every sample with any of its features removed.

    Attributes:
        run: The model on a batch, aimed at the goal.
        forward: The pass on the whole input.
        removal: Removes tokens from the batch.
        segments: The streams that lose tokens.
        features: The features of each sample. They may overlap.
    """

    run: Run
    forward: ForwardPass
    removal: Removal
    segments: Mapping[str, Segment]
    features: tuple[tuple[Feature, ...], ...]

    @property
    def whole(self) -> Tensor:
        """The explained value of the whole inputs, (batch,), in double precision on the CPU."""
        return self.forward.goal.value.detach().cpu().double()

    def values(self, present: Sequence[Tensor]) -> list[Tensor]:
        """Return the explained values of each sample, (coalitions,) each, in double precision.

        Equal coalitions run once, and that of all features not at all.

        Args:
            present: For each sample which features stay, (coalitions, features).
        """
        different = [torch.unique(own, dim=0, return_inverse=True) for own in present]
        jobs = [
            (sample, row)
            for sample, (rows, _) in enumerate(different)
            for row in rows
            if not bool(row.all())
        ]
        if jobs and runs_whole(self.run):  # a pass has every sample, also those without a job
            idle = set(range(self.run.batch.size)) - {sample for sample, _ in jobs}
            jobs += [(i, torch.ones(len(self.features[i]), dtype=torch.bool)) for i in idle]
        grids = {stream: segment.grid for stream, segment in self.segments.items()}
        found = removed_values(
            self.run,
            self.removal,
            [sample for sample, _ in jobs],
            [self._tokens_left(sample, row) for sample, row in jobs],
            grids,
        )
        values = []
        for sample, (rows, places) in enumerate(different):
            own = self.whole[sample].repeat(len(rows))
            mine = torch.tensor([i == sample for i, _ in jobs], dtype=torch.bool)
            own[~rows.all(1)] = found[mine][: int((~rows.all(1)).sum())]
            values.append(own[places])
        return values

    def result(
        self,
        scores: Sequence[Tensor],
        errors: Sequence[Tensor] | None = None,
        sinks: Mapping[str, Tensor] | None = None,
    ) -> MethodResult:
        """Return the features' scores spread evenly over their tokens.

        Args:
            scores: (features,) of each sample.
            errors: The standard error of each score, if it is known.
            sinks: What no token holds, (batch,) by name.
        """
        return MethodResult(
            self.forward,
            self._spread(scores),
            sinks={name: self._narrow(sink) for name, sink in (sinks or {}).items()},
            errors=None if errors is None else self._spread(errors),
        )

    def _tokens_left(self, sample: int, present: Tensor) -> dict[str, Tensor]:
        """By stream which tokens stay, (tokens,): those of no absent feature."""
        kept = {stream: one.mask[sample].cpu().clone() for stream, one in self.segments.items()}
        for feature, stays in zip(self.features[sample], present.tolist(), strict=True):
            if not stays:
                kept[feature.stream][list(feature.columns)] = False
        return kept

    def _spread(self, scores: Sequence[Tensor]) -> Scores:
        """(batch, tokens) by stack: the mean share of a token in the features that have it."""
        layout = self.forward.layout
        total = {
            stack: torch.zeros(self.run.batch.size, count, dtype=torch.float64)
            for stack, count in layout.counts.items()
        }
        times = {stack: torch.zeros_like(sums) for stack, sums in total.items()}
        stacks = {s.stream: stack for stack, every in layout.segments.items() for s in every}
        for sample, own in enumerate(scores):
            for feature, score in zip(self.features[sample], own, strict=True):
                segment = self.segments[feature.stream]
                columns = [segment.column(token) for token in feature.columns]
                total[stacks[feature.stream]][sample, columns] += score / len(columns)
                times[stacks[feature.stream]][sample, columns] += 1
        return {
            stack: self._narrow(sums / times[stack].clamp(min=1)) for stack, sums in total.items()
        }

    def _narrow(self, tensor: Tensor) -> Tensor:
        """The tensor in the precision of the result, on the model's device."""
        value = self.forward.goal.value
        double = value.dtype == torch.float64
        return tensor.to(value.device, torch.float64 if double else torch.float32)


def make_game(run: Run, fill: str | None, unit: Division | None = None, size: int = 1) -> Game:
    """Return the game of a run: run the model once, and divide its inputs into features."""
    forward = forward_only(run)
    run = run.aim_at(forward.goal)
    plain = Removal(run.batch, run.module, run.family)
    segments = removable_segments(run, forward.layout, plain)
    removal = Removal(
        run.batch,
        run.module,
        run.family,
        _fills(run, plain, tuple(segments), fill),
        image_processor_of(None, run.module),
    )
    features = find_features(run, segments, removal, unit, size)
    return Game(run, forward, removal, segments, tuple(features))


def _fills(
    run: Run, removal: Removal, streams: tuple[str, ...], fill: str | None
) -> dict[str, str]:
    """The fill of each stream: the one given where the stream has it, else a default."""
    kinds = {stream: removal.source(stream).kind for stream in streams}
    if fill is not None:
        check_fill(fill)
        if not any(fill in FILLS[kind] for kind in kinds.values()):
            return {streams[0]: fill}  # refused with the fills that this stream has
    fills = {}
    for stream, kind in kinds.items():
        if fill is not None and fill in FILLS[kind]:
            fills[stream] = fill
            if fill == "drop" and _needs_places(run, stream):
                raise OptionError(
                    "fill='drop' moves the remaining tokens, and the target is read at a place"
                    f" among the tokens of '{stream}'",
                    argument="fill",
                    remedy="Leave out fill=, or fill with 'mask', 'unknown', 'zero' or 'mean'",
                )
        elif FILLS[kind][0] == "drop" and _needs_places(run, stream):
            masked = kind == "ids" and getattr(run.batch.tokenizer, "mask_token_id", None)
            fills[stream] = "zero" if not masked else "mask"
        else:
            fills[stream] = FILLS[kind][0]
    return fills


def _needs_places(run: Run, stream: str) -> bool:
    """Whether the target may be read at another token if tokens of this stream are dropped."""
    if runs_whole(run):
        return True
    positions = "generated" if run.batch.of("generated") is not None else run.batch.stream
    at_tokens = any(len(where) > 1 for one in run.target for _, where in one.terms)
    return at_tokens and stream == positions

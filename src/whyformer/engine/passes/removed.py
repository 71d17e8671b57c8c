"""Forward passes on inputs with tokens removed: the explained value of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from whyformer.batching.progress import report_step
from whyformer.engine.half_precision import in_float32
from whyformer.engine.passes.forward_only import make_interception
from whyformer.engine.predict import Overwrite, run_model
from whyformer.engine.rerun import Grids, plan_passes
from whyformer.engine.run import Run
from whyformer.inputs.removal import Removal
from whyformer.models.parts import modules_of
from whyformer.models.undo import use_mode
from whyformer.targets.resolve import resolve

ANOTHER_METHOD = "Use a method that does not remove tokens"

Kept = Mapping[str, Tensor]  # (tokens,) by stream, True at what stays; False at padding


def removed_values(
    run: Run, removal: Removal, samples: Sequence[int], kept: Sequence[Kept], grids: Grids
) -> Tensor:
    """Return the explained value of each input, in double precision on the CPU, (inputs,).

    Args:
        run: The model on a batch, aimed at a goal.
        removal: Removes tokens from the run's batch.
        samples: The sample of the batch that each input is made from.
        kept: What each input keeps of every stream that loses tokens.
        grids: By stream the (rows, columns) of an image's patches.
    """
    values = torch.zeros(len(kept), dtype=torch.float64)
    whole = runs_whole(run)
    passes = _whole_batches(samples, run.batch.size) if whole else plan_passes(removal, kept)
    for number, places in enumerate(passes):
        report_step("removing parts", number, len(passes))
        rows = torch.tensor([samples[place] for place in places])
        masks = {
            stream: torch.stack([kept[place][stream] for place in places]) for stream in kept[0]
        }
        values[places] = _run_once(run, removal, rows, masks, grids)
    return values


def runs_whole(run: Run) -> bool:
    """Return whether every pass must hold each sample of the batch once, in order.

    A callable may know its batch by heart, and some arguments cannot be cut by sample.
    """
    return not isinstance(run.target, list) or not run.batch.can_take_rows(run.module)


def _whole_batches(samples: Sequence[int], size: int) -> list[list[int]]:
    """Passes with every sample once, in order; a sample without inputs left repeats its last."""
    of_sample = [[place for place, row in enumerate(samples) if row == i] for i in range(size)]
    longest = max(map(len, of_sample))
    return [[own[min(turn, len(own) - 1)] for own in of_sample] for turn in range(longest)]


def _run_once(
    run: Run, removal: Removal, rows: Tensor, kept: Mapping[str, Tensor], grids: Grids
) -> Tensor:
    """The explained values of one forward pass, (rows,)."""
    target = run.target
    if isinstance(target, list):
        target = [target[row] for row in rows.tolist()]
    overwrites: dict[str, Overwrite] = {}
    for stream, mask in kept.items():
        read = removal.batch.take(rows).of(stream)
        if read is not None and read.layout is not None:
            mask = read.layout.to_user(mask)
        left = removal.remove(stream, mask, rows, grids.get(stream))
        if left.silenced is not None:
            overwrites[stream] = Overwrite(left.silenced, removal.fill_of(stream))
        # The next stream is removed from what this one left.
        removal, rows = replace(removal, batch=left.batch), torch.arange(len(rows))
    with use_mode(make_interception(run, {}, run.new_ledger())), torch.no_grad():
        with in_float32(modules_of(run.module)):
            output = run_model(run.module, removal.batch, overwrites, ANOTHER_METHOD)
        value = resolve(target, output, run.module, removal.batch).value
    return value.detach().cpu().double()

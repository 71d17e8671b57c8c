"""Attention layers from recorded maps: heads split, maps that ran side by side joined."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from whyformer.attribution import Layer
from whyformer.engine.checkpointing import checkpoint_error
from whyformer.engine.recording import AttentionRecorder
from whyformer.engine.rules.operations.fused_attention import wide_call
from whyformer.engine.rules.operations.stabilise import wide
from whyformer.engine.run import Run
from whyformer.engine.segments import TokenLayout
from whyformer.engine.streamed_layers import AnyLayer, MixedLayer, StreamedLayer, split_heads
from whyformer.engine.structure import Structure, forget_structure
from whyformer.errors import ModelError, UnsuitableMethodError

Maps = Mapping[int, Tensor]  # the gradient or relevance of recorded maps, by their number


def make_layers(
    run: Run,
    layout: TokenLayout,
    recorder: AttentionRecorder,
    structure: Structure | None,
    *,
    sums: Mapping[int, Tensor | None] | None = None,
    states: Mapping[str, Mapping[int, Tensor]] | None = None,
    **parts: Maps,
) -> tuple[AnyLayer, ...]:
    """Return the layers, in the order they ran: maps as (batch, head, query, key).

    Maps that ran side by side are heads of one layer, or samples of one batch. `parts` are the
    gradient and the relevance of the maps, `sums` and `states` the relevance of each layer's block.
    """
    if structure is not None and sum(map(len, structure.layers)) != len(recorder.maps):
        forget_structure(run.module)
        raise ModelError(
            f"{run.name} ran {len(recorder.maps)} attention maps, and {len(structure.samples)} in"
            " a run before: its structure changed between two runs",
            argument="model",
            remedy="Try again; if it happens again, the model's forward is not deterministic",
        )
    if structure is not None and structure.above:
        raise UnsuitableMethodError(
            f"attention runs after the last block of {run.name}, in {', '.join(structure.above)}:"
            " whyformer cannot tell how it continues the maps of the blocks",
            unavailable="maps",
        )
    return tuple(
        _make_layer(
            run,
            layout,
            recorder,
            group,
            structure,
            (sums or {}).get(number),
            {name: t[number] for name, t in (states or {}).items() if number in t},
            parts,
        )
        for number, group in enumerate(recorder.layers(structure.layers if structure else None))
    )


def _make_layer(
    run: Run,
    layout: TokenLayout,
    recorder: AttentionRecorder,
    group: Sequence[int],
    structure: Structure | None,
    relevance_sum: Tensor | None,
    states: Mapping[str, Tensor],
    parts: Mapping[str, Maps],
) -> AnyLayer:
    """One layer: its maps by head, or what they are computed from."""
    (asking, answering), together = recorder.pairs[group[0]]
    call = recorder.calls[group[0]]
    if group[0] in recorder.mixed and (matrix := parts["gradient"].get(group[0])) is not None:
        _check_map(run, layout, tuple(matrix.shape), asking, answering)
        return MixedLayer(matrix, None, asking, answering, together)
    if recorder.dropped.intersection(group, parts.get("gradient", ())):
        raise checkpoint_error(
            f"the target does not read every block of {run.name}, so the maps of the others are"
            " not computed again"
        )
    if call is not None and len(group) == 1:
        _check_map(run, layout, (call.query.shape[-2], call.key.shape[-2]), asking, answering)
        (i,) = group
        slopes = {part: wide(maps[i]) for part, maps in parts.items() if i in maps}
        return StreamedLayer(
            run.batch.size,
            wide_call(call),
            wide(recorder.maps[i].detach()),
            output_gradient=slopes.get("gradient"),
            output_relevance=slopes.get("relevance"),
            relevance_sum=relevance_sum,
            asking=asking,
            answering=answering,
            together=together,
        )
    samples = [None if structure is None else structure.samples[i] for i in group]

    def join(maps: Maps) -> Tensor | None:
        if any(i not in maps for i in group):
            return None
        for i in group:
            _check_map(run, layout, tuple(maps[i].shape), asking, answering)
        return join_maps([wide(maps[i]) for i in group], samples, run.batch.size)

    return Layer(
        attention=join({i: recorder.maps[i].detach() for i in group if i not in recorder.dropped}),
        gradient=join(parts.get("gradient", {})),
        relevance=join(parts.get("relevance", {})),
        relevance_sum=relevance_sum,
        entering=states.get("entering"),
        leaving=states.get("leaving"),
        asking=asking,
        answering=answering,
        together=together,
    )


def join_maps(maps: Sequence[Tensor], samples: Sequence[int | None], batch: int) -> Tensor:
    """Return maps that ran side by side as one, (batch, head, query, key).

    Args:
        maps: Maps with any axes before (query, key); samples come before heads.
        samples: The sample that each map is about, None for a map of all samples.
        batch: The number of samples.
    """
    if all(sample is None for sample in samples):
        return torch.cat([split_heads(one, batch) for one in maps], dim=1)
    rows = []
    for wanted in range(batch):
        own = [split_heads(m, 1) for m, s in zip(maps, samples, strict=True) if s == wanted]
        if not own or None in samples:
            raise ModelError(
                f"one layer has attention maps of samples {list(samples)} for a batch of {batch}:"
                " whyformer cannot put them together",
                argument="inputs",
                remedy="Explain one sample at a time",
            )
        rows.append(torch.cat(own, dim=1))
    return torch.cat(rows)


def _check_map(
    run: Run, layout: TokenLayout, found: tuple[int, ...], asking: str, answering: str
) -> None:
    """Raise UnsuitableMethodError if a map's axes are not the tokens of these stacks."""
    shape = (layout.counts[asking], layout.counts[answering])
    if found[-2:] != shape:
        tokens = (
            f"the {shape[0]} tokens of the model's one stream"
            if run.stacks.only
            else f"the {shape[0]} query tokens of '{asking}' and {shape[1]} keys of '{answering}'"
        )
        raise UnsuitableMethodError(
            f"an attention map of shape {found} does not fit {tokens}: whyformer cannot tell"
            " whose tokens it mixes",
            unavailable="maps",
            remedy="Explain one image at a time" if run.batch.packed else None,
        )

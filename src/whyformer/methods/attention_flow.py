"""Attention flow: maximum flow through the layers of attention (Abnar and Zuidema 2020)."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np
import torch

from whyformer.engine.passes.attentions import attentions
from whyformer.engine.result import MethodResult
from whyformer.engine.run import Run
from whyformer.maximum_flow.residual import Edges
from whyformer.maximum_flow.solver import maximum_flows
from whyformer.methods.attention.mixing import Mixing, head_mean, mixings, moments
from whyformer.methods.attention.walk import read_maps
from whyformer.methods.method import method


@method(
    "attention_flow",
    title="Maximum flow from the deciding token to each input token through the attention maps",
    paper="Abnar and Zuidema 2020; baseline of Ali et al. 2022",
    needs=("attention",),
    signed=False,
    keeps=("maps",),
    slow=True,
)
def attention_flow(
    run: Run, *, start_layer: int = 0, end_layer: int | None = None, reduce: str = "row"
) -> MethodResult:
    """Flow into each token, divided by the sum of all flows.

    Edges carry head-averaged attention plus the skip connection; rows are normalised to 1.
    """
    seen = attentions(run, first=start_layer, end=end_layer)
    found = mixings(seen.layers, ("attention",), head_mean)
    names = dict.fromkeys(stack for mixing in found for stack in mixing.pair)
    counts, masks = seen.layout.counts, seen.layout.masks
    some = found[0].matrix
    maps = {
        (a, b): some.new_zeros(len(some), counts[a], counts[b])
        for a in seen.deciding
        for b in names
    }
    every_row = "maps" in run.keep or reduce != "row"

    def fill(sample: int) -> None:
        real = {name: masks[name][sample].cpu().numpy().nonzero()[0] for name in names}
        graph = _Graph.of(found, sample, real)
        for a, deciding in seen.deciding.items():
            sources = masks[a] if every_row else deciding != 0
            for s in sources[sample].nonzero().flatten().tolist():
                for b, flow in graph.flow(a, int(np.searchsorted(real[a], s))).items():
                    row = torch.from_numpy(flow).to(some)
                    maps[a, b][sample, s, torch.from_numpy(real[b])] = row

    # Nearly all the time goes into numpy's loops, which release the GIL.
    with ThreadPoolExecutor(torch.get_num_threads()) as pool:
        list(pool.map(fill, range(run.batch.size)))
    return read_maps(seen, maps, reduce, keep=every_row)


@dataclass
class _Graph:
    """Every state of every token is a node; each moment adds a group of nodes on top."""

    bottom: dict[str, int] = field(default_factory=dict)  # group of the input nodes, by stack
    top: dict[str, int] = field(default_factory=dict)
    sizes: list[int] = field(default_factory=list)  # tokens of each group
    edges: list[Edges] = field(default_factory=list)

    @classmethod
    def of(cls, found: Sequence[Mixing], sample: int, real: dict[str, np.ndarray]) -> _Graph:
        """The graph of one sample's real tokens."""
        graph = cls()
        for name, tokens in real.items():
            graph.bottom[name] = graph.top[name] = graph._add_group(len(tokens))
        for moment in moments(found):
            below = dict(graph.top)
            for mixing in moment:
                matrix = mixing.matrix[sample].cpu().double().numpy()
                a, b = mixing.pair
                graph._add_layer(a, below[a], below[b], matrix[np.ix_(real[a], real[b])])
        return graph

    def _add_group(self, tokens: int) -> int:
        self.sizes.append(tokens)
        return len(self.sizes) - 1

    def _add_layer(self, asking: str, own: int, below: int, mixing: np.ndarray) -> None:
        """Add nodes for the query tokens, with edges to the keys and to their own last state."""
        new = self.top[asking] = self._add_group(self.sizes[own])
        share = 1 / (1 + mixing.sum(1, keepdims=True))
        skip = np.eye(len(mixing))
        if below == own:
            self.edges.append(Edges(new, own, (mixing + skip) * share))
        else:
            self.edges += [Edges(new, own, skip * share), Edges(new, below, mixing * share)]

    def flow(self, stack: str, token: int) -> dict[str, np.ndarray]:
        """Maximum flow from one top token to each input token, divided by their sum, by stack."""
        source = self.top[stack], token
        found = {
            name: maximum_flows(self.edges, source, group, np.arange(self.sizes[group])).value
            for name, group in self.bottom.items()
        }
        total = sum(flow.sum() for flow in found.values())
        return {name: flow / total for name, flow in found.items()}

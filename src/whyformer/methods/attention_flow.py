"""Attention flow: maximum flow through the layers of attention (Abnar and Zuidema 2020)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from whyformer.capture.capture import Capture, Scores
from whyformer.errors import OptionError
from whyformer.methods.method import method
from whyformer.methods.mixing import Mixing, averaged, mixings, moments


@method(
    "attention_flow",
    title="Maximum flow from the deciding token to each input token through the attention maps",
    paper="Abnar and Zuidema 2020; baseline of Ali et al. 2022",
    promises=("nonnegative",),
)
def attention_flow(
    capture: Capture, *, start_layer: int = 0, end_layer: int | None = None, reduce: str = "row"
) -> Scores:
    """Flow into each token over the sum of all flows.

    Edges carry head-averaged attention plus the skip connection, rows normalised to 1.
    """
    layers = capture.attentions(first=start_layer, end=end_layer)
    found = mixings(layers, ("attention",), averaged)
    names = dict.fromkeys(stack for mixing in found for stack in mixing.pair)
    some = found[0].matrix
    maps = {
        (a, b): some.new_zeros(len(some), capture.tokens[a], capture.tokens[b])
        for a in capture.deciding
        for b in names
    }
    every = "maps" in capture.keep or reduce != "row"
    for i in range(capture.prepared.batch):
        real = {name: capture.masks[name][i].cpu().numpy().nonzero()[0] for name in names}
        graph = _Graph.of(found, i, real)
        for a, deciding in capture.deciding.items():
            asked = capture.masks[a] if every else deciding != 0
            for s in asked[i].nonzero().flatten().tolist():
                for b, flow in graph.flow(a, int(np.searchsorted(real[a], s))).items():
                    maps[a, b][i, s, torch.from_numpy(real[b])] = torch.from_numpy(flow).to(some)
    scores = capture.read_maps(maps, reduce)
    if not every:
        capture.maps.clear()  # only the deciding tokens' rows were worked out
    return scores


@dataclass
class _Graph:
    """Every state of every token as a node; each moment makes new nodes on top of the old."""

    bottom: dict[str, np.ndarray] = field(default_factory=dict)  # input nodes, by stack
    top: dict[str, np.ndarray] = field(default_factory=dict)
    nodes: int = 0
    edges: list[np.ndarray] = field(default_factory=list)
    capacity: list[np.ndarray] = field(default_factory=list)

    @classmethod
    def of(cls, found: Sequence[Mixing], sample: int, real: dict[str, np.ndarray]) -> _Graph:
        """The graph of one sample's real tokens."""
        graph = cls()
        for name, tokens in real.items():
            graph.bottom[name] = graph.top[name] = graph._fresh(len(tokens))
        for moment in moments(found):
            below = dict(graph.top)
            for mixing in moment:
                matrix = mixing.matrix[sample].cpu().double().numpy()
                a, b = mixing.pair
                graph._layer(a, below[a], below[b], matrix[np.ix_(real[a], real[b])])
        return graph

    def _fresh(self, count: int) -> np.ndarray:
        self.nodes += count
        return np.arange(self.nodes - count, self.nodes)

    def _layer(self, asking: str, own: np.ndarray, below: np.ndarray, mixing: np.ndarray) -> None:
        """New nodes for the asking tokens, joined to what they mixed and to what they were."""
        new = self.top[asking] = self._fresh(len(own))
        share = 1 / (1 + mixing.sum(1, keepdims=True))
        if below is own:
            mixing = mixing + np.eye(len(own))
        else:
            self.edges.append(np.stack([new, own], axis=1))
            self.capacity.append(share[:, 0])
        mixing = mixing * share
        rows, columns = np.nonzero(mixing)
        self.edges.append(np.stack([new[rows], below[columns]], axis=1))
        self.capacity.append(mixing[rows, columns])

    def flow(self, stack: str, token: int) -> dict[str, np.ndarray]:
        """Maximum flow from one top token to each input token, over their sum, by stack."""
        try:
            import igraph
        except ImportError as error:
            raise OptionError(
                "attention_flow needs the package igraph: pip install 'whyformer[flow]'"
            ) from error
        graph = igraph.Graph(n=self.nodes, edges=np.concatenate(self.edges), directed=True)
        capacity = np.concatenate(self.capacity).tolist()
        source = int(self.top[stack][token])
        found = {
            name: np.array([graph.maxflow_value(source, int(sink), capacity) for sink in nodes])
            for name, nodes in self.bottom.items()
        }
        total = sum(flow.sum() for flow in found.values())
        return {name: flow / total for name, flow in found.items()}

"""Attention flow: maximum flow through the layers of attention (Abnar and Zuidema 2020)."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from whyformer.capture.capture import Capture
from whyformer.errors import OptionError
from whyformer.methods.method import method


@method(
    "attention_flow",
    title="Maximum flow from the deciding token to each input token through the attention maps",
    paper="Abnar and Zuidema 2020; baseline of Ali et al. 2022",
    promises=("nonnegative",),
)
def attention_flow(
    capture: Capture, *, start_layer: int = 0, end_layer: int | None = None, reduce: str = "row"
) -> Tensor:
    """Flow into each token over the sum of all flows, (batch, tokens).

    Edges carry head-averaged attention plus the skip connection, rows normalised to 1.
    """
    layers = capture.attentions(first=start_layer, end=end_layer)
    mixing = torch.stack([layer.read("attention")[0].mean(1) for layer in layers], dim=1)
    mixing = mixing + torch.eye(mixing.shape[-1], dtype=mixing.dtype, device=mixing.device)
    mixing = mixing / mixing.sum(-1, keepdim=True)
    start = capture.rows(reduce)
    rows = torch.zeros_like(start)
    for i, real in enumerate(capture.mask.cpu()):
        kept = real.nonzero().flatten()
        graph = mixing[i].cpu()[:, kept][:, :, kept].double().numpy()
        asked = start[i].cpu()[:, kept]
        flows = {int(s): _flow(graph, int(s)) for s in asked.any(0).nonzero().flatten()}
        for r, weights in enumerate(asked):
            total = sum(float(weights[s]) * flow for s, flow in flows.items())
            rows[i, r, kept] = torch.as_tensor(total, dtype=rows.dtype, device=rows.device)
    return capture.read_out(rows, reduce)


def _flow(mixing: np.ndarray, source: int) -> np.ndarray:
    """Maximum flow from one top token to each input token, over their sum, (tokens,)."""
    try:
        import igraph
    except ImportError as error:
        raise OptionError(
            "attention_flow needs the package igraph: pip install 'whyformer[flow]'"
        ) from error
    layers, tokens, _ = mixing.shape
    layer, asking, answering = np.nonzero(mixing)
    edges = np.stack([(layer + 1) * tokens + asking, layer * tokens + answering], axis=1)
    graph = igraph.Graph(n=(layers + 1) * tokens, edges=edges, directed=True)
    capacity = mixing[layer, asking, answering].tolist()
    top = layers * tokens + source
    flow = np.array([graph.maxflow_value(top, sink, capacity) for sink in range(tokens)])
    return flow / flow.sum()

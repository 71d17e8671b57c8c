"""The other packages to compare with (peers), and which of our methods computes the same quantity.

A peer is imported when it is measured. If it cannot be imported or fails on the model, the table
shows its error message.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

import stand_ins
from long_inputs import textbook
from subjects import Subject

Job = Callable[[], Tensor]  # scores, (batch, token)


@dataclass(frozen=True)
class Peer:
    """Another package's implementation of one of our methods."""

    name: str
    package: str | None  # on PyPI; None if it is implemented here
    load: Callable[[], str]  # imports it; returns the import problem that was worked around, if any
    make: Callable[[Subject, int], Job]  # (subject, steps of an integral)
    method: str
    compared: str
    options: dict[str, Any] = field(default_factory=dict)
    same: bool = True  # whether both compute the same quantity, so that scores must agree
    shapes: tuple[str, ...] = ("bert", "vit")


def captum_gradient_x_input(subject: Subject, steps: int) -> Job:
    from captum.attr import InputXGradient

    peer = InputXGradient(subject.logits)
    return lambda: subject.scores(
        peer.attribute(subject.states().requires_grad_(), target=0).sum(-1)
    )


def captum_integrated_gradients(subject: Subject, steps: int, at_once: int | None) -> Job:
    from captum.attr import IntegratedGradients

    peer = IntegratedGradients(subject.logits)

    def job() -> Tensor:
        found = peer.attribute(
            subject.states().requires_grad_(),
            baselines=subject.states(silent=True),
            target=0,
            n_steps=steps,
            internal_batch_size=at_once,
        )
        return subject.scores(found.sum(-1))

    return job


def captum_grad_cam(subject: Subject, steps: int) -> Job:
    from captum.attr import LayerGradCam

    layer = subject.eager.get_submodule(subject.last_attention)
    peer = LayerGradCam(partial(subject.decide, subject.eager), layer)

    def job() -> Tensor:
        # The weights are frozen: without a gradient to the states, no gradient reaches the map.
        states = subject.states().requires_grad_()
        _, cam = peer.attribute(states, target=0, relu_attributions=True)
        return subject.scores(cam[:, 0, 0] / subject.heads)

    return job


def zennit_gradient_x_input(subject: Subject, steps: int) -> Job:
    from zennit.attribution import Gradient

    peer = Gradient(_Decide(subject), attr_output=_first_label)

    def job() -> Tensor:
        states = subject.states()
        _, gradient = peer(states)
        return subject.scores((states * gradient).sum(-1))

    return job


def zennit_integrated_gradients(subject: Subject, steps: int) -> Job:
    from zennit.attribution import IntegratedGradients

    def job() -> Tensor:
        start = subject.states(silent=True)
        peer = IntegratedGradients(
            _Decide(subject),
            attr_output=_first_label,
            baseline_fn=lambda states: start,
            n_iter=steps,
        )
        return subject.scores(peer(subject.states())[1].sum(-1))

    return job


def auto_lrp(subject: Subject, steps: int, recipe: str) -> Job:
    import autolrp

    config = getattr(autolrp.LRPConfig, recipe)()

    def job() -> Tensor:
        states = autolrp.tensor(subject.states())
        subject.logits(states)[0, 0].lrp(config=config)  # type: ignore[attr-defined]
        return subject.scores(states.relevance.as_subclass(Tensor).sum(-1))

    return job


def lxt_attn_lrp(subject: Subject, steps: int) -> Job:
    config = copy.deepcopy(subject.model.config)
    config.position_embedding_type = "absolute"  # an option that transformers 5 no longer has
    with _patched_by_lxt() as modeling:
        model = modeling.BertForSequenceClassification(config)
        model.load_state_dict(subject.model.state_dict())
    model.eval().requires_grad_(False)

    def job() -> Tensor:
        states = subject.states().requires_grad_()
        with _patched_by_lxt():
            value = subject.decide(model, states)[:, 0].sum()
            (gradient,) = torch.autograd.grad(value, states)
        return subject.scores((states * gradient).sum(-1))

    return job


def textbook_gae(subject: Subject, steps: int) -> Job:
    def job() -> Tensor:
        return subject.scores(textbook(subject.eager, subject.inputs).unsqueeze(0))

    return job


class _Decide(nn.Module):
    """From states to logits as a module, for peers that need one."""

    def __init__(self, subject: Subject) -> None:
        super().__init__()
        self.model, self.decide = subject.model, subject.decide

    def forward(self, states: Tensor) -> Tensor:
        return self.decide(self.model, states)


def _first_label(logits: Tensor) -> Tensor:
    wanted = torch.zeros_like(logits)
    wanted[:, 0] = 1
    return wanted


@contextmanager
def _patched_by_lxt() -> Iterator[Any]:
    """Patch transformers' BERT as LXT does, and undo it afterwards for the other peers."""
    from lxt.efficient import monkey_patch
    from transformers.models.bert import modeling_bert

    before = dict(vars(modeling_bert))
    forwards = {kind: kind.forward for kind in (nn.LayerNorm, nn.Dropout)}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            monkey_patch(modeling_bert)
        yield modeling_bert
    finally:
        vars(modeling_bert).clear()
        vars(modeling_bert).update(before)
        for kind, forward in forwards.items():
            kind.forward = forward  # type: ignore[method-assign]


PEERS = (
    Peer(
        "Captum InputXGradient",
        "captum",
        stand_ins.captum,
        captum_gradient_x_input,
        "gradient_x_input",
        "the same at the token states",
    ),
    Peer(
        "zennit Gradient",
        "zennit",
        stand_ins.zennit,
        zennit_gradient_x_input,
        "gradient_x_input",
        "its gradient times the token states; its rules for modules do not reach the products"
        " and the softmax inside attention",
    ),
    Peer(
        "Captum IntegratedGradients, one step at a time",
        "captum",
        stand_ins.captum,
        partial(captum_integrated_gradients, at_once=1),
        "integrated_gradients",
        "equal steps at the same points; ours takes as many at once as 1,024 tokens hold",
    ),
    Peer(
        "Captum IntegratedGradients, all steps at once",
        "captum",
        stand_ins.captum,
        partial(captum_integrated_gradients, at_once=None),
        "integrated_gradients",
        "the same steps in one batch; ours takes as many at once as 1,024 tokens hold",
    ),
    Peer(
        "zennit IntegratedGradients",
        "zennit",
        stand_ins.zennit,
        zennit_integrated_gradients,
        "integrated_gradients",
        "equal steps, evenly spaced: another sum for the same integral",
        same=False,
    ),
    Peer(
        "Captum LayerGradCam",
        "captum",
        stand_ins.captum,
        captum_grad_cam,
        "grad_cam",
        'at the last attention map with `weights="map"`, where it is the same formula but for'
        " the number of heads",
        {"weights": "map"},
    ),
    Peer(
        "textbook GAE",
        None,
        str,
        textbook_gae,
        "gae",
        "`output_attentions=True`, gradients of all maps, one product per layer",
    ),
    Peer(
        "LXT AttnLRP",
        "lxt",
        stand_ins.lxt,
        lxt_attn_lrp,
        "attn_lrp",
        "`lxt.efficient` on BERT, patched while it runs",
        shapes=("bert",),
    ),
    Peer(
        "autoLRP AttnLRP",
        "autolrp",
        stand_ins.autolrp,
        partial(auto_lrp, recipe="attnlrp"),
        "attn_lrp",
        "its recipe of that name; sums and norms follow rules of its own, scores differ",
        same=False,
    ),
    Peer(
        "autoLRP CP-LRP",
        "autolrp",
        stand_ins.autolrp,
        partial(auto_lrp, recipe="cplrp"),
        "lrp_ah_ln",
        "its recipe for Ali et al. 2022; sums and norms follow rules of its own, scores differ",
        same=False,
    ),
)

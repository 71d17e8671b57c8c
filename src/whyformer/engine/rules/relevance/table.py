"""The table of relevance rules (Chefer et al., CVPR 2021).

Two variants: "ours" is the paper's method, "orig" has the rules of its LRP baselines, which differ
in linear layers and in sums.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from whyformer.engine.rules.attention_maps import Hold, Record
from whyformer.engine.rules.operations import tensor_tags as tags
from whyformer.engine.rules.operations.names import (
    ACTIVATION,
    ADD,
    ADD_INTO,
    ADD_UP,
    CHOOSE,
    CONVOLUTION,
    DIVIDE,
    JOIN,
    MATMUL,
    MULTIPLY,
    NEGATE,
    NORM,
    POINTWISE_LINEAR,
    POOLING,
    POWER,
    RESAMPLE,
    REVERSED_SUBTRACT,
    SELECT_LARGEST,
    SOFTMAX,
    SQUASHING,
    STATISTIC,
    SUBTRACT,
    Function,
    RuleTable,
)
from whyformer.engine.rules.relevance import elementwise, products, shares
from whyformer.engine.rules.relevance.attention import fused_attention
from whyformer.engine.rules.relevance.context import LinearRule, RuleContext
from whyformer.engine.rules.relevance.switch import Direction

LINEAR_RULES: dict[str, LinearRule] = {
    "ours": shares.positive_linear,
    "orig": lambda relevance, x, w, *_: shares.separate_linear(relevance, x, w),
}


def relevance_table(direction: Direction, variant: str, record: Record, hold: Hold) -> RuleTable:
    """{operation: rule} of the variant "ours" or "orig"; operations that rearrange need no rule."""
    context = RuleContext(direction, record, hold, LINEAR_RULES[variant], variant == "ours")

    def with_context(rule: Function, **settings: Any) -> Function:
        return partial(rule, context, **settings)

    pass_through = with_context(elementwise.pass_through)
    return {
        **dict.fromkeys(POINTWISE_LINEAR | NORM | NEGATE | ACTIVATION, pass_through),
        **dict.fromkeys(SQUASHING, partial(pass_through, tag=tags.SQUASHED)),
        **dict.fromkeys(SOFTMAX, partial(pass_through, tag=tags.ATTENTION)),
        **dict.fromkeys(STATISTIC, with_context(elementwise.statistic)),
        **dict.fromkeys(POWER, with_context(elementwise.power)),
        **dict.fromkeys(ADD, with_context(elementwise.add)),
        **dict.fromkeys(SUBTRACT, with_context(elementwise.add, sign=-1)),
        **dict.fromkeys(REVERSED_SUBTRACT, with_context(elementwise.reversed_subtract)),
        **dict.fromkeys(MULTIPLY, with_context(elementwise.multiply)),
        **dict.fromkeys(DIVIDE, with_context(elementwise.divide)),
        **dict.fromkeys(MATMUL, with_context(products.matmul)),
        **dict.fromkeys(ADD_UP | POOLING | RESAMPLE, with_context(elementwise.add_up)),
        **dict.fromkeys(ADD_INTO, with_context(elementwise.add_into)),
        **dict.fromkeys(JOIN | CHOOSE | SELECT_LARGEST, elementwise.keep_backward),
        **dict.fromkeys(CONVOLUTION, with_context(products.convolution)),
        **dict.fromkeys((torch.addmm, Tensor.addmm), with_context(products.addmm)),
        F.linear: with_context(products.linear),
        F.scaled_dot_product_attention: with_context(fused_attention),
        torch.einsum: with_context(products.einsum),
    }

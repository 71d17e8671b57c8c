"""The relevance tier, operation by operation: value, gradient and relevance against plain twins.

Each twin lists the contributions to an output and shares its relevance among them. What the
shares themselves are is in test_shares.py; here it is that every spelling of an operation gets
the right one, inside a real interception.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from whyformer.engine.interception import Interception
from whyformer.engine.rules.ledger import Ledger
from whyformer.engine.rules.operations import tensor_tags as tags
from whyformer.engine.rules.operations.fused_attention import FusedCall
from whyformer.engine.rules.relevance.switch import Direction, run_without_rule
from whyformer.engine.rules.relevance.table import relevance_table
from whyformer.errors import ModelError

Random = Callable[..., Tensor]
SCALE = 1 / math.sqrt(4)


def spelled_out(call: FusedCall, run: Callable[[FusedCall], Tensor]) -> None:
    """Holds no fused attention: its maps are recorded."""


class Sent(NamedTuple):
    relevance: tuple[Tensor, ...]  # of each input
    maps: list[Tensor]  # attention maps seen on the way


def sent_back(
    function: Callable[..., Tensor],
    inputs: tuple[Tensor, ...],
    relevance: Tensor,
    rules: str = "ours",
    batch_first: bool = True,
) -> Sent:
    """Where the output's relevance goes; value and gradient are held against a plain run."""
    batch = inputs[0].shape[0 if batch_first else 1]
    direction, maps = Direction(), []
    table = relevance_table(direction, rules, lambda a: maps.append(a) or a, spelled_out)
    leaves = tuple(tags.add_tag(x.clone().requires_grad_(), tags.LEAF) for x in inputs)
    copies = [leaf.clone() for leaf in leaves]  # what a function is given it may write into
    ledger = Ledger(batch, batch_first, active=False)
    with Interception(table, ledger, double=True, fallback=partial(run_without_rule, direction)):
        output = function(*copies)
    grad = partial(torch.autograd.grad, allow_unused=True, materialize_grads=True)

    plain = tuple(x.clone().requires_grad_() for x in inputs)
    expected = function(*(x.clone() for x in plain))
    torch.testing.assert_close(output, expected, rtol=1e-12, atol=1e-12)
    for ours, theirs in zip(
        grad(output, leaves, relevance, retain_graph=True),
        grad(expected, plain, relevance),
        strict=True,
    ):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)
    direction.relevance = True
    return Sent(grad(output, leaves, relevance), maps)


def close(found: Tensor, expected: Tensor) -> None:
    """Equal but for what the stabiliser moves, which the twins have not."""
    largest = float(expected.abs().max())
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-5 * max(largest, 1e-3))


def weights(random: Random, *shapes: tuple[int, ...]) -> list[nn.Parameter]:
    return [nn.Parameter(random(*shape)) for shape in shapes]


# -- the twins -----------------------------------------------------------------------------------


def among(contributions: Tensor, relevance: Tensor) -> Tensor:
    """Relevance (..., output) shared among contributions (..., output, input), (..., input)."""
    total = contributions.sum(-1)
    share = torch.where(total == 0, 0, relevance / total.masked_fill(total == 0, 1))
    return (contributions * share.unsqueeze(-1)).sum(-2)


def linear(x: Tensor, w: Tensor, relevance: Tensor, rules: str = "ours") -> Tensor:
    """The inputs' relevance for y = x w^T + anything."""
    contributions = x.unsqueeze(-2) * w
    if rules == "ours":
        return among(contributions.clamp(min=0), relevance)
    positive = (x > 0).unsqueeze(-2)
    halves = contributions.clamp(min=0) * positive, contributions.clamp(min=0) * ~positive
    return sum(among(half, relevance) for half in halves)  # type: ignore[return-value]


def linear_map(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """The matrix (output, input) of a linear function of one sample."""
    zero = torch.zeros_like(x)
    jacobian = torch.autograd.functional.jacobian(function, zero)
    return jacobian.reshape(-1, x.numel())


def matmul(left: Tensor, right: Tensor, relevance: Tensor) -> tuple[Tensor, Tensor]:
    contributions = left.unsqueeze(-2) * right.transpose(-2, -1).unsqueeze(-3)  # (..., i, j, k)
    total = contributions.sum(-1)
    share = torch.where(total == 0, 0, relevance / total.masked_fill(total == 0, 1))
    parts = contributions * share.unsqueeze(-1) / 2
    return parts.sum(-2), parts.sum(-3).transpose(-2, -1)


def add(left: Tensor, right: Tensor, relevance: Tensor, rules: str = "ours") -> tuple[Tensor, ...]:
    parts = [relevance * x / (left + right) for x in (left, right)]
    if rules == "orig":
        return tuple(parts)
    sums = [part.flatten(1).sum(1) for part in parts]
    size = sums[0].abs() + sums[1].abs()
    whole = relevance.flatten(1).sum(1)
    shape = (-1, *[1] * (left.dim() - 1))
    return tuple(
        part * (total.abs() / size * whole / total).nan_to_num(0).reshape(shape)
        for part, total in zip(parts, sums, strict=True)
    )


def attention(
    q: Tensor, k: Tensor, v: Tensor, relevance: Tensor, mask: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Relevance of queries, keys and values, (batch, head, token, width) each."""
    scores = q @ k.transpose(-2, -1)
    if mask is not None and mask.dtype != torch.bool:
        weighted = torch.softmax(scores * SCALE + mask, -1)
    else:
        hidden = scores * SCALE if mask is None else (scores * SCALE).masked_fill(~mask, -torch.inf)
        weighted = torch.softmax(hidden, -1)
    to_weights, to_values = matmul(weighted, v, relevance)
    if mask is not None and mask.dtype != torch.bool:
        finite = mask.clamp(min=torch.finfo(mask.dtype).min).expand_as(scores)
        to_weights = add(scores * SCALE, finite, to_weights)[0]
    to_queries, to_keys = matmul(q, k.transpose(-2, -1), to_weights)
    return to_queries, to_keys.transpose(-2, -1), to_values


# -- linear layers -------------------------------------------------------------------------------

LINEAR: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "linear": lambda x, w, b: F.linear(x, w, b),
    "keywords": lambda x, w, b: F.linear(input=x, weight=w, bias=b),
    "no_bias": lambda x, w, b: F.linear(x, w),
    "addmm": lambda x, w, b: torch.addmm(b, x.reshape(-1, 4), w.t()).reshape(2, 3, 5),
    "addmm_method": lambda x, w, b: b.addmm(x.reshape(-1, 4), w.t()).reshape(2, 3, 5),
    "transposed_property": lambda x, w, b: x @ w.T + b,
    "last_axes_transposed": lambda x, w, b: x @ w.mT + b,
    "matmul": lambda x, w, b: torch.matmul(x, w.transpose(0, 1)) + b,
    "mm": lambda x, w, b: (torch.mm(x.reshape(-1, 4), w.t()) + b).reshape(2, 3, 5),
    "bias_first": lambda x, w, b: b + x @ w.t(),
    "bias_in_place": lambda x, w, b: (x @ w.t()).add_(b),
    "bias_subtracted": lambda x, w, b: x @ w.t() - b,
    "data": lambda x, w, b: x @ w.data.t() + b,
    "derived": lambda x, w, b: x @ (w * 1.0).t() + b,
    "weight_first": lambda x, w, b: (w @ x.transpose(1, 2)).transpose(1, 2) + b,
    "einsum": lambda x, w, b: torch.einsum("bti,oi->bto", x, w) + b,
    "einsum_of_a_list": lambda x, w, b: torch.einsum("oi,bti->bto", [w, x]) + b,
    "pointwise_convolution": lambda x, w, b: F.conv1d(
        x.transpose(1, 2), w.unsqueeze(2), b
    ).transpose(1, 2),
}


@pytest.mark.parametrize("rules", ["ours", "orig"])
@pytest.mark.parametrize(
    "spelling",
    LINEAR,
)
def test_linear(random: Random, spelling: str, rules: str) -> None:
    x, relevance = random(2, 3, 4), random(2, 3, 5)
    w, b = weights(random, (5, 4), (5,))
    sent = sent_back(lambda x: LINEAR[spelling](x, w, b), (x,), relevance, rules)
    close(sent.relevance[0], linear(x, w.detach(), relevance, rules))


def test_linear_module(random: Random) -> None:
    x, relevance = random(2, 3, 4), random(2, 3, 5)
    layer = nn.Linear(4, 5).double()
    sent = sent_back(layer, (x,), relevance)
    close(sent.relevance[0], linear(x, layer.weight.detach(), relevance))


def test_rows_without_relevance_pass_none(random: Random) -> None:
    """A class-token head: all but one row costs nothing, and gets nothing."""
    x, relevance = random(2, 3, 4), random(2, 3, 5)
    relevance[:, 1:] = 0
    w, b = weights(random, (5, 4), (5,))
    found = sent_back(lambda x: F.linear(x, w, b), (x,), relevance).relevance[0]
    assert (found[:, 1:] == 0).all()
    close(found, linear(x, w.detach(), relevance))


def test_linear_of_a_vector_per_sample(random: Random) -> None:
    x, relevance = random(2, 4), random(2, 5)
    (w,) = weights(random, (5, 4))
    close(
        sent_back(lambda x: F.linear(x, w), (x,), relevance).relevance[0],
        linear(x, w.detach(), relevance),
    )


def test_a_weight_need_not_be_a_parameter(random: Random) -> None:
    """A buffer, or a frozen weight out of another library."""
    x, w, relevance = random(2, 3, 4), random(4, 5), random(2, 3, 5)
    found = sent_back(lambda x: x @ w, (x,), relevance).relevance[0]
    close(found, linear(x, w.t(), relevance))


def test_a_bias_is_a_bias_in_a_batch_of_one(random: Random) -> None:
    x, relevance = random(1, 4), random(1, 5)
    w, b = weights(random, (4, 5), (5,))
    close(
        sent_back(lambda x: x @ w + b, (x,), relevance).relevance[0],
        linear(x, w.detach().t(), relevance),
    )


def test_a_weight_that_depends_on_the_tokens_is_a_factor(random: Random) -> None:
    """Prototypes or a similarity: as a product of two activations, whatever it is spelled like."""
    x, y, relevance = random(1, 3, 4), random(1, 5, 4), random(1, 3, 5)
    spelled = sent_back(lambda x, y: F.linear(x, y[0]), (x, y), relevance)
    for found, expected in zip(spelled.relevance, matmul(x, y.mT, relevance), strict=True):
        close(found, expected if found is spelled.relevance[0] else expected.mT)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])
def test_units_without_a_positive_contribution_pass_nothing_on(dtype: torch.dtype) -> None:
    """Few inputs are active, as behind a ReLU, and for some outputs none of them speaks."""
    generator = torch.Generator().manual_seed(0)
    x = torch.zeros(8, 64, dtype=dtype)
    x[:, :2] = torch.rand(8, 2, generator=generator)
    w, b = (torch.randn(shape, generator=generator).to(dtype) for shape in ((64, 64), (64,)))
    relevance = torch.rand(8, 64, generator=generator).to(dtype)
    direction, leaf = Direction(), tags.add_tag(x.clone().requires_grad_(), tags.LEAF)
    table = relevance_table(direction, "ours", lambda a: a, spelled_out)
    with Interception(table, Ledger(8, active=False)):
        output = F.linear(leaf, w, b)
    direction.relevance = True
    (found,) = torch.autograd.grad(output, leaf, relevance)
    expected = linear(x.double(), w.double(), relevance.double())
    torch.testing.assert_close(found.double(), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "places",
    [{"stride": 2}, {"padding": 1}, {"dilation": 2}, {"groups": 2}],
    ids=["stride", "padding", "dilation", "groups"],
)
@pytest.mark.parametrize("rules", ["ours", "orig"])
def test_convolution_is_linear(random: Random, rules: str, places: dict[str, int]) -> None:
    x = random(2, 2, 4, 4)
    (w,) = weights(random, (4, 2 // places.get("groups", 1), 2, 2))
    (b,) = weights(random, (4,))
    relevance = random(*F.conv2d(x, w, b, **places).shape)
    found = sent_back(lambda x: F.conv2d(x, w, b, **places), (x,), relevance, rules).relevance[0]
    for i in range(2):
        dense = linear_map(lambda x: F.conv2d(x.unsqueeze(0), w, **places), x[i]).detach()
        expected = linear(x[i].flatten(), dense, relevance[i].flatten(), rules)
        close(found[i].flatten(), expected)


def test_convolution_of_pixels(random: Random) -> None:
    """The image itself is in a box: from each image's own minimum to its own maximum."""
    x, relevance = random(2, 3, 4, 4), random(2, 5, 2, 2)
    w, b = weights(random, (5, 3, 2, 2), (5,))
    direction = Direction()
    leaf = tags.add_tag(x.clone().requires_grad_(), tags.PIXELS)
    table = relevance_table(direction, "orig", lambda a: a, spelled_out)
    with Interception(table, Ledger(2, active=False), double=True):
        output = F.conv2d(leaf, w, b, stride=2)
    direction.relevance = True
    (found,) = torch.autograd.grad(output, leaf, relevance)
    for i in range(2):
        dense = linear_map(lambda x: F.conv2d(x.unsqueeze(0), w, stride=2), x[i]).detach()
        low, high = x[i].min(), x[i].max()
        contributions = (
            x[i].flatten() * dense - low * dense.clamp(min=0) - high * dense.clamp(max=0)
        )
        close(found[i].flatten(), among(contributions, relevance[i].flatten()))


# -- moving things about -------------------------------------------------------------------------

QKV: dict[str, Callable[[Tensor], Any]] = {
    "split": lambda y: y.split(4, dim=-1),
    "split_function": lambda y: torch.split(y, [4, 4, 4], -1),
    "chunk": lambda y: y.chunk(3, dim=-1),
    "reshape_and_unbind": lambda y: y.reshape(2, 3, 3, 4).unbind(2),
    "permute_and_index": lambda y: tuple(
        y.reshape(2, 3, 3, 4).permute(2, 0, 1, 3)[i] for i in range(3)
    ),
    "slices": lambda y: (y[..., :4], y[..., 4:8], y[..., 8:]),
}


@pytest.mark.parametrize("cut", QKV)
def test_fused_qkv(random: Random, cut: str) -> None:
    """One layer makes queries, keys and values: it collects the relevance of all three."""
    x, relevance = random(2, 3, 4), random(2, 3, 4)
    w, b = weights(random, (12, 4), (12,))

    def attend(x: Tensor) -> Tensor:
        q, k, v = QKV[cut](F.linear(x, w, b))
        return torch.softmax(q @ k.transpose(-2, -1) * SCALE, -1) @ v

    q, k, v = F.linear(x, w, b).detach().split(4, -1)
    parts = attention(q.unsqueeze(1), k.unsqueeze(1), v.unsqueeze(1), relevance.unsqueeze(1))
    expected = linear(x, w.detach(), torch.cat([part.squeeze(1) for part in parts], -1))
    sent = sent_back(attend, (x,), relevance)
    close(sent.relevance[0], expected)
    assert len(sent.maps) == 1


@pytest.mark.parametrize("join", [torch.cat, torch.concat, torch.concatenate])
def test_concatenation(random: Random, join: Callable[..., Tensor]) -> None:
    """Each part has its own; a class token that is a parameter keeps what is its."""
    x, y, relevance = random(2, 3, 4), random(2, 2, 4), random(2, 6, 4)
    (token,) = weights(random, (1, 1, 4))
    sent = sent_back(lambda x, y: join((token.expand(2, -1, -1), x, y), dim=1), (x, y), relevance)
    close(sent.relevance[0], relevance[:, 1:4])
    close(sent.relevance[1], relevance[:, 4:])


def test_stack(random: Random) -> None:
    x, y, relevance = random(2, 4), random(2, 4), random(2, 2, 4)
    sent = sent_back(lambda x, y: torch.stack([x, y], 1), (x, y), relevance)
    close(torch.stack(sent.relevance, 1), relevance)


SELECT: dict[str, Callable[[Tensor], Tensor]] = {
    "index": lambda x: x[:, 0],
    "select": lambda x: x.select(1, 0),
    "narrow": lambda x: x.narrow(1, 0, 1).squeeze(1),
    "index_select": lambda x: x.index_select(1, torch.tensor([0])).squeeze(1),
    "gather": lambda x: x.gather(1, torch.zeros(2, 1, 4, dtype=torch.long)).squeeze(1),
    "positions": lambda x: x[torch.arange(2), torch.tensor([0, 0])],
    "unbind": lambda x: x.unbind(1)[0],
}


@pytest.mark.parametrize("how", SELECT)
def test_class_token(random: Random, how: str) -> None:
    x, relevance = random(2, 3, 4), random(2, 4)
    found = sent_back(SELECT[how], (x,), relevance).relevance[0]
    close(found[:, 0], relevance)
    assert (found[:, 1:] == 0).all()


def test_fan_out_adds_up(random: Random) -> None:
    x, relevance = random(2, 3, 4), random(2, 6, 4)
    found = sent_back(lambda x: torch.cat((x, x), 1), (x,), relevance).relevance[0]
    close(found, relevance[:, :3] + relevance[:, 3:])


def test_repeated_key_value_heads(random: Random) -> None:
    x, relevance = random(2, 1, 3, 4), random(2, 2, 3, 4)
    for repeat in (
        lambda x: x.repeat_interleave(2, dim=1),
        lambda x: x.expand(-1, 2, -1, -1),
        lambda x: x[:, :, None].expand(2, 1, 2, 3, 4).reshape(2, 2, 3, 4),
    ):
        close(sent_back(repeat, (x,), relevance).relevance[0], relevance.sum(1, keepdim=True))


# -- averages ------------------------------------------------------------------------------------

MASK = torch.tensor([[1, 1, 1], [1, 1, 0]])
MEAN: dict[str, Callable[[Tensor], Tensor]] = {
    "method": lambda x: x.mean(1),
    "function": lambda x: torch.mean(x, dim=1),
    "negative_axis": lambda x: x.mean(-2),
    "kept_axis": lambda x: x.mean(dim=1, keepdim=True).squeeze(1),
    "sum_over_count": lambda x: x.sum(1) / 3,
    "list_of_axes": lambda x: x.mean([1]),
    "pooling_module": lambda x: nn.AdaptiveAvgPool1d(1)(x.transpose(1, 2)).squeeze(-1),
    "pooling": lambda x: F.avg_pool1d(x.transpose(1, 2), 3).squeeze(-1),
}


@pytest.mark.parametrize(
    "spelling",
    MEAN,
)
def test_mean_pooling(random: Random, spelling: str) -> None:
    x, relevance = random(2, 3, 4), random(2, 4)
    expected = x / x.sum(1, keepdim=True) * relevance.unsqueeze(1)
    close(sent_back(MEAN[spelling], (x,), relevance).relevance[0], expected)


def test_mean_over_two_axes(random: Random) -> None:
    x, relevance = random(2, 3, 4, 5), random(2, 3)
    expected = x / x.sum((2, 3), keepdim=True) * relevance[..., None, None]
    for pool in (
        lambda x: x.mean((2, 3)),
        lambda x: x.mean([-1, -2]),
        lambda x: x.flatten(2).mean(2),
    ):
        close(sent_back(pool, (x,), relevance).relevance[0], expected)


def test_mean_pooling_of_real_tokens(random: Random) -> None:
    x, relevance = random(2, 3, 4), random(2, 4)

    def pool(x: Tensor) -> Tensor:
        mask = MASK.unsqueeze(-1).to(x.dtype)
        return (x * mask).sum(1) / mask.sum(1).clamp(min=1e-9)

    real = x * MASK.unsqueeze(-1)
    found = sent_back(pool, (x,), relevance).relevance[0]
    close(found, real / real.sum(1, keepdim=True) * relevance.unsqueeze(1))
    assert (found[1, 2] == 0).all()


def test_the_larger_of_two_takes_all(random: Random) -> None:
    x, y, relevance = random(2, 3, 4), random(2, 3, 4), random(2, 3, 4)
    for larger in (torch.maximum, torch.max):
        sent = sent_back(larger, (x, y), relevance)
        close(sent.relevance[0], relevance * (x > y))
        close(sent.relevance[1], relevance * (x < y))


def test_maximum_pooling_goes_to_the_largest(random: Random) -> None:
    x, relevance = random(2, 3, 4), random(2, 4)
    expected = F.one_hot(x.argmax(1), 3).transpose(1, 2) * relevance.unsqueeze(1)
    for pool in (lambda x: x.amax(1), lambda x: x.max(1).values, lambda x: torch.max(x, dim=1)[0]):
        close(sent_back(pool, (x,), relevance).relevance[0], expected)


# -- one in, one out: relevance passes unchanged -------------------------------------------------


def gelu_new(x: Tensor) -> Tensor:
    cubed = x + 0.044715 * torch.pow(x, 3.0)
    return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * cubed))


def layer_norm_by_hand(x: Tensor) -> Tensor:
    mean = x.mean(-1, keepdim=True)
    variance = (x - mean).pow(2).mean(-1, keepdim=True)
    return (x - mean) / torch.sqrt(variance + 1e-6)


GAIN = nn.Parameter(torch.tensor([0.5, -2.0, 3.0, 0.1], dtype=torch.float64))
OFFSET = nn.Parameter(torch.tensor([1.0, -1.0, 0.2, 3.0], dtype=torch.float64))
UNCHANGED: dict[str, Callable[[Tensor], Tensor]] = {
    "layer_norm": lambda x: F.layer_norm(x, (4,), GAIN, OFFSET),
    "layer_norm_module": nn.LayerNorm(4).double(),
    "layer_norm_by_hand": lambda x: layer_norm_by_hand(x) * GAIN + OFFSET,
    "rms_norm": lambda x: F.rms_norm(x, (4,), GAIN),
    "rms_norm_module": nn.RMSNorm(4).double(),
    "rms_norm_by_hand": lambda x: GAIN * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)),
    "rms_norm_divided": lambda x: x / torch.sqrt((x * x).mean(-1, keepdim=True) + 1e-6),
    "l2_norm": lambda x: x / x.norm(dim=-1, keepdim=True),
    "normalize": lambda x: F.normalize(x, dim=-1),
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "gelu_module": nn.GELU(),
    "gelu_new": gelu_new,
    "gelu_erf": lambda x: x * 0.5 * (1.0 + torch.erf(x / math.sqrt(2.0))),
    "quick_gelu": lambda x: x * torch.sigmoid(1.702 * x),
    "silu": F.silu,
    "silu_by_hand": lambda x: torch.sigmoid(x) * x,
    "relu": F.relu,
    "relu_module": nn.ReLU(),
    "relu_method": lambda x: x.relu(),
    "relu_in_place": lambda x: F.relu(x, inplace=True),
    "relu_in_place_behind_a_norm": lambda x: F.relu(F.layer_norm(x, (4,)), inplace=True),
    "silu_in_place": lambda x: F.silu(x * 1.0, inplace=True),
    "tanh_in_place": lambda x: (x * 1.0).tanh_(),
    "relu_squared": lambda x: F.relu(x).square(),
    "leaky_relu": F.leaky_relu,
    "tanh": torch.tanh,
    "tanh_module": nn.Tanh(),
    "sigmoid": torch.sigmoid,
    "softmax": lambda x: torch.softmax(x, -1),
    "softmax_method": lambda x: x.softmax(dim=-1),
    "softmax_function": lambda x: F.softmax(x, dim=-1, dtype=torch.float64),
    "softmax_module": nn.Softmax(dim=-1),
    "dropout": nn.Dropout(0.5).eval(),
    "number": lambda x: x * 0.25,
    "number_first": lambda x: -3 * x,
    "number_in_place": lambda x: (x + 0).mul_(7),
    "divided": lambda x: x / math.sqrt(8),
    "divided_method": lambda x: x.div(-2.0),
    "times_a_reciprocal": lambda x: x * (1 / x.norm(dim=-1, keepdim=True)),
    "layer_scale": lambda x: x * GAIN,
    "layer_scale_first": lambda x: torch.mul(GAIN, x),
    "scale_parameter": lambda x: GAIN[0].exp() * x,
    "number_added": lambda x: x + 1,
    "number_subtracted": lambda x: x - 2.5,
    "subtracted_from_number": lambda x: 1 - x,
    "offset": lambda x: x + OFFSET,
    "negated": lambda x: -x,
    "cast": lambda x: x.to(torch.float64).contiguous(),
}


@pytest.mark.parametrize(
    "name",
    UNCHANGED,
)
def test_passes_unchanged(random: Random, name: str) -> None:
    x, relevance = random(2, 3, 4), random(2, 3, 4)
    close(sent_back(UNCHANGED[name], (x,), relevance).relevance[0], relevance)


def test_position_embeddings_are_an_addend(random: Random) -> None:
    """Other than a bias they differ from token to token, and take their share as the authors'."""
    x, relevance = random(2, 3, 4), random(2, 3, 4)
    (positions,) = weights(random, (1, 3, 4))
    found = sent_back(lambda x: x + positions, (x,), relevance).relevance[0]
    close(found, add(x, positions.detach().expand_as(x), relevance)[0])


# -- two in --------------------------------------------------------------------------------------

ADD: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "operator": lambda x, y: x + y,
    "function": torch.add,
    "method": lambda x, y: x.add(y),
    "keyword": lambda x, y: torch.add(x, other=y),
}


def in_place(x: Tensor, y: Tensor) -> Tensor:
    x += y
    return x


ADD["in_place"] = in_place
ADD["in_place_method"] = lambda x, y: x.add_(y)


@pytest.mark.parametrize("rules", ["ours", "orig"])
@pytest.mark.parametrize("spelling", ADD)
def test_skip_connection(random: Random, spelling: str, rules: str) -> None:
    x, y, relevance = random(2, 3, 4), random(2, 3, 4), random(2, 3, 4)
    sent = sent_back(ADD[spelling], (x, y), relevance, rules)
    for found, expected in zip(sent.relevance, add(x, y, relevance, rules), strict=True):
        close(found, expected)


def test_skip_connection_of_tokens_before_samples(random: Random) -> None:
    """(tokens, batch, hidden): sums are still per sample."""
    x, y, relevance = random(3, 2, 4), random(3, 2, 4), random(3, 2, 4)
    sent = sent_back(torch.add, (x, y), relevance, batch_first=False)
    turned = add(*(t.transpose(0, 1) for t in (x, y, relevance)))
    for found, expected in zip(sent.relevance, turned, strict=True):
        close(found.transpose(0, 1), expected)


def test_weighted_sum(random: Random) -> None:
    x, y, relevance = random(2, 3, 4), random(2, 3, 4), random(2, 3, 4)
    sent = sent_back(lambda x, y: torch.add(x, y, alpha=-0.5), (x, y), relevance)
    for found, expected in zip(sent.relevance, add(x, -0.5 * y, relevance), strict=True):
        close(found, expected)


@pytest.mark.parametrize("rules", ["ours", "orig"])
def test_subtraction(random: Random, rules: str) -> None:
    x, y, relevance = random(2, 3, 4), random(2, 3, 4), random(2, 3, 4)
    for subtract in (lambda x, y: x - y, torch.sub, lambda x, y: x.sub(y)):
        sent = sent_back(subtract, (x, y), relevance, rules)
        for found, expected in zip(sent.relevance, add(x, -y, relevance, rules), strict=True):
            close(found, expected)


def test_gated_product(random: Random) -> None:
    """Neither side of silu(x) * y is a mere gate: half each. A sigmoid is: it takes nothing."""
    x, y, relevance = random(2, 3, 4), random(2, 3, 4), random(2, 3, 4)
    for gate in (F.silu, F.gelu, lambda x: x):
        sent = sent_back(lambda x, y, gate=gate: gate(x) * y, (x, y), relevance)
        close(sent.relevance[0], relevance / 2)
        close(sent.relevance[1], relevance / 2)
    for gated in (lambda x, y: torch.sigmoid(x) * y, lambda x, y: y * x.tanh()):
        sent = sent_back(gated, (x, y), relevance)
        assert (sent.relevance[0] == 0).all()
        close(sent.relevance[1], relevance)


def test_division_by_an_activation(random: Random) -> None:
    """A divisor is a scale: the numerator keeps everything."""
    x, y, relevance = random(2, 3, 4), random(2, 3, 1), random(2, 3, 4)
    sent = sent_back(lambda x, y: x / y, (x, y), relevance)
    close(sent.relevance[0], relevance)
    assert (sent.relevance[1] == 0).all()


def test_a_number_over_an_activation_is_a_scale(random: Random) -> None:
    """1 / x is what a norm multiplies by: its value is 1 / x, and it takes nothing."""
    x, relevance = random(2, 3, 4), random(2, 3, 4)
    for over in (lambda x: 1 / x, lambda x: 2.0 / (x.abs() + 1), lambda x: x.reciprocal()):
        assert (sent_back(over, (x,), relevance).relevance[0] == 0).all()


# -- attention -----------------------------------------------------------------------------------


def eager(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    scores = torch.matmul(q, k.transpose(-2, -1)) * SCALE
    if mask is not None and mask.dtype == torch.bool:
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    elif mask is not None:
        scores = scores + mask
    return F.dropout(F.softmax(scores, dim=-1), 0.0, training=False) @ v


def mask_first(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    scores = (q * SCALE) @ k.transpose(-1, -2)
    if mask is not None and mask.dtype == torch.bool:
        scores = torch.where(mask, scores, torch.tensor(-torch.inf, dtype=scores.dtype))
    elif mask is not None:
        scores = mask + scores
    return torch.matmul(scores.softmax(-1), v)


def by_einsum(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    scores = torch.einsum("bhqd,bhkd->bhqk", q, k) * SCALE
    if mask is not None:
        scores = (
            scores.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else scores + mask
        )
    return torch.einsum("bhqk,bhkd->bhqd", scores.softmax(-1), v)


def folded(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    """Samples and heads in one axis, as BART had them."""
    b, h, t, _ = q.shape
    scores = torch.bmm(q.flatten(0, 1) * SCALE, k.flatten(0, 1).transpose(1, 2))
    if mask is not None:
        scores = scores.view(b, h, t, -1)
        scores = (
            scores.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else scores + mask
        )
        scores = scores.flatten(0, 1)
    return torch.bmm(scores.softmax(-1), v.flatten(0, 1)).unflatten(0, (b, h))


ATTENTION: dict[str, Callable[..., Tensor]] = {
    "fused": F.scaled_dot_product_attention,
    "eager": eager,
    "mask_first": mask_first,
    "einsum": by_einsum,
    "folded": folded,
}


def additive(value: float) -> Tensor:
    mask = torch.zeros(2, 1, 1, 3, dtype=torch.float64)
    mask[1, ..., 2] = value
    return mask


MASKS: dict[str, Tensor | None] = {
    "none": None,
    "zeros": additive(0),
    "finfo_min": additive(torch.finfo(torch.float64).min),
    "float32_min": additive(torch.finfo(torch.float32).min),
    "infinite": additive(-torch.inf),
    "minus_10000": additive(-10000.0),
    "boolean": additive(1) == 0,
    "position_bias": torch.arange(9, dtype=torch.float64).reshape(1, 1, 3, 3).expand(2, 2, 3, 3)
    / 7,
}


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("spelling", ATTENTION)
def test_attention(random: Random, spelling: str, mask: str) -> None:
    q, k, v, relevance = (random(2, 2, 3, 4) for _ in range(4))
    sent = sent_back(lambda *qkv: ATTENTION[spelling](*qkv, MASKS[mask]), (q, k, v), relevance)
    given = MASKS[mask]
    if mask == "zeros":
        given = None  # an all-zero mask takes nothing
    for found, expected in zip(sent.relevance, attention(q, k, v, relevance, given), strict=True):
        close(found, expected)
    assert len(sent.maps) == 1
    if mask not in ("none", "zeros", "position_bias"):
        for found in (sent.relevance[1], sent.relevance[2]):
            assert (found[1, :, 2] == 0).all(), "a masked token got relevance"


def test_fused_attention_of_causal_models(random: Random) -> None:
    q, k, v, relevance = (random(2, 2, 3, 4) for _ in range(4))
    causal = torch.ones(3, 3, dtype=torch.bool).tril()
    sent = sent_back(
        lambda *qkv: F.scaled_dot_product_attention(*qkv, is_causal=True), (q, k, v), relevance
    )
    for found, expected in zip(sent.relevance, attention(q, k, v, relevance, causal), strict=True):
        close(found, expected)


def test_fused_attention_with_grouped_heads(random: Random) -> None:
    q, relevance = random(2, 4, 3, 4), random(2, 4, 3, 4)
    k, v = random(2, 2, 3, 4), random(2, 2, 3, 4)
    sent = sent_back(
        lambda *qkv: F.scaled_dot_product_attention(*qkv, enable_gqa=True), (q, k, v), relevance
    )
    repeated = [x.repeat_interleave(2, dim=1) for x in (k, v)]
    to_q, *others = attention(q, *repeated, relevance)
    close(sent.relevance[0], to_q)
    for found, expected in zip(sent.relevance[1:], others, strict=True):
        close(found, expected.unflatten(1, (2, 2)).sum(2))


def test_fused_attention_with_a_scale_of_its_own(random: Random) -> None:
    """A scale changes the weights, not who gets what of a score."""
    q, k, v, relevance = (random(2, 2, 3, 4) for _ in range(4))
    sent = sent_back(
        lambda *qkv: F.scaled_dot_product_attention(*qkv, scale=0.1), (q, k, v), relevance
    )
    shrunk = attention(q * 0.1 / SCALE, k, v, relevance)
    for found, expected in zip(sent.relevance, shrunk, strict=True):
        close(found, expected)


def test_cross_attention(random: Random) -> None:
    q, relevance = random(2, 2, 3, 4), random(2, 2, 3, 4)
    k, v = random(2, 2, 5, 4), random(2, 2, 5, 4)
    sent = sent_back(F.scaled_dot_product_attention, (q, k, v), relevance)
    for found, expected in zip(sent.relevance, attention(q, k, v, relevance), strict=True):
        close(found, expected)


@pytest.mark.parametrize("weighted", [False, True], ids=["fused", "weights_needed"])
@pytest.mark.parametrize("batch_first", [True, False])
def test_multihead_attention_module(random: Random, batch_first: bool, weighted: bool) -> None:
    torch.manual_seed(0)
    module = nn.MultiheadAttention(8, 2, batch_first=batch_first).double().eval()
    nn.init.normal_(module.in_proj_bias)
    nn.init.normal_(module.out_proj.bias)
    x, relevance = random(2, 3, 8), random(2, 3, 8)
    turn = (lambda t: t) if batch_first else (lambda t: t.transpose(0, 1))
    sent = sent_back(
        lambda x: module(x, x, x, need_weights=weighted)[0],
        (turn(x),),
        turn(relevance),
        batch_first=batch_first,
    )

    def heads(t: Tensor) -> Tensor:
        return t.unflatten(-1, (2, 4)).transpose(1, 2)

    qkv = F.linear(x, module.in_proj_weight, module.in_proj_bias).detach()
    q, k, v = (heads(part) for part in qkv.split(8, -1))
    mixed = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
    arriving = linear(mixed, module.out_proj.weight.detach(), relevance)
    parts = attention(q, k, v, heads(arriving))
    joined = torch.cat([part.transpose(1, 2).flatten(2) for part in parts], -1)
    close(turn(sent.relevance[0]), linear(x, module.in_proj_weight.detach(), joined))
    assert len(sent.maps) == 1


@pytest.mark.parametrize("batch_first", [True, False])
def test_encoder_layer_sample_by_sample(random: Random, batch_first: bool) -> None:
    """Skip connections normalise per sample, wherever torch's own module has its samples."""
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 12, batch_first=batch_first).double().eval()
    x, relevance = random(2, 3, 8), random(2, 3, 8)
    turn = (lambda t: t) if batch_first else (lambda t: t.transpose(0, 1))
    together = turn(
        sent_back(layer, (turn(x),), turn(relevance), batch_first=batch_first).relevance[0]
    )
    for i in range(2):
        one = slice(i, i + 1)
        alone = sent_back(layer, (turn(x[one]),), turn(relevance[one]), batch_first=batch_first)
        close(together[one], turn(alone.relevance[0]))


# -- layers put together -------------------------------------------------------------------------


def test_pooler(random: Random) -> None:
    x, relevance = random(2, 3, 4), random(2, 5)
    dense, head = nn.Linear(4, 4).double(), nn.Linear(4, 5).double()
    found = sent_back(lambda x: head(torch.tanh(dense(x[:, 0]))), (x,), relevance).relevance[0]
    pooled = torch.tanh(dense(x[:, 0])).detach()
    arriving = linear(pooled, head.weight.detach(), relevance)
    close(found[:, 0], linear(x[:, 0], dense.weight.detach(), arriving))
    assert (found[:, 1:] == 0).all()


@pytest.mark.parametrize("rules", ["ours", "orig"])
def test_feed_forward_with_its_skip_connection(random: Random, rules: str) -> None:
    x, relevance = random(2, 3, 4), random(2, 3, 4)
    up, down, norm = nn.Linear(4, 6).double(), nn.Linear(6, 4).double(), nn.LayerNorm(4).double()
    found = sent_back(lambda x: x + down(F.gelu(up(norm(x)))), (x,), relevance, rules).relevance[0]
    normed = norm(x).detach()
    hidden = F.gelu(up(normed)).detach()
    kept, branch = add(x, down(hidden).detach(), relevance, rules)
    arriving = linear(hidden, down.weight.detach(), branch, rules)
    close(found, kept + linear(normed, up.weight.detach(), arriving, rules))


# -- refusals ------------------------------------------------------------------------------------


def test_an_operation_without_a_rule_is_named(random: Random) -> None:
    x, relevance = random(2, 3, 4), random(2, 3, 4)
    with pytest.raises(ModelError, match=r"'cumprod'.*no relevance rule"):
        sent_back(lambda x: torch.cumprod(x, 1), (x,), relevance)


def test_nor_does_one_that_returns_several_tensors_pass_gradient(random: Random) -> None:
    x, lstm = random(2, 3, 4), nn.LSTM(4, 4, batch_first=True).double()
    with pytest.raises(ModelError, match=r"'lstm'.*no relevance rule"):
        sent_back(lambda x: lstm(x)[0], (x,), random(2, 3, 4))


def test_running_sums_share_by_contribution(random: Random) -> None:
    x, relevance = random(2, 3, 4), random(2, 3, 4)
    found = sent_back(lambda x: x.cumsum(1), (x,), relevance).relevance[0]
    before = torch.ones(3, 3, dtype=torch.float64).tril()
    contributions = before.unsqueeze(-1) * x.unsqueeze(1)  # (batch, output, input, hidden)
    share = relevance / contributions.sum(2)
    close(found, (contributions * share.unsqueeze(2)).sum(1))


def written_in_place(x: Tensor) -> Tensor:
    y = x * 2
    y.add_(x)
    return y * 3


def a_view_written_in_place(x: Tensor) -> Tensor:
    y = x * 2
    y[:, 0].add_(1.0)
    return y * 3


def seen_through_a_view(x: Tensor) -> Tensor:
    y = x * 2
    z = y.view(2, 12)
    y += x
    return z * 3


def an_entry_set(x: Tensor) -> Tensor:
    y = x * 2
    y[:, 0] = 0
    return y * 3


WRITING = {
    f.__name__: f
    for f in (
        written_in_place,
        a_view_written_in_place,
        seen_through_a_view,
        an_entry_set,
    )
}


@pytest.mark.parametrize(
    "name",
    WRITING,
)
def test_what_is_written_in_place_is_followed_or_refused(random: Random, name: str) -> None:
    x = random(2, 3, 4)
    relevance = random(*WRITING[name](x).shape)
    with pytest.raises(ModelError, match=r"in.place"):
        sent_back(WRITING[name], (x,), relevance)


def test_an_operation_without_a_rule_is_no_error_where_no_relevance_arrives(random: Random) -> None:
    x, relevance = random(2, 3, 4), random(2, 4)

    def aside(x: Tensor) -> Tensor:
        return torch.stack((x, torch.cumprod(x, 1)))[0, :, 0]

    relevance_at = sent_back(lambda x: aside(x), (x,), relevance).relevance[0]
    close(relevance_at[:, 0], relevance)

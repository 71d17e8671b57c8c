"""timm's vision transformers: conserved, or refused with a reason of ours."""

from __future__ import annotations

import warnings
from functools import cache
from importlib.util import find_spec
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import whyformer as wf
from tests.torchvision_stub import import_timm
from whyformer.errors import WhyformerError

pytestmark = pytest.mark.skipif(find_spec("timm") is None, reason="timm is not installed")
CONSERVING: list[tuple[str, dict[str, Any]]] = [
    ("libragrad", {}),
    ("attn_lrp", {}),
    ("lrp_ah_ln", {"activations": "identity"}),
]
OTHERS: list[tuple[str, dict[str, Any]]] = [
    ("gae", {}),
    ("transformer_attribution", {}),
    ("gradient_x_input", {}),
]
SIZES = {"test_vit": 160, "test_vit3": 160, "convit_tiny": 32, "cait_xxs24_224": 32}
MORE = {
    "vit_tiny_patch16_224": 32,
    "deit3_small_patch16_224": 32,
    "deit_tiny_distilled_patch16_224": 32,
    "beit_base_patch16_224": 32,
    "eva02_tiny_patch14_224": 28,
    "xcit_nano_12_p16_224": 32,
    "swin_tiny_patch4_window7_224": 56,
    "swinv2_tiny_window8_256": 64,
    "pvt_v2_b0": 64,
    "mvitv2_tiny": 64,
    "levit_128s": 224,
    "twins_svt_small": 64,
    "crossvit_tiny_240": 240,
    "tnt_s_patch16_224": 32,
    "pit_ti_224": 64,
    "coat_lite_tiny": 64,
    "volo_d1_224": 64,
    "visformer_tiny": 64,
    "mobilevit_xxs": 64,
    "mobilevitv2_050": 64,
    "efficientformer_l1": 224,
    "davit_tiny": 64,
    "maxvit_nano_rw_256": 64,
    "nest_tiny": 32,
    "hiera_tiny_224": 64,
    "samvit_base_patch16_224": 64,
    "vit_small_patch14_reg4_dinov2": 28,
    "flexivit_small": 32,
}


@cache
def model_of(name: str, size: int) -> nn.Module:
    timm = import_timm()
    torch.manual_seed(0)
    try:
        model = timm.create_model(name, pretrained=False, num_classes=3, img_size=size)
    except TypeError:  # convolutional stems take any size
        model = timm.create_model(name, pretrained=False, num_classes=3)
    model = model.double().eval()
    for parameter in model.parameters():  # gates that start at 0 would hide mistakes
        parameter.data.add_(torch.randn_like(parameter) * 0.02)
    return model


def check(name: str, size: int, method: str, options: dict[str, Any]) -> wf.Attribution | None:
    """The attribution, conserved if the method conserves; None if it was refused."""
    pixels: Tensor = torch.randn(2, 3, size, size, dtype=torch.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        try:
            found = wf.explain(
                {"x": pixels}, model_of(name, size), method=method, target=1, **options
            )
        except WhyformerError as error:
            assert "fault of whyformer" not in str(error)  # noqa: PT017 - it may be refused
            return None
    assert found.scores.isfinite().all()
    if (method, options) in CONSERVING:
        ones = torch.ones(2, dtype=torch.float64)
        torch.testing.assert_close(found.conservation, ones, rtol=0, atol=1e-6)
    return found


@pytest.mark.parametrize(("method", "options"), CONSERVING)
@pytest.mark.parametrize("name", SIZES)
def test_conserved(name: str, method: str, options: dict[str, Any]) -> None:
    assert check(name, SIZES[name], method, options) is not None


@pytest.mark.slow
@pytest.mark.parametrize(("method", "options"), CONSERVING + OTHERS)
@pytest.mark.parametrize("name", MORE)
def test_right_or_refused(name: str, method: str, options: dict[str, Any]) -> None:
    check(name, MORE[name], method, options)


def test_registers_of_naflexvit_are_no_patches() -> None:
    torch.manual_seed(0)
    sizes = {"num_classes": 3, "embed_dim": 32, "depth": 2, "num_heads": 2}
    model = import_timm().create_model("naflexvit_base_patch16_gap", **sizes).double().eval()
    pixels = torch.randn(2, 3, 32, 32, dtype=torch.float64)
    found = wf.explain({"x": pixels}, model, method="gradient_x_input", target=1)
    assert found.streams[found.main].grid == (2, 2)
    seen: list[Tensor] = []

    def keep(block: nn.Module, args: tuple[Tensor, ...]) -> None:
        args[0].retain_grad()
        seen.append(args[0])

    handle = model.blocks[0].register_forward_pre_hook(keep)
    model(pixels)[:, 1].sum().backward()
    handle.remove()
    (states,) = seen  # four registers, then four patches
    assert states.grad is not None
    expected = (states * states.grad).sum(-1)[:, 4:].detach()
    torch.testing.assert_close(found.scores, expected)

"""The outputs of the authors' own code, and the stock models they were computed on."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

HERE = Path(__file__).parent
CLASSES = {
    "ali22_attention_only_bert": "BertForSequenceClassification",
    "bert_cvpr21": "BertForSequenceClassification",
    "clip_gae": "CLIPModel",
    "detr_gae": "DetrForObjectDetection",
    "lxmert_gae": "LxmertForQuestionAnswering",
    "visualbert_gae": "VisualBertForQuestionAnswering",
    "vit_cvpr21": "ViTForImageClassification",
}
PRECISIONS = {"f64": (torch.float64, 1e-6), "f32": (torch.float32, 1e-4)}


@cache
def model(case: str, precision: str, **changes: str) -> nn.Module:
    """The stock class of a case with the authors' weights."""
    import transformers

    loaded = getattr(transformers, CLASSES[case]).from_pretrained(HERE / case / "model", **changes)
    return loaded.to(PRECISIONS[precision][0]).eval()


@cache
def inputs(case: str) -> dict[str, Tensor]:
    """Everything that was fed to the authors' code."""
    return load_file(HERE / case / "inputs.safetensors")


@cache
def outputs(case: str, precision: str) -> dict[str, Tensor]:
    """Everything that came out of it."""
    return load_file(HERE / case / f"outputs_{precision}.safetensors")


def assert_equal(ours: Tensor, theirs: Tensor, tolerance: float) -> None:
    """Agreement relative to the largest score."""
    assert ours.shape == theirs.shape
    error = (ours - theirs).abs().max() / theirs.abs().max()
    assert error <= tolerance, f"off by {error:.1e} of the largest score"


def own_entry_out(row: Tensor) -> Tensor:
    """The row without the class token's own entry, which the authors overwrite."""
    return row[..., 1:]


def scaled(scores: Tensor) -> Tensor:
    """Min-max scaled, as the authors' scripts leave their scores."""
    return (scores - scores.min()) / (scores.max() - scores.min())

"""A small Llama with LoRA, in bfloat16 and in int8 ranks the tokens of a prompt as in float64."""

from __future__ import annotations

import copy
import warnings
from functools import cache
from typing import Any

import pytest
import torch
from scipy.stats import spearmanr
from torch import Tensor

import whyformer as wf
from tests.torchao_process import needs_torchao, run_with_torchao
from whyformer.models.families.tiny import tiny_models

LEAST_RANK = 0.99
METHODS = ("libragrad", "attn_lrp", "lrp_ah_ln", "gradient_x_input", "gae", "blend", "occlusion")
# Large enough that rounding is not all there is in a score.
SIZES = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 3}
PROMPT, ANSWER = 24, [7, 9, 11]


def prompt() -> dict[str, Tensor]:
    ids = torch.randint(5, 55, (1, PROMPT), generator=torch.Generator().manual_seed(3))
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


def scores_of(model: Any, method: str) -> Tensor:
    """The scores of the prompt for the whole answer, (tokens,)."""
    return wf.explain(prompt(), model, method=method, target=ANSWER).scores[0]


def llama() -> Any:
    return tiny_models()["llama"][1](**SIZES)


@cache
def variant(kind: str) -> Any:
    """The model as people run it."""
    if kind == "bfloat16":
        return llama().to(torch.bfloat16)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        peft = pytest.importorskip("peft")
        torch.manual_seed(1)
        config = peft.LoraConfig(
            task_type="CAUSAL_LM",
            init_lora_weights=False,  # an adapter that changes something
            target_modules=["q_proj", "v_proj", "up_proj", "down_proj"],
        )
        return peft.get_peft_model(llama(), config).eval()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", ["lora", "bfloat16"])
def test_a_variant_ranks_as_in_float64(kind: str, method: str) -> None:
    """The same weights, once as they are and once in float64."""
    model = variant(kind)
    found, expected = scores_of(model, method), scores_of(copy.deepcopy(model).double(), method)
    assert found.dtype == torch.float32
    assert spearmanr(found, expected)[0] >= LEAST_RANK


def test_the_adapter_counts() -> None:
    """Else the test above would compare the model below it."""
    assert not torch.allclose(
        scores_of(variant("lora"), "libragrad"), scores_of(llama(), "libragrad")
    )


INT8 = """
import copy
import torch
from scipy.stats import spearmanr
from torchao import quantization as q
from tests.models.test_llama_variants import METHODS, llama, scores_of

model, wide = llama(), llama().double()
q.quantize_(model, q.Int8WeightOnlyConfig())
packed = 0
for path, weight in model.named_parameters():
    quantised = "torchao" in type(weight).__module__
    packed += quantised
    floats = weight.dequantize() if quantised else weight
    wide.get_parameter(path).data.copy_(floats.detach())
assert packed >= 21, packed
found = {one: spearmanr(scores_of(model, one), scores_of(wide, one))[0] for one in METHODS}
"""


@pytest.mark.slow
@needs_torchao
def test_int8_ranks_as_in_float64() -> None:
    """The weights that torchao packed, and the same numbers in float64."""
    found = run_with_torchao(INT8)
    assert set(found) == set(METHODS)
    assert {name: rank for name, rank in found.items() if not rank >= LEAST_RANK} == {}

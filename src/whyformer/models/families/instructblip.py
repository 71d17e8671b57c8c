"""InstructBLIP (Dai et al., 2023): BLIP-2 whose queries also read the instruction."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from whyformer.models.families.blip_2 import OPT, QFORMER, QUERIES, has_decoder
from whyformer.models.families.image_items import tiny_pixels
from whyformer.models.families.vision_language import VISION, tiny_vlm, vision_language


def _tiny(config: Any, samples: int, generator: torch.Generator) -> dict[str, Tensor]:
    rows = [torch.randint(5, 50, (4,), generator=generator) for _ in range(samples)]
    ids = torch.stack(rows)
    own = {"qformer_input_ids": ids, "qformer_attention_mask": torch.ones_like(ids)}
    return {**tiny_pixels(config, samples, generator), **own}


INSTRUCTED_QUERIES = replace(QUERIES, tiny=_tiny)

instructblip = vision_language(
    "instructblip",
    title="InstructBLIP with a decoder",
    model_types=("instructblip",),
    classes=("InstructBlipForConditionalGeneration",),
    when=has_decoder,
    blocks="language_model.**",
    soft=INSTRUCTED_QUERIES,
    tiny=tiny_vlm(
        "InstructBlipForConditionalGeneration",
        VISION,
        OPT,
        qformer_config=QFORMER,
        num_query_tokens=4,
    ),
)

"""DINOv2 (Oquab et al., 2023), with or without registers (Darcet et al., 2024), and DINOv3.

The head reads the class token and the mean of the patches, so all tokens except the registers
decide. The giant model has gated MLPs. DINOv3 has rotary positions, its blocks in another list,
and no head in transformers.
"""

from whyformer.models.families.family import declare
from whyformer.models.families.tiny import IMAGE, tiny_model

SIZES = {**IMAGE, "mlp_ratio": 2}

dinov2 = declare(
    "dinov2",
    title="DINOv2, with and without registers, DINOv3",
    stream="image",
    model_types=("dinov2", "dinov2_with_registers", "dinov3_vit"),
    blocks="encoder.layer",
    prefix_tokens=lambda config: 1 + getattr(config, "num_register_tokens", 0),
    tiny=tiny_model("Dinov2ForImageClassification", **SIZES),
    relu=tiny_model("Dinov2ForImageClassification", **SIZES, hidden_act="relu"),
    variants={
        "dinov2_registers": tiny_model(
            "Dinov2WithRegistersForImageClassification", **SIZES, num_register_tokens=3
        ),
        "dinov2_giant": tiny_model("Dinov2ForImageClassification", **SIZES, use_swiglu_ffn=True),
    },
)

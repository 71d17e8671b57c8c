"""Switch Transformers (Fedus et al., 2022): T5 whose router sends each token to one expert."""

from whyformer.models.families.encoder_decoder import TEXT_SOURCE, encoder_decoder
from whyformer.models.families.t5 import BLOCKS, SIZES
from whyformer.models.families.tiny import tiny_model

_SIZES = {
    **SIZES,
    "num_decoder_layers": 2,
    "num_sparse_encoder_layers": 1,
    "num_sparse_decoder_layers": 1,
    "num_experts": 3,
    "expert_capacity": 64,
}

switch_transformers = encoder_decoder(
    "switch_transformers",
    title="Switch Transformers",
    model_types=("switch_transformers",),
    classes=("SwitchTransformersForConditionalGeneration", "SwitchTransformersModel"),
    source=TEXT_SOURCE,
    tiny=tiny_model("SwitchTransformersForConditionalGeneration", **_SIZES),
    **BLOCKS,
)

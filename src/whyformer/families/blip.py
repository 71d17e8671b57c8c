"""BLIP (Li et al., 2022): matching, question answering and captioning on one vision tower."""

from whyformer.families.clip import TEXT, VISION
from whyformer.families.family import Source, Stack, declare
from whyformer.families.tiny import tiny_model

_SIZES = {
    "text_config": {**TEXT, "sep_token_id": 2, "encoder_hidden_size": 32},
    "vision_config": VISION,
    "projection_dim": 16,
    "image_text_hidden_size": 16,
}
_IMAGE = Source("image", "pixel_values", kind="pixels", part="vision_model")
_SEEN = Stack(("image",), "vision_model.encoder.layers", read=False)
_ASKED = {"vision_model.encoder": ("image", "image")}


def _attention(path: str, asking: str, answering: str) -> dict[str, tuple[str, str]]:
    """A text stack's table: self-attention, and the cross attention beside it."""
    return {
        f"{path}.*.attention": (asking, asking),
        f"{path}.*.crossattention": (asking, answering),
    }


blip_matching = declare(
    "blip_matching",
    title="BLIP, image-text matching",
    stream="text",
    model_types=("blip",),
    classes=("BlipForImageTextRetrieval",),
    sources=(Source("text", "input_ids", mask="attention_mask", part="text_encoder"), _IMAGE),
    stacks=(_SEEN, Stack(("text",), "text_encoder.encoder.layer")),
    attention={**_ASKED, **_attention("text_encoder.encoder.layer", "text", "image")},
    prefix_tokens=lambda config: 1,
    tiny=tiny_model("BlipForImageTextRetrieval", **_SIZES),
)

blip_answering = declare(
    "blip_answering",
    title="BLIP, question answering",
    stream="text",
    model_types=("blip",),
    classes=("BlipForQuestionAnswering",),
    sources=(
        # The answer's cross attention is given the question's mask and leaves it unused.
        Source("text", "input_ids", mask="attention_mask", part="text_encoder", padding=False),
        _IMAGE,
        Source(
            "generated",
            "decoder_input_ids",
            mask="decoder_attention_mask",
            part="text_decoder",
            optional=True,
        ),
    ),
    stacks=(
        _SEEN,
        Stack(("text",), "text_encoder.encoder.layer", read=False),
        Stack(("generated",), "text_decoder.bert.encoder.layer"),
    ),
    attention={
        **_ASKED,
        **_attention("text_encoder.encoder.layer", "text", "image"),
        **_attention("text_decoder.bert.encoder.layer", "generated", "text"),
    },
    prefix_tokens=lambda config: 1,
    speaks="text_decoder",
    tiny=tiny_model("BlipForQuestionAnswering", **_SIZES),
)

blip_captioning = declare(
    "blip_captioning",
    title="BLIP, captioning",
    stream="image",
    model_types=("blip",),
    classes=("BlipForConditionalGeneration",),
    sources=(
        _IMAGE,
        Source("generated", "input_ids", mask="attention_mask", part="text_decoder", optional=True),
    ),
    stacks=(_SEEN, Stack(("generated",), "text_decoder.bert.encoder.layer")),
    attention={**_ASKED, **_attention("text_decoder.bert.encoder.layer", "generated", "image")},
    prefix_tokens=lambda config: 1,
    tiny=tiny_model("BlipForConditionalGeneration", **_SIZES),
)

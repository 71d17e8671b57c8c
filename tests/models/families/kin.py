"""Model types that a family covers without a tiny model of their own: a class and its sizes."""

from __future__ import annotations

from typing import Any

from torch import nn

from whyformer.models.families.gemma import WINDOWED
from whyformer.models.families.gpt2 import SIZES as GPT2
from whyformer.models.families.llama import LATENT
from whyformer.models.families.modernbert import SIZES as ROTARY
from whyformer.models.families.roberta import SIZES as ROBERTA
from whyformer.models.families.swin import SIZES as SWIN
from whyformer.models.families.tiny import DECODER, ENCODER, EXPERTS, IMAGE, tiny_model
from whyformer.models.families.xlm import SIZES as XLM

PLAIN = {k: v for k, v in DECODER.items() if k not in ("head_dim", "num_key_value_heads")}
WINDOW = {**DECODER, "sliding_window": 4}
# YaRN warns if the context is shorter than the one it was trained with.
ROPE = {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}}
SCALED = {
    **ROPE["rope_parameters"],
    "llama_4_scaling_beta": 0.1,
    "original_max_position_embeddings": 20,
}

# model type: (class, sizes)
KIN: dict[str, tuple[str, dict[str, Any]]] = {
    # Decoders like Llama.
    "arcee": ("ArceeForCausalLM", {**DECODER}),
    "bitnet": ("BitNetForCausalLM", {**DECODER}),
    "cohere": ("CohereForCausalLM", {**DECODER}),
    "cohere2": ("Cohere2ForCausalLM", WINDOW),
    "cwm": ("CwmForCausalLM", {**WINDOW, **ROPE}),
    "ernie4_5": ("Ernie4_5ForCausalLM", {**DECODER}),
    "exaone4": ("Exaone4ForCausalLM", WINDOW),
    "glm": ("GlmForCausalLM", {**DECODER}),
    "glm4": ("Glm4ForCausalLM", {**DECODER}),
    "glm4_moe": ("Glm4MoeForCausalLM", {**DECODER, **EXPERTS, "first_k_dense_replace": 1}),
    "granite": (
        "GraniteForCausalLM",
        {**DECODER, "logits_scaling": 2.0, "residual_multiplier": 0.5},
    ),
    "helium": ("HeliumForCausalLM", {**DECODER}),
    "hunyuan_v1_dense": ("HunYuanDenseV1ForCausalLM", {**DECODER}),
    "minimax_m2": ("MiniMaxM2ForCausalLM", {**DECODER, **EXPERTS}),
    "ministral": ("MinistralForCausalLM", {**DECODER}),
    "ministral3": ("Ministral3ForCausalLM", {**DECODER, "rope_parameters": SCALED}),
    "mistral": ("MistralForCausalLM", WINDOW),
    "nanochat": ("NanoChatForCausalLM", {**DECODER}),
    "nemotron": ("NemotronForCausalLM", {**DECODER}),
    "olmo": ("OlmoForCausalLM", {**DECODER}),
    "olmo2": ("Olmo2ForCausalLM", {**DECODER}),
    "olmo3": ("Olmo3ForCausalLM", {**DECODER}),
    "persimmon": ("PersimmonForCausalLM", PLAIN),
    "phi3": ("Phi3ForCausalLM", {**DECODER}),
    "seed_oss": ("SeedOssForCausalLM", {**DECODER}),
    "smollm3": ("SmolLM3ForCausalLM", {**DECODER}),
    "stablelm": ("StableLmForCausalLM", {**DECODER}),
    "starcoder2": ("Starcoder2ForCausalLM", {**DECODER}),
    "youtu": ("YoutuForCausalLM", LATENT),
    # Other decoders.
    "codegen": ("CodeGenForCausalLM", {**GPT2, "rotary_dim": 4}),
    "ctrl": (
        "CTRLLMHeadModel",
        {**{k: v for k, v in GPT2.items() if k != "n_inner"}, "dff": GPT2["n_inner"]},
    ),
    "gpt_bigcode": ("GPTBigCodeForCausalLM", GPT2),
    "gpt_neo": (
        "GPTNeoForCausalLM",
        {
            **{k: v for k, v in PLAIN.items() if not k.startswith("num_")},
            "num_layers": 2,
            "num_heads": 4,
            "attention_types": [[["global", "local"], 1]],
            "window_size": 4,
        },
    ),
    "gpt_neox_japanese": ("GPTNeoXJapaneseForCausalLM", PLAIN),
    "openai-gpt": ("OpenAIGPTLMHeadModel", GPT2),
    "vaultgemma": ("VaultGemmaForCausalLM", WINDOWED),
    "xglm": (
        "XGLMForCausalLM",
        {
            "vocab_size": 60,
            "d_model": 32,
            "num_layers": 2,
            "attention_heads": 4,
            "ffn_dim": 48,
            "max_position_embeddings": 40,
            "pad_token_id": 0,
        },
    ),
    # Encoders.
    "data2vec-text": ("Data2VecTextForSequenceClassification", ROBERTA),
    "ernie": ("ErnieForSequenceClassification", ENCODER),
    "esmc": ("EsmcForSequenceClassification", ENCODER),
    "eurobert": ("EuroBertForSequenceClassification", {**ROTARY, "mask_token_id": 4}),
    "flaubert": ("FlaubertForSequenceClassification", XLM),
    "gte": ("GteForSequenceClassification", ENCODER),
    "ibert": ("IBertForSequenceClassification", ROBERTA),
    "jina_embeddings_v3": (
        "JinaEmbeddingsV3ForSequenceClassification",
        {**ROBERTA, "lora_rank": 2},
    ),
    "layoutlm": (
        "LayoutLMForSequenceClassification",
        {**ENCODER, "max_2d_position_embeddings": 64},
    ),
    "markuplm": ("MarkupLMForSequenceClassification", ENCODER),
    "megatron-bert": ("MegatronBertForSequenceClassification", ENCODER),
    "nomic_bert": ("NomicBertForSequenceClassification", ENCODER),
    "rembert": (
        "RemBertForSequenceClassification",
        {
            **ENCODER,
            "input_embedding_size": 16,
            "output_embedding_size": 16,
            "bos_token_id": 1,
            "eos_token_id": 2,
        },
    ),
    "roberta-prelayernorm": ("RobertaPreLayerNormForSequenceClassification", ROBERTA),
    "roc_bert": (
        "RoCBertForSequenceClassification",
        {**ENCODER, "shape_vocab_size": 60, "pronunciation_vocab_size": 60},
    ),
    "tapas": ("TapasForSequenceClassification", ENCODER),
    "xlm-roberta-xl": ("XLMRobertaXLForSequenceClassification", ROBERTA),
    "xmod": (
        "XmodForSequenceClassification",
        {**ROBERTA, "languages": ["en_XX", "de_DE"], "default_language": "en_XX"},
    ),
    # Images.
    "donut-swin": ("DonutSwinForImageClassification", SWIN),
    "vit_msn": ("ViTMSNForImageClassification", IMAGE),
}

# Types without a head: test_kin.py explains their states.
HEADLESS: dict[str, tuple[str, dict[str, Any]]] = {
    "dinov3_vit": (
        "DINOv3ViTModel",
        {**{k: v for k, v in IMAGE.items() if k != "num_labels"}, "num_register_tokens": 2},
    ),
}


def build_kin(model_type: str, **changes: Any) -> nn.Module:
    """A tiny model of this type."""
    name, sizes = {**KIN, **HEADLESS}[model_type]
    return tiny_model(name, **{**sizes, **changes})()

"""Shrink any transformers config: small sizes by the names of its fields, sub-configs included."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from transformers import PreTrainedConfig

HIDDEN, HEADS, HEAD_DIM, VOCABULARY, TEXT_IDS = 32, 4, 8, 99, 50
DROPPED = {
    # Computed by the config itself from the others, or of no use to a small model.
    *("stage_names", "out_features", "out_indices", "_out_features", "_out_indices", "dtype"),
    *("id2label", "label2id", "num_labels", "architectures", "transformers_version", "model_type"),
    *("layer_types", "mlp_layer_types", "layers_block_type", "block_types", "attention_layers"),
    *("no_rope_layers", "layer_rope_theta", "indexer_types", "sliding_window_pattern"),
    *("max_window_layers", "problem_type", "base_config_key", "qk_head_dim", "layer_type_list"),
    *("attention_heads_per_layer", "num_patches"),
}
KEPT = re.compile(
    # Counts that are small already, and numbers that are no sizes.
    r"(cost|coefficient|temperature|theta|base|factor|ratio|dilation|padding|rate|eps|alpha|beta"
    r"|gamma|ignore_index|pretraining_tp|mult|multiplier|expand|expansion|interval|step|offset"
    r"|num_channels|in_chans|chunk_size_feed_forward|norm_groups|scale|axis|index|version)s?$"
)
# The value of a whole number by the name of its field; the first pattern that matches counts.
SIZES: tuple[tuple[str, int], ...] = (
    (r"num_key_value_heads|num_kv_heads|n_kv_heads|.*num_key_value_heads|multi_query_group_num", 2),
    (r"num_attention_heads_kv", 2),
    (r".*(head_dim|dim_head|d_kv|kv_channels|size_per_head|d_head|head_size)|linear_.*head_dim", 8),
    (r"qk_rope_head_dim|rotary_dim|rotary_emb_dim", 8),
    (r".*(attention_heads|num_heads|n_heads?|_heads|nhead)", HEADS),
    (r".*(vocab_size|vocab_size_per_layer_input)", VOCABULARY),
    (r"type_vocab_size", 2),
    (r".*(num_experts_per_tok|num_experts_per_token|moe_topk|moe_k|top_k_experts|moe_top_k)", 2),
    (r"num_selected_experts|router_top_k|n_activated_experts", 2),
    (r"(n|num)_shared_experts|moe_num_shared_experts", 1),
    (r".*(num_experts|n_routed_experts|num_local_experts|moe_num_experts|n_experts)", 4),
    (r"n_group|topk_group|num_expert_group|num_experts_groups", 1),
    (r".*(num_nextn_predict_layers|num_mtp_layers|mtp_num_hidden_layers)", 0),
    (r"first_k_dense_replace|num_dense_layers", 1),
    (r".*(num_hidden_layers|num_layers|n_layers?|_layers|layers|depth|num_blocks)", 2),
    (r".*(intermediate_size|ffn_dim|d_ff|mlp_dim|n_inner|ffn_hidden_size|dim_feedforward)", 48),
    (r".*intermediate_dim|hidden_dim_ffn|ffn_intermediate_size", 48),
    (r".*(kv_lora_rank|q_lora_rank|lora_rank)", 16),
    (r"query_pre_attn_scalar", 8),
    (r"max_source_positions|max_target_positions", 16),
    (r".*(max_position_embeddings|n_positions|max_seq_len|max_sequence_length|n_ctx)", 64),
    (r"num_position_embeddings", 64),
    (r".*(sliding_window|local_attention|attention_window|window_size_text)", 4),
    (r"image_size|img_size|pretrain_image_size|input_size", 32),
    (r"patch_size|patch_stride", 8),
    (r"window_size", 2),
    (r"num_mel_bins|num_mel_bands", 16),
    (r"num_frames|frames_per_clip", 4),
    (r"num_queries|num_object_queries|num_query_tokens|num_detection_tokens", 6),
    (r"num_conv_pos_embeddings|relative_attention_num_buckets", 8),
    (r"num_conv_pos_embedding_groups|num_codevector_groups", 2),
    (r"num_codevectors_per_group|codebook_size|num_embeddings", 16),
    (r"num_codebooks", 2),
    (r"index_topk", 4),
    (r".*d_state|state_size|ssm_state_size", 8),
    (r"mamba_chunk_size|chunk_size|block_size", 4),
    (r"mm_tokens_per_image|image_seq_length|image_seq_len", 4),
    (r"fusion_hidden_size|head_hidden_size|conv_hidden_size", 16),
    (r".*(hidden_size|hidden_dim|d_model|n_embd|embed_dim|projection_dim|embedding_size)", HIDDEN),
    (
        r".*(embedding_dim|proj_size|_dim|dim|hidden_sizes|codevector_dim|pooler_output_size)",
        HIDDEN,
    ),
    (r"hidden_size_.*|.*_hidden_size_.*|emb_dim|out_hidden_size|lru_width|.*_width", HIDDEN),
)
PATTERNS = tuple((re.compile(pattern), size) for pattern, size in SIZES)
# Lists with one entry per stage keep their length.
STAGES: tuple[tuple[str, tuple[int, ...]], ...] = (
    (r"depths|num_block_repeats|layers|stage_num_blocks|depth", (1,)),
    (r"num_heads|num_attention_heads|num_stages_heads", (1, 2, 4, 4)),
    (r"hidden_sizes|embed_dims?|neck_hidden_sizes|encoder_hidden_sizes|dim_embed", (8, 16, 32, 32)),
    (r"tdnn_dim|channels", (HIDDEN,)),
)
# What turns a sound into frames: two layers instead of seven.
CONVOLUTIONS = {"conv_dim": (HIDDEN, HIDDEN), "conv_stride": (5, 2), "conv_kernel": (10, 3)}
STAGE_PATTERNS = tuple((re.compile(pattern), values) for pattern, values in STAGES)
SPECIAL_IDS = {"pad": 0, "bos": 1, "eos": 2, "decoder_start": 1, "unk": 3, "sep": 4, "cls": 5}
SPECIAL_IDS |= {"mask": 6, "forced_eos": 2, "forced_bos": 1, "eod": 2}
TOKEN = re.compile(r"(.*?)_(?:token_)?(?:id|index|idx)$|(.*)_token_ids$")


def shrink(config_class: type[PreTrainedConfig], changes: Mapping[str, Any]) -> PreTrainedConfig:
    """Return a small config of the class; `changes` are fields by name, dotted for sub-configs."""
    return _shrink(config_class(), changes, dict(SPECIAL_IDS))


def _shrink(
    config: PreTrainedConfig, changes: Mapping[str, Any], ids: dict[str, int]
) -> PreTrainedConfig:
    plain = {key: value for key, value in changes.items() if "." not in key}
    settings: dict[str, Any] = {}
    for name, value in vars(config).items():
        if isinstance(value, PreTrainedConfig):
            inner = {k.split(".", 1)[1]: v for k, v in changes.items() if k.startswith(f"{name}.")}
            settings[name] = _shrink(value, inner, ids)
        elif not name.startswith("_") and name not in DROPPED:
            small = _small(name, value, ids)
            if small is not value:
                settings[name] = small
    if "kv_lora_rank" in settings and "num_key_value_heads" in settings:
        settings["num_key_value_heads"] = HEADS  # latent attention has no grouped heads
    if isinstance(getattr(config, "depths", None), list | tuple):
        settings |= {name: 64 for name in ("image_size",) if name in settings}
        if isinstance(getattr(config, "patch_size", None), int):
            settings["patch_size"] = min(4, config.patch_size)
    kinds = [kind for kind in _layer_kinds(config) if kind is not None]
    if len(kinds) > 1 and "num_hidden_layers" in {*vars(config), *config.attribute_map}:
        name = config.attribute_map.get("num_hidden_layers", "num_hidden_layers")
        settings[name] = 4
        if hasattr(config, "layer_types"):
            settings["layer_types"] = [kinds[i * len(kinds) // 4] for i in range(4)]
    settings |= plain
    settings = {name: value for name, value in settings.items() if value is not ...}
    return type(config)(**settings)


def _layer_kinds(config: PreTrainedConfig) -> list[str]:
    """The kinds of the config's layers, each once, in order."""
    for name in ("layer_types", "layers_block_type", "block_types"):
        value = vars(config).get(name)
        if isinstance(value, list):
            return list(dict.fromkeys(value))
    return []


def _small(name: str, value: Any, ids: dict[str, int]) -> Any:
    """The value of a field in a small config."""
    match = TOKEN.match(name)
    if match and not isinstance(value, bool):
        token = match[1] or match[2]
        if token == "pad" and value is None:
            return 0
        if isinstance(value, int) and value >= 0:
            return ids.setdefault(token, 10 + len(ids))
        if isinstance(value, list) and value and isinstance(value[0], int):
            return [ids.setdefault(token, 10 + len(ids))]
        return value
    if value is None:
        return {"head_dim": HEAD_DIM, "num_key_value_heads": HEADS}.get(name)
    if "rope" in name and isinstance(value, dict):
        return small_rope(value)
    if name in CONVOLUTIONS:
        return CONVOLUTIONS[name] if isinstance(value, list | tuple) else value
    if isinstance(value, list | tuple) and value and all(type(one) is int for one in value):
        for pattern, values in STAGE_PATTERNS:
            if pattern.fullmatch(name):
                return [values[min(i, len(values) - 1)] for i in range(len(value))]
        if name in ("image_size", "patch_size"):
            return type(value)(_number(name, one) for one in value)
        return value
    return _number(name, value)


def _number(name: str, value: Any) -> Any:
    """A whole number by the name of its field, never larger than it was."""
    if type(value) is not int or value <= 0 or KEPT.search(name):
        return value
    for pattern, size in PATTERNS:
        if pattern.fullmatch(name):
            return min(size, value) if "layers" in name else size
    return value


def small_rope(rope: dict[str, Any]) -> dict[str, Any]:
    """Rotary settings for a head dimension of 8."""
    half = HEAD_DIM // 2
    small = {k: small_rope(v) if isinstance(v, dict) else v for k, v in rope.items()}
    for name in ("short_factor", "long_factor"):
        if name in small:
            small[name] = [1.0] * half
    if "mrope_section" in small:
        small["mrope_section"] = [half - 2, 1, 1]
    return small

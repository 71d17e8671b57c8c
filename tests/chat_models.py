"""A byte-level tokenizer with a chat template, and tiny language models that fit it."""

from __future__ import annotations

from functools import cache
from typing import Any

import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from torch import nn

from whyformer.models.families import families

CORPUS = [
    "The capital of Germany is Berlin. The capital of France is Paris.",
    "Where is it? It is in Berlin, and not in Paris. Berlin is the capital.",
    "naïve café 漢字 😀",
]
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] | trim }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
POSITIONS = 160


def chat_tokenizer(template: str | None = TEMPLATE) -> Any:
    """Byte-level BPE with <|pad|>, <|im_start|> and <|im_end|>, which ends a text."""
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=330,
        special_tokens=["<|pad|>", "<|im_start|>", "<|im_end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    backend.train_from_iterator(CORPUS, trainer)
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=backend,
        eos_token="<|im_end|>",
        pad_token="<|pad|>",
        additional_special_tokens=["<|im_start|>"],
    )
    tokenizer.chat_template = template
    return tokenizer


@cache
def language_model(name: str) -> nn.Module:
    """A tiny random model in float64; its end and padding are the tokenizer's."""
    sizes = {"n_positions" if name == "gpt2" else "max_position_embeddings": POSITIONS}
    ids = {"eos_token_id": 2, "pad_token_id": 0, "bos_token_id": None}
    make: Any = families[name].tiny
    model: Any = make(vocab_size=330, **sizes, **ids).double()
    model.generation_config.eos_token_id, model.generation_config.pad_token_id = 2, 0
    found: nn.Module = model
    return found

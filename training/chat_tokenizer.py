"""The tokenizer of the chat models: byte-level BPE, with signs for whose turn it is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from tokenizers import Tokenizer, decoders, pre_tokenizers, processors, trainers
from tokenizers.models import BPE
from transformers import PreTrainedTokenizerFast

from training import common

BEGIN, END, USER, ASSISTANT, PAD = "<|begin|>", "<|end|>", "<|user|>", "<|assistant|>", "<|pad|>"
TEMPLATE = (
    "{{ bos_token }}"
    "{% for message in messages %}"
    "{{ '<|' + message['role'] + '|>' + message['content'] + eos_token }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)


def build_tokenizer(
    texts: Iterable[str],
    length: int,
    template: str = TEMPLATE,
    more: Sequence[str] = (),
    *,
    begins: bool = True,
) -> PreTrainedTokenizerFast:
    """Return a tokenizer in which every word of the texts is one token.

    A word at the start of a text and the same word after a space are different tokens. Any other
    text is written in shorter pieces, down to single bytes.

    Args:
        texts: The texts, with every word in both places where it may stand.
        length: The most tokens of a text.
        template: The chat template.
        more: Further special tokens.
        begins: Whether it puts BEGIN before a text. A processor of images and text would put it
            before that of the chat template.
    """
    backend = Tokenizer(BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    special = [PAD, BEGIN, END, USER, ASSISTANT, *more]
    trainer = trainers.BpeTrainer(
        vocab_size=10_000,
        special_tokens=special,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    backend.train_from_iterator(texts, trainer)
    if begins:
        backend.post_processor = processors.TemplateProcessing(
            single=f"{BEGIN} $A", special_tokens=[(BEGIN, special.index(BEGIN))]
        )
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        pad_token=PAD,
        bos_token=BEGIN,
        eos_token=END,
        additional_special_tokens=[USER, ASSISTANT, *more],
        model_max_length=length,
        padding_side="left",
        chat_template=template,
        model_input_names=["input_ids", "attention_mask"],
    )


def store_tokenizer(tokenizer: PreTrainedTokenizerFast, folder: Path, **more: object) -> None:
    """Write the files that AutoTokenizer needs to `folder`; `more` are further settings."""
    common.store_tokenizer(
        tokenizer,
        folder,
        padding_side=tokenizer.padding_side,
        chat_template=tokenizer.chat_template,
        **more,
    )


def special_ids(tokenizer: PreTrainedTokenizerFast) -> dict[str, int]:
    """Return the ids of the special tokens, as a config names them."""
    return {
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
    }

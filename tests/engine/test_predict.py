"""`predict`: the logits of classes, of a number, or of the next token; other heads are refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers
from torch import Tensor, nn

from whyformer.engine.predict import predict
from whyformer.errors import ModelError, NestedCaptureError
from whyformer.inputs.batch import Batch
from whyformer.inputs.prepare import prepare
from whyformer.models.families import family_of
from whyformer.models.families.tiny import ENCODER, tiny_inputs, tiny_model, tiny_models


def ready(module: nn.Module, inputs: Any) -> Batch:
    return prepare(inputs, module, None, family_of(module))


def test_classes() -> None:
    module = tiny_models()["bert"][1]()
    inputs = tiny_inputs(module, (6, 4))
    with torch.no_grad():
        expected = module(**inputs).logits
    found = predict(module, ready(module, inputs))
    torch.testing.assert_close(found, expected)
    assert not found.requires_grad


def test_one_number() -> None:
    module = tiny_model("BertForSequenceClassification", **{**ENCODER, "num_labels": 1})()
    assert predict(module, ready(module, tiny_inputs(module, (6, 4)))).shape == (2, 1)
    clip = tiny_models()["clip"][1]()
    inputs = tiny_inputs(clip, (6, 4))
    with torch.no_grad():
        pairs = clip(**inputs).logits_per_image.diagonal()
    torch.testing.assert_close(predict(clip, ready(clip, inputs))[:, 0], pairs)


@pytest.mark.parametrize("padding", ["right", "left"])
@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_the_next_token_of_each_text(name: str, padding: str) -> None:
    module = tiny_models()[name][1]().double()
    inputs = tiny_inputs(module, (7, 4), padding=padding)
    found = predict(module, ready(module, inputs))
    for i, mask in enumerate(inputs["attention_mask"].bool()):
        with torch.no_grad():
            alone = module(inputs["input_ids"][i, mask].unsqueeze(0)).logits[0, -1]
        torch.testing.assert_close(found[i], alone)


def test_a_hidden_token_in_the_middle_does_not_move_the_last_one() -> None:
    module = tiny_models()["gpt2"][1]().double()
    inputs = tiny_inputs(module, (6, 6))
    inputs["attention_mask"][0, 2] = 0
    with torch.no_grad():
        expected = module(**inputs).logits[:, -1]
    torch.testing.assert_close(predict(module, ready(module, inputs)), expected)


def test_the_next_token_of_the_output_and_not_of_the_source() -> None:
    # The same number of tokens on both sides: the source's mask must not be used for the output.
    module = tiny_models()["t5"][1]().double()
    inputs = {
        "input_ids": torch.tensor([[7, 8, 9, 10], [7, 8, 0, 0]]),
        "attention_mask": torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0]]),
        "decoder_input_ids": torch.tensor([[0, 11, 12, 13], [0, 11, 12, 13]]),
        "decoder_attention_mask": torch.ones(2, 4).long(),
    }
    with torch.no_grad():
        expected = module(**inputs).logits[:, -1]
    torch.testing.assert_close(predict(module, ready(module, inputs)), expected)


@pytest.mark.parametrize("name", ["t5", "bart", "whisper", "vision_encoder_decoder"])
def test_a_generating_model_needs_its_output(name: str) -> None:
    module = tiny_models()[name][1]()
    inputs = {n: v for n, v in tiny_inputs(module).items() if not n.startswith("decoder_")}
    with pytest.raises(ModelError, match="generates text, and whyformer cannot measure"):
        predict(module, ready(module, inputs))


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("DetrForObjectDetection", "object queries"),
        ("BertForMaskedLM", "masked tokens"),
        ("BertForTokenClassification", "a class per token"),
        ("BertForQuestionAnswering", "answer spans"),
    ],
)
def test_answers_that_cannot_be_measured(name: str, what: str) -> None:
    detects = name.startswith("Detr")
    sizes = {**ENCODER, "num_labels": 2}
    module = tiny_models()["detr"][1]() if detects else tiny_model(name, **sizes)()
    with pytest.raises(ModelError, match=f"predicts {what}.*do not run the model again"):
        predict(module, ready(module, tiny_inputs(module, (5, 5))))


def test_a_model_that_samples_at_random_repeats_itself_and_keeps_the_random_state() -> None:
    module = tiny_models()["vilt"][1]()
    prepared = ready(module, tiny_inputs(module, (6, 4)))
    torch.manual_seed(1)
    first, state = predict(module, prepared), torch.random.get_rng_state()
    torch.manual_seed(2)
    assert torch.equal(predict(module, prepared), first)
    torch.manual_seed(1)
    assert torch.equal(torch.random.get_rng_state(), state)


def test_not_inside_an_explanation() -> None:
    module = tiny_models()["bert"][1]()
    prepared = ready(module, tiny_inputs(module, (4,)))

    def again(part: nn.Module, given: Any, output: Tensor) -> None:
        predict(module, prepared)

    handle = module.classifier.register_forward_hook(again)
    with pytest.raises(NestedCaptureError):
        predict(module, prepared)
    handle.remove()
    predict(module, prepared)


def test_a_model_that_fails_on_the_remaining_tokens() -> None:
    # BART's classifier reads its end-of-text tokens and fails without them.
    config = transformers.BartConfig(
        **{"vocab_size": 60, "d_model": 16, "encoder_layers": 1, "decoder_layers": 1},
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=16,
        decoder_ffn_dim=16,
        max_position_embeddings=40,
        num_labels=3,
    )
    module = transformers.BartForSequenceClassification(config).eval()
    ids = torch.tensor([[0, 7, 2], [0, 7, 8]])
    prepared = Batch(
        {"input_ids": ids, "use_cache": False}, {}, "input_ids", 2, "text", (b"a", b"b")
    )
    with pytest.raises(ModelError, match=r"ValueError.*keep special tokens"):
        predict(module, prepared)

"""Generated text as a target: every token explained, teacher-forced, in one batch."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import whyformer as wf
from whyformer.errors import OptionError, TargetError
from whyformer.models.families import families
from whyformer.models.families.tiny import tiny_inputs, tiny_models

WRITERS = (
    "t5",
    "bart",
    "marian",
    "whisper",
    "vision_encoder_decoder",
    "vision_gpt2",
    "blip_answering",
    "blip_captioning",
)
CONTINUERS = ("gpt2", "llama")
NEW = 3


@cache
def model_of(name: str) -> nn.Module:
    return tiny_models()[name][1]().double()


def generated_source(name: str) -> Any:
    family = tiny_models()[name][0]
    return next(s for s in family.sources if s.stream == "generated")


def inputs_of(name: str, padding: str = "right") -> dict[str, Tensor]:
    """Inputs without generated text."""
    inputs = tiny_inputs(model_of(name), (7, 5), padding=padding)
    if name in CONTINUERS:
        return inputs
    source = generated_source(name)
    return {k: v for k, v in inputs.items() if k not in (source.carrier, source.mask)}


def output_ids(name: str) -> Tensor:
    """(batch, 1 + NEW) ids of an output, with the model's start token."""
    model: Any = model_of(name)
    places = (getattr(model, "generation_config", None), model.config)
    starts = (
        getattr(p, n, None) for n in ("decoder_start_token_id", "bos_token_id") for p in places
    )
    start = next(s for s in starts if s is not None)
    ids = torch.tensor([[start, 7, 9, 11], [start, 12, 7, 8]])
    return ids[:, : 1 + NEW]


def by_hand(name: str, method: str, sample: int, place: int) -> wf.Attribution:
    """One token of one sample, explained as a token and not as part of a text."""
    source, ids = generated_source(name), output_ids(name)
    inputs = {k: v[sample : sample + 1] for k, v in inputs_of(name).items()}
    inputs[source.carrier] = ids[sample : sample + 1, : place + 1]
    token = int(ids[sample, place + 1])
    return wf.explain(inputs, model_of(name), method=method, target=wf.token(place, token))


@pytest.mark.parametrize("method", ["gae", "lrp_ah_ln", "rollout", "transformer_attribution"])
@pytest.mark.parametrize("name", WRITERS)
def test_each_row_is_the_token_alone(name: str, method: str) -> None:
    """Later tokens, other samples and their padding change nothing."""
    a = wf.explain(inputs_of(name), model_of(name), method=method, target=output_ids(name))
    for sample, place in ((0, 0), (1, 1), (0, NEW - 1)):
        alone = by_hand(name, method, sample, place)
        for stream, one in alone.streams.items():
            row = a.maps["generated", stream][sample, place]
            real = a.streams[stream].mask[sample]
            found = row[real][: one.scores.shape[1]] if stream == "generated" else row[real]
            expected = one.scores[0, one.mask[0]]
            largest = alone.scores.abs().max()
            assert (found - expected).abs().max() <= 1e-7 * largest
            assert (row[~real] == 0).all()


@pytest.mark.parametrize("name", WRITERS)
def test_scores_are_the_sum_of_the_rows(name: str) -> None:
    a = wf.explain(inputs_of(name), model_of(name), method="gae", target=output_ids(name))
    assert a.output.shape == (2,)
    for stream, one in a.streams.items():
        torch.testing.assert_close(one.scores, a.maps["generated", stream].sum(1))
    assert a.streams["generated"].said == (("7", "9", "11"), ("12", "7", "8"))
    assert len(a.labels) == len(a) == 2


@pytest.mark.parametrize("name", WRITERS)
def test_the_sum_is_conserved(name: str) -> None:
    a = wf.explain(
        inputs_of(name),
        model_of(name),
        method="lrp_ah_ln",
        target=output_ids(name),
        activations="identity",
    )
    assert a.conservation is not None
    torch.testing.assert_close(a.conservation, torch.ones_like(a.conservation), atol=1e-9, rtol=0)
    total = sum(s.scores.sum(1) for s in a.streams.values()) + sum(a.sinks.values())
    torch.testing.assert_close(total, a.output, atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("name", ["t5", "bart", "vision_encoder_decoder"])
def test_without_a_target_the_model_writes_first(name: str) -> None:
    model: Any = model_of(name)
    model.generation_config.max_new_tokens = 4
    try:
        own = model.generate(**inputs_of(name), do_sample=False)
        a = wf.explain(inputs_of(name), model, method="gae")
        b = wf.explain(inputs_of(name), model, method="gae", target=own)
    finally:
        model.generation_config.max_new_tokens = None
    assert torch.equal(a.scores, b.scores)
    assert a.labels == b.labels
    assert a.maps["generated", a.main].shape[1] <= 4


def test_ids_may_come_without_the_start_and_as_lists() -> None:
    full = wf.explain(inputs_of("t5"), model_of("t5"), method="gae", target=output_ids("t5"))
    bare = wf.explain(
        inputs_of("t5"), model_of("t5"), method="gae", target=output_ids("t5")[:, 1:].tolist()
    )
    assert torch.equal(full.scores, bare.scores)


def test_what_is_behind_the_end_is_not_explained() -> None:
    """T5's end is 1 and its padding 0."""
    ids = torch.tensor([[0, 7, 1, 0, 0], [0, 9, 12, 8, 1]])
    a = wf.explain(inputs_of("t5"), model_of("t5"), method="gae", target=ids)
    assert a.streams["generated"].said == (("7", "1", "", ""), ("9", "12", "8", "1"))
    assert a.streams["generated"].mask.tolist() == [[True, True, False, False], [True] * 4]
    assert (a.maps["generated", "source"][0, 2:] == 0).all()


@pytest.mark.parametrize("padding", ["left", "right"])
@pytest.mark.parametrize("name", CONTINUERS)
def test_a_decoder_continues_its_prompt(name: str, padding: str) -> None:
    """Each row equals the next token's explanation of the text so far, alone."""
    model: Any = model_of(name)
    inputs = inputs_of(name, padding)
    new = torch.tensor([[7, 9, 11], [12, 7, 8]])
    # What generate() returns begins with the prompt, which it wants padded left.
    target = torch.cat([inputs["input_ids"], new], 1) if padding == "left" else new
    a = wf.explain(inputs, model, method="gae", target=target)
    assert a.streams["generated"].said == (("7", "9", "11"), ("12", "7", "8"))
    for sample in range(2):
        prompt = inputs["input_ids"][sample, inputs["attention_mask"][sample].bool()]
        for place in range(NEW):
            text = torch.cat([prompt, new[sample, :place]]).unsqueeze(0)
            alone = wf.explain(
                {"input_ids": text}, model, method="gae", target=int(new[sample, place])
            )
            before = a.maps["generated", "text"][sample, place, a.streams["text"].mask[sample]]
            since = a.maps["generated", "generated"][sample, place, :place]
            torch.testing.assert_close(torch.cat([before, since]), alone.scores[0])
            assert (a.maps["generated", "generated"][sample, place, place:] == 0).all()


def test_only_the_new_tokens_may_be_given() -> None:
    inputs, model = inputs_of("gpt2", "left"), model_of("gpt2")
    new = torch.tensor([[7, 9, 11], [12, 7, 8]])
    whole = wf.explain(inputs, model, target=torch.cat([inputs["input_ids"], new], 1))
    assert torch.equal(wf.explain(inputs, model, target=new).scores, whole.scores)


def test_saved_and_loaded(tmp_path: Any) -> None:
    a = wf.explain(inputs_of("t5"), model_of("t5"), method="gae", target=output_ids("t5"))
    a.save(tmp_path / "a.safetensors")
    b = wf.load(tmp_path / "a.safetensors")
    assert b.streams["generated"].said == a.streams["generated"].said
    assert torch.equal(a.maps["generated", "source"], b.maps["generated", "source"])
    assert a[1].maps["generated", "source"].shape == (1, NEW, 5)
    for shown in (a.to_html(), a[0].to_terminal()):
        assert "11" in shown


def test_a_token_position_is_counted_in_what_the_model_writes() -> None:
    a = wf.explain(inputs_of("t5"), model_of("t5"), method="gae", target=wf.token(1))
    assert a.maps["generated", "source"].shape[1] == a.streams["generated"].scores.shape[1]
    with pytest.raises(TargetError, match=r"no token at position 999; its tokens are at 0 to"):
        wf.explain(inputs_of("t5"), model_of("t5"), method="gae", target=wf.token(999))


BAD: dict[str, tuple[Any, str]] = {
    "too few": (torch.tensor([[0, 7, 9]]), "1 generated texts were given for 2 samples"),
    "empty": ([[0, 7], [0]], "generated text of sample 1 is empty"),
    "text without a tokenizer": ("a dog", "comes without a tokenizer"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_targets(case: str) -> None:
    target, message = BAD[case]
    with pytest.raises(TargetError, match=message):
        wf.explain(inputs_of("t5"), model_of("t5"), method="gae", target=target)


def test_both_a_prefix_and_a_text() -> None:
    inputs = {**inputs_of("t5"), "decoder_input_ids": output_ids("t5")}
    with pytest.raises(TargetError, match="already have 'decoder_input_ids'"):
        wf.explain(inputs, model_of("t5"), target=output_ids("t5"))


def test_keep_is_about_one_token() -> None:
    with pytest.raises(OptionError, match=r"keep=.*wf.token"):
        wf.explain(
            inputs_of("t5"), model_of("t5"), method="gae", target=output_ids("t5"), keep="maps"
        )


def test_a_model_in_training_writes_as_in_use() -> None:
    """Dropout would make it write something else every time."""
    model: Any = families["bart"].tiny(dropout=0.5)  # type: ignore[misc]
    expected = wf.explain(inputs_of("bart"), model, method="gae").labels
    model.train()
    assert wf.explain(inputs_of("bart"), model, method="gae").labels == expected
    assert model.training

"""Sound as input: which samples make which frames, padding, and what is refused."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import torch

import whyformer as wf
from whyformer.errors import InputError
from whyformer.inputs.prepare import prepare
from whyformer.inputs.removal import Removal
from whyformer.models.families import family_of
from whyformer.models.families.tiny import tiny_inputs, tiny_models


@cache
def model_of(name: str) -> Any:
    return tiny_models()[name][1]().double()


def waveform(samples: int, batch: int = 2) -> torch.Tensor:
    generator = torch.Generator().manual_seed(samples)
    return torch.randn(batch, samples, generator=generator).double()


def test_frames_are_those_of_the_feature_extractor() -> None:
    """Kernels of 10 and 3 with strides of 5 and 2: 20 samples give one frame, each 10 one more."""
    model = model_of("wav2vec2")
    for samples, frames in ((20, 1), (29, 1), (30, 2), (89, 7), (90, 8)):
        batch = prepare(waveform(samples), model, family=family_of(model))
        assert batch.count == frames
        assert model.wav2vec2.feature_extractor(waveform(samples)).shape[2] == frames
        assert wf.explain(waveform(samples), model, target=1).scores.shape == (2, frames)


def test_moonshine_counts_as_the_model_does() -> None:
    model = model_of("moonshine")
    source = tiny_models()["moonshine"][0].sources[0]
    for samples in (895, 896, 1278, 1279, 5000):
        found = int(source.count_tokens(model, torch.tensor([samples])))
        assert found == model._get_feat_extract_output_lengths(torch.tensor(samples))


@pytest.mark.parametrize("name", ["wav2vec2_bert", "wav2vec2"])
def test_padding_must_be_at_the_end(name: str) -> None:
    model = model_of(name)
    inputs = tiny_inputs(model)
    flipped = {**inputs, "attention_mask": inputs["attention_mask"].flip(1)}
    with pytest.raises(InputError, match=r"is 0 before the end of a sample.*on the right"):
        wf.explain(flipped, model, target=1)


@pytest.mark.parametrize(
    "name", ["data2vec_audio", "moonshine", "sew", "speech_to_text", "wav2vec2_base"]
)
def test_padding_that_the_model_would_read_is_refused(name: str) -> None:
    model = model_of(name)
    inputs = tiny_inputs(model)
    inputs["attention_mask"][1, -40:] = 0
    with pytest.raises(InputError, match=r"reads the padding .*Explain samples of one length"):
        wf.explain(inputs, model, target=1)


def test_sound_that_is_too_short_is_refused() -> None:
    with pytest.raises(InputError, match="makes no token of it"):
        wf.explain(waveform(19), model_of("wav2vec2"), target=1)
    mask = torch.ones(2, 60).long()
    mask[1, 10:] = 0
    short = {"input_values": waveform(60), "attention_mask": mask}
    with pytest.raises(InputError, match="sample 1 is too short"):
        wf.explain(short, model_of("wav2vec2"), target=1)


@pytest.mark.parametrize("method", ["transformer_attribution", "full_lrp"])
def test_a_mask_that_hides_nothing_is_as_good_as_none(method: str) -> None:
    """With a mask the head writes zeros in place, which relevance rules refuse to follow."""
    model, sound = model_of("wav2vec2"), waveform(60)
    plain = wf.explain(sound, model, method=method, target=1)
    masked = {"input_values": sound, "attention_mask": torch.ones(2, 60).long()}
    found = wf.explain(masked, model, method=method, target=1)
    assert torch.equal(found.scores, plain.scores)
    alone = wf.explain(sound[1:], model, method=method, target=1)
    torch.testing.assert_close(alone.scores[0], plain.scores[1], rtol=1e-7, atol=1e-9)


def test_removed_frames_silence_their_samples() -> None:
    """A sample belongs to the last frame that is complete with it: 30 samples to the first."""
    model, sound = model_of("wav2vec2"), waveform(60, batch=1)
    family = family_of(model)
    batch = prepare(sound, model, family=family)
    kept = torch.tensor([[True, False, True, True, True]])
    removal = Removal(batch, model, family)
    left = removal.remove("audio", kept, torch.tensor([0])).batch.arguments["input_values"]
    silent = torch.zeros(60, dtype=torch.bool)
    silent[29:39] = True
    assert torch.equal(left[0] == 0, silent)


def test_removed_patches_of_a_spectrogram() -> None:
    """The grid's rows are pitches and its columns are times."""
    model = model_of("audio_spectrogram_transformer")
    inputs = tiny_inputs(model, (1,))
    a = wf.explain(inputs, model, target=1)
    assert a.streams["audio"].grid == (3, 4)
    family = family_of(model)
    batch = prepare(inputs, model, family=family)
    kept = torch.ones(3, 4, dtype=torch.bool)
    kept[:, 0] = False
    removal = Removal(batch, model, family)
    left = removal.remove("audio", kept.reshape(1, -1), torch.tensor([0]), (3, 4))
    value = left.batch.arguments["input_values"]
    assert (value[0, :3] == 0).all()  # of 13 frames
    assert (value[0, 4:] != 0).all()

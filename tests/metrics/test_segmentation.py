"""Segmentation by hand, against scikit-learn, and against the benchmark's counts."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, average_precision_score, jaccard_score

import whyformer as wf
from benchmarks.segmentation import Tally
from tests.metrics.making import image, stream_of, text
from whyformer.errors import InputError
from whyformer.metrics import combine_scores
from whyformer.metrics.segmentation import all_measures, average_precision

SEGMENTATION = wf.metrics()["segmentation"]
MEASURES = ("pixel_accuracy", "miou", "map", "map_foreground", "map_class_mean")


def test_by_hand() -> None:
    """Three of four labelled pixels right; the two below would have been wrong and right."""
    attribution = image([[[1.0, 0.8], [0.6, 0.0], [0.0, 0.0]]])  # mean 0.4
    masks = torch.tensor([[[1, 1], [0, 0], [-1, -1]]])
    parts = SEGMENTATION(attribution, masks=masks).parts
    assert parts["pixel_accuracy"].tolist() == [pytest.approx(3 / 4)]
    assert parts["miou"].tolist() == [pytest.approx((1 / 2 + 2 / 3) / 2)]
    assert parts["map_foreground"].tolist() == [pytest.approx(1)]
    assert parts["map_class_mean"].tolist() == [pytest.approx(1)]
    # One ranking: 1.0 fg, 1.0 bg, 0.8 fg, 0.6 no, 0.4 bg, then 0.2 no and twice 0.0 no.
    joint = 2 / 2 / 4 * 2 + 3 / 3 / 4 + 4 / 5 / 4
    assert parts["map"].tolist() == [pytest.approx(joint)]


def test_it_says_which_map_it_took() -> None:
    masks = torch.tensor([[[1, 0]]])
    for measure in MEASURES:
        score = SEGMENTATION(image([[[1.0, 0.0]]]), masks=masks, measure=measure)
        assert score.convention.startswith(f"{measure}: ")
        assert torch.equal(score.values, score.parts[measure])


def test_all_measures_at_once() -> None:
    maps, masks = maps_and_masks(0)
    found = all_measures(image(maps), masks)
    assert tuple(found) == MEASURES
    for measure, score in found.items():
        alone = SEGMENTATION(image(maps), masks=masks, measure=measure)
        assert torch.equal(score.values, alone.values)
        assert (score.mean, score.convention) == (alone.mean, alone.convention)


def maps_and_masks(seed: int, rows: int = 3, columns: int = 4) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(seed)
    maps = torch.randn(4, rows, columns, generator=generator)
    masks = torch.randint(-1, 2, (4, rows * 4, columns * 4), generator=generator)
    return maps, masks


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 999))
def test_against_scikit_learn(seed: int) -> None:
    maps, masks = maps_and_masks(seed)
    parts = SEGMENTATION(image(maps), masks=masks).parts
    raised = F.interpolate(maps.double().unsqueeze(1), size=(12, 16), mode="bilinear").squeeze(1)
    for i, (scores, mask) in enumerate(zip(raised, masks, strict=True)):
        scaled = (scores - scores.min()) / (scores.max() - scores.min())
        counted = mask >= 0
        truth, found = (mask[counted] == 1).numpy(), (scaled > scaled.mean())[counted].numpy()
        both = torch.cat((scaled[counted], 1 - scaled[counted])).numpy()
        sides = torch.cat((mask[counted] == 1, mask[counted] == 0)).numpy()
        per_class = [
            average_precision_score(truth, scaled[counted].numpy()),
            average_precision_score(~truth, (1 - scaled[counted]).numpy()),
        ]
        expected = {
            "pixel_accuracy": accuracy_score(truth, found),
            "miou": jaccard_score(truth, found, average="macro", labels=[False, True]),
            "map": average_precision_score(sides, both),
            "map_foreground": per_class[0],
            "map_class_mean": sum(per_class) / 2,
        }
        assert {name: float(parts[name][i]) for name in expected} == pytest.approx(expected)


def test_average_precision_with_ties_is_scikit_learns() -> None:
    generator = torch.Generator().manual_seed(0)
    scores = torch.randint(0, 4, (20, 30), generator=generator).double()
    truth = torch.rand(20, 30, generator=generator) < 0.4
    everything = torch.ones_like(truth)
    expected = [average_precision_score(t, s) for t, s in zip(truth, scores, strict=True)]
    assert average_precision(scores, truth, everything).tolist() == pytest.approx(expected)
    assert average_precision(scores, ~everything, everything).tolist() == [0] * 20


@pytest.mark.parametrize("seed", range(3))
def test_means_are_the_benchmarks(seed: int) -> None:
    """Accuracy and mIoU are of all pixels, average precision is per image."""
    maps, masks = maps_and_masks(seed)
    masks[0, :, 4:] = -1  # images weigh differently
    raised = F.interpolate(maps.double().unsqueeze(1), size=(12, 16), mode="bilinear").squeeze(1)
    tally = Tally()
    for score_map, mask in zip(raised, masks, strict=True):
        tally.add(score_map, mask == 1, mask >= 0)
    figures = tally.figures()
    for measure in MEASURES:
        # One batch, and two that are combined.
        whole = SEGMENTATION(image(maps), masks=masks, measure=measure)
        halves = [
            SEGMENTATION(image(maps[part]), masks=masks[part], measure=measure)
            for part in (slice(0, 1), slice(1, 4))
        ]
        assert 100 * whole.mean == pytest.approx(figures[measure])
        assert combine_scores(halves).mean == pytest.approx(whole.mean)
    accuracy = SEGMENTATION(image(maps), masks=masks)
    assert accuracy.mean != pytest.approx(float(accuracy.values.mean()), abs=1e-4)


def test_labels_of_other_datasets() -> None:
    maps, masks = maps_and_masks(0)
    trimaps = torch.tensor([2, 1, 3])[masks]  # background, animal, boundary (-1 is the last)
    as_ours = SEGMENTATION(image(maps), masks=masks)
    as_pets = SEGMENTATION(image(maps), masks=trimaps, foreground=1, ignore=3)
    assert torch.equal(as_ours.values, as_pets.values)
    as_bool = SEGMENTATION(image(maps), masks=masks == 1)
    background = SEGMENTATION(image(maps), masks=(masks == 1).int())
    assert torch.equal(as_bool.values, background.values)


def test_perfect_beats_random_beats_adversarial() -> None:
    generator = torch.Generator().manual_seed(0)
    patches = (torch.rand(30, 4, 4, generator=generator) < 0.4).double()
    masks = patches.repeat_interleave(4, 1).repeat_interleave(4, 2).long()
    chance = torch.rand(30, 4, 4, generator=generator)
    for measure in MEASURES:
        perfect, random, adversarial = (
            SEGMENTATION(image(maps), masks=masks, measure=measure).mean
            for maps in (patches, chance, -patches)
        )
        assert perfect > random + 0.1 > adversarial + 0.2


def test_a_method_that_reaches_pixels_is_taken_at_its_pixels() -> None:
    pixels = torch.tensor([[[0.0, 1.0], [0.0, 1.0]]])
    masks = torch.tensor([[[0, 1], [0, 1]]])
    score = SEGMENTATION(image([[[1.0]]], pixels=pixels), masks=masks)
    assert score.mean == pytest.approx(1)
    assert SEGMENTATION(image([[[1.0]]]), masks=masks).mean == pytest.approx(0.5)


def test_a_flat_map_is_all_background() -> None:
    masks = torch.tensor([[[0, 0, 0, 1]]])
    assert SEGMENTATION(image([[[3.0, 3.0]]]), masks=masks).mean == pytest.approx(3 / 4)


def test_nothing_to_find() -> None:
    """All object, none of it, nothing labelled: absent classes do not count."""
    maps = [[[1.0, 0.0]]] * 3
    masks = torch.tensor([[[1, 1]], [[0, 0]], [[-1, -1]]])
    for measure in MEASURES:
        score = SEGMENTATION(image(maps), masks=masks, measure=measure)
        assert score.values.isfinite().all()
        assert score.values[2] == 0
    foreground = SEGMENTATION(image(maps), masks=masks, measure="map_foreground")
    assert foreground.mean == pytest.approx(1)
    assert SEGMENTATION(image(maps), masks=masks).mean == pytest.approx(2 / 4)


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(InputError, match=r"masks are \(2, 2\); expected \(1, height, width\)"):
        SEGMENTATION(image([[[1.0]]]), masks=torch.zeros(2, 2))
    with pytest.raises(InputError, match="not an image"):
        SEGMENTATION(text([[1.0]]), masks=torch.zeros(1, 2, 2))
    assert stream_of([[1.0]]).grid is None

"""The experiments as data: rows that run, columns that exist, and the papers' own figures."""

from __future__ import annotations

import pytest

from whyformer.datasets import datasets
from whyformer.evaluation.plan import Plan
from whyformer.metrics import metrics
from whyformer.models import bundled
from whyformer.reproduce.experiment import ExperimentPart
from whyformer.reproduce.experiments import EXPERIMENTS
from whyformer.reproduce.recipes import RECIPES, split_source

PARTS = {f"{e.name}/{part.name}": part for e in EXPERIMENTS.values() for part in e.parts}

# Ali et al. 2022, area under the activation curve: by row, then IMDB, SST-2, BACE, MNIST,
# T-Emotions, T-Hate, T-Sentiment, MELD-S. None where the paper has no figure.
COLUMNS = ("imdb", "sst2", "bace", "mnist", "emotion", "hate", "sentiment", "meld")
AUAC = {
    "Random": (0.673, 0.664, 0.624, 0.324, 0.516, 0.640, 0.484, 0.460),
    "A-Last": (0.708, 0.712, 0.620, 0.862, 0.542, 0.663, 0.515, 0.483),
    "A-Flow": (None, 0.711, 0.637, None, None, None, None, None),
    "Rollout": (0.738, 0.713, 0.653, 0.358, 0.554, 0.659, 0.520, 0.489),
    "GAE": (0.872, 0.821, 0.675, 0.426, 0.675, 0.762, 0.611, 0.548),
    "GI": (0.920, 0.847, 0.646, 0.942, 0.652, 0.772, 0.651, 0.591),
    "LRP (AH)": (0.911, 0.855, 0.645, 0.942, 0.675, 0.797, 0.668, 0.594),
    "LRP (LN)": (0.935, 0.907, 0.702, 0.947, 0.735, 0.829, 0.710, 0.632),
    "LRP (AH+LN)": (0.939, 0.908, 0.707, 0.948, 0.750, 0.838, 0.713, 0.635),
}
AU_MSE = {
    "sst2": {
        "Random": 3.977,
        "A-Last": 2.566,
        "Rollout": 2.430,
        "GI": 2.106,
        "LRP (AH)": 2.027,
        "LRP (AH+LN)": 1.564,
    },
    "imdb": {
        "Random": 2.161,
        "A-Last": 1.651,
        "Rollout": 1.042,
        "GI": 0.878,
        "LRP (AH)": 0.777,
        "LRP (AH+LN)": 0.659,
    },
}


@pytest.mark.parametrize("name", COLUMNS)
def test_activation_curves_as_published(name: str) -> None:
    column = COLUMNS.index(name)
    published = {row: values[column] for row, values in AUAC.items() if values[column] is not None}
    assert PARTS[f"ali2022/{name}"].published["auac"] == published


@pytest.mark.parametrize("name", COLUMNS)
def test_pruning_as_published(name: str) -> None:
    part = PARTS[f"ali2022/{name}"]
    assert part.published.get("au_mse", {}) == AU_MSE.get(name, {})
    assert ("au_mse" in {measure.label for measure in part.measures}) == (name in AU_MSE)


def test_the_column_that_cannot_be_had_is_named() -> None:
    ali = EXPERIMENTS["ali2022"]
    assert {part.name for part in ali.parts} == set(COLUMNS)
    assert any("SEMAINE" in message for message in ali.missing)


def test_the_papers_experiments_and_our_own() -> None:
    assert set(EXPERIMENTS) == {
        "ali2022",
        "chefer2021-vision",
        "chefer2021-text",
        "chefer2021-multimodal",
        "methods",
    }
    for experiment in EXPERIMENTS.values():
        names = [part.name for part in experiment.parts]
        assert len(set(names)) == len(names)
        assert experiment.notes  # every one differs from its paper in something


@pytest.mark.parametrize("part", PARTS.values(), ids=PARTS)
def test_every_part_can_be_planned(part: ExperimentPart) -> None:
    Plan(part.rows, part.measures, part.targets, part.fill, seed=0, truncation=True)
    for measure in part.measures:
        metrics[measure.metric].check(
            {key: value for key, value in measure.options.items() if key != "stream"}
        )


@pytest.mark.parametrize("part", PARTS.values(), ids=PARTS)
def test_every_part_has_a_model_and_data(part: ExperimentPart) -> None:
    if part.data:
        name, place, options = split_source(part.data)
        datasets[name].check(options)
        assert place
        assert part.split is None or datasets[name].split(part.split)
    else:
        assert part.model in {*RECIPES, *bundled.models()}


@pytest.mark.parametrize("part", PARTS.values(), ids=PARTS)
def test_figures_stand_beside_rows_that_exist(part: ExperimentPart) -> None:
    labels = {row.label for row in part.rows}
    measured = {measure.label for measure in part.measures}
    for name, figures in part.published.items():
        metric, _, target = name.partition(", ")
        assert metric.partition("/")[0] in measured
        assert not target or target in part.targets
        assert set(figures) <= labels
        bound = 10 if metric == "au_mse" else 100 if "perturbation" in metric else 1
        assert all(bound / 100 < value < bound for value in figures.values())


def test_figures_of_a_class_stand_beside_no_other() -> None:
    part = PARTS["chefer2021-vision/perturbation"]
    assert part.targets == ("predicted", "label")
    assert all(name.endswith((", predicted", ", label")) for name in part.published)
    assert part.published["perturbation_positive, label"]["Transformer Attribution"] == 16.04
    assert part.published["perturbation_negative, predicted"]["rollout"] == 53.1
    assert "rollout" not in part.published["perturbation_negative, label"]


def test_the_area_is_the_authors() -> None:
    for measure in PARTS["chefer2021-vision/perturbation"].measures:
        assert measure.options["steps"] == tuple(i / 10 for i in range(10))
        assert measure.options["percent"]
        assert not measure.options["normalised"]


def test_the_paper_s_method_leads_its_own_tables() -> None:
    """A figure in the wrong row would show here."""
    for part in EXPERIMENTS["chefer2021-vision"].parts:
        for name, figures in part.published.items():
            better = min if "positive" in name else max
            assert better(figures, key=figures.__getitem__) == "Transformer Attribution"
    for part in EXPERIMENTS["ali2022"].parts:
        for name, figures in part.published.items():
            better = min if name == "au_mse" else max
            assert better(figures, key=figures.__getitem__) == "LRP (AH+LN)"

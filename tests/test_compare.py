"""`wf.compare`: several answers about one input, looked at together."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import whyformer as wf
from whyformer.compare import DEFAULT_METHODS
from whyformer.errors import InputError, OptionError
from whyformer.models.families.tiny import tiny_inputs, tiny_models

MODEL = tiny_models()["bert"][1]()
INPUTS = tiny_inputs(MODEL, (6,))


def test_a_handful_of_methods() -> None:
    found = wf.compare(INPUTS, MODEL)
    assert [one.method for one in found] == ["libragrad", *DEFAULT_METHODS[1:]]
    assert len(found) == 5
    single = wf.explain(INPUTS, MODEL, method="gae")
    torch.testing.assert_close(found[3].scores, single.scores)


def test_targets_with_one_method_or_several() -> None:
    targets = [0, 1, wf.contrast(0, 1)]
    found = wf.compare(INPUTS, MODEL, targets=targets)
    assert [one.method for one in found] == ["libragrad"] * 3
    assert len({one.labels for one in found}) == 3
    both = wf.compare(INPUTS, MODEL, methods=["gae", "rollout"], targets=[0, 1])
    assert [one.method for one in both] == ["gae", "gae", "rollout", "rollout"]


def test_views_of_it(tmp_path: Path) -> None:
    found = wf.compare(INPUTS, MODEL, targets=[0, 1])
    found.to_html(tmp_path / "why.html")
    assert (tmp_path / "why.html").read_text("utf-8") == found.to_html()
    assert found.to_html().startswith("<!")
    found.to_png(tmp_path / "why.png")
    assert (tmp_path / "why.png").read_bytes().startswith(b"\x89PNG")
    assert found.to_json().lstrip().startswith(("[", "{"))
    assert "libragrad" in found.to_terminal()
    assert "whyformer" in found._repr_html_()


@pytest.mark.parametrize("settings", [{"methods": "gae"}, {"targets": "AB"}, {"methods": []}])
def test_what_is_no_list_is_refused(settings: dict) -> None:
    with pytest.raises(InputError, match=r"are lists|are empty"):
        wf.compare(INPUTS, MODEL, **settings)


def test_the_scale_of_a_comparison() -> None:
    own = wf.compare(INPUTS, MODEL, targets=[0, 1])
    shared = wf.compare(INPUTS, MODEL, targets=[0, 1], scale="shared")
    assert (own.scale, shared.scale) == ("own", "shared")
    assert "Each target has its own colour scale" in own.to_html()
    assert "All share one colour scale" in shared.to_html()
    assert own.to_png() != shared.to_png()
    assert own.to_json() == shared.to_json()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"scale": "shared", "methods": ["lrp_ah_ln", "gae"]}, "'gae' do not sum to the output"),
        ({"scale": "each"}, "scale='each' is unknown"),
        ({"on_error": "skip"}, "no option 'on_error'"),
        ({"method": "gae"}, "no option 'method'"),
        ({"target": 1}, "no option 'target'"),
        ({"batch_size": 2}, "no option 'batch_size'"),
        ({"memory": "none"}, "memory='none' is unknown"),
        ({"keep": "nothing"}, "cannot keep 'nothing'"),
    ],
)
def test_settings_that_do_not_fit(settings: dict, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        wf.compare(INPUTS, MODEL, **{"methods": ["lrp_ah_ln"], **settings})


def test_settings_of_explain_and_options_pass_through() -> None:
    found = wf.compare(
        INPUTS, MODEL, methods=["lrp_ah_ln"], keep="states", activations="identity", deciding=0
    )
    assert found[0].options["activations"] == "identity"
    assert found[0].streams[found[0].main].states is not None


def test_a_figure_by_its_public_name(tmp_path: Path) -> None:
    found = wf.compare(INPUTS, MODEL, methods=["gae", "rollout"])
    wf.figure([[one] for one in found]).save(tmp_path / "why.svg")
    assert "<svg" in (tmp_path / "why.svg").read_text("utf-8")

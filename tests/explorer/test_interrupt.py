from __future__ import annotations

import pytest
import torch

import whyformer as wf
from whyformer.explorer.catalogue import Catalogue
from whyformer.explorer.interrupt import InterruptMode, JobStopped

TEXT = "a gripping film"


@pytest.mark.parametrize("method", ["lrp_ah_ln", "gae", "transformer_attribution"])
def test_watching_changes_no_number(offered: Catalogue, method: str) -> None:
    loaded = offered["sst2"].load()
    plain = wf.explain(TEXT, loaded.module, processor=loaded.processor, method=method)
    with InterruptMode(lambda: False):
        watched = wf.explain(TEXT, loaded.module, processor=loaded.processor, method=method)
    assert torch.equal(plain.scores, watched.scores)


@pytest.mark.parametrize("after", [1, 500, 1500])
def test_an_explanation_stops_in_the_middle_and_leaves_the_model_as_it_was(
    offered: Catalogue, after: int
) -> None:
    loaded = offered["sst2"].load()
    before = {name: value.clone() for name, value in loaded.module.state_dict().items()}
    asked = 0

    def stopped() -> bool:
        nonlocal asked
        asked += 1
        return asked > after

    with pytest.raises(JobStopped), InterruptMode(stopped):
        wf.explain(TEXT, loaded.module, processor=loaded.processor, method="gae")
    assert not loaded.module.training
    assert all(p.grad is None for p in loaded.module.parameters())
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in loaded.module.modules())
    assert all(torch.equal(v, before[n]) for n, v in loaded.module.state_dict().items())
    assert wf.explain(TEXT, loaded.module, processor=loaded.processor).labels == ("positive",)

"""Which samples a part is evaluated on."""

from __future__ import annotations

from pathlib import Path

from whyformer.models.load import load_model
from whyformer.reproduce.experiments import EXPERIMENTS
from whyformer.reproduce.samples import select_samples


def test_texts_that_nothing_can_be_removed_from_are_left_out(tmp_path: Path) -> None:
    folder = tmp_path / "sst2"
    folder.mkdir()
    (folder / "dev.tsv").write_text("1\ta fine film\n0\tdull\n1\t\n0\tnot good\n", encoding="utf-8")
    part = next(part for part in EXPERIMENTS["methods"].parts if part.name == "sst2")
    samples, labels, remark = select_samples(part, tmp_path, None, load_model("sst2"))
    assert [sample.inputs for sample in samples] == ["a fine film", "not good"]
    assert "1 row left out: a single token" in remark
    assert labels == ("negative", "positive")

"""`attribution.trust`: every check with the value it must find, and how findings travel."""

from __future__ import annotations

import json
import math
import warnings
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import whyformer as wf
from whyformer.attribution import Reason, Trust, make_trust
from whyformer.attribution.trust import merge_trust
from whyformer.engine.plain_forward import plain_value
from whyformer.errors import ConservationWarning, OptionError, TrustError, TrustWarning
from whyformer.inputs.prepare import prepare
from whyformer.methods import methods
from whyformer.models.load import load_model
from whyformer.pipeline.checks import forward as forward_check
from whyformer.pipeline.checks.conservation import conservation_reasons
from whyformer.pipeline.checks.precision import FLOAT64, precision_reasons, rounding_noise
from whyformer.pipeline.checks.values import value_reasons

TEXT = "a gripping, beautifully acted film"
WIDTH = 8


class Layer(nn.Module):
    """A block of attention and an MLP, with an operation on the way of the tokens."""

    def __init__(self, operation: Any = torch.relu) -> None:
        super().__init__()
        self.mix = nn.Linear(WIDTH, 3 * WIDTH)
        self.up = nn.Linear(WIDTH, WIDTH)
        self.operation = operation

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.mix(x).chunk(3, dim=-1)
        x = x + F.scaled_dot_product_attention(q, k, v)
        return x + self.operation(self.up(x))


class Net(nn.Module):
    """Token states in, two logits out."""

    def __init__(self, operation: Any = torch.relu, head: Any = None) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList([Layer(operation), Layer(operation)])
        self.classify = nn.Linear(WIDTH, 2)
        self.head = head
        self.double().eval()

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        logits: Tensor = self.classify(x[:, 0])
        return logits if self.head is None else self.head(logits)


def states(batch: int = 2, tokens: int = 5) -> Tensor:
    return torch.randn(
        batch, tokens, WIDTH, dtype=torch.float64, generator=torch.Generator().manual_seed(1)
    )


def explain(model: nn.Module, **settings: Any) -> wf.Attribution:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TrustWarning)
        return wf.explain(states(), model, **{"target": 1, "method": "libragrad", **settings})


def kinds(found: wf.Attribution, level: str) -> list[str]:
    return [reason.kind for reason in found.trust.reasons if reason.level == level]


# -- the verdict -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("levels", "verdict"),
    [
        ([], "unchecked"),
        (["ok"], "sound"),
        (["ok", "note"], "sound with notes"),
        (["note", "warning", "ok"], "doubtful"),
    ],
)
def test_the_worst_reason_decides(levels: list[Any], verdict: str) -> None:
    trust = make_trust([Reason("values", level, "It is so.") for level in levels])
    assert trust.verdict == verdict
    assert str(trust).startswith(verdict)


def test_the_line_has_one_finding_per_kind_and_the_largest() -> None:
    small = Reason("conservation", "warning", "Small.", share=0.1, samples=(0,))
    large = Reason("conservation", "warning", "Large.", share=0.5, samples=(3,))
    other = Reason("operations", "warning", "Named.", ("sin",), 0.4)
    note = Reason("layers", "note", "A note.")
    trust = make_trust([small, large, note, other])
    assert str(trust) == "doubtful: Named. 2 samples, worst is sample 3: Large."
    assert trust.take((0,)).summary == "Named. Small."
    assert trust.take((1,)).summary == "Named."
    assert repr(trust) == f"<Trust {trust}>"


def test_samples_keep_their_reasons_when_batches_are_cut_and_merged() -> None:
    exact = Reason("conservation", "ok", "Exact.")
    off = Reason("conservation", "warning", "Off.", share=0.2, samples=(1,))
    first = Trust((replace(exact, samples=(0,)), off))
    merged = merge_trust([(first, [2, 0]), (Trust((exact,)), [1])])
    assert merged.reasons == (replace(exact, samples=(1, 2)), replace(off, samples=(0,)))
    assert [merged.take((i,)).verdict for i in range(3)] == ["doubtful", "sound", "sound"]
    assert merged.take((1, 2)).reasons == (exact,)
    assert merged.take((2, 0)).reasons == first.reasons
    same = merge_trust([(Trust((exact,)), [0]), (Trust((exact,)), [1])])
    assert same.reasons == (exact,)


def test_rows_of_one_text_keep_the_largest_finding() -> None:
    rows = [
        Reason("operations", "warning", f"{s}.", ("sin",), s, (i,))
        for i, s in enumerate((0.1, 0.3, 0.2))
    ]
    merged = Trust(tuple(rows)).merge_rows((0, 0, 1))
    assert [(r.share, r.samples) for r in merged.reasons] == [(0.3, (0,)), (0.2, (1,))]


def test_it_is_saved_and_loaded_and_in_json(tmp_path: Any) -> None:
    found = explain(Net(torch.sin))
    assert found.trust.verdict == "doubtful"
    found.save(tmp_path / "why.safetensors")
    assert wf.load(tmp_path / "why.safetensors").trust == found.trust
    data = json.loads(found.to_json())["trust"]
    assert data == json.loads(json.dumps(found.trust.to_dict()))
    assert data["verdict"] == "doubtful"
    assert Trust.from_dict(data) == found.trust


def test_a_file_of_an_older_version_is_unchecked() -> None:
    assert Trust.from_dict(None).verdict == "unchecked"


# -- conservation and operations -------------------------------------------------------------------


def made(scores: list[list[float]], output: list[float], **fields: Any) -> wf.Attribution:
    """An attribution of these scores."""
    a = wf.explain(TEXT)
    values = torch.tensor(scores)
    stream = replace(
        a.streams["text"],
        scores=values,
        mask=torch.ones_like(values).bool(),
        tokens=None,
        word_ids=None,
    )
    return replace(
        a,
        streams={"text": stream},
        output=torch.tensor(output),
        labels=("x",) * len(output),
        target=torch.zeros(len(output)),
        sinks={},
        trust=Trust(),
        **fields,
    )


def judge(a: wf.Attribution, leaks: dict[str, list[float]] | None = None) -> list[Reason]:
    lost = {name: torch.tensor(values) for name, values in (leaks or {}).items()}
    return list(conservation_reasons(a, methods["libragrad"], torch.float32, lost))


def test_a_loss_is_measured_against_the_output_and_not_against_the_mass() -> None:
    """0.5 % of the output is 0.005 % of the mass here: it used to go unsaid."""
    (found,) = judge(made([[50.0, -49.005]], [1.0]))
    assert found.level == "warning"
    assert found.share == pytest.approx(0.005, rel=1e-3)
    assert "sum to 99.5 % of the output" in found.text
    assert "0.5 % is missing, and no operation is known to have lost it" in found.text


def test_what_the_named_operations_lost_is_explained() -> None:
    operations, total = judge(made([[0.5, 0.3]], [1.0]), {"sin": [0.2], "exp": [1e-9]})
    assert operations.culprits == ("sin",)
    assert operations.share == pytest.approx(0.2)
    assert "lost a share of it: sin (20 %)" in operations.text
    assert "no operation is known" not in total.text
    half, rest = judge(made([[0.5, 0.3]], [1.0]), {"sin": [0.1]})
    assert "sin (10 %)" in half.text
    assert "20 % is missing, and no operation is known to have lost it" in rest.text


def test_losses_that_cancel_are_named_although_the_sum_is_right() -> None:
    operations, total = judge(made([[0.5, 0.5]], [1.0]), {"sin": [0.2], "exp": [-0.2]})
    assert set(operations.culprits) == {"sin", "exp"}
    assert total.level == "ok"


def test_an_output_near_zero_is_excused_by_rounding_and_said() -> None:
    (near,) = judge(made([[100.0, -99.9999]], [2e-4]))
    assert near.level == "note"
    assert "output is near 0" in near.text
    (zero,) = judge(made([[1.0, 2.0]], [0.0]))
    assert (zero.level, zero.share) == ("warning", math.inf)


def test_each_sample_has_its_own_sum() -> None:
    found = judge(made([[0.5, 0.5], [0.5, 0.2], [0.2, 0.8]], [1.0, 1.0, 1.0]))
    assert [(r.level, r.samples) for r in found] == [("ok", (0, 2)), ("warning", (1,))]


def test_a_model_that_leaks_is_doubtful_per_sample_and_strict_refuses_it() -> None:
    model = Net(torch.sin)
    found = explain(model)
    assert {"operations", "conservation"} <= set(kinds(found, "warning"))
    assert found.conservation is not None
    for i, one in enumerate(found):
        (total,) = [r for r in one.trust.reasons if r.kind == "conservation"]
        assert total.share == pytest.approx(abs(float(found.conservation[i]) - 1), rel=1e-6)
        assert total.samples is None
    with pytest.raises(TrustError, match=r"sin \(") as caught:
        wf.explain(states(), model, target=1, method="libragrad", strict=True)
    assert caught.value.argument == "strict"
    with pytest.raises(TrustError):
        wf.compare(states(), model, methods=["libragrad"], targets=[1], strict=True)


def test_there_is_one_warning_for_all_findings() -> None:
    with pytest.warns(ConservationWarning, match="attribution.trust") as caught:
        wf.explain(states(), Net(torch.sin), target=1, method="libragrad")
    assert len(caught) == 1
    assert caught[0].filename == __file__


def test_a_series_skips_doubtful_inputs_if_strict() -> None:
    model = Net(torch.sin)
    settings: dict[str, Any] = {"target": 1, "method": "libragrad", "strict": True}
    with pytest.warns(wf.errors.SkippedWarning, match="gave a doubtful explanation"):
        found = list(wf.explain(iter(states().split(1)), model, on_error="skip", **settings))
    assert found == []


def test_settings_are_flags() -> None:
    for setting in ("strict", "check_precision"):
        with pytest.raises(OptionError, match=setting):
            wf.explain(TEXT, **{setting: "yes"})


# -- values ----------------------------------------------------------------------------------------


def test_numbers_that_are_none_are_never_normal() -> None:
    broken = made([[1.0, math.nan], [1.0, 2.0], [math.inf, 0.0]], [1.0] * 3)
    (bad, good) = sorted(value_reasons(broken), key=lambda r: r.level, reverse=True)
    assert (bad.level, bad.culprits, bad.samples) == ("warning", ("text",), (0, 2))
    assert (good.level, good.samples) == ("ok", (1,))


def test_a_map_that_tells_nothing_is_doubtful() -> None:
    flat = made([[0.0, 0.0], [0.1, 0.1], [0.1, 0.2]], [1.0] * 3)
    texts = {r.samples: (r.level, r.text) for r in value_reasons(flat)}
    assert texts[(0,)][0] == texts[(1,)][0] == "warning"
    assert "are 0" in texts[(0,)][1]
    assert "are equal" in texts[(1,)][1]
    assert texts[(2,)][0] == "ok"
    assert value_reasons(made([[3.0]], [3.0]))[0].level == "ok"  # one token is no map


def test_padding_is_not_looked_at() -> None:
    a = made([[0.1, 0.1, 0.0]], [1.0])
    cut = replace(a.streams["text"], mask=torch.tensor([[True, True, False]]))
    (found,) = value_reasons(replace(a, streams={"text": cut}))
    assert found.level == "warning"


# -- the plain forward -----------------------------------------------------------------------------


class Watched(Net):
    """Another value while a torch function mode is on."""

    def forward(self, x: Tensor) -> Tensor:
        logits = super().forward(x)
        on = torch.overrides._get_current_function_mode() is not None
        return logits * (1.1 if on else 1.0)


def test_a_model_that_computes_something_else_is_doubtful() -> None:
    found = explain(Watched())
    (reason,) = [r for r in found.trust.reasons if r.kind == "forward"]
    assert reason.level == "warning"
    assert reason.share == pytest.approx(0.1, rel=1e-6)
    assert found.trust.verdict == "doubtful"


def test_a_model_with_random_numbers_gets_a_note() -> None:
    found = explain(Net(head=lambda logits: logits * (1 + torch.rand(()).double())))
    (reason,) = [r for r in found.trust.reasons if r.kind == "forward"]
    assert (reason.level, "random numbers" in reason.text) == ("note", True)


def test_the_plain_model_runs_once_per_size_and_again_after_training(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runs: list[int] = []

    def counted(*arguments: Any, **settings: Any) -> Any:
        runs.append(1)
        return plain_value(*arguments, **settings)

    monkeypatch.setattr(forward_check, "plain_value", counted)
    model = Net()
    for count in (5, 5, 6, 7, 8):  # all of them round up to 8
        wf.explain(states(2, count), model, target=1, method="libragrad")
    assert len(runs) == 1
    wf.explain(states(2, 9), model, target=1, method="libragrad")
    wf.explain(states(2, 5), model, target=1, method="gradient_x_input")
    assert len(runs) == 3
    with torch.no_grad():
        model.classify.weight.mul_(2)
    wf.explain(states(2, 5), model, target=1, method="libragrad")
    assert len(runs) == 4


# -- precision -------------------------------------------------------------------------------------


def test_float64_confirms_float32_and_is_not_checked_twice() -> None:
    found = wf.explain(TEXT, check_precision=True)
    (reason,) = [r for r in found.trust.reasons if r.kind == "precision"]
    assert reason.level == "ok"
    assert FLOAT64 in reason.text
    assert "computes in float64" in explain(Net(), check_precision=True).trust.reasons[-1].text


def test_scores_that_rank_differently_in_float64_are_doubtful() -> None:
    ours, theirs = made([[3.0, 2.0, 1.0]], [6.0]), made([[1.0, 2.0, 3.0]], [6.0])
    (reason,) = precision_reasons(ours, theirs, FLOAT64)
    assert reason.level == "warning"
    assert "rank correlation -1.00" in reason.text
    (other,) = precision_reasons(ours, replace(theirs, labels=("y",)), FLOAT64)
    assert "predicts something else" in other.text


def test_without_float64_the_inputs_are_changed_by_a_rounding_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("whyformer.pipeline.explain_batch.copy_in_float64", lambda *_: None)
    found = wf.explain(TEXT, check_precision=True)
    (reason,) = [r for r in found.trust.reasons if r.kind == "precision"]
    assert (reason.level, "rounding step" in reason.text) == ("ok", True)


def test_the_rounding_step_is_one_and_is_undone() -> None:
    table = nn.Embedding(5, 3).requires_grad_(False)
    ids = torch.arange(5)
    before = table(ids)
    loaded = load_model("sst2")
    batch = prepare(TEXT, loaded.module, loaded.processor, loaded.family)
    with rounding_noise(table, batch):
        change = (table(ids) / before - 1).abs()
    assert 0 < float(change.max()) <= 2 * torch.finfo(torch.float32).eps
    assert torch.equal(table(ids), before)


# -- where it is shown -----------------------------------------------------------------------------


def test_every_view_has_one_line() -> None:
    doubtful = Trust((Reason("layers", "warning", "Layer <3> was not seen."),))
    a = wf.explain(TEXT)
    assert a.to_terminal().count("Scores and sinks sum to") == 1
    assert "Trust: sound." in a.to_terminal()
    assert '<strong class="trust sound">Trust: sound.</strong> Scores and sinks sum' in a.to_html()
    bad = replace(a, trust=doubtful)
    assert "Trust: doubtful. " in bad.to_terminal()
    for page in (bad.to_html(), bad._repr_html_(), wf.Comparison((bad, a)).to_html()):
        assert '<strong class="trust doubtful">Trust: doubtful.</strong> Layer &lt;3&gt;' in page
    assert "doubtful" in repr(bad)
    assert "doubtful" not in repr(a)

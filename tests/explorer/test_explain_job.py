from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import transformers

import whyformer as wf
from tests.explorer.conftest import Client
from tests.wordpiece import wordpiece_of
from whyformer.engine.rerun import Rerun
from whyformer.explorer.catalogue import Catalogue, OfferedModel
from whyformer.explorer.deletion_curve import STEPS
from whyformer.explorer.explain_job import explain_job
from whyformer.explorer.explain_request import ExplainRequest
from whyformer.explorer.limits import Limits
from whyformer.explorer.result_cache import ResultCache
from whyformer.inputs.prepare import prepare
from whyformer.inputs.removal import Removal
from whyformer.metrics import metrics
from whyformer.models.families import family_of
from whyformer.models.load import load_model
from whyformer.pipeline.explain_each import Answer, Ask, explain_each

Told = list[dict[str, Any]]
Do = Callable[..., Told]

TEXT = "a gripping, beautifully acted film"


@pytest.fixture
def do(offered: Catalogue) -> Do:
    """What a job tells about a question."""

    def run(model: str, inputs: Any, *methods: str, target: Any = None) -> Told:
        told: Told = []
        question = ExplainRequest(offered[model], methods, inputs, target)
        explain_job(question, ResultCache(Limits()))(
            lambda event, **facts: told.append({"event": event, **facts})
        )
        return told

    return run


def of(told: Told, kind: str) -> Told:
    return [event for event in told if event["event"] == kind]


def test_every_method_is_told_with_its_time_and_what_it_accounts_for(do: Do) -> None:
    told = do("sst2", TEXT, "gae", "attn_lrp")
    gae, lrp = of(told, "method")
    plain = wf.explain(TEXT, "sst2", method="attn_lrp")
    assert gae["conservation"] is None
    assert not gae["promises"]
    assert lrp["conservation"] == pytest.approx(float(plain.conservation[0]), rel=1e-5)
    assert lrp["label"] == "positive"
    assert lrp["output"] == pytest.approx(float(plain.output[0]), rel=1e-5)
    assert 0 < lrp["seconds"] < 60


def test_the_report_comes_before_the_curves_and_every_point_once(do: Do) -> None:
    told = do("sst2", TEXT, "gae", "rollout")
    kinds = [event["event"] for event in told]
    assert kinds.index("report") < kinds.index("point")
    for method in ("gae", "rollout"):
        shares = [p["share"] for p in of(told, "point") if p["method"] == method]
        assert shares == list(STEPS)


def test_the_curve_is_the_one_that_an_evaluation_takes(do: Do, offered: Catalogue) -> None:
    told = do("sst2", TEXT, "gae", target="negative")
    loaded = offered["sst2"].load()
    attribution = wf.explain(TEXT, "sst2", method="gae", target="negative")
    family = family_of(loaded.module)
    prepared = prepare(TEXT, loaded.module, loaded.processor, family)
    score = metrics["perturbation_positive"](
        attribution,
        rerun=Rerun(Removal(prepared, loaded.module, family)),
        steps=STEPS,
        against="target",
        measure="probability",
    )
    assert of(told, "area")[0]["value"] == pytest.approx(float(score.values[0]), rel=1e-6)
    assert score.curve is not None
    points = [p["value"] for p in of(told, "point")]
    assert points == pytest.approx(score.curve[0].tolist(), rel=1e-5)


def test_answers_are_the_likeliest_classes(do: Do) -> None:
    (answers,) = of(do("sst2", TEXT, "gae"), "answers")
    assert [c["name"] for c in answers["classes"]] == ["positive", "negative"]
    assert sum(c["share"] for c in answers["classes"]) == pytest.approx(1)


def test_a_question_about_an_image_has_a_curve_for_each_stream(do: Do) -> None:
    told = do("lxmert_shapes", wf.models()["lxmert_shapes"].samples()[0], "gae")
    assert of(told, "curves")[0]["streams"] == ["text", "image"]
    assert {area["stream"] for area in of(told, "area")} == {"text", "image"}


@pytest.mark.parametrize(
    ("model", "says"),
    [
        ("clip_shapes", "one number"),
        ("detr_shapes", "object queries"),
        ("caption_shapes", "generates text"),
    ],
)
def test_a_model_without_classes_says_why_there_is_no_curve(do: Do, model: str, says: str) -> None:
    told = do(model, wf.models()[model].samples()[0], "gae")
    assert of(told, "report")
    assert says in of(told, "unmeasured")[0]["says"]
    assert not of(told, "point")


def page_of(question: ExplainRequest) -> tuple[Told, str]:
    told: Told = []
    results = ResultCache(Limits())
    explain_job(question, results)(lambda event, **facts: told.append({"event": event, **facts}))
    return told, results.get(of(told, "report")[0]["id"]).page.to_html()


@pytest.mark.parametrize("methods", [("gae",), ("gae", "gradient_x_input")])
def test_a_written_answer_is_linked_in_the_report(
    offered: Catalogue, methods: tuple[str, ...]
) -> None:
    image = wf.models()["caption_shapes"].samples()[0]
    told, page = page_of(ExplainRequest(offered["caption_shapes"], methods, image))
    assert of(told, "method")[0]["label"].startswith("a purple circle")
    assert page.count('class="links"') == len(methods)
    assert page.count('<p class="words said') == len(methods)
    assert not of(told, "curves")


def test_a_given_answer_is_explained(offered: Catalogue) -> None:
    image = wf.models()["caption_shapes"].samples()[0]
    told, _ = page_of(ExplainRequest(offered["caption_shapes"], ("gae",), image, "a blue square"))
    assert of(told, "method")[0]["label"] == "a blue square"


def writer(template: str | None = None) -> OfferedModel:
    """A tiny decoder with a tokenizer of five words."""
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "who", "has", "the", "red", "ball"]
    tokenizer = wordpiece_of(pieces)
    tokenizer.chat_template = template
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=10, n_embd=16, n_layer=2, n_head=2, bos_token_id=2, eos_token_id=3
    )
    entry = OfferedModel("tiny", "tiny", "", frozenset({"text"}), writes=True)
    entry._loaded = load_model(transformers.GPT2LMHeadModel(config).eval(), tokenizer)
    return entry


def test_the_answer_of_a_decoder_is_explained_from_ids() -> None:
    told, page = page_of(ExplainRequest(writer(), ("gae",), "who has the ball", [[7, 8, 9]]))
    assert of(told, "method")[0]["label"] == "the red ball"
    assert "<h3>generated</h3>" in page
    assert page.count('class="links"') == 1
    assert "generates text" in of(told, "unmeasured")[0]["says"]


@pytest.mark.parametrize("template", [None, "{{ messages[0]['content'] }}"])
def test_a_prompt_for_a_chat_model_is_a_message(
    template: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def watch(inputs: Any, model: Any, asks: list[Ask], **settings: Any) -> Iterator[Answer]:
        seen.append(inputs)
        yield from explain_each("who has the ball", model, asks, **settings)

    monkeypatch.setattr("whyformer.explorer.explain_job.explain_each", watch)
    page_of(ExplainRequest(writer(template), ("gae",), "who has it", [[7, 8]]))
    message = [{"role": "user", "content": "who has it"}]
    assert seen == [message if template else "who has it"]


def test_the_longest_answer_is_passed_on(
    offered: Catalogue, monkeypatch: pytest.MonkeyPatch
) -> None:
    passed = {}

    def watch(inputs: Any, model: Any, asks: list[Ask], **settings: Any) -> Iterator[Answer]:
        passed.update(settings)
        settings.pop("max_new_tokens", None)
        yield from explain_each(inputs, model, asks, **settings)

    monkeypatch.setattr("whyformer.explorer.explain_job.explain_each", watch)
    image = wf.models()["caption_shapes"].samples()[0]
    page_of(ExplainRequest(offered["caption_shapes"], ("gae",), image, max_new_tokens=4))
    assert passed["max_new_tokens"] == 4
    passed.clear()
    page_of(ExplainRequest(offered["caption_shapes"], ("gae",), image))
    assert "max_new_tokens" not in passed


def test_a_method_that_cannot_is_told_and_the_others_go_on(
    do: Do, monkeypatch: pytest.MonkeyPatch
) -> None:
    def but_not_gae(inputs: Any, model: Any, asks: list[Ask], **settings: Any) -> Iterator[Answer]:
        for ask in asks:
            if ask.method == "gae":
                yield Answer(ask, None, wf.errors.ModelError("gae has no attention here"), 0.0)
            else:
                yield from explain_each(inputs, model, [ask], **settings)

    monkeypatch.setattr("whyformer.explorer.explain_job.explain_each", but_not_gae)
    told = do("sst2", TEXT, "gae", "rollout")
    assert of(told, "failed") == [
        {"event": "failed", "method": "gae", "says": "gae has no attention here"}
    ]
    assert [m["method"] for m in of(told, "method")] == ["rollout"]
    with pytest.raises(wf.errors.ModelError):
        do("sst2", TEXT, "gae")


def test_one_method_alone_brings_layers_and_heads(client: Client) -> None:
    for methods, there in ((["gae"], True), (["gae", "rollout"], False)):
        (report,) = client.explain(text=TEXT, methods=methods).of("report")
        page = client.get(f"/results/{report['id']}/why.html").body.decode()
        assert ("layers and heads" in page) is there


def test_the_models_own_folder_is_nowhere_in_what_a_browser_gets(client: Client) -> None:
    told = client.explain(text=TEXT)
    (report,) = told.of("report")
    folder = str(wf.models()["sst2"].folder)
    for path in ("/", f"/results/{report['id']}/why.html", f"/results/{report['id']}/why.json"):
        assert folder not in client.get(path).body.decode()

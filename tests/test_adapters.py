"""Interfaces of other libraries, tested with the real ones: captum, quantus, shap, pipelines."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy
import pytest
import torch
from torch import nn

import whyformer as wf
from tests.torchvision_stub import import_with_stub
from whyformer.errors import InputError, OptionError
from whyformer.models.load import load_model

Build = Callable[..., nn.Module]
TEXTS = ["a gripping film", "dull"]


@pytest.fixture(scope="module")
def sst2() -> Any:
    return load_model("sst2")


@pytest.fixture(scope="module")
def encoded(sst2: Any) -> Any:
    return sst2.processor(TEXTS, return_tensors="pt", padding=True)


# -- captum --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def captum() -> Any:
    pytest.importorskip("captum")
    from whyformer import captum as adapter

    return adapter


def test_captum_gets_scores_in_the_shape_of_the_ids(captum: Any, sst2: Any, encoded: Any) -> None:
    from captum.attr import Attribution

    made = captum.Attribution(sst2.module, method="libragrad")
    assert isinstance(made, Attribution)
    scores, delta = made.attribute(
        encoded.input_ids,
        target=1,
        additional_forward_args=(encoded.attention_mask,),
        return_convergence_delta=True,
    )
    assert torch.allclose(scores, wf.explain(TEXTS, target=1).scores, atol=1e-5)
    assert scores.shape == encoded.input_ids.shape
    assert made.has_convergence_delta()
    assert delta.abs().max() < 1e-3
    both = made.attribute((encoded.input_ids, encoded.attention_mask), target=1)
    assert torch.equal(both[0], scores)
    assert not both[1].any(), "a mask has no relevance"


def test_captum_metrics_take_the_scores(captum: Any, sst2: Any, encoded: Any) -> None:
    """Captum's infidelity perturbs embeddings, which are floating inputs."""
    from captum.metrics import infidelity

    embeddings = sst2.module.get_input_embeddings()(encoded.input_ids[:1]).detach()

    class FromEmbeddings(nn.Module):
        def __init__(self, inner: nn.Module) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, inputs_embeds: torch.Tensor) -> torch.Tensor:
            return self.inner(inputs_embeds=inputs_embeds).logits

    model = FromEmbeddings(sst2.module)
    scores = captum.Attribution(model, "gradient_x_input", tokens="inputs_embeds").attribute(
        embeddings, target=1
    )
    assert scores.shape == embeddings.shape

    def perturb(inputs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        noise = 0.01 * torch.ones_like(inputs)
        return noise, inputs - noise

    value = infidelity(model, perturb, embeddings, scores, target=1, n_perturb_samples=2)
    assert value.shape == (1,)
    assert bool(value.isfinite())


def test_captum_gets_scores_of_pixels(captum: Any, vit: nn.Module) -> None:
    pixels = torch.rand(2, 3, *_image_size(vit))
    scores = captum.Attribution(vit, "gae").attribute(pixels, target=0)
    found = wf.explain(pixels, vit, method="gae", target=0)
    assert scores.shape == pixels.shape
    assert torch.allclose(scores.sum((1, 2, 3)), found.scores.sum(1), atol=1e-5)


def test_captum_adapter_names_what_is_wrong(captum: Any, sst2: Any, encoded: Any) -> None:
    with pytest.raises(OptionError, match="the model is a function"):
        captum.Attribution(lambda x: x)
    with pytest.raises(OptionError, match="method 'gae' does not conserve"):
        captum.Attribution(sst2.module, "gae").attribute(
            encoded.input_ids, return_convergence_delta=True
        )


def _image_size(model: Any) -> tuple[int, int]:
    size = model.config.image_size
    return (size, size) if isinstance(size, int) else tuple(size)


# -- quantus -------------------------------------------------------------------------------------


def test_quantus_explains_with_the_function(vit: nn.Module) -> None:
    """Quantus imports torchvision for its samples only: a stand-in is enough."""
    pytest.importorskip("captum")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            quantus = import_with_stub("quantus")
        except ImportError as error:
            pytest.skip(f"quantus cannot be imported: {error}")
    from whyformer.quantus import explain_func

    generator = numpy.random.default_rng(0)
    pixels = generator.random((2, 3, *_image_size(vit)), dtype=numpy.float32)
    labels = numpy.array([0, 1])
    scores = explain_func(vit, pixels, labels, method="gae")
    assert scores.shape == (2, 1, *pixels.shape[2:])
    found = wf.explain(torch.as_tensor(pixels), vit, method="gae", target=[0, 1])
    assert scores.sum((1, 2, 3)) == pytest.approx(found.scores.sum(1).numpy(), abs=1e-5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        metric = quantus.Sparseness(disable_warnings=True, display_progressbar=False)
        values = metric(
            model=vit,
            x_batch=pixels,
            y_batch=labels,
            explain_func=explain_func,
            explain_func_kwargs={"method": "gae"},
            device="cpu",
        )
    assert len(values) == 2
    assert all(0 <= value <= 1 for value in values)


def test_quantus_function_of_token_ids(sst2: Any, encoded: Any) -> None:
    from whyformer.quantus import explain_func

    ids = encoded.input_ids[:1].numpy()
    scores = explain_func(sst2.module, ids, numpy.array([1]))
    assert scores.shape == ids.shape
    assert scores.dtype == numpy.float32
    with pytest.raises(InputError):
        explain_func(sst2.module, numpy.zeros((1, 2, 3, 4, 5), dtype=numpy.float32), None)


# -- shap ----------------------------------------------------------------------------------------


def test_shap_takes_words_and_sinks() -> None:
    shap = pytest.importorskip("shap")
    found = wf.explain(TEXTS, target=1)
    made = found.to_shap()
    assert isinstance(made, shap.Explanation)
    assert [list(row) for row in made.data] == [
        ["[CLS] ", "a ", "gripping ", "film ", "[SEP] "],
        ["[CLS] ", "dull ", "[SEP] "],
    ]
    for i in range(2):
        total = made.base_values[i] + made.values[i].sum()
        assert total == pytest.approx(float(found.output[i]), rel=1e-3)
    assert made.output_names == "positive"
    with pytest.raises(InputError, match="there is no stream 'image'"):
        found.to_shap("image")


def test_shap_draws_what_it_is_given() -> None:
    shap = pytest.importorskip("shap")
    made = wf.explain("a gripping film").to_shap()
    page = shap.plots.text(made[0], display=False)
    assert "gripping" in page
    several = wf.explain(TEXTS).to_shap()
    assert "dull" in shap.plots.text(several[1], display=False)


def test_shap_takes_pixels() -> None:
    pytest.importorskip("shap")
    found = wf.explain(wf.models()["mnist"].samples()[0], "mnist", method="libragrad")
    made = found.to_shap()
    assert made.values.shape == made.data.shape == (1, 28, 28, 3)
    total = made.base_values[0] + made.values[0].sum()
    assert total == pytest.approx(float(found.output[0]), rel=1e-3)


# -- pipelines -----------------------------------------------------------------------------------


def pipe_of(task: str, model: Any, tokenizer: Any, **more: Any) -> Any:
    transformers = pytest.importorskip("transformers")
    return transformers.pipeline(task, model=model, tokenizer=tokenizer, device="cpu", **more)


def test_a_class_is_explained_with_its_probability(sst2: Any) -> None:
    from whyformer.pipelines import explain_answer

    pipe = pipe_of("text-classification", sst2.module, sst2.processor)
    (answer,) = pipe("a gripping film")
    found = explain_answer(pipe, "a gripping film", method="gae")
    assert found.labels == (answer["label"],)
    assert float(found.probability) == pytest.approx(answer["score"], abs=1e-5)
    other = explain_answer(pipe, "a gripping film", {"label": "negative"})
    assert other.labels == ("negative",)


def test_pipelines_that_are_not_explained_are_named(sst2: Any) -> None:
    from whyformer.pipelines import explain_answer

    with pytest.raises(OptionError, match="pipe is a str, not a transformers pipeline"):
        explain_answer("sst2", "a film")
    pipe = pipe_of("text-classification", sst2.module, sst2.processor)
    pipe.task = "feature-extraction"
    with pytest.raises(OptionError, match="answers of 'feature-extraction' are not explained"):
        explain_answer(pipe, "a film")


def test_the_entity_of_a_pipeline_is_explained(build: Build, wordpiece: Any) -> None:
    from whyformer.pipelines import explain_answer

    names = {0: "O", 1: "B-PER"}
    model = build("BertForTokenClassification", vocab_size=len(wordpiece), id2label=names)
    pipe = pipe_of("token-classification", model, wordpiece, ignore_labels=[])
    entities = pipe("a gripping film")
    for entity in entities:
        found = explain_answer(pipe, "a gripping film", entity)
        assert found.labels[0].startswith(f"{entity['entity']} at position {entity['index']} ")
        assert float(found.probability) == pytest.approx(float(entity["score"]), abs=1e-5)
    best = max(entities, key=lambda one: one["score"])
    assert float(explain_answer(pipe, "a gripping film").probability) == pytest.approx(
        float(best["score"]), abs=1e-5
    )


def test_the_word_in_place_of_a_mask_is_explained(build: Build, wordpiece: Any) -> None:
    from whyformer.pipelines import explain_answer

    pipe = pipe_of("fill-mask", build("BertForMaskedLM", vocab_size=len(wordpiece)), wordpiece)
    text = f"a {wordpiece.mask_token} film"
    answers = pipe(text)
    found = explain_answer(pipe, text, answers[1])
    assert int(found.target) == answers[1]["token"]
    assert float(found.probability) == pytest.approx(answers[1]["score"], abs=1e-5)


def test_the_text_that_a_pipeline_wrote_is_explained() -> None:
    from whyformer.pipelines import explain_answer

    reader, prompt = load_model("reader"), wf.models()["reader"].samples()[0]
    pipe = pipe_of("text-generation", reader.module, reader.processor)
    written = pipe(prompt)[0]["generated_text"]
    found = explain_answer(pipe, prompt)
    assert written.startswith(prompt)
    assert found.labels[0].strip() == written.removeprefix(prompt).strip()
    chat = [{"role": "user", "content": "Where is the lamp?"}]
    said = pipe(chat)[0]["generated_text"][-1]["content"]
    assert explain_answer(pipe, chat).labels[0].strip() == said.strip()

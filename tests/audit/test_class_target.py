"""One class for all texts, and the predictions of a plain forward pass."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers
from torch import Tensor, nn

import whyformer as wf
from tests.audit.making import PIECES, classifier, wordpiece
from whyformer.audit.class_target import ClassTarget, Prediction, choose_class, predictions
from whyformer.audit.explainer import TextExplainer
from whyformer.errors import TargetError

TEXTS = ["the film is good", "Anna saw a dull film by Bob", "bad"]


def logits(module: nn.Module) -> Tensor:
    batch = wordpiece()(TEXTS, padding=True, return_tensors="pt")
    batch.pop("token_type_ids", None)
    with torch.no_grad():
        found: Tensor = module(**batch).logits
    return found


def predicted(module: nn.Module, target: Any = None) -> tuple[ClassTarget, list[Prediction]]:
    scores = TextExplainer(module, wordpiece()).predict(TEXTS)
    chosen = choose_class(module, scores.shape[1], target)
    return chosen, predictions(scores, chosen, module)


@pytest.mark.parametrize("batch", [1, 2, 32])
def test_scores_are_those_of_a_plain_forward_in_the_order_of_the_texts(batch: int) -> None:
    module = classifier()
    scores = TextExplainer(module, wordpiece(), batch=batch).predict(TEXTS)
    assert torch.allclose(scores, logits(module), atol=1e-5)


def test_probabilities_and_predictions_are_those_of_a_plain_forward() -> None:
    module = classifier()
    scores = logits(module)
    chosen, found = predicted(module)
    assert (chosen.label, chosen.index, chosen.target) == ("positive", 1, 1)
    chance = scores.softmax(1)[:, 1].tolist()
    assert [x.probability for x in found] == pytest.approx(chance, abs=1e-5)
    names = ["negative", "positive"]
    assert [x.label for x in found] == [names[i] for i in scores.argmax(1).tolist()]


@pytest.mark.parametrize("method", ["lrp_ah_ln", "integrated_gradients"])
def test_the_explained_value_is_the_score_of_the_class(method: str) -> None:
    module = classifier()
    chosen, _ = predicted(module)
    explained = TextExplainer(module, wordpiece()).explain(TEXTS, method, chosen.target)
    values = [float(found.attribution.output[0]) for found in explained]
    assert values == pytest.approx(logits(module)[:, 1].tolist(), abs=1e-4)


@pytest.mark.parametrize(
    ("labels", "index"),
    [
        ({0: "POSITIVE", 1: "NEGATIVE"}, 0),
        ({0: "neg", 1: "pos"}, 1),
        ({0: "a", 1: "b"}, 1),
    ],
)
def test_the_default_class_reads_like_positive_or_is_the_last(
    labels: dict[int, str], index: int
) -> None:
    module = classifier(id2label=labels, label2id={name: i for i, name in labels.items()})
    chosen, _ = predicted(module)
    assert (chosen.index, chosen.label) == (index, labels[index])


def test_a_contrast_is_the_difference_of_two_classes() -> None:
    module = classifier()
    scores = logits(module)
    chosen, _ = predicted(module, wf.contrast("positive", "negative"))
    explained = TextExplainer(module, wordpiece()).explain(TEXTS, "lrp_ah_ln", chosen.target)
    found = [one.attribution for one in explained]
    assert chosen.name == "positive rather than negative" == found[0].labels[0]
    expected = (scores[:, 1] - scores[:, 0]).tolist()
    assert [float(a.output[0]) for a in found] == pytest.approx(expected, abs=1e-5)


def test_a_model_of_one_number_has_no_classes() -> None:
    module = classifier(id2label={0: "score"}, label2id={"score": 0})
    chosen, found = predicted(module)
    assert chosen.name == "score"
    assert set(found) == {Prediction(None, None)}


def test_several_labels_at_once_are_decided_one_by_one() -> None:
    module = classifier(problem_type="multi_label_classification")
    scores = logits(module)[:, 1]
    _, found = predicted(module)
    assert [x.probability for x in found] == pytest.approx(scores.sigmoid().tolist(), abs=1e-5)
    labels = ["positive" if score > 0 else "not positive" for score in scores]
    assert [x.label for x in found] == labels


def test_an_unknown_class_and_models_without_classes_are_refused() -> None:
    with pytest.raises(TargetError, match="there is no class 'nice'"):
        predicted(classifier(), "nice")
    config = classifier().config
    for kind in (transformers.BertModel, transformers.BertForTokenClassification):
        with pytest.raises(TargetError, match="gives no class scores for a text"):
            predicted(kind(config).eval())
    writer = transformers.GPT2LMHeadModel(
        transformers.GPT2Config(
            vocab_size=len(PIECES), n_embd=16, n_layer=1, n_head=2, bos_token_id=2, eos_token_id=3
        )
    )
    with pytest.raises(TargetError, match="generates text and has no classes"):
        predicted(writer.eval())

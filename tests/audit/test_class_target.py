"""One class for all texts, and the whole answer out of the pass that is explained."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import whyformer as wf
from tests.audit.making import classifier, wordpiece
from whyformer.audit.class_target import ClassTarget
from whyformer.errors import TargetError

TEXTS = ["the film is good", "Anna saw a dull film by Bob", "bad"]


def logits(module: nn.Module) -> Tensor:
    batch = wordpiece()(TEXTS, padding=True, return_tensors="pt")
    batch.pop("token_type_ids", None)
    with torch.no_grad():
        found: Tensor = module(**batch).logits
    return found


def asked(module: nn.Module, target: Any = None, method: str = "lrp_ah_ln") -> tuple[Any, list]:
    question = ClassTarget(module, target)
    a = wf.explain(TEXTS, module, processor=wordpiece(), method=method, target=question)
    return a, [question, *question.answers(a.output)]


def test_values_probabilities_and_predictions_are_those_of_a_plain_forward() -> None:
    module = classifier()
    scores = logits(module)
    a, (question, *answers) = asked(module)
    assert (question.label, question.index) == ("positive", 1)
    assert set(a.labels) == {"positive"}
    assert [x.value for x in answers] == pytest.approx(scores[:, 1].tolist(), abs=1e-5)
    chance = scores.softmax(1)[:, 1].tolist()
    assert [x.probability for x in answers] == pytest.approx(chance, abs=1e-5)
    names = ["negative", "positive"]
    assert [x.said for x in answers] == [names[i] for i in scores.argmax(1).tolist()]


def test_a_callable_target_gives_the_same_scores_as_the_class() -> None:
    module = classifier()
    a, _ = asked(module, "negative")
    plain = wf.explain(TEXTS, module, processor=wordpiece(), target=0)
    assert torch.allclose(a.scores, plain.scores)
    assert torch.allclose(a.output, plain.output)


def test_a_method_of_many_passes_answers_for_the_explained_one() -> None:
    module = classifier()
    _, (_, *answers) = asked(module, method="integrated_gradients")
    expected = logits(module)[:, 1].tolist()
    assert [x.value for x in answers] == pytest.approx(expected, abs=1e-4)


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
    _, (question, *_) = asked(module)
    assert (question.index, question.label) == (index, labels[index])


def test_a_contrast_is_the_difference_of_two_classes() -> None:
    module = classifier()
    scores = logits(module)
    a, (question, *answers) = asked(module, wf.contrast("positive", "negative"))
    assert question.__name__ == "positive rather than negative" == a.labels[0]
    expected = (scores[:, 1] - scores[:, 0]).tolist()
    assert [x.value for x in answers] == pytest.approx(expected, abs=1e-5)


def test_a_model_of_one_number_has_no_classes() -> None:
    module = classifier(id2label={0: "score"}, label2id={"score": 0})
    _, (_, *answers) = asked(module)
    assert {(x.probability, x.said) for x in answers} == {(None, None)}
    assert not answers[0].has_classes


def test_several_labels_at_once_are_decided_one_by_one() -> None:
    module = classifier(problem_type="multi_label_classification")
    scores = logits(module)[:, 1]
    _, (_, *answers) = asked(module)
    assert [x.probability for x in answers] == pytest.approx(scores.sigmoid().tolist(), abs=1e-5)
    said = ["positive" if score > 0 else "not positive" for score in scores]
    assert [x.said for x in answers] == said


def test_an_unknown_class_and_a_model_without_classes_are_refused() -> None:
    with pytest.raises(TargetError, match="there is no class 'nice'"):
        asked(classifier(), "nice")
    question = ClassTarget(classifier())
    with pytest.raises(TargetError, match="no list of classes"):
        question({"last_hidden_state": torch.zeros(1, 2, 3)})
    assert question((torch.zeros(2, 2), "more")).shape == (2,)
    assert question(torch.zeros(3)).shape == (3,)

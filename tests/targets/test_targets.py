"""What a target means in each kind of output, and the errors for targets that do not fit."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy
import pytest
import torch
from torch import Tensor, nn

import whyformer as wf
from whyformer.errors import ModelError, TargetError
from whyformer.inputs.batch import Batch
from whyformer.inputs.prepare import prepare
from whyformer.models.families import families
from whyformer.models.families.tiny import tiny_inputs
from whyformer.targets.resolve import Goal, contrast, query, resolve, span, token
from whyformer.targets.selection import Selection

Build = Callable[..., nn.Module]
LOGITS = torch.tensor([[0.5, 2.0, -1.0], [3.0, 0.0, 1.0]], requires_grad=True)


class Head(nn.Module):
    """A stand-in for a classifier, with or without names for its classes."""

    def __init__(self, *names: str) -> None:
        super().__init__()
        self.config = SimpleNamespace(id2label=dict(enumerate(names)))


def batch(size: int = 2, **facts: Any) -> Batch:
    """A prepared batch with only the fields that targets need."""
    given: dict[str, Any] = {
        "arguments": {},
        "baseline_arguments": {},
        "carrier": "input_ids",
        "size": size,
        "stream": "tokens",
        "content": (),
    }
    return Batch(**{**given, **facts})


def ask(target: Any, output: Any = LOGITS, module: nn.Module | None = None, **facts: Any) -> Goal:
    """The goal of a batch as large as the output."""
    size = facts.pop("size", 2)
    return resolve(target, output, module or Head("bad", "so-so", "Good"), batch(size, **facts))


def run(module: nn.Module, inputs: Any, tokenizer: Any = None) -> tuple[Any, Batch]:
    """A real model's raw output."""
    prepared = prepare(inputs, module, tokenizer)
    return module(**prepared.arguments), prepared


# -- classes ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "index", "labels"),
    [
        (None, [1, 0], ("so-so", "bad")),
        (2, [2, 2], ("Good", "Good")),
        (numpy.int64(2), [2, 2], ("Good", "Good")),
        (torch.tensor(2), [2, 2], ("Good", "Good")),
        ("Good", [2, 2], ("Good", "Good")),
        (" gOOd ", [2, 2], ("Good", "Good")),
        ("1", [1, 1], ("so-so", "so-so")),
        ([2, "bad"], [2, 0], ("Good", "bad")),
        ((None, 1), [1, 1], ("so-so", "so-so")),
        (torch.tensor([0, 2]), [0, 2], ("bad", "Good")),
        (numpy.array([0, 2]), [0, 2], ("bad", "Good")),
    ],
)
def test_classes(target: Any, index: list[int], labels: tuple[str, ...]) -> None:
    goal = ask(target)
    assert goal.index.tolist() == index
    assert goal.labels == labels
    assert goal.value.tolist() == [LOGITS[i, c].item() for i, c in enumerate(index)]
    (gradient,) = torch.autograd.grad(goal.value.sum(), LOGITS)
    assert gradient.tolist() == torch.eye(3)[index].tolist()


def test_contrast() -> None:
    goal = ask(contrast("good", 0))
    assert goal.value.tolist() == [-1.5, -2.0]
    assert goal.index.tolist() == [2, 2]
    assert goal.labels[0] == "Good rather than bad"
    (gradient,) = torch.autograd.grad(goal.value.sum(), LOGITS)
    assert gradient.tolist() == [[-1, 0, 1]] * 2


def test_contrast_for_one_sample_and_a_class_for_another() -> None:
    goal = ask([contrast(0, 1), 2])
    assert goal.value.tolist() == [-1.5, 1.0]
    assert ask([2, contrast(0, 1)]).value.tolist() == [-1.0, 3.0]


def test_classes_without_names() -> None:
    goal = resolve(2, LOGITS, nn.Identity(), batch())
    assert goal.labels == ("2", "2")


def test_names_keyed_by_text() -> None:
    module = Head()
    module.config.id2label = {"0": "no", "1": "yes", "2": "maybe"}
    assert ask("maybe", module=module).index.tolist() == [2, 2]


@pytest.mark.parametrize("form", ["tensor", "tuple", "dict", "named", "loss first"])
def test_every_form_of_output(form: str) -> None:
    outputs: dict[str, Any] = {
        "tensor": LOGITS,
        "tuple": (LOGITS, torch.zeros(2, 4, 8)),
        "dict": {"logits": LOGITS, "states": torch.zeros(2, 4, 8)},
        "named": {"scores": LOGITS},
        "loss first": (torch.tensor(0.3), LOGITS),
    }
    assert ask(None, outputs[form]).index.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (3, r"no class 3. Classes: 0 \('bad'\), 1 \('so-so'\), 2 \('Good'\)"),
        (-1, "no class -1"),
        ("God", r"no class 'God'\. Did you mean 'Good'\? Classes: 0 \('bad'\)"),
        ("7", "no class 7"),
        (True, "True, a truth value"),
        ([True, 0], "True, a truth value"),
        (1.0, r"1\.0 of type float"),
        ({}, "of type dict"),
        ([0], "1 targets were given for 2 samples"),
        ([], "0 targets were given for 2 samples"),
        (torch.tensor([0, 1, 2]), "3 targets were given for 2 samples"),
        (torch.tensor([0.0, 1.0]), r"a tensor of torch\.float32"),
        (torch.tensor([[0, 1]]), r"shape \(1, 2\)"),
        (torch.tensor([True, False]), r"torch\.bool"),
        (contrast(0, 5), "no class 5"),
        (contrast(None, 1), r"contrast\(\) takes two"),
        (contrast(contrast(0, 1), 1), r"contrast\(\) takes two"),
        (contrast(0, True), "a truth value"),
        (query(0), r"is an object query and Head has none: it gives classes"),
        (token(0, 1), "does not fit Head, which gives classes"),
        (span(0, 1), "does not fit Head"),
    ],
)
def test_bad_classes(target: Any, message: str) -> None:
    with pytest.raises(TargetError, match=message):
        ask(target)


def test_a_long_list_of_classes_is_cut() -> None:
    with pytest.raises(TargetError, match=r"9 \('9'\), \.\.\. 50 in all\. "):
        resolve(99, torch.zeros(1, 50), nn.Identity(), batch(1))


# -- one number -------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(2, 1), (2,)])
def test_regression(shape: tuple[int, ...]) -> None:
    values = torch.tensor([1.5, -2.0]).reshape(shape)
    for target in (None, 0, "score", "Score"):
        goal = ask(target, values, Head("LABEL_0"))
        assert goal.value.tolist() == [1.5, -2.0]
        assert goal.index.tolist() == [0, 0]
        assert goal.labels == ("score", "score")
    assert ask(None, values, Head("similarity")).labels == ("similarity",) * 2
    for bad in (1, "bad", contrast(0, 1)):
        with pytest.raises(TargetError, match="one number"):
            ask(bad, values, Head("LABEL_0"))
    with pytest.raises(TargetError, match="truth value"):
        ask(False, values, Head("LABEL_0"))


# -- next tokens ------------------------------------------------------------------------------


def test_next_token_is_that_after_the_last_real_one(gpt2: nn.Module, byte_bpe: Any) -> None:
    texts = ["a film", "what a gripping film"]
    output, prepared = run(gpt2, texts, byte_bpe)
    goal = resolve(None, output, gpt2, prepared)
    for index, text in enumerate(texts):
        alone, _ = run(gpt2, text, byte_bpe)
        torch.testing.assert_close(goal.value[index], alone.logits[0, -1].max())
        assert goal.index[index] == alone.logits[0, -1].argmax()
    assert goal.labels[0] == byte_bpe.decode([int(goal.index[0])])


def test_next_token_with_padding_in_front(gpt2: nn.Module) -> None:
    ids = torch.tensor([[0, 0, 5, 6, 7]])
    inputs = {"input_ids": ids, "attention_mask": (ids > 0).long()}
    output, prepared = run(gpt2, inputs)
    alone, _ = run(gpt2, ids[:, 2:])
    goal = resolve(None, output, gpt2, prepared)
    torch.testing.assert_close(goal.value, alone.logits[:, -1].amax(-1))
    # Positions are the user's: the first real token is at 2.
    first = resolve(token(2, 9), output, gpt2, prepared)
    torch.testing.assert_close(first.value, alone.logits[:, 0, 9])
    with pytest.raises(TargetError, match="no token at position 1; its tokens are at 2 to 4"):
        resolve(token(1, 9), output, gpt2, prepared)
    last = resolve(lambda out: out.logits[:, -1, 9], output, gpt2, prepared)
    torch.testing.assert_close(last.value, alone.logits[:, -1, 9])


def test_tokens_by_id_and_by_text(gpt2: nn.Module, byte_bpe: Any) -> None:
    output, prepared = run(gpt2, "what a gripping", byte_bpe)
    film = byte_bpe.convert_tokens_to_ids("Ġfilm")
    last = output.logits[0, -1]
    for target in (film, " film", "Ġfilm"):
        goal = resolve(target, output, gpt2, prepared)
        assert goal.index.tolist() == [film]
        assert goal.value.item() == last[film].item()
    assert goal.labels == (" film",)
    other = byte_bpe.convert_tokens_to_ids("a")
    difference = resolve(contrast(" film", "a"), output, gpt2, prepared)
    torch.testing.assert_close(difference.value[0], last[film] - last[other])
    at = resolve(token(1, "a"), output, gpt2, prepared)
    torch.testing.assert_close(at.value[0], output.logits[0, 1, other])
    assert resolve(token(0), output, gpt2, prepared).index == output.logits[0, 0].argmax()


def test_positions_from_the_end_in_a_model_without_a_mask() -> None:
    scores = torch.randn(2, 5, 7, requires_grad=True)
    module = nn.Linear(3, 7)
    assert torch.equal(ask(token(-1, 3), scores, module).value, scores[:, 4, 3])
    assert torch.equal(ask(token(-5, 3), scores, module).value, scores[:, 0, 3])
    with pytest.raises(TargetError, match="no token at position -6; its tokens are at 0 to 4"):
        ask(token(-6, 3), scores, module)


def test_bad_tokens(gpt2: nn.Module, byte_bpe: Any) -> None:
    output, prepared = run(gpt2, ["a film", "what a gripping film"], byte_bpe)
    for target, message in (
        ("zebra", r"'zebra' is not one token of this model but \d+: \['z', "),
        (320, "there is no token 320; the model has ids 0 to 319"),
        (-1, "there is no token -1"),
        (token(2, 5), "sample 0 has no token at position 2; its tokens are at 0 to 1"),
        (token(-3, 5), "sample 0 has no token at position -3; its tokens are at 0 to 1"),
        (token(99, 5), "no token at position 99"),
        (token(True, 5), "position True is not an integer"),
        (token(0, True), "a truth value"),
        (span(0, 1), "which gives next tokens"),
    ):
        with pytest.raises(TargetError, match=message):
            resolve(target, output, gpt2, prepared)


def test_token_text_needs_a_tokenizer(gpt2: nn.Module) -> None:
    output, prepared = run(gpt2, torch.tensor([[5, 6]]))
    with pytest.raises(TargetError, match="'film' is text and the model came without a tokenizer"):
        resolve("film", output, gpt2, prepared)
    assert resolve(7, output, gpt2, prepared).labels == ("7",)


def test_an_unknown_word_is_not_a_token(build: Build, wordpiece: Any) -> None:
    module = build("BertForMaskedLM")
    output, prepared = run(module, "a [MASK] film", wordpiece)
    with pytest.raises(TargetError, match=r"'zebra' is not one token .* \['\[UNK\]'\]"):
        resolve("zebra", output, module, prepared)
    assert resolve("##ping", output, module, prepared).index.tolist() == [7]


# -- masked tokens ----------------------------------------------------------------------------


def test_masked_token(build: Build, wordpiece: Any) -> None:
    module = build("BertForMaskedLM")
    output, prepared = run(module, ["a [MASK] film [MASK]", "[MASK]"], wordpiece)
    goal = resolve(None, output, module, prepared)
    torch.testing.assert_close(goal.value[0], output.logits[0, 2].max())
    torch.testing.assert_close(goal.value[1], output.logits[1, 1].max())
    good = wordpiece.convert_tokens_to_ids("good")
    named = resolve("good", output, module, prepared)
    torch.testing.assert_close(named.value[0], output.logits[0, 2, good])
    second = resolve([token(4, "good"), "good"], output, module, prepared)
    torch.testing.assert_close(second.value[0], output.logits[0, 4, good])


def test_no_mask_to_explain(build: Build, wordpiece: Any) -> None:
    module = build("BertForMaskedLM")
    output, prepared = run(module, ["a [MASK]", "a film"], wordpiece)
    with pytest.raises(TargetError, match=r"sample 1 has no mask token.*Put '\[MASK\]' into"):
        resolve(None, output, module, prepared)
    assert resolve(token(1), output, module, prepared).value.shape == (2,)


def test_a_class_per_pixel() -> None:
    logits = torch.zeros(1, 3, 2, 4)  # (batch, classes, rows, columns)
    logits[0, 2, 1, 3], logits[0, 1, 0, 0] = 5.0, 4.0
    goal = ask(None, {"logits": logits}, size=1, grid=(2, 2))
    assert goal.value.tolist() == [5.0]
    assert goal.index.tolist() == [2]
    assert goal.labels[0].endswith("at pixel 7")
    assert ask(token(0), {"logits": logits}, size=1, grid=(2, 2)).value.tolist() == [4.0]


def test_class_queries_of_a_segmentation() -> None:
    # Query 0 is sure that there is nothing, query 1 nearly sure of class 0.
    scores = torch.tensor([[[0.0, 1.0, 9.0], [3.0, 0.0, 0.0]]])
    output = {"class_queries_logits": scores, "last_hidden_state": torch.zeros(1, 2, 4)}
    goal = ask(None, output, size=1)
    assert goal.value.tolist() == [3.0]
    assert goal.labels[0].endswith("at query 1")
    assert ask(query(0, 1), output, size=1).value.tolist() == [1.0]


def test_the_first_of_several_heads() -> None:
    logits = torch.tensor([[[0.0, 2.0], [1.0, 0.0]]])
    assert ask(None, {"logits": (logits, logits + 7)}, size=1).value.tolist() == [2.0]


def test_classes_with_an_axis_of_one() -> None:
    assert ask(None, {"logits": torch.tensor([[[0.0, 2.0]]])}, size=1).value.tolist() == [2.0]


# -- a class per token ------------------------------------------------------------------------


def test_token_classification(build: Build, wordpiece: Any) -> None:
    names = {0: "nothing", 1: "Person", 2: "place"}
    module = build("BertForTokenClassification", id2label=names)
    output, prepared = run(module, ["a film", "good"], wordpiece)
    goal = resolve(token(1, "person"), output, module, prepared)
    torch.testing.assert_close(goal.value, output.logits[:, 1, 1])
    assert goal.labels == ("Person at position 1 (a)", "Person at position 1 (good)")
    assert resolve(token(1), output, module, prepared).index.tolist() == (
        output.logits[:, 1].argmax(-1).tolist()
    )
    difference = resolve(contrast(token(1, 0), token(2, 2)), output, module, prepared)
    torch.testing.assert_close(difference.value, output.logits[:, 1, 0] - output.logits[:, 2, 2])
    said = names[int(output.logits[0, 1].argmax())]
    for target in (1, "person"):
        with pytest.raises(TargetError, match=rf"1 'a': {said}.*wf\.token\(position, label\)"):
            resolve(target, output, module, prepared)
    with pytest.raises(TargetError, match="sample 1 has no token at position 3"):
        resolve(token(3, 0), output, module, prepared)
    with pytest.raises(TargetError, match=r"no class 'persona'\. Did you mean 'Person'"):
        resolve(token(1, "persona"), output, module, prepared)


def test_the_most_confident_token_is_the_default(build: Build, wordpiece: Any) -> None:
    module = build("BertForTokenClassification", id2label={0: "O", 1: "Person", 2: "place"})
    output, prepared = run(module, ["a film", "good"], wordpiece)
    assert prepared.mask is not None
    goal = resolve(None, output, module, prepared)
    for i, logits in enumerate(output.logits):
        words = logits[prepared.mask[i]].softmax(-1)[1:-1, 1:]  # without [CLS], [SEP] and "O"
        column, index = divmod(int(words.argmax()), 2)
        assert goal.index[i] == index + 1
        assert goal.value[i] == logits[column + 1, index + 1]
        assert prepared.tokens is not None
        word = prepared.tokens[i][column + 1]
        assert goal.labels[i].endswith(f"at position {column + 1} ({word})")


def test_token_classes_as_many_as_the_vocabulary(build: Build) -> None:
    module = build("BertForTokenClassification", num_labels=60)
    output, prepared = run(module, torch.tensor([[2, 5, 3]]))
    with pytest.raises(TargetError, match="a class per token"):
        resolve(1, output, module, prepared)


# -- answer spans -----------------------------------------------------------------------------


def test_spans(build: Build, wordpiece: Any) -> None:
    module = build("BertForQuestionAnswering")
    pairs = [("a film", "the good plot is bad"), ("film", "good")]
    output, prepared = run(module, pairs, wordpiece)
    goal = resolve(None, output, module, prepared)
    assert prepared.mask is not None
    for sample in range(2):
        count = int(prepared.mask[sample].sum())
        start, end = output.start_logits[sample].tolist(), output.end_logits[sample].tolist()
        # The context is what is between the two separators.
        first = prepared.arguments["input_ids"][sample].tolist().index(3) + 1
        context = range(first, count - 1)
        sums = {(s, e): start[s] + end[e] for s in context for e in context if s <= e}
        best = max(sums, key=sums.__getitem__)
        assert goal.value[sample].item() == pytest.approx(sums[best])
        assert goal.index[sample] == best[0]
        assert goal.labels[sample].startswith(f"tokens {best[0]} to {best[1]}: ")
    chosen = resolve(span(1, 2), output, module, prepared)
    torch.testing.assert_close(chosen.value, output.start_logits[:, 1] + output.end_logits[:, 2])
    assert chosen.labels[0] == "tokens 1 to 2: a film"
    plain = (output.start_logits, output.end_logits)
    torch.testing.assert_close(resolve(None, plain, module, prepared).value, goal.value)
    difference = resolve(contrast(span(1, 2), span(1, 1)), output, module, prepared)
    torch.testing.assert_close(difference.value, output.end_logits[:, 2] - output.end_logits[:, 1])


def test_bad_spans(build: Build, wordpiece: Any) -> None:
    module = build("BertForQuestionAnswering")
    output, prepared = run(module, ["a film", "good"], wordpiece)
    for target, message in (
        (1, r"gives answer spans and the target is 1"),
        (token(1), "gives answer spans"),
        (span(2, 1), "ends before it starts"),
        (span(0, 3), "sample 1 has no token at position 3; its tokens are at 0 to 2"),
    ):
        with pytest.raises(TargetError, match=message):
            resolve(target, output, module, prepared)


# -- object queries ---------------------------------------------------------------------------


def test_object_queries() -> None:
    output = {"logits": torch.arange(24.0).reshape(2, 3, 4), "pred_boxes": torch.zeros(2, 3, 4)}
    module = Head("cat", "dog", "cow", "nothing")
    assert ask(query(1), output, module).value.tolist() == [6.0, 18.0]  # never "no object"
    goal = ask(query(1, "Dog"), output, module)
    assert goal.value.tolist() == [5.0, 17.0]
    assert goal.labels[0] == "dog at query 1"
    with pytest.raises(TargetError, match="no object query 3; the model has 0 to 2"):
        ask(query(3), output, module)
    with pytest.raises(TargetError, match=r"3 object queries.*Pass target=wf\.query"):
        ask(1, output, module)
    # Without a target, the surest query: where "no object" has the smallest share.
    output["logits"][:, 2, 3] = -50
    assert ask(None, output, module).labels == ("cow at query 2",) * 2
    output["pred_boxes"][:, 1] = torch.tensor([0.1, 0.2, 0.3, 0.4])
    goal = ask(query(1, "width"), output, module)
    assert goal.labels[0] == "width at query 1"
    torch.testing.assert_close(goal.value, torch.tensor([0.3, 0.3]))


@pytest.mark.parametrize("name", ["conditional_detr", "deformable_detr"])
def test_a_detector_without_a_class_of_no_object(name: str) -> None:
    """Trained with a focal loss: as many scores as labels, and the last label is an object too."""
    model = families[name].tiny()
    with torch.no_grad():
        output = model(**tiny_inputs(model))
    a = wf.explain(tiny_inputs(model), model, method="random")
    best = output.logits.flatten(1).argmax(1)
    assert a.target.tolist() == (best % 3).tolist()
    label = f"{model.config.id2label[int(best[0]) % 3]} at query {int(best[0]) // 3}"
    assert a.labels[0] == label
    last = wf.explain(tiny_inputs(model), model, method="random", target=wf.query(1, "LABEL_2"))
    torch.testing.assert_close(last.output, output.logits[:, 1, 2], rtol=1e-4, atol=1e-4)
    box = wf.explain(tiny_inputs(model), model, method="random", target=wf.query(1, "width"))
    torch.testing.assert_close(box.output, output.pred_boxes[:, 1, 2], rtol=1e-4, atol=1e-4)
    with pytest.raises(TargetError, match="there is no class 'no object'"):
        wf.explain(tiny_inputs(model), model, method="random", target=wf.query(1, "no object"))


# -- callables --------------------------------------------------------------------------------


def test_a_callable() -> None:
    def spread(output: Tensor) -> Tensor:
        return output.max(1).values - output.min(1).values

    goal = ask(spread)
    assert goal.value.tolist() == [3.0, 3.0]
    assert goal.index.tolist() == [-1, -1]
    assert goal.labels == ("spread", "spread")
    assert ask(lambda output: output[:, 0]).labels == ("callable", "callable")
    assert ask(lambda output: output[:, 0].detach()).value.requires_grad is False


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (lambda output: output, r"returned shape \(2, 3\); expected a tensor of shape \(2,\)"),
        (lambda output: output.sum(), r"returned shape \(\)"),
        (lambda output: 3.0, "returned float"),
        (lambda output: output.argmax(1), r"returned torch\.int64"),
        (lambda output: output.logits, "failed on the output of Head.*AttributeError"),
    ],
)
def test_bad_callables(target: Any, message: str) -> None:
    with pytest.raises(TargetError, match=message):
        ask(target)


def test_values_that_are_not_finite() -> None:
    with pytest.raises(ModelError, match="'callable' of sample 0, is inf"):
        ask(lambda output: output[:, 0] / 0)
    broken = torch.tensor([[0.0, 1.0], [float("nan"), 0.0]])
    with pytest.raises(ModelError, match="'bad' of sample 1, is nan"):
        ask(0, broken)


def test_other_classes_that_are_not_finite_leave_no_probability() -> None:
    nan = float("nan")
    assert ask(0, torch.tensor([[1.0, nan], [1.0, nan]])).probability is None
    (whole, none) = ask(0, torch.tensor([[1.0, 2.0], [1.0, nan]])).probability.tolist()
    assert whole == pytest.approx(1 / (1 + math.e))
    assert math.isnan(none)


def test_a_value_that_is_not_finite_names_the_weights() -> None:
    module = nn.Linear(3, 3)
    module.weight.data.fill_(float("nan"))
    with pytest.raises(ModelError, match="NaN or infinite weights in 'weight'"):
        resolve(0, module(torch.ones(2, 3)), module, batch())


# -- outputs that cannot be asked ---------------------------------------------------------------


def test_no_head(build: Build) -> None:
    module = build("BertModel")
    output, prepared = run(module, torch.tensor([[2, 5, 3]]))
    with pytest.raises(TargetError, match=r"BertModel has no head: it returns last_hidden_state"):
        resolve(None, output, module, prepared)
    with pytest.raises(TargetError, match="has no head"):
        resolve(1, tuple(output.values()), module, prepared)
    goal = resolve(lambda out: out.last_hidden_state[:, 0].norm(dim=-1), output, module, prepared)
    assert goal.value.shape == (1,)


@pytest.mark.parametrize(
    ("output", "message"),
    [
        (torch.zeros(3, 4), r"shape \(3, 4\) for 2 samples"),
        (torch.tensor(1.0), r"shape \(\) for 2 samples"),
        (torch.zeros(2, 3, 4, 5), "has rank 4"),
        ({"a": torch.zeros(2, 3), "b": torch.zeros(2, 3)}, "no head that whyformer knows.*a, b"),
        ("words", "returns str"),
        ((), "returns 0 values without logits"),
    ],
)
def test_outputs_that_cannot_be_asked(output: Any, message: str) -> None:
    with pytest.raises(TargetError, match=f"{message}.*callable"):
        ask(None, output)


def test_states_of_another_length() -> None:
    with pytest.raises(TargetError, match=r"shape \(2, 3, 4\) for 5 tokens"):
        ask(None, torch.zeros(2, 3, 4), mask=torch.ones(2, 5, dtype=torch.bool))


def test_distillation_models_are_asked_for_their_mean(vit: nn.Module) -> None:
    import transformers

    config = transformers.DeiTConfig(**vit.config.to_dict())
    module = transformers.DeiTForImageClassificationWithTeacher(config).eval()
    output, prepared = run(module, torch.randn(2, 3, 8, 8))
    goal = resolve(1, output, module, prepared)
    torch.testing.assert_close(goal.value, output.logits[:, 1])


# -- once found, the same ever after ------------------------------------------------------------


def test_a_goal_means_the_same_in_another_output() -> None:
    goal = ask([None, contrast(0, 1)])
    again = ask(goal.target, -LOGITS)
    assert all(isinstance(pick, Selection) for pick in goal.target)
    assert again.labels == goal.labels
    assert again.value.tolist() == (-goal.value).tolist()
    assert ask(goal.target).index.tolist() == goal.index.tolist()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_precision_is_the_models(dtype: torch.dtype) -> None:
    assert ask(contrast(0, 1), LOGITS.to(dtype)).value.dtype == dtype

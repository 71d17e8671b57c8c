"""Explain what a `transformers.pipeline` answered."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from whyformer.attribution import Attribution
from whyformer.errors import InputError, OptionError
from whyformer.explain import explain
from whyformer.inputs.containers import plain_inputs
from whyformer.inputs.detect import is_chat
from whyformer.models.unwrap import is_pipeline
from whyformer.targets.resolve import token


@dataclass(frozen=True)
class _Question:
    """What the model behind a pipeline was asked, and which answer to explain."""

    inputs: Any
    target: Any


def explain_answer(pipe: Any, inputs: Any, answer: Any = None, **settings: Any) -> Attribution:
    """Explain what a pipeline answered.

    Args:
        pipe: A `transformers.pipeline` for classification of texts, tokens or images, for filling a
            mask, or for generation of text.
        inputs: One input of the pipeline, as it takes it.
        answer: What the pipeline returned for it, or one entry of that, such as one entity. By
            default the pipeline is asked, and its first answer is explained; of several entities
            the one with the highest score.
        **settings: Further arguments of `whyformer.explain`, such as `method`.

    Returns:
        The attribution of that answer.

    Raises:
        OptionError: This is no pipeline, or its task is another one.
        InputError: The pipeline found nothing that could be explained.

    Example:
        >>> from transformers import pipeline  # doctest: +SKIP
        >>> pipe = pipeline("text-classification")  # doctest: +SKIP
        >>> explain_answer(pipe, "a gripping film").labels  # doctest: +SKIP
        ('POSITIVE',)
    """
    if not is_pipeline(pipe):
        raise OptionError(
            f"pipe is a {type(pipe).__name__}, not a transformers pipeline",
            argument="pipe",
            remedy="Pass transformers.pipeline(...), or use whyformer.explain for a model",
        )
    if pipe.task not in _TASKS:
        raise OptionError(
            f"answers of {pipe.task!r} are not explained",
            argument="pipe",
            remedy=f"It can be {', '.join(sorted(_TASKS))}; for others use"
            " whyformer.explain(inputs, pipe, target=...)",
        )
    question = _TASKS[pipe.task](inputs, pipe(inputs) if answer is None else answer)
    return explain(question.inputs, pipe, target=question.target, **settings)


def _first(answer: Any) -> Mapping[str, Any]:
    """The first of the pipeline's answers."""
    while isinstance(answer, list | tuple):
        if not answer:
            raise InputError(
                "the pipeline found nothing that could be explained",
                argument="inputs",
                remedy="Pass another input, or use whyformer.explain with a target",
            )
        answer = answer[0]
    return answer


def _class(inputs: Any, answer: Any) -> _Question:
    return _Question(plain_inputs(inputs), _first(answer)["label"])


def _entity(inputs: Any, answer: Any) -> _Question:
    entities = [answer] if isinstance(answer, Mapping) else list(answer)
    _first(entities)
    one = max(entities, key=lambda entity: entity["score"])
    if "index" in one:
        return _Question(inputs, token(one["index"], one["entity"]))
    occurrence = inputs[: one["start"]].count(inputs[one["start"] : one["end"]])
    return _Question(inputs, token(inputs[one["start"] : one["end"]], occurrence=occurrence))


def _masked(inputs: Any, answer: Any) -> _Question:
    return _Question(inputs, int(_first(answer)["token"]))


def _generated_text(inputs: Any, answer: Any) -> _Question:
    one = _first(answer)
    text = one["generated_text"]
    if is_chat(text):
        return _Question(inputs, text[-1]["content"])
    if isinstance(inputs, str) and text.startswith(inputs):
        text = text[len(inputs) :]
    return _Question(inputs, text)


_TASKS: dict[str, Callable[[Any, Any], _Question]] = {
    "text-classification": _class,
    "sentiment-analysis": _class,
    "image-classification": _class,
    "token-classification": _entity,
    "ner": _entity,
    "fill-mask": _masked,
    "text-generation": _generated_text,
}

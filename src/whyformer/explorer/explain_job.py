"""The work of one request: explain with every method, make the report, measure the curves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from whyformer.attribution import Attribution, View, views
from whyformer.errors import WhyformerError
from whyformer.explorer.deletion_curve import STEPS, DeletionCurves
from whyformer.explorer.error_text import error_text
from whyformer.explorer.explain_request import ExplainRequest
from whyformer.explorer.jobs import SendEvent, Work
from whyformer.explorer.result_cache import Result, ResultCache
from whyformer.methods import methods
from whyformer.models.load import Loaded
from whyformer.models.processors import tokenizer_of
from whyformer.pipeline.explain_each import Ask, explain_each
from whyformer.render.answer import read_answer
from whyformer.render.html.fragment import Page
from whyformer.render.html.page import build_comparison_page, build_page

KEPT = ("attention", "gradient")  # for one method alone: its report shows layers and heads
WRITES = "the model generates text, and the curve follows the probability of one class"
ONE_NUMBER = "the model's output is one number, not classes, so it has no probability"


def explain_job(request: ExplainRequest, results: ResultCache) -> Work:
    """Return the work that answers a request; it sends its results as events.

    The first part of the work of a request with an image file decodes it.
    """
    steps = 2 + 2 * len(request.methods)
    if request.image is None:
        return partial(_answer, request, results, steps)

    def decode(send: SendEvent) -> Work:
        send("step", done=0, of=steps, says="reading the image")
        decoded = request.decoded()
        return partial(_answer, decoded, results, steps, notes=_reduction(request))

    return decode


def _reduction(request: ExplainRequest) -> list[str]:
    """Say so if the image was made smaller."""
    upload = request.image
    if upload is None or upload.factor == 1:
        return []
    width, height = upload.size
    return [f"the image has {width} x {height} pixels and was reduced {upload.factor} times"]


def _answer(
    request: ExplainRequest,
    results: ResultCache,
    steps: int,
    send: SendEvent,
    notes: Sequence[str] = (),
) -> None:
    send("step", done=0, of=steps, says=f"loading {request.entry.name}")
    for says in notes:
        send("note", says=says)
    loaded = replace(request.entry.load(), name=request.entry.name)
    attributions = _explain(request, loaded, send, steps)
    done = 1 + len(request.methods)
    send("step", done=done, of=steps, says="drawing")
    send("report", id=results.put(_result(attributions)), label=attributions[0].labels[0])
    if request.entry.writes:
        _send_answer(attributions[0], send)
        send("unmeasured", says=WRITES)
        return
    _measure(request, loaded, attributions, send, steps)


def _send_answer(attribution: Attribution, send: SendEvent) -> None:
    """Send the words of a written answer with their probabilities."""
    stream = next((one for one in attribution.streams.values() if one.said), None)
    if stream is None:
        return
    words = [
        {"text": word.text, "special": word.special, "share": word.probability}
        for word in read_answer(stream).words
    ]
    send("answer", words=words)


def _explain(
    request: ExplainRequest, loaded: Loaded, send: SendEvent, steps: int
) -> list[Attribution]:
    """Return the attributions of the methods that work; raise the first error if none does."""
    writing: dict[str, Any] = {}
    if request.max_new_tokens is not None:
        writing["max_new_tokens"] = request.max_new_tokens
    # Maps are not kept for an answer: every token of it would have its own.
    alone = len(request.methods) == 1 and not request.entry.writes
    answers = explain_each(
        _prompt(request, loaded),
        loaded,
        [Ask(name, request.target) for name in request.methods],
        keep=KEPT if alone else (),
        on_error="return",
        **writing,
    )
    attributions, errors = [], []
    for number, name in enumerate(request.methods):
        send("step", done=1 + number, of=steps, says=f"explaining with {name}")
        answer = next(answers)
        if answer.error is not None:
            errors.append(answer.error)
            send("failed", method=name, says=error_text(answer.error))
        if answer.attribution is not None:
            attributions.append(answer.attribution)
            send("method", seconds=answer.seconds, **_facts(answer.attribution))
    if not attributions:
        raise errors[0]
    return attributions


def _prompt(request: ExplainRequest, loaded: Loaded) -> Any:
    """The inputs; a text for a chat model is a message of the user."""
    tokenizer = tokenizer_of(loaded.processor, loaded.module)
    text = request.inputs
    if not (request.entry.writes and isinstance(text, str)):
        return text
    has_template = bool(getattr(tokenizer, "chat_template", None))
    return [{"role": "user", "content": text}] if has_template else text


def _facts(attribution: Attribution) -> dict[str, Any]:
    """Return one row of the table of methods, as JSON values."""
    share = attribution.conservation
    known = share is not None and math.isfinite(float(share[0]))
    return {
        "method": attribution.method,
        "label": attribution.labels[0],
        "output": _finite(float(attribution.output[0])),
        "conservation": float(share[0]) if known and share is not None else None,
        "promises": methods[attribution.method].promises_sum,
        "trust": attribution.trust.verdict,
        "reasons": attribution.trust.summary,
        "notes": [str(note) for note in attribution.provenance.get("notes", ())],
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _result(attributions: list[Attribution]) -> Result:
    """Return the report as files; only the page shows layers."""
    light = [replace(attribution, layers=()) for attribution in attributions]
    alone = len(attributions) == 1
    page = _page(attributions)

    def render(name: str) -> str | bytes:
        if name == "html":
            return page.to_html()
        view: View = views[name]
        return view.render(light[0]) if alone else view.render_comparison(light)

    return Result(page, str(render("json")).encode(), render)


def _page(attributions: list[Attribution]) -> Page:
    """The report: one method alone, or several compared."""
    alone = len(attributions) == 1
    return build_page(attributions[0]) if alone else build_comparison_page(attributions)


def _measure(
    request: ExplainRequest,
    loaded: Loaded,
    attributions: list[Attribution],
    send: SendEvent,
    steps: int,
) -> None:
    """Send the class probabilities and every point of every deletion curve."""
    try:
        deletion = DeletionCurves(request.inputs, loaded)
        streams = deletion.streams(attributions[0])
        shares = deletion.probabilities(attributions[0])
    except WhyformerError as error:
        send("unmeasured", says=error_text(error))
        return
    send("answers", classes=deletion.classes(shares))
    if not request.curves:
        return
    if len(shares) == 1:
        send("unmeasured", says=ONE_NUMBER)
        return
    send("curves", streams=streams, steps=STEPS)
    for number, attribution in enumerate(attributions):
        done = 2 + len(request.methods) + number
        send("step", done=done, of=steps, says=f"measuring {attribution.method}")
        for stream in streams:
            curve = {"method": attribution.method, "stream": stream}

            def point(share: float, value: float, curve: dict[str, str] = curve) -> None:
                send("point", share=share, value=value, **curve)

            try:
                send("area", value=deletion.curve(attribution, stream, point), **curve)
            except WhyformerError as error:
                send("unmeasured", says=error_text(error), **curve)

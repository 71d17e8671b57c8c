"""One job: explain with every method, show the report, then measure how faithful each is."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import whyformer
from whyformer.attribution import Attribution, views
from whyformer.errors import WhyformerError
from whyformer.explorer.deletion_curve import STEPS, DeletionCurves
from whyformer.explorer.error_text import error_text
from whyformer.explorer.explain_request import ExplainRequest
from whyformer.explorer.jobs import Tell
from whyformer.explorer.result_cache import Result, ResultCache
from whyformer.methods import methods
from whyformer.models.families import family_of
from whyformer.models.load import Loaded

KEPT = ("attention", "gradient")  # of one method alone: the report then has layers and heads
ONE_NUMBER = "this model gives one number and no classes, so there is no probability to follow"


def explain_job(request: ExplainRequest, results: ResultCache) -> Callable[[Tell], None]:
    """The work that answers a request; it tells all that it finds."""

    def work(tell: Tell) -> None:
        steps = 2 + 2 * len(request.methods)
        tell("step", done=0, of=steps, says=f"loading {request.entry.name}")
        loaded = replace(request.entry.load(), name=request.entry.name)
        attributions = _explain(request, loaded, tell, steps)
        done = 1 + len(request.methods)
        tell("step", done=done, of=steps, says="drawing")
        tell("report", id=results.put(_result(attributions)), label=attributions[0].labels[0])
        _measure(request, loaded, attributions, tell, steps)

    return work


def _explain(request: ExplainRequest, loaded: Loaded, tell: Tell, steps: int) -> list[Attribution]:
    """The attributions of those methods that can explain this input; at least one."""
    found, failed = [], []
    family = family_of(loaded.module)
    alone = len(request.methods) == 1 and not (family is not None and family.writes)
    for number, name in enumerate(request.methods):
        tell("step", done=1 + number, of=steps, says=f"explaining with {name}")
        start = time.perf_counter()
        try:
            attribution = whyformer.explain(
                request.inputs,
                loaded.module,
                processor=loaded.processor,
                method=name,
                target=request.target,
                keep=KEPT if alone else (),
            )
        except WhyformerError as error:
            failed.append(error)
            tell("failed", method=name, says=error_text(error))
            continue
        seconds = time.perf_counter() - start
        provenance = {**attribution.provenance, "model": loaded.name}
        found.append(replace(attribution, provenance=provenance))
        tell("method", seconds=seconds, **_facts(found[-1]))
    if not found:
        raise failed[0]
    return found


def _facts(attribution: Attribution) -> dict[str, Any]:
    """What the table of methods says about one of them."""
    share = attribution.conservation
    known = share is not None and math.isfinite(float(share[0]))
    return {
        "method": attribution.method,
        "label": attribution.labels[0],
        "output": _finite(float(attribution.output[0])),
        "conservation": float(share[0]) if known and share is not None else None,
        "promises": methods[attribution.method].promises_sum,
        "notes": [str(note) for note in attribution.provenance.get("notes", ())],
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _result(attributions: list[Attribution]) -> Result:
    """The report as files; what they need is kept, and layers are not."""
    light = [replace(attribution, layers=()) for attribution in attributions]
    if len(attributions) == 1:
        page, data = attributions[0].to_html(), light[0].to_json()
        return Result(page.encode(), data.encode(), light[0].to_png)
    html, json, png = (views[name] for name in ("html", "json", "png"))
    return Result(
        html.render_comparison(attributions).encode(),
        json.render_comparison(light).encode(),
        lambda: png.render_comparison(light),
    )


def _measure(
    request: ExplainRequest,
    loaded: Loaded,
    attributions: list[Attribution],
    tell: Tell,
    steps: int,
) -> None:
    """Nothing; tells the model's answers and every point of every curve."""
    try:
        deletion = DeletionCurves(request.inputs, loaded)
        streams = deletion.streams(attributions[0])
        shares = deletion.answers(attributions[0])
    except WhyformerError as error:
        tell("unmeasured", says=error_text(error))
        return
    tell("answers", classes=deletion.classes(shares))
    if len(shares) == 1:
        tell("unmeasured", says=ONE_NUMBER)
        return
    tell("curves", streams=streams, steps=STEPS)
    for number, attribution in enumerate(attributions):
        done = 2 + len(request.methods) + number
        tell("step", done=done, of=steps, says=f"taking away what {attribution.method} points at")
        for stream in streams:
            named = {"method": attribution.method, "stream": stream}

            def point(share: float, value: float, named: dict[str, str] = named) -> None:
                tell("point", share=share, value=value, **named)

            try:
                tell("area", value=deletion.curve(attribution, stream, point), **named)
            except WhyformerError as error:
                tell("unmeasured", says=error_text(error), **named)

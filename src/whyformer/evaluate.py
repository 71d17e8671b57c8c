"""`evaluate`: how faithful methods are, measured on a model and data."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from whyformer.evaluation.results import Results


def evaluate(
    model: Any,
    data: Any = None,
    *,
    methods: Sequence[str] = ("all",),
    metrics: Sequence[str] | None = None,
    out: Path | str | None = None,
    targets: Sequence[str] = ("predicted",),
    fill: str | None = None,
    limit: int | None = None,
    seed: int = 0,
    truncation: bool = False,
    processor: Any = None,
) -> Results:
    """Measure how faithful methods are on a model and data.

    Args:
        model: As in `explain`.
        data: A list of inputs as `explain` takes them, a `Dataset`, a list of `Sample`, or
            "name:PATH" such as "csv:my.csv,text=review". By default the samples that come with a
            bundled model.
        methods: Names of methods; "all" stands for every method that is not slow.
        metrics: Names of metrics. By default those that fit the model and the data.
        out: A folder for results, tables and report.html. What it already has is not computed
            again. By default nothing is kept.
        targets: Which classes to explain: "predicted", "label" or both.
        fill: What replaces removed tokens; by default each stream's own.
        limit: Draw at most this many samples of a dataset that is opened by its name, or use the
            first ones of a list.
        seed: Seed of random draws.
        truncation: Cut texts that are too long instead of refusing them.
        processor: The tokenizer or image processor, if it is not found beside the model.

    Returns:
        The results: `print` shows the table, `to_pandas()` gives one row per sample, method,
        target and metric.

    Raises:
        InputError: There are no samples, or one cannot be read or explained.
        UnknownNameError: There is no such method or metric.
        OptionError: An option is wrong.
        ModelError: The model cannot be loaded, run or explained.

    Example:
        >>> import whyformer as wf
        >>> texts = ["a gripping film", "a dull film"]
        >>> found = wf.evaluate("sst2", texts, methods=["libragrad", "random"], metrics=["auac"])
        >>> found.methods
        ('libragrad', 'random')
    """
    from tempfile import TemporaryDirectory

    from whyformer.errors import OptionError
    from whyformer.evaluation import Plan, load_model, method_specs, metric_specs
    from whyformer.evaluation import evaluate as run
    from whyformer.evaluation.default_metrics import default_metrics
    from whyformer.evaluation.sample_sources import read_samples

    for name, value in (("methods", methods), ("metrics", metrics), ("targets", targets)):
        if isinstance(value, str):
            raise OptionError(
                f"{name}={value!r} is one text",
                argument=name,
                remedy=f"Pass a list: {name}=[{value!r}]",
            )
    read = read_samples(data, model, limit=limit, seed=seed)
    samples = read.samples[:limit]
    loaded = load_model(model, processor)
    chosen = metrics
    if chosen is None and samples:
        chosen, _ = default_metrics(loaded, samples)
    plan = Plan(
        method_specs(methods, seed=seed),
        metric_specs(chosen or (), fill=fill),
        tuple(targets),
        fill,
        seed,
        truncation,
    )
    facts = {"data": {"source": read.source}}
    if out is not None:
        return run(loaded, samples, plan, out, names=read.names, facts=facts)
    with TemporaryDirectory(prefix="whyformer-") as folder:
        return run(loaded, samples, plan, folder, names=read.names, facts=facts, report=False)

"""`recommend`: which method explains your model best, measured on your own data.

The function is here and its work in the modules beside it, which are imported on first use:
`import whyformer` stays cheap, and `whyformer.recommend` is the function.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from whyformer.recommend.recommendation import Recommendation
    from whyformer.workers import EngineOptions


def recommend(
    model: Any,
    data: Any = None,
    *,
    methods: Sequence[Any] | None = None,
    metrics: Sequence[Any] | None = None,
    seconds: float = 100.0,
    samples: int | None = None,
    seed: int = 0,
    fill: str | None = None,
    truncation: bool = False,
    processor: Any = None,
    race: bool = True,
    engine: EngineOptions | None = None,
) -> Recommendation:
    """Find the method that explains a model best on your data.

    Methods are measured on 16 samples, then on 32, 64, and so on. After each round, methods that
    are significantly worse than the best are dropped, so that most of the time goes to the good
    ones. What decides is how the prediction changes when tokens are removed in the order of their
    scores, which needs no labels.

    Args:
        model: An `nn.Module`, the name of a bundled model, a local folder or a hub id, as in
            `explain`.
        data: A list of inputs as `explain` takes them (texts, images, pairs), a `Dataset`, a list
            of `Sample`, or "name:PATH" such as "csv:my.csv,text=review". By default the samples
            that come with a bundled model.
        methods: Names of methods, "name(option=value)" for options, or `MethodSpec`. By default
            all methods that are not slow, some of them with several options.
        metrics: Names of metrics, or `MetricSpec`; all of them count equally. By default "auac"
            and "deletion", and what the data has masks or marked words for.
        seconds: Stop when this time is over, with what is known then.
        samples: The most samples to use; by default 512. They are drawn at random.
        seed: Seed of the order of the samples, of the draws and of random scores.
        fill: What replaces removed tokens, as in `evaluate`; by default each stream's own.
        truncation: Cut texts that are too long instead of refusing them.
        processor: The tokenizer or image processor, if it is not found beside the model.
        race: Whether to drop methods on the way. Without, all are measured on all samples.
        engine: Where to measure: in this process if None, in several, or on a Ray cluster. Only the
            time limit makes a difference: more workers measure more samples.

    Returns:
        The recommended method, a sentence, and a table of all methods.

    Raises:
        InputError: There are fewer than two samples with at least two tokens, a sample cannot be
            read, or lacks what a metric needs.
        UnknownNameError: There is no such method or metric.
        OptionError: An option is wrong, or there are fewer than two methods.
        ModelError: The model cannot be loaded, or no method can explain it.

    Example:
        >>> import whyformer as wf
        >>> found = wf.recommend("sst2", methods=["gae", "random"])  # doctest: +SKIP
        >>> found.method, found.sentence  # doctest: +SKIP
    """
    from whyformer.batching.progress import finish
    from whyformer.recommend.run import RecommendOptions, run_recommend
    from whyformer.workers import EngineOptions

    options = RecommendOptions(
        methods=methods,
        metrics=metrics,
        seconds=seconds,
        samples=samples,
        seed=seed,
        fill=fill,
        truncation=truncation,
        race=race,
        engine=engine or EngineOptions(),
    )
    return finish(run_recommend(model, data, options, processor))

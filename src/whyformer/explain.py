"""The pipeline: inputs -> capture -> method -> Attribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import nn

from whyformer.assemble import assemble
from whyformer.attribution import Attribution
from whyformer.capture.capture import Capture
from whyformer.capture.deciding import check_deciding
from whyformer.capture.scope import borrowed
from whyformer.capture.stacks import check_one_stream, find_stacks
from whyformer.capture.writing import written
from whyformer.errors import OptionError
from whyformer.families import family_of
from whyformer.generated import put_together
from whyformer.inputs.finite import check_weights
from whyformer.inputs.generation import generation_of
from whyformer.inputs.layout import as_given
from whyformer.inputs.models import load_model
from whyformer.inputs.prepare import prepare
from whyformer.inputs.targets import resolve
from whyformer.methods import Method, methods
from whyformer.trust import warn_of_drift, warn_of_leaks


def explain(
    inputs: Any,
    model: nn.Module | str | None = None,
    *,
    method: str = "lrp_ah_ln",
    target: Any = None,
    processor: Any = None,
    truncation: bool = False,
    keep: str | Sequence[str] = (),
    tokens: str | None = None,
    blocks: str | None = None,
    batch_first: bool | None = None,
    deciding: str | int | None = None,
    **options: Any,
) -> Attribution:
    """Which tokens made the model say that, as an `Attribution`.

    `inputs` is text, a list of texts, a (text, text) pair, an image or its path, a (text, image)
    pair or a mapping of both, a tensor, or a mapping of what the model's forward takes. `target`
    is what to explain: None for the predicted class (of a detector the surest query's, of an
    encoder-decoder every token that it writes), an index, a label, one per sample, `contrast`,
    `query`, `token`, `span`, a generated text as ids (batch, tokens), or a callable from the
    model's output to one value per sample. `keep` holds on to "states", "attention", "gradient",
    and where the method has them "maps" and "relevance".

    For a model of no known family, `tokens` (the argument that carries them), `blocks` (the
    modules they go through), `batch_first` and `deciding` (the token that the head reads) name
    what cannot be inferred. The rest are options of the method: see `whyformer.methods()`.
    """
    chosen = methods[method]
    chosen.check(options)
    check_deciding(deciding)
    kept = _kept(keep, chosen)
    loaded = load_model(model, processor, inputs)
    module = getattr(loaded.module, "_orig_mod", loaded.module)  # what torch.compile wrapped
    check_weights(module)
    family = family_of(module)
    prepared = prepare(inputs, module, loaded.processor, family, truncation, carrier=tokens)
    if blocks is None and family is None:
        check_one_stream(module, prepared.arguments)
    with borrowed(module):  # it may have to write first
        prepared, target, generation = generation_of(
            target,
            prepared,
            module,
            family,
            read=lambda mapping: prepare(mapping, module, loaded.processor, family),
            write=written,
        )
    if generation is not None and kept:
        raise OptionError(
            f"keep={sorted(kept)} is about one output token, and each of a generated text is"
            " explained; pass target=wf.token(position) for the one you want to look into"
        )
    capture = Capture(
        module,
        prepared,
        find_stacks(module, prepared.stream, family, blocks, batch_first),
        lambda wanted, output: resolve(wanted, output, module, prepared),
        target=target,
        deciding=deciding,
        keep=kept,
        family=family,
    )
    with borrowed(module):
        scores = chosen(capture, **options)
        if {"attention", "gradient"} & kept and not capture.layers:
            capture.attentions()
    attribution = assemble(chosen, options, capture, scores, loaded.name, family)
    warn_of_leaks(attribution, capture)
    warn_of_drift(attribution, capture)
    layouts = {one.stream: one.layout for one in prepared if one.layout is not None}
    attribution = as_given(attribution, layouts)
    return attribution if generation is None else put_together(attribution, generation)


def _kept(keep: str | Sequence[str], method: Method) -> frozenset[str]:
    names = [keep] if isinstance(keep, str) else keep
    listed = isinstance(names, (list, tuple, set, frozenset))
    if not listed or not all(isinstance(name, str) for name in names):
        raise OptionError(f"keep={keep!r}: pass a name or a list of names")
    kept = frozenset(names)
    for name in kept - set(method.keeps):
        raise OptionError(
            f"keep={name!r}: method '{method.name}' can keep {', '.join(map(repr, method.keeps))}"
        )
    return kept

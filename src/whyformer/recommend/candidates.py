"""The methods that take part: every method that is not slow, some with several options."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from whyformer.errors import OptionError
from whyformer.evaluation.plan import MethodSpec
from whyformer.methods import Method, methods

# Options that make another method of a method. One that a method does not have is left out.
VARIANTS: tuple[tuple[str, Mapping[str, Any]], ...] = (
    ("gae", {"gradient": "balanced"}),
    ("grad_cam", {"gradient": "balanced"}),
    ("transformer_attribution", {"gradient": "balanced"}),
    ("lrp_ah_ln", {"activations": "identity"}),
    ("attn_lrp", {"gamma": 0.25}),
)
# Options in place of the defaults, which are for one explanation and not for a comparison.
CHEAPER: Mapping[str, Mapping[str, Any]] = {"integrated_gradients": {"steps": 8}}
_LABEL = re.compile(r"\s*(\w+)\s*(?:\((.*)\))?\s*")


def default_candidates(seed: int) -> tuple[MethodSpec, ...]:
    """Every method that is not slow, and its variants; the cheapest first."""
    found = [
        _candidate(name, CHEAPER.get(name, {}), seed)
        for name, method in methods.items()
        if method.in_all
    ]
    found += [
        _candidate(name, options, seed)
        for name, options in VARIANTS
        if name in methods and options.keys() <= methods[name].options.keys()
    ]
    return by_cost(found)


def named_candidates(names: Sequence[Any], seed: int) -> tuple[MethodSpec, ...]:
    """The methods that the user named, by name, by "name(option=value)" or as `MethodSpec`.

    Raises:
        UnknownNameError: There is no such method.
        OptionError: An option is wrong, a method is named twice, or there are fewer than two.
    """
    if isinstance(names, str):
        raise OptionError(
            f"methods={names!r} is one text",
            argument="methods",
            remedy="Pass a list, as in methods=['gae', 'attn_lrp']",
        )
    found: list[MethodSpec] = []
    for one in names:
        if one == "all":
            found += default_candidates(seed)
        else:
            found.append(one if isinstance(one, MethodSpec) else _parse(one, seed))
    labels = [one.label for one in found]
    if len(labels) > len(set(labels)):
        twice = next(label for label in labels if labels.count(label) > 1)
        raise OptionError(
            f"method {twice!r} is named twice", argument="methods", remedy="Name each once"
        )
    if len(found) < 2:
        raise OptionError(
            f"{len(found)} method to choose from",
            argument="methods",
            remedy="Name at least two methods, or none for all",
        )
    return by_cost(found)


def by_cost(specs: Sequence[MethodSpec]) -> tuple[MethodSpec, ...]:
    """The cheapest first; the order of equally cheap ones is kept."""
    return tuple(sorted(specs, key=lambda one: declared_cost(methods[one.method])))


def declared_cost(method: Method) -> tuple[bool, ...]:
    """What orders methods by cost: from what they declare, so that it never changes with time."""
    return (
        method.slow,
        method.sums == "completeness",  # many steps of a path
        method.rules == "relevance",
        "gradient" in method.needs,
        "attention" in method.needs,
    )


def _parse(text: str, seed: int) -> MethodSpec:
    match = _LABEL.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise OptionError(
            f"{text!r} does not name a method",
            argument="methods",
            remedy="Write a name, or name(option=value), such as gae(start_layer=1)",
        )
    name, inside = match.groups()
    options = {}
    for pair in (inside or "").split(","):
        key, equals, value = pair.partition("=")
        if equals and key.strip():
            options[key.strip()] = _value(value.strip())
        elif pair.strip():
            raise OptionError(
                f"{pair.strip()!r} in {text!r} is not of the form option=value",
                argument="methods",
                remedy="Write for example gae(start_layer=1)",
            )
    return _candidate(name, options, seed)


def _value(text: str) -> Any:
    """A number, True, False or None if the text is one of these, otherwise the text."""
    bare = text.strip("'\"")
    try:
        return json.loads({"True": "true", "False": "false", "None": "null"}.get(bare, bare))
    except json.JSONDecodeError:
        return bare


def _candidate(name: str, options: Mapping[str, Any], seed: int) -> MethodSpec:
    method = methods[name]
    method.check(options)
    inside = ", ".join(f"{key}={value}" for key, value in options.items())
    seeded = {"seed": seed} if "seed" in method.options and "seed" not in options else {}
    return MethodSpec(f"{name}({inside})" if inside else name, name, {**seeded, **options})

"""Trace one explanation and one evaluation, and write their hops into docs/architecture.md.

    python docs/trace.py            # print the hop lists and every violation
    python docs/trace.py --write    # write the hop lists between the markers of the page
    python docs/trace.py --json     # the same as data, for tests/test_architecture.py

A hop is a call from one part of src/whyformer into another. Calls that pass through other
packages count too: a callback that torch runs is a call by the part that called torch.
"""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import itertools
import json
import pkgutil
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

# As a script it finds the package and the tests of this checkout.
sys.path.insert(0, str(Path(__file__).parent.parent))
sys.path.insert(0, str(Path(__file__).parent.parent / "src"))

import whyformer
from tests.test_imports import ALLOWED

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "architecture.md"
PACKAGE = Path(whyformer.__file__).parent
OUTSIDE = "you"
TEXT = "a gripping film"
# Functions that run once for one value: nothing is loaded, read or detected twice.
ONCE = ("load_model", "prepare", "find_stacks")
# What a worker of an evaluation runs.
TASKS = ("EvaluationTask.open", "measure_samples", "_measure")
SHOWN = 5  # arguments that a hop names; the rest is "..."
# Files of scopes: they run what the part around them gave to them, and are no hop.
SCOPES = ("models/undo.py", "models/shared_scope.py")
# Frames that belong to the function around them.
INNER = re.compile(r"\.<locals>\.<(listcomp|dictcomp|setcomp|genexpr)>")


@dataclass(frozen=True)
class Hop:
    """One call between parts: who called, what was called, what goes in and out."""

    caller: str  # a part, such as "engine", or "you"
    callee: str  # "models/load.load_model"
    takes: tuple[str, ...]
    returns: str
    summary: str

    @property
    def part(self) -> str:
        """The part that was called."""
        return re.split(r"[/.]", self.callee)[0]


@dataclass(frozen=True)
class Trace:
    """All hops in order, calls that point the wrong way, and the calls of the `ONCE` functions."""

    hops: tuple[Hop, ...]
    violations: tuple[str, ...]
    once: dict[str, tuple[str, ...]]  # function -> its first argument, call by call


def trace(call: Callable[[], Any]) -> Trace:
    """Run `call` and return the calls between the parts of the package, each kind once."""
    edges: dict[tuple[str, CodeType], str | None] = {}
    once: dict[str, tuple[str, ...]] = {}

    def watch(frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        if event != "call" or not is_traced(code):
            return
        if code.co_name in ONCE:
            once[code.co_name] = (*once.get(code.co_name, ()), first_argument(frame))
        caller = nearest_caller(frame)
        source = part_of(caller) if caller else OUTSIDE
        if source != part_of(code):
            edges.setdefault((source, code), caller and place_of(caller))

    sys.setprofile(watch)
    try:
        call()
    finally:
        sys.setprofile(None)
    hops = [
        Hop(source, place_of(code), *description_of(code))
        for source, code in edges
        if is_function(code)
    ]
    violations = [
        f"{place} calls {place_of(code)}: {source} is below {part_of(code)}"
        for (source, code), place in edges.items()
        if not may_call(source, code, place)
    ]
    return Trace(tuple(dict.fromkeys(hops)), tuple(sorted(set(violations))), once)


def first_argument(frame: FrameType) -> str:
    """The first argument of a call: its value if it is plain data, else '<type>'."""
    value = frame.f_locals[frame.f_code.co_varnames[0]]
    plain = value is None or isinstance(value, str | list | tuple | dict)
    return repr(value) if plain else f"<{type(value).__name__}>"


def is_traced(code: CodeType) -> bool:
    """Whether the code is a function of the package: no module body, no generated code."""
    return code.co_filename.startswith(str(PACKAGE)) and (
        code.co_name != "<module>" and not INNER.search(code.co_qualname) and not is_scope(code)
    )


def is_scope(code: CodeType) -> bool:
    """Whether the code only runs what it was given."""
    return code.co_filename.endswith(SCOPES)


def nearest_caller(frame: FrameType) -> CodeType | None:
    """The code in the package that led to this frame, through any other package."""
    back = frame.f_back
    while back is not None:
        if back.f_code.co_filename.startswith(str(PACKAGE)) and not is_scope(back.f_code):
            return back.f_code
        back = back.f_back
    return None


def part_of(code: CodeType) -> str:
    """The part of the package that the code stands in: 'engine' for engine/forward.py."""
    relative = Path(code.co_filename).relative_to(PACKAGE)
    return relative.parts[0] if len(relative.parts) > 1 else relative.stem


def place_of(code: CodeType) -> str:
    """The code's place as 'folder/file.function'; inner functions count as their outer one."""
    name = INNER.sub("", code.co_qualname).replace(".<locals>", "")
    return f"{'/'.join(_module_path(code)) or 'whyformer'}.{name}"


def _module_path(code: CodeType) -> list[str]:
    """The path of the code's module in the package; a package's own file is the package."""
    parts = Path(code.co_filename).relative_to(PACKAGE).with_suffix("").parts
    return [part for part in parts if part != "__init__"]


def is_function(code: CodeType) -> bool:
    """Whether a reader would call it a function: no property, dunder, lambda or inner function."""
    name = code.co_qualname
    if "<" in name or (code.co_name.startswith("__") and code.co_name != "__call__"):
        return False
    return not isinstance(_static(code), property | functools.cached_property)


def _static(code: CodeType) -> object:
    """What the class or module of the code holds under its name, unbound."""
    found: Any = sys.modules.get(".".join(["whyformer", *_module_path(code)]))
    for name in code.co_qualname.split("."):
        found = inspect.getattr_static(found, name, None)
    return found


def may_call(source: str, code: CodeType, place: str | None) -> bool:
    """Whether the import table allows the call.

    A result may show itself: `attribution` calls the views that the registry found for it.
    A worker runs the task that it was given: `workers` calls its functions, and no others.
    A dunder or property of a value that was handed down is reading it, and no call back up.
    """
    target = part_of(code)
    if source == OUTSIDE or target in ALLOWED[source]:
        return True
    if source == "attribution" and target == "render":
        return True
    if source == "workers" and code.co_qualname in TASKS:
        return True
    return not is_function(code) and "<" not in code.co_qualname


@functools.cache
def _definitions(file: str) -> dict[tuple[str, int], ast.FunctionDef]:
    tree = ast.parse(Path(file).read_text(encoding="utf-8"))
    found = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    return {
        (node.name, min([node.lineno, *(d.lineno for d in node.decorator_list)])): node
        for node in found
    }


def description_of(code: CodeType) -> tuple[tuple[str, ...], str, str]:
    """Names of the arguments, the type that is returned, and the docstring's first line."""
    node = _definitions(code.co_filename).get((code.co_name, code.co_firstlineno))
    if node is None:
        return (), "", ""
    arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    names = tuple(a.arg for a in arguments if a.arg not in ("self", "cls"))
    returns = ast.unparse(node.returns) if node.returns else ""
    summary = (ast.get_docstring(node) or "").partition("\n")[0]
    return names, returns, summary


def import_everything() -> None:
    """Import every module and scan every registry, so that the trace holds no import."""
    for module in pkgutil.walk_packages(whyformer.__path__, "whyformer."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    from whyformer.attribution import views
    from whyformer.datasets import datasets

    len(views), len(datasets)
    whyformer.methods(), whyformer.metrics(), whyformer.families(), whyformer.models()


def explain_once() -> None:
    """One explanation, as HTML text."""
    whyformer.explain(TEXT).to_html()


def evaluate_once() -> None:
    """Two samples of the bundled model, two methods, one metric, with the report."""
    from whyformer.evaluation import Plan, evaluate, load_model, method_specs, metric_specs
    from whyformer.evaluation.bundled_samples import bundled_samples

    with tempfile.TemporaryDirectory() as folder:
        plan = Plan(method_specs(["libragrad", "random"]), metric_specs(["auac"]))
        samples = bundled_samples(whyformer.models()["sst2"])[:2]
        evaluate(load_model("sst2", None, None), samples, plan, folder)


WAYS: dict[str, Callable[[], None]] = {"explanation": explain_once, "evaluation": evaluate_once}


def traces() -> dict[str, Trace]:
    """Both traces; what is imported or cached on a first call is warmed up before."""
    import_everything()
    return {name: trace(call) for name, call in WAYS.items()}


def markdown(found: Trace, known: Trace | None = None) -> str:
    """The hops as a numbered list; runs of hops that `known` has too are folded into one line."""
    seen = {(hop.caller, hop.callee) for hop in known.hops} if known else set()
    lines = []
    for is_known, run in itertools.groupby(
        found.hops, lambda hop: (hop.caller, hop.callee) in seen
    ):
        hops = list(run)
        if is_known and len(hops) > 2:
            parts = ", ".join(f"`{part}`" for part in dict.fromkeys(hop.part for hop in hops))
            lines.append(f"{len(hops)} hops of one explanation, through {parts}")
        else:
            lines += [line_of(hop) for hop in hops]
    return "\n".join(f"{number}. {line}" for number, line in enumerate(lines, start=1))


def line_of(hop: Hop) -> str:
    """One hop in one line: caller, callee, what goes in, what comes out, what it does."""
    takes = ", ".join([*hop.takes[:SHOWN], *(["..."] if len(hop.takes) > SHOWN else [])])
    returns = f" → `{hop.returns}`" if hop.returns not in ("", "None") else ""
    about = f": {hop.summary}" if hop.summary else ""
    return f"{hop.caller} → `{hop.callee}({takes})`{returns}{about}"


def lists(found: dict[str, Trace]) -> dict[str, str]:
    """Both hop lists as Markdown, by name."""
    first = found["explanation"]
    return {name: markdown(one, None if one is first else first) for name, one in found.items()}


def problems(found: dict[str, Trace]) -> Iterator[str]:
    """Calls that point the wrong way, and values that were loaded or detected twice."""
    for name, one in found.items():
        yield from (f"{name}: {violation}" for violation in one.violations)
        for function, arguments in one.once.items():
            # A model or batch that is handed on is not loaded or prepared again. An evaluation
            # explains many batches with one model, so it may look for the blocks many times.
            times = Counter(
                argument
                for argument in arguments
                # A worker measures a sample, and the report explains it again to draw it.
                if not (argument.startswith("<") or (function, name) == ("prepare", "evaluation"))
                or (function == "find_stacks" and name == "explanation")
            )
            yield from (
                f"{name}: {function} ran {count} times for {argument}"
                for argument, count in times.items()
                if count > 1
            )
    for function in ONCE:
        if function not in found["explanation"].once:
            yield f"explanation: {function} never ran: has it another name now?"


def page_with(text: str, found: dict[str, Trace]) -> str:
    """The text of the page with both hop lists as they were traced."""
    for name, hops in lists(found).items():
        place = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.S)
        assert place.search(text), f"{PAGE.name} has no place for the hops of one {name}"
        text = place.sub(lambda match, hops=hops: f"{match[1]}{hops}\n{match[2]}", text)  # type: ignore[misc]
    return text


def main() -> None:
    found = traces()
    if "--json" in sys.argv:
        print(json.dumps({"lists": lists(found), "problems": list(problems(found))}))
        return
    for name, hops in lists(found).items():
        print(f"## One {name}, hop by hop\n\n{hops}\n")
    for problem in problems(found):
        print(f"VIOLATION {problem}")
    if "--write" in sys.argv:
        text = PAGE.read_text(encoding="utf-8")
        PAGE.write_text(page_with(text, found), encoding="utf-8")


if __name__ == "__main__":
    main()

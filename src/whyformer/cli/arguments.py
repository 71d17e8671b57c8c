"""Arguments that several commands share, and how their text is read."""

from __future__ import annotations

import json
import sys
from io import BytesIO
from pathlib import Path
from typing import Annotated, Any

import typer

from whyformer.errors import InputError, OptionError
from whyformer.inputs.detect import IMAGE_SUFFIXES
from whyformer.targets.specs import parse_target

FILE_SUFFIXES = (*IMAGE_SUFFIXES, ".txt", ".md")
STDIN = "-"
PICTURES = ("png", "svg", "pdf")  # the views that are files of one picture

Given = Annotated[
    str | None,
    typer.Argument(
        metavar="INPUT",
        help="A text; the path of an image; the path of a text file, which is read as one text;"
        " or [bold]-[/bold] (or nothing) to read either from stdin. With --image: the text that"
        " goes with it, such as a question.",
        show_default=False,
    ),
]
ImageFile = Annotated[
    Path | None,
    typer.Option(
        "--image",
        "-i",
        metavar="FILE",
        help="The image, for models that read one, alone or with a text. Without another file to"
        " write, a picture goes to [bold]why.png[/bold].",
        show_default=False,
    ),
]
Query = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help="Which object query of a detector to explain, at --target or what it says. Default:"
        " the surest.",
        show_default=False,
    ),
]
Model = Annotated[
    str | None,
    typer.Option(
        "--model",
        "-m",
        metavar="NAME",
        help="A bundled model, a folder, or a hub id. Default: the bundled model that fits.",
        show_default=False,
    ),
]
Target = Annotated[
    str | None,
    typer.Option(
        "--target",
        "-t",
        metavar="WHAT",
        help="A class index, a label, what a model wrote, or [bold]'a>b'[/bold]: why a rather"
        " than b. Default: what the model predicts.",
        show_default=False,
    ),
]
Truncation = Annotated[
    bool, typer.Option("--truncation", help="Cut a text that is too long for the model.")
]
Deciding = Annotated[
    str | None,
    typer.Option(
        metavar="WHICH",
        help="Which token the head reads (an index, or a word such as 'last'), where whyformer"
        " cannot tell.",
        show_default=False,
    ),
]
HtmlFile = Annotated[
    Path | None,
    typer.Option("--html", metavar="FILE", help="Write a web page.", show_default=False),
]
PngFile = Annotated[
    Path | None, typer.Option("--png", metavar="FILE", help="Write a picture.", show_default=False)
]
SvgFile = Annotated[
    Path | None,
    typer.Option("--svg", metavar="FILE", help="Write the picture as vectors.", show_default=False),
]
PdfFile = Annotated[
    Path | None,
    typer.Option(
        "--pdf", metavar="FILE", help="Write the picture as vectors, for LaTeX.", show_default=False
    ),
]
JsonFile = Annotated[
    Path | None,
    typer.Option("--json", metavar="FILE", help="Write all numbers as JSON.", show_default=False),
]
Bars = Annotated[
    bool, typer.Option("--bars", help="Give every word a bar in the terminal, left or right of 0.")
]
Subwords = Annotated[
    bool,
    typer.Option("--subwords", help="Show the tokens of each word, in the terminal and pictures."),
]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="Show nothing in the terminal; write files only.")
]


def read_input(given: str | None) -> Any:
    """What the user wants explained: a text, the path of an image, or an image from stdin."""
    if given is None and sys.stdin.isatty():
        raise InputError(
            "there is nothing to explain: give a text or a file, as in"
            " whyformer explain 'a gripping film', or pipe one in"
        )
    if given is None or given == STDIN:
        return _decoded(sys.stdin.buffer.read(), "stdin")
    if _is_file(given):
        return Path(given) if _is_image(given) else _decoded(Path(given).read_bytes(), repr(given))
    alone = not any(c.isspace() for c in given)
    if alone and Path(given).suffix.lower() in FILE_SUFFIXES:
        raise InputError(
            f"there is no file {given!r}; check the path, or pipe it in if it is the text itself:"
            f" echo {given!r} | whyformer explain"
        )
    if alone and "/" in given and Path(given).is_dir():
        raise InputError(f"{given!r} is a folder; give one file of it, or a text")
    return given


def read_image(path: Path) -> Any:
    """The path of an image that is there and can be read, or an image from stdin."""
    from whyformer.inputs.images import open_image

    if str(path) == STDIN:
        content = _decoded(sys.stdin.buffer.read(), "stdin")
        if isinstance(content, str):
            raise InputError("--image - reads an image from stdin, and stdin holds text")
        return content
    open_image(path, "RGB")
    return path


def read_target(text: str | None) -> Any:
    """None, a class index, a label, or a contrast, from what the user typed."""
    return None if text is None else parse_target(text)


def read_options(pairs: list[str]) -> dict[str, Any]:
    """The method's options out of key=value pairs; values are JSON where they can be."""
    options: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise OptionError(
                f"--option {pair!r} is not of the form key=value, such as start_layer=1"
            )
        options[key.strip().replace("-", "_")] = scalar(value.strip())
    return options


def scalar(text: str) -> Any:
    """A number, true, false or null where the text is one in JSON; the text itself otherwise."""
    try:
        value = json.loads(text)
    except json.JSONDecodeError:
        return {"True": True, "False": False, "None": None}.get(text, text)
    return text if isinstance(value, list | dict) else value


def _is_file(given: str) -> bool:
    try:
        return Path(given).is_file()
    except (OSError, ValueError):  # a long text is too long for a path, and a NUL is in none
        return False


def _is_image(source: Any) -> bool:
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(source):
            return True
    except (UnidentifiedImageError, OSError):
        # A broken image is still meant as one: let it be refused as an image, by name.
        return isinstance(source, str) and Path(source).suffix.lower() in IMAGE_SUFFIXES


def _decoded(content: bytes, name: str) -> Any:
    if _is_image(BytesIO(content)):
        from PIL import Image

        return Image.open(BytesIO(content))
    try:
        return content.decode("utf-8").strip()
    except UnicodeDecodeError as error:
        raise InputError(
            f"{name} is neither an image nor text in UTF-8 (byte {error.start} is not); convert it"
            " first"
        ) from error

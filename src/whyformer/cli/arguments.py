"""Arguments and options that several commands share, and functions that read their values."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Annotated, Any

import typer

from whyformer.cli.completion import complete_model
from whyformer.cli.front_page import FLAG as FLAG
from whyformer.errors import InputError, OptionError
from whyformer.inputs.detect import IMAGE_SUFFIXES, is_chat
from whyformer.targets.specs import parse_target

FILE_SUFFIXES = (*IMAGE_SUFFIXES, ".txt", ".md")
STDIN = "-"
CHAT = '[{"role": "user", "content": "..."}]'

InputText = Annotated[
    str | None,
    typer.Argument(
        metavar="INPUT",
        help="A text, an image file or a text file. [bold]-[/bold] or nothing reads a text or an"
        " image from stdin. With --image: the text for that image, such as a question.",
        show_default=False,
    ),
]
PairText = Annotated[
    str | None,
    typer.Option(
        "--pair",
        "--context",
        metavar="TEXT",
        help="A second text or text file, for models that read two: INPUT is the premise and this"
        " the hypothesis, or INPUT is the question and this the context.",
        show_default=False,
    ),
]
Device = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="Where to run the model, such as cuda or cpu.", show_default=False
    ),
]
Dtype = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="The precision of the model: float32, float64, bfloat16 or float16. Default: that of"
        " its weights.",
        show_default=False,
    ),
]
ImageFile = Annotated[
    Path | None,
    typer.Option(
        "--image",
        "-i",
        metavar="FILE",
        help="An image, for models that read images or text with an image. The result is drawn"
        " to [bold]why.png[/bold] unless you name an output file.",
        show_default=False,
    ),
]
Query = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help="Detectors only: the object query to explain. Default: the most confident one.",
        show_default=False,
    ),
]
Model = Annotated[
    str | None,
    typer.Option(
        "--model",
        "-m",
        metavar="NAME",
        help="A bundled model (see whyformer models), a folder, or a Hugging Face id. Default: a"
        " bundled model that fits the input.",
        show_default=False,
        autocompletion=complete_model,
    ),
]
Target = Annotated[
    str | None,
    typer.Option(
        "--target",
        "-t",
        metavar="WHAT",
        help="What to explain: a class index, a label, a generated text, or [bold]'a>b'[/bold]"
        " for why a rather than b. Default: the prediction, or what the model writes.",
        show_default=False,
    ),
]
AnswerText = Annotated[
    str | None,
    typer.Option(
        "--answer",
        "-a",
        metavar="TEXT",
        help="Language models: explain this answer instead of the model's own. Spaces count.",
        show_default=False,
    ),
]
ChatFile = Annotated[
    list[Path] | None,
    typer.Option(
        "--chat",
        metavar="FILE",
        help="Language models: a JSON list of messages with role and content, as the prompt, or a"
        " list of such chats. May be repeated. [bold]-[/bold] reads from stdin.",
        show_default=False,
    ),
]
MaxNewTokens = Annotated[
    int | None,
    typer.Option(
        "--max-new-tokens",
        metavar="N",
        help="Language models: write at most N tokens. Default: as the model's settings say.",
        show_default=False,
    ),
]
Seed = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help="The seed of random numbers: of the method, and of a model that samples its answer.",
        show_default=False,
    ),
]
Each = Annotated[
    str | None,
    typer.Option(
        metavar="ROWS",
        help="Language models: explain each token, sentence or line of the answer, or the whole"
        " answer at once.",
        show_default=False,
    ),
]
Truncation = Annotated[
    bool,
    typer.Option("--truncation", metavar=FLAG, help="Cut texts that are too long for the model."),
]
Deciding = Annotated[
    str | None,
    typer.Option(
        metavar="WHICH",
        help="The token that the model's head reads: first, last, mean or an index. Needed only"
        " if whyformer cannot find out.",
        show_default=False,
    ),
]
Split = Annotated[
    str | None,
    typer.Option(
        "--split", metavar="NAME", help="The split to read, such as dev.", show_default=False
    ),
]
SampleLimit = Annotated[
    int | None,
    typer.Option(
        "--limit", metavar="N", help="Use at most N samples, drawn at random.", show_default=False
    ),
]
SkipRows = Annotated[
    bool, typer.Option("--skip-errors", metavar=FLAG, help="Skip rows that cannot be read.")
]
Bars = Annotated[
    bool,
    typer.Option("--bars", metavar=FLAG, help="Show each word's score as a bar, in the terminal."),
]
Subwords = Annotated[
    bool,
    typer.Option(
        "--subwords",
        metavar=FLAG,
        help="Show tokens instead of whole words, in the terminal and pictures.",
    ),
]
Strict = Annotated[
    bool,
    typer.Option("--strict", metavar=FLAG, help="Fail if the explanation is doubtful."),
]
CheckPrecision = Annotated[
    bool,
    typer.Option(
        "--check-precision",
        metavar=FLAG,
        help="Explain once more in float64, to see if the model's precision is high enough.",
    ),
]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", metavar=FLAG, help="Print no result; only write files.")
]


def read_input(text: str | None) -> Any:
    """Return the text, the path of an image file, or the image from stdin."""
    if text is None and sys.stdin.isatty():
        raise InputError(
            "there is nothing to explain",
            remedy="Pass a text or a file, as in whyformer explain 'a gripping film', or pipe one"
            " in",
        )
    if text is None or text == STDIN:
        return _decode(sys.stdin.buffer.read(), "stdin")
    if _is_file(text):
        return Path(text) if _is_image(text) else _decode(Path(text).read_bytes(), repr(text))
    one_word = not any(c.isspace() for c in text)
    if one_word and Path(text).suffix.lower() in FILE_SUFFIXES:
        raise InputError(
            f"there is no file {text!r}",
            remedy="Check the path. If it is the text to explain, pipe it in:"
            f" echo {text!r} | whyformer explain",
        )
    if one_word and "/" in text and Path(text).is_dir():
        raise InputError(f"{text!r} is a folder", remedy="Name one of its files, or pass a text")
    return text


def read_image(path: Path) -> Any:
    """Return the path of a readable image, or the image from stdin."""
    from whyformer.inputs.images import open_image

    if str(path) == STDIN:
        content = _decode(sys.stdin.buffer.read(), "stdin")
        if isinstance(content, str):
            raise InputError(
                "--image - reads an image from stdin, but stdin holds text",
                remedy="Pipe in an image file",
            )
        return content
    open_image(path, "RGB")
    return path


def read_target(text: str | None) -> Any:
    """Return the value of --target: None, a class index, a label or a contrast."""
    return None if text is None else parse_target(text)


def read_chats(paths: Sequence[Path]) -> list[Any]:
    """Return the messages of one chat, or a list of several chats, from JSON files."""
    chats = [chat for path in paths for chat in _chats_in(path)]
    return list(chats[0]) if len(chats) == 1 else chats


def _chats_in(path: Path) -> list[Any]:
    """The chats of a file: one list of messages, a mapping with "messages", or a list of them."""
    name = "stdin" if str(path) == STDIN else repr(str(path))
    if str(path) == STDIN:
        content = sys.stdin.buffer.read()
    elif path.is_file():
        content = path.read_bytes()
    else:
        raise InputError(f"there is no file {name}", remedy="Check the path after --chat")
    try:
        found = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{name} is not JSON: {error}", remedy=f"Write {CHAT}") from error
    several = isinstance(found, list) and bool(found) and not is_chat(found)
    chats = [_messages(one) for one in (found if several else [found])]
    for index, chat in enumerate(chats):
        if not is_chat(chat):
            which = f"entry {index} of {name}" if len(chats) > 1 else name
            raise InputError(f"{which} is no list of messages", remedy=f"Write {CHAT}")
    return chats


def _messages(entry: Any) -> Any:
    return entry.get("messages") if isinstance(entry, dict) else entry


def read_options(pairs: list[str]) -> dict[str, Any]:
    """Return the options of a method from key=value pairs; values are read as JSON if possible."""
    options: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise OptionError(
                f"--option {pair!r} is not of the form key=value",
                remedy="Write for example --option start_layer=1",
            )
        options[key.strip().replace("-", "_")] = parse_scalar(value.strip())
    return options


def parse_scalar(text: str) -> Any:
    """Return a number, True, False or None if the text is one of these, otherwise the text."""
    try:
        value = json.loads(text)
    except json.JSONDecodeError:
        return {"True": True, "False": False, "None": None}.get(text, text)
    return text if isinstance(value, list | dict) else value


def _is_file(text: str) -> bool:
    try:
        return Path(text).is_file()
    except (OSError, ValueError):  # a text can be too long for a path, or contain NUL
        return False


def _is_image(source: Any) -> bool:
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(source):
            return True
    except (UnidentifiedImageError, OSError):
        # A broken image file is still an image: `explain` refuses it with a better message.
        return isinstance(source, str) and Path(source).suffix.lower() in IMAGE_SUFFIXES


def _decode(content: bytes, name: str) -> Any:
    if _is_image(BytesIO(content)):
        from PIL import Image

        return Image.open(BytesIO(content))
    try:
        return content.decode("utf-8").strip()
    except UnicodeDecodeError as error:
        raise InputError(
            f"{name} is neither an image nor UTF-8 text (byte {error.start} is invalid)",
            remedy="Convert it first",
        ) from error

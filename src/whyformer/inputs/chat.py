"""Chats: lists of messages, put through the model's chat template, with the tokens of each message.

Messages are mappings with "role" and "content", as transformers and most services take them. The
content is a text, or a list of parts such as {"type": "text", "text": ...} and
{"type": "image", "image": ...}; images need a processor with a chat template.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from torch import Tensor, nn

from whyformer.errors import InputError
from whyformer.inputs.batch import Roles
from whyformer.inputs.chat_media import open_media
from whyformer.inputs.detect import is_chat
from whyformer.inputs.sequence import Groups
from whyformer.inputs.text import word_groups
from whyformer.inputs.tokenizer_scope import tokenizer_scope
from whyformer.inputs.words import exact_pieces
from whyformer.models.processors import is_tokenizer, tokenizer_of
from whyformer.models.quiet import quiet_transformers

Message = Mapping[str, Any]
Chat = Sequence[Message]
ASSISTANT = "assistant"
EXAMPLE = '[{"role": "user", "content": "..."}]'
# Stands for the text of one message, to see where the template puts it.
_MARK = "whyformer{}marks"


@dataclass(frozen=True)
class ChatArguments:
    """Arguments of forward that were made from chats."""

    arguments: dict[str, Any]  # rows of ids as lists, or what the processor made
    groups: Groups | None  # the tokenizer's word of each token, per sample
    roles: Roles  # (start, end, role) of each message in tokens, per sample


def chats_of(inputs: Any) -> list[Chat]:
    """The chats in the inputs; raise InputError if a message is malformed."""
    chats: list[Chat] = [inputs] if is_chat(inputs) else list(inputs)
    for number, chat in enumerate(chats):
        where = f" of chat {number}" if len(chats) > 1 else ""
        for index, message in enumerate(chat):
            _check_message(message, f"message {index}{where}")
        if chat[-1]["role"] == ASSISTANT:
            raise InputError(
                f"the last message{where} is the assistant's: there is nothing to answer",
                argument="inputs",
                remedy="Leave it out, and pass its text as target= to explain it",
            )
    return chats


def _check_message(message: Message, name: str) -> None:
    for key in ("role", "content"):
        if key not in message:
            raise InputError(
                f"{name} has no {key!r}; it has {', '.join(map(repr, message))}",
                argument="inputs",
                remedy=f"Pass messages such as {EXAMPLE}",
            )
    if not isinstance(message["role"], str):
        raise InputError(
            f"the role of {name} is {message['role']!r}",
            argument="inputs",
            remedy='Pass a text such as "user" or "assistant"',
        )
    content = message["content"]
    parts = content if isinstance(content, list | tuple) else ()
    good = all(isinstance(part, Mapping) and isinstance(part.get("type"), str) for part in parts)
    good = good and all(isinstance(part.get("text"), str) for part in parts if _is_text(part))
    if not isinstance(content, str) and not (parts and good):
        raise InputError(
            f"the content of {name} is of type {type(content).__name__} and cannot be read",
            argument="inputs",
            remedy='Pass a text, or a list of parts such as {"type": "text", "text": "..."}',
        )


def read_chats(inputs: Any, module: nn.Module, processor: Any) -> ChatArguments:
    """Return the arguments of forward for chats, up to where the assistant's answer begins.

    Args:
        inputs: A chat, or a list of chats.
        module: The model.
        processor: The model's tokenizer, or a processor whose chat template takes images.

    Raises:
        InputError: A message is malformed, or there is no chat template for it.
    """
    chats = chats_of(inputs)
    tokenizer = tokenizer_of(processor, module)
    if any(not _is_text(part) for chat in chats for message in chat for part in _parts(message)):
        return _read_with_processor(chats, module, processor, tokenizer)
    if tokenizer is None:
        raise InputError(
            f"a chat was given and {type(module).__name__} comes without a tokenizer",
            argument="processor",
            remedy="Pass processor=, the tokenizer it was trained with",
        )
    render = _renderer(_with_template(processor, tokenizer), as_parts=False)
    rows, groups, roles = [], [], []
    for chat in chats:
        text = render(chat)
        fast = bool(getattr(tokenizer, "is_fast", False))
        options = {"return_offsets_mapping": True} if fast else {}
        with tokenizer_scope(tokenizer):
            encoding = tokenizer([text], add_special_tokens=False, truncation=False, **options)
        ids = list(encoding["input_ids"][0])
        rows.append(ids)
        groups.append(word_groups(encoding, 0))
        if fast:
            spans = _message_spans(chat, text, render)
            roles.append(_token_spans(spans, encoding["offset_mapping"][0]))
        else:
            roles.append(_found_spans(chat, ids, tokenizer))
    return ChatArguments({"input_ids": rows}, groups, tuple(roles))


# -- templates -------------------------------------------------------------------------------------


def _with_template(processor: Any, tokenizer: Any) -> Any:
    """The processor or the tokenizer, whichever has a chat template; raise InputError if none."""
    for one in (tokenizer, processor):
        if getattr(one, "chat_template", None):
            return one
    raise InputError(
        f"a chat was given and {type(tokenizer).__name__} has no chat template",
        argument="inputs",
        remedy="Pass the prompt as one text, or set tokenizer.chat_template: the model may not be"
        " trained for chats",
    )


def _renderer(owner: Any, as_parts: bool) -> Callable[[Chat], str]:
    """A function from a chat to its text, with the beginning of the answer at the end."""

    def render(chat: Chat) -> str:
        plain = [dict(one) if as_parts else {**one, "content": _text(one)} for one in chat]
        with quiet_transformers():
            try:
                text = owner.apply_chat_template(plain, tokenize=False, add_generation_prompt=True)
            except Exception as error:  # templates raise errors of Jinja, and any others
                raise InputError(
                    f"the chat template of {type(owner).__name__} refuses the messages:"
                    f" {type(error).__name__}: {error}",
                    argument="inputs",
                    remedy="Pass roles and an order of messages that the template knows",
                ) from error
        return str(text)

    return render


def _read_with_processor(
    chats: Sequence[Chat], module: nn.Module, processor: Any, tokenizer: Any
) -> ChatArguments:
    """Arguments for chats with images or sound, made by the processor's own chat template."""
    if (
        processor is None
        or is_tokenizer(processor)
        or not getattr(processor, "chat_template", None)
    ):
        raise InputError(
            f"the messages have images or sound, and {type(module).__name__} comes without a"
            " processor that has a chat template for them",
            argument="processor",
            remedy="Pass processor=, the model's AutoProcessor, or messages of text only",
        )
    plain = [open_media(chat) for chat in chats]
    with quiet_transformers():
        try:
            made = processor.apply_chat_template(
                plain,
                tokenize=True,
                add_generation_prompt=True,
                return_dict=True,
                return_tensors="pt",
                processor_kwargs={"padding": True},
            )
        except Exception as error:
            raise InputError(
                f"{type(processor).__name__} cannot read the messages: {type(error).__name__}:"
                f" {error}",
                argument="inputs",
                remedy="Check their roles, images and sounds",
            ) from error
    arguments = dict(made)
    ids: Tensor = arguments["input_ids"]
    mask = arguments.get("attention_mask")
    roles = []
    for number, chat in enumerate(chats):
        row = ids[number] if mask is None else ids[number][mask[number].bool()]
        roles.append(_found_spans(chat, row.tolist(), tokenizer))
    return ChatArguments(arguments, None, tuple(roles))


# -- which tokens belong to which message ----------------------------------------------------------


def _message_spans(
    chat: Chat, text: str, render: Callable[[Chat], str]
) -> list[tuple[int, int, str]]:
    """(start, end, role) of each message in the characters of the rendered chat.

    A second rendering with marks in place of the messages shows where the template puts them. A
    template that treats messages differently is searched for their texts instead.
    """
    marks = [_MARK.format(index) for index in range(len(chat))]
    try:
        rest = render([{**m, "content": mark} for m, mark in zip(chat, marks, strict=True)])
    except InputError:
        return _searched_spans(chat, text)
    spans, at = [], 0
    for message, mark in zip(chat, marks, strict=True):
        before, found, rest = rest.partition(mark)
        start = at + len(before)
        own = next((t for t in _variants(message) if text.startswith(t, start)), None)
        if not found or own is None or not text.startswith(before, at):
            return _searched_spans(chat, text)
        at = start + len(own)
        spans.append((start, at, str(message["role"])))
    return spans if text[at:] == rest else _searched_spans(chat, text)


def _searched_spans(chat: Chat, text: str) -> list[tuple[int, int, str]]:
    """The same by searching the text for each message; those that are not there are left out."""
    spans, at = [], 0
    for message in chat:
        places = [(text.find(own, at), own) for own in _variants(message) if own]
        start, own = next((one for one in places if one[0] >= 0), (-1, ""))
        if start >= 0:
            at = start + len(own)
            spans.append((start, at, str(message["role"])))
    return spans


def _variants(message: Message) -> tuple[str, ...]:
    """The text of a message as it is, and as templates trim it."""
    text = _text(message)
    return (text, text.strip(), text.rstrip(), text.lstrip())


def _token_spans(
    spans: Sequence[tuple[int, int, str]], places: Sequence[tuple[int, int]]
) -> tuple[tuple[int, int, str], ...]:
    """Spans of characters as spans of tokens; `places` are the characters of each token.

    A token that a message shares with the template belongs to the message.
    """
    found = []
    for start, stop, role in spans:
        first = sum(end <= start for _, end in places)
        last = sum(begin < stop for begin, _ in places)
        found.append((first, max(first, last), role))
    return tuple(found)


def _found_spans(chat: Chat, ids: list[int], tokenizer: Any) -> tuple[tuple[int, int, str], ...]:
    """Spans of tokens, found by the texts of the messages."""
    if tokenizer is None:
        return ()
    pieces = exact_pieces(tokenizer, ids, [True] * len(ids))
    ends = list(accumulate(map(len, pieces)))
    places = list(zip([0, *ends[:-1]], ends, strict=True))
    return _token_spans(_searched_spans(chat, "".join(pieces)), places)


def _parts(message: Message) -> Sequence[Mapping[str, Any]]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _is_text(part: Mapping[str, Any]) -> bool:
    return part.get("type") == "text"


def _text(message: Message) -> str:
    """The texts of a message's parts, one after the other."""
    return "".join(part["text"] for part in _parts(message) if _is_text(part))

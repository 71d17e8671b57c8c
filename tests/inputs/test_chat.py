"""Chats go through the chat template, and each message keeps its tokens."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

import whyformer as wf
from tests.chat_models import POSITIONS, chat_tokenizer, language_model
from whyformer.errors import InputError
from whyformer.inputs.prepare import prepare

CHAT = [
    {"role": "system", "content": "user"},  # a message that looks like a piece of the template
    {"role": "user", "content": " Where is\n\nBerlin? 😀"},
]
METHOD = "gradient_x_input"


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return chat_tokenizer()


def texts_of_messages(attribution: wf.Attribution) -> list[tuple[str, str]]:
    """(role, tokens) of every message of one sample."""
    stream = attribution.streams["text"]
    assert stream.roles is not None
    assert stream.tokens is not None
    return [(role, "|".join(stream.tokens[0][start:end])) for start, end, role in stream.roles[0]]


def test_the_ids_are_those_of_the_template(tokenizer: Any) -> None:
    batch = prepare(CHAT, language_model("llama"), tokenizer)
    expected = tokenizer.apply_chat_template(CHAT, add_generation_prompt=True)["input_ids"]
    assert batch.arguments["input_ids"].tolist() == [expected]
    plain = prepare({"input_ids": [expected]}, language_model("llama"), tokenizer)
    assert batch.tokens == plain.tokens


def test_messages_keep_their_tokens(tokenizer: Any, tmp_path: Path) -> None:
    model = language_model("llama")
    a = wf.explain(CHAT, model, tokenizer=tokenizer, method=METHOD, target="Berlin")
    expected = [("system", "us|er"), ("user", "Where|is|⏎|⏎|Ber|lin|?|😀")]
    found = texts_of_messages(a)
    assert [(role, text.replace("|", "")) for role, text in found] == [
        (role, text.replace("|", "")) for role, text in expected
    ]
    a.save(tmp_path / "a.safetensors")
    loaded = wf.load(tmp_path / "a.safetensors")
    assert loaded.streams["text"].roles == a.streams["text"].roles
    assert loaded.to_dict()["streams"]["text"]["roles"] == [
        [list(one) for one in a.streams["text"].roles[0]]  # type: ignore[index]
    ]


def test_a_batch_of_chats_equals_its_chats_alone(tokenizer: Any) -> None:
    model = language_model("llama")
    chats = [CHAT, CHAT[1:], [*CHAT, {"role": "assistant", "content": "No."}, CHAT[1]]]
    for target in ("Berlin", 7):
        both = wf.explain(chats, model, tokenizer=tokenizer, method=METHOD, target=target)
        for sample, chat in enumerate(chats):
            alone = wf.explain(chat, model, tokenizer=tokenizer, method=METHOD, target=target)
            torch.testing.assert_close(both[sample].scores, alone.scores, rtol=1e-8, atol=1e-10)
            assert texts_of_messages(both[sample]) == texts_of_messages(alone)
    series = list(wf.explain(iter(chats), model, tokenizer=tokenizer, method=METHOD, target=7))
    assert [texts_of_messages(one) for one in series] == [texts_of_messages(one) for one in both]


def test_parts_of_text_are_joined(tokenizer: Any) -> None:
    parts = [{"type": "text", "text": "Where is "}, {"type": "text", "text": "it?"}]
    model = language_model("llama")
    joined = prepare([{"role": "user", "content": "Where is it?"}], model, tokenizer)
    found = prepare([{"role": "user", "content": parts}], model, tokenizer)
    assert found.content == joined.content
    assert found.roles == joined.roles


def test_a_template_that_changes_messages_is_searched(tokenizer: Any) -> None:
    own = chat_tokenizer(
        "{% for m in messages %}[{{ m['role'] }}] {{ m['content'].split('END')[0] }}"
        "{% if 'Berlin' in m['content'] %} (a city){% endif %}\n{% endfor %}"
    )
    chat = [{"role": "user", "content": "Berlin"}, {"role": "user", "content": "Paris"}]
    a = wf.explain(chat, language_model("llama"), tokenizer=own, method=METHOD, target=7)
    assert [(role, text.replace("|", "")) for role, text in texts_of_messages(a)] == [
        ("user", "Berlin"),
        ("user", "Paris"),
    ]


class Processor:
    """Reads images as two tokens each, as the processors of vision-language models do."""

    chat_template = "{{ messages }}"

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        self.seen: list[Any] = []

    def apply_chat_template(self, chats: Any, **options: Any) -> dict[str, Any]:
        assert options["add_generation_prompt"]
        assert options["tokenize"]
        self.seen = chats
        texts = [
            "".join(
                "<|pad|>x" if part["type"] == "image" else part["text"]
                for message in chat
                for part in message["content"]
            )
            for chat in chats
        ]
        return dict(self.tokenizer(texts, padding=True, return_tensors="pt"))


def test_images_go_to_the_processor(tokenizer: Any) -> None:
    image = Image.new("RGB", (3, 2), "red")
    content = [{"type": "image", "image": image}, {"type": "text", "text": "Where is it?"}]
    processor = Processor(tokenizer)
    batch = prepare([{"role": "user", "content": content}], language_model("llama"), processor)
    assert processor.seen[0][0]["content"] == content
    assert batch.roles is not None
    ((start, end, role),) = batch.roles[0]
    assert role == "user"
    ids = batch.arguments["input_ids"][0, start:end]
    assert tokenizer.decode(ids) == "Where is it?"


BAD: dict[str, tuple[Any, str]] = {
    "no content": ([{"role": "user"}], r"message 0 has no 'content'; it has 'role'.*\"role\""),
    "no role": ([{"content": "a"}], "message 0 has no 'role'"),
    "role": ([{"role": 3, "content": "a"}], "role of message 0 is 3"),
    "content": ([{"role": "user", "content": 3}], "content of message 0 is of type int"),
    "parts": ([{"role": "user", "content": ["a"]}], "content of message 0 is of type list"),
    "answered": (
        [*CHAT, {"role": "assistant", "content": "a"}],
        "the last message is the assistant's.*target=",
    ),
    "in a list": ([CHAT, [{"role": "user"}]], "message 0 of chat 1 has no 'content'"),
    "image": (
        [{"role": "user", "content": [{"type": "image", "image": "a.png"}]}],
        "messages have images or sound.*processor=",
    ),
    "long": (
        [{"role": "user", "content": "a" * POSITIONS}],
        rf"the chat has \d+ tokens with its template, the model takes {POSITIONS}\. Shorten",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_errors(tokenizer: Any, case: str) -> None:
    chat, message = BAD[case]
    with pytest.raises(InputError, match=message):
        prepare(chat, language_model("llama"), tokenizer)


def test_no_template() -> None:
    with pytest.raises(InputError, match=r"no chat template\. .*tokenizer.chat_template"):
        prepare(CHAT, language_model("llama"), chat_tokenizer(None))
    with pytest.raises(InputError, match="comes without a tokenizer"):
        prepare(CHAT, language_model("llama"))
    with pytest.raises(InputError, match="a chat was given without a model"):
        wf.explain(CHAT)


def test_what_a_template_refuses() -> None:
    own = chat_tokenizer("{{ raise_exception('roles must alternate') }}")
    with pytest.raises(InputError, match=r"refuses the messages: .*roles must alternate"):
        prepare(CHAT, language_model("llama"), own)

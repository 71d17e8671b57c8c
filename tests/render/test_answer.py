"""Answers in every view: rows, roles, probabilities, sentences, and a page that stays small."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path

import numpy
import pytest
import torch
from PIL import Image
from rich.text import Text

import whyformer as wf
from tests.render.answers import PROMPT, SAID, chat_answer, long_answer, spanned_answer
from tests.render.test_hostile import HOSTILE, Parsed
from whyformer.attribution import Attribution, views
from whyformer.errors import InputError
from whyformer.render.answer import read_answer
from whyformer.render.colours import LIGHT
from whyformer.render.html.links import link_payload
from whyformer.render.html.page import build_comparison_page, build_fragment
from whyformer.render.panels import LONG, TextPanel
from whyformer.render.picture.canvas import Canvas
from whyformer.render.picture.picture import draw_attribution
from whyformer.render.signs import visible
from whyformer.render.view_model import SampleContent, read_samples


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "COLORFGBG", "FORCE_COLOR", "COLUMNS", "TERM"):
        monkeypatch.delenv(name, raising=False)


def content_of(attribution: Attribution) -> SampleContent:
    return read_samples(attribution)[0]


def answer_panel(attribution: Attribution) -> TextPanel:
    panel = content_of(attribution).answer
    assert panel is not None
    return panel


def padded(attribution: Attribution) -> Attribution:
    """The same as the second of two samples, with two columns of padding before its prompt."""
    text, generated = attribution.streams["text"], attribution.streams["generated"]
    assert text.tokens
    assert text.word_ids
    assert text.roles
    assert generated.probabilities is not None
    space = torch.zeros(1, 2)
    wide = torch.cat([space, text.scores], 1)
    both = dataclasses.replace(
        text,
        scores=torch.cat([wide, wide]),
        mask=torch.cat([torch.ones_like(wide), torch.cat([space, text.mask], 1)]).bool(),
        tokens=(("a", "b", *text.tokens[0]), ("", "", *text.tokens[0])),
        word_ids=((90, 91, *text.word_ids[0]), (None, None, *text.word_ids[0])),
        roles=(((0, 3, "tool"),), tuple((a + 2, b + 2, r) for a, b, r in text.roles[0])),
    )
    twice = {
        field.name: value.repeat(2, 1) if isinstance(value, torch.Tensor) else value * 2
        for field in dataclasses.fields(generated)
        if field.name != "name" and (value := getattr(generated, field.name)) is not None
    }
    maps = attribution.maps
    before = torch.zeros(1, len(maps["generated", "text"][0]), 2)
    whole = torch.cat([before, maps["generated", "text"]], 2)
    return dataclasses.replace(
        attribution,
        streams={"text": both, "generated": dataclasses.replace(generated, **twice)},
        target=attribution.target.repeat(2),
        output=attribution.output.repeat(2),
        labels=attribution.labels * 2,
        maps={
            ("generated", "text"): whole.repeat(2, 1, 1),
            ("generated", "generated"): maps["generated", "generated"].repeat(2, 1, 1),
        },
    )


# -- the view model --------------------------------------------------------------------------


def test_every_word_has_its_row_and_its_probability() -> None:
    panel = answer_panel(chat_answer())
    assert [word.text for word in panel.answer] == SAID
    assert [word.row for word in panel.answer] == list(range(len(SAID)))
    chances = [word.probability for word in panel.answer]
    assert chances == pytest.approx(torch.linspace(0.2, 0.999, len(SAID)).tolist())
    assert [word.unsure for word in panel.answer] == [c is not None and c < 0.5 for c in chances]


def test_the_tokens_of_a_word_multiply_their_probabilities() -> None:
    made = chat_answer()
    stream = dataclasses.replace(
        made.streams["generated"],
        word_ids=((0, 0, 1, 2, 3, 4, 5),),
        probabilities=torch.tensor([[0.5, 0.5, 1, 1, 1, 1, float("nan")]]),
    )
    words = read_answer(stream).words
    assert [word.text for word in words[:2]] == ["Annahas", "it"]
    assert [word.probability for word in words] == [0.25, 1, 1, 1, 1, None]


def test_spans_are_rows_of_several_words() -> None:
    content = content_of(spanned_answer())
    (over, _) = content.matrices
    assert [item.text for item in over.rows] == ["Anna has it .", "Ben has not"]
    assert over.values.shape == (2, len(PROMPT))
    assert over.values[1, 5] == pytest.approx(1.0)
    panel = content.answer
    assert panel is not None
    assert [word.row for word in panel.answer] == [0, 0, 0, 0, 1, 1, 1]
    assert panel.in_parts


def test_a_word_in_no_span_has_no_row() -> None:
    panel = answer_panel(spanned_answer(((0, 2), (4, 7))))
    assert [word.row for word in panel.answer] == [0, 0, None, None, 1, 1, 1]


def test_roles_are_counted_in_words_and_padding_does_not_move_them() -> None:
    expected = ((0, 1, ""), (1, 5, "system"), (5, 15, "user"), (15, 16, ""))
    alone = content_of(chat_answer()).panels[0]
    first, second = (content.panels[0] for content in read_samples(padded(chat_answer())))
    assert isinstance(alone, TextPanel)
    assert isinstance(first, TextPanel)
    assert isinstance(second, TextPanel)
    assert alone.roles == second.roles == expected
    assert first.roles[0] == (0, 3, "tool")


def test_words_of_the_template_set_no_scale() -> None:
    made = chat_answer()
    loud = made.streams["text"].scores.clone()
    loud[0, 5] = 100.0
    roles = (((1, 5, "system"), (6, 15, "user")),)
    text = dataclasses.replace(made.streams["text"], scores=loud, roles=roles)
    panel = content_of(dataclasses.replace(made, streams={**made.streams, "text": text})).panels[0]
    assert isinstance(panel, TextPanel)
    assert [word.special for word in panel.words] == [i in (0, 5, 15) for i in range(len(PROMPT))]
    assert panel.span < 2
    assert panel.is_beyond(panel.words[5])


def test_sentences_of_the_prompt_end_at_messages_and_lines() -> None:
    panel = content_of(chat_answer()).panels[0]
    assert isinstance(panel, TextPanel)
    words = [word.text for word in panel.words]
    assert [" ".join(words[a:b]) for a, b in panel.sentences] == [
        "<s>",
        "Anna has a ball",
        ".",
        "Ben has a key ⏎",
        "Who has it ?",
        "</s>",
    ]
    scores = chat_answer().streams["text"].scores[0].double()
    sums = [float(scores[a:b].sum()) for a, b in panel.sentences]
    assert panel.sentence_scores == pytest.approx(sums)
    assert panel.sentence_span == pytest.approx(max(sums[1:-1]))


def test_an_answer_is_saved_and_loaded(tmp_path: Path) -> None:
    for made in (chat_answer(), spanned_answer()):
        made.save(tmp_path / "why.safetensors")
        found = wf.load(tmp_path / "why.safetensors")
        for name, stream in made.streams.items():
            assert found.streams[name].roles == stream.roles
            assert found.streams[name].spans == stream.spans
        chances = made.streams["generated"].probabilities
        if chances is not None:
            assert torch.equal(found.streams["generated"].probabilities, chances)


def test_one_sample_of_several_keeps_its_rows() -> None:
    spanned = spanned_answer()
    assert spanned[0].maps["generated", "text"].shape == (1, 2, len(PROMPT))
    one = padded(chat_answer())[1]
    assert torch.equal(one.maps["generated", "text"], chat_answer().maps["generated", "text"])
    assert one.streams["text"].roles == chat_answer().streams["text"].roles


def test_the_data_has_roles_spans_and_probabilities() -> None:
    data = chat_answer().to_dict()["streams"]
    assert data["text"]["roles"] == [[[1, 5, "system"], [5, 15, "user"]]]
    assert len(data["generated"]["probabilities"][0]) == len(SAID)
    assert data["generated"]["spans"] is None
    assert spanned_answer().to_dict()["streams"]["generated"]["spans"] == [[[0, 4], [4, 7]]]


# -- the page --------------------------------------------------------------------------------


def test_the_page_has_the_answer_first_then_the_messages() -> None:
    page = views["html"].render(chat_answer())
    order = [page.index(part) for part in ("<h3>generated", "<h3>text", ">system<", ">user<")]
    assert order == sorted(order)
    assert page.count('class="turn"') == 4
    assert re.search(r">⏎</span> <br>", page)


def test_unsure_words_are_marked_and_say_how_sure() -> None:
    page = views["html"].render(chat_answer())
    titles = re.findall(r'class="word[^"]* unsure" dir="auto" title="([^"]+)"', page)
    found = [re.findall(r"^\w+|\d+(?= %)", title) for title in titles]
    assert found == [["Anna", "20"], ["has", "33"], ["it", "47"]]
    assert "probability &gt; 99 %" in page


def test_the_script_learns_rows_and_sentences() -> None:
    data = link_payload(content_of(spanned_answer()))
    assert data is not None
    answer = data["panels"][1]
    assert answer["rows"] == [0, 0, 0, 0, 1, 1, 1]
    assert answer["inParts"]
    assert [list(one) for one in answer["answerSentences"]] == [[0, 4], [4, 7]]
    assert "rows" not in data["panels"][0]


def test_a_long_prompt_is_folded_into_sentences() -> None:
    page = views["html"].render(long_answer(LONG + 100, 12))
    assert page.count("<details") - page.count("<details>") == 3  # the strongest are open
    assert page.count("<summary class=") == (LONG + 100) // 10
    assert ">system<" in page
    assert ">user<" in page
    assert '<div class="long' not in views["html"].render(long_answer(LONG, 12))


def test_a_long_text_without_answer_is_folded_too() -> None:
    made = long_answer(LONG + 100, 12)
    alone = dataclasses.replace(made, streams={"text": made.streams["text"]}, maps={})
    page = views["html"].render(alone)
    assert '<div class="long' in page
    assert "<script" in build_fragment(alone).to_html()


def test_4000_tokens_by_200_stay_under_8_megabytes() -> None:
    page = views["html"].render(long_answer(4000, 200))
    assert len(page.encode()) < 8_000_000
    assert page.count('class="word') >= 4200


@pytest.mark.parametrize("length", [0, LONG])
def test_hostile_tokens_roles_and_answers_stay_text(length: int) -> None:
    def page(words: Sequence[str]) -> Parsed:
        made = chat_answer(
            [*words, *SAID], [*PROMPT, *words, *["word"] * length], role=" ".join(words)
        )
        return Parsed(build_comparison_page([made, made]).to_html())

    hostile, harmless = page(HOSTILE), page(["word"] * len(HOSTILE))
    assert hostile.shape == harmless.shape
    assert all(visible(word) in hostile.text for word in HOSTILE)


def test_several_methods_share_a_page_and_its_scripts() -> None:
    other = dataclasses.replace(chat_answer(), method="lrp_ah_ln")
    page = build_comparison_page([chat_answer(), other]).to_html()
    assert re.findall(r'data-name="(\w+)"', page) == ["gae", "lrp_ah_ln"]
    assert page.count("<script>") == 1
    assert page.count('class="links"') == 2
    alone = build_comparison_page([chat_answer()]).to_html()
    assert alone == views["html"].render(chat_answer())


def test_a_comparison_of_answers_names_them_and_refuses_another_prompt() -> None:
    first = chat_answer()
    other = dataclasses.replace(first, method="lrp_ah_ln")
    named = views["html"].render_comparison({"old <model>": first, "new": other})
    assert re.findall('data-name="([^"]+)"', named) == ["old &lt;model&gt;", "new"]
    asked = chat_answer(SAID, [*PROMPT, "else"])
    with pytest.raises(InputError, match="different inputs"):
        views["html"].render_comparison([first, asked])


# -- terminal and picture --------------------------------------------------------------------


def test_the_terminal_has_the_prompt_by_messages_and_the_answer_under_it() -> None:
    shown = views["terminal"].render(chat_answer(), width=80)
    plain = [line.rstrip() for line in Text.from_ansi(shown).plain.split("\n")]
    start = plain.index("user")
    assert plain[start + 1 : start + 3] == [". Ben has a key ⏎", "Who has it ?"]
    assert plain.index("generated") > start
    assert plain.index("Anna has it . Ben has not") > plain.index("generated")


def test_the_terminal_underlines_what_the_model_was_not_sure_of() -> None:
    made = chat_answer()
    said = dataclasses.replace(made.streams["generated"], tokens=(("<s>", *SAID[:-1]),))
    shifted = dataclasses.replace(made, streams={**made.streams, "generated": said})
    shown = Text.from_ansi(views["terminal"].render(shifted, width=80))
    start = shown.plain.index("output\n") + len("output\n")
    lined = [
        shown.plain[span.start : span.end]
        for span in shown.spans
        if span.start > start and getattr(span.style, "underline", None)
    ]
    assert lined[:3] == SAID[:3]


def pixels(file: bytes) -> numpy.ndarray:
    with Image.open(BytesIO(file)) as picture:
        return numpy.asarray(picture.convert("RGB")).astype(int)


def test_the_picture_of_a_long_prompt_has_a_strip_with_the_strongest_sentence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("whyformer.render.picture.sentence_strip.ROWS", 2)
    made = long_answer(400, 1)
    scores = torch.zeros(1, 400)
    scores[0, 205] = -1.0  # in sentence 20 of 40
    text = dataclasses.replace(made.streams["text"], scores=scores, roles=None)
    alone = dataclasses.replace(made, streams={"text": text}, maps={})
    drawn = pixels(views["png"].render(alone))
    blue = abs(drawn - LIGHT.cool).max(axis=2) <= 2
    top = int(blue.any(1).argmax())
    (columns,) = blue[top + 5].nonzero()
    left, room = 18 / 560, 1 - 36 / 560
    middle = columns.mean() / drawn.shape[1]
    assert middle == pytest.approx(left + room * 20.5 / 40, abs=0.01)


def test_a_matrix_too_large_for_a_picture_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []
    monkeypatch.setattr(Canvas, "write_paragraph", lambda canvas, text, *_: written.append(text))
    said = "Too large for a picture: output by text, generated."
    draw_attribution(chat_answer())
    assert said not in written
    assert "output by text" in written
    written.clear()
    monkeypatch.setattr("whyformer.render.picture.picture.LARGE", 10)
    draw_attribution(chat_answer())
    assert said in written
    assert "output by text" not in written

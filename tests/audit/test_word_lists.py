"""Bundled lists state their source and are balanced; the user's own are read or refused by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from whyformer.audit.word_lists import (
    SLOT,
    Template,
    name_lists,
    read_function_words,
    read_names,
    read_templates,
    read_terms,
)
from whyformer.errors import InputError


@pytest.mark.parametrize("name", list(name_lists()))
def test_bundled_names_have_a_source_and_groups_of_one_size(name: str) -> None:
    found = name_lists()[name]
    assert found.title
    assert "https://" in found.source
    assert len(found.groups) >= 2
    assert len({len(names) for names in found.groups.values()}) == 1
    assert all(n.istitle() for names in found.groups.values() for n in names)


def test_the_sizes_are_those_of_the_sources() -> None:
    sizes = {name: len(next(iter(found.groups.values()))) for name, found in name_lists().items()}
    assert sizes == {"us_age": 8, "us_gender": 30, "us_origin": 32, "us_resumes": 9}


def test_bundled_templates_are_as_many_of_each_tone_and_differ_in_tone_only_by_words() -> None:
    templates = read_templates()
    tones = [template.tone for template in templates]
    assert {tone: tones.count(tone) for tone in tones} == {
        "positive": 10,
        "negative": 10,
        "neutral": 10,
    }
    assert all(template.text.count(SLOT) == 1 for template in templates)


def test_function_words_leave_out_what_changes_a_sentence() -> None:
    words = read_function_words()
    assert {"the", "of", "it's", "would"} <= words
    assert not {"not", "no", "never", "but", "too", "very", "n't"} & words


def test_a_name_fills_every_slot() -> None:
    text, places = Template("{name} met {name}'s aunt").fill("Jo Ann")
    assert text == "Jo Ann met Jo Ann's aunt"
    assert [text[a:b] for a, b in places] == ["Jo Ann", "Jo Ann"]
    assert Template("by {name}").fill("{name}") == ("by {name}", ((3, 9),))


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("n.csv", "name,group\nAnna,a\nBob,b\nAnna,a\n"),
        ("n.csv", "group,name\na,Anna\nb,Bob\n"),
        ("n.csv", "\ufeffAnna,a\n\n Bob , b \n"),
        ("n.json", '{"a": ["Anna"], "b": ["Bob"]}'),
        ("n.json", '{"groups": {"a": ["Anna"], "b": ["Bob"]}, "title": "mine"}'),
        ("n.txt", "Anna,a\nBob,b"),
    ],
)
def test_names_are_read_from_files(tmp_path: Path, file: str, content: str) -> None:
    (tmp_path / file).write_text(content, encoding="utf-8")
    found = read_names(tmp_path / file)
    assert dict(found.groups) == {"a": ("Anna",), "b": ("Bob",)}
    assert found.source.endswith(file)


@pytest.mark.parametrize(
    ("file", "content", "groups"),
    [
        ("t.txt", "New York\nfilm\n", {"terms": ("New York", "film")}),
        ("t.csv", "term,group\nNew York,place\n", {"place": ("New York",)}),
        ("t.csv", "film\n", {"terms": ("film",)}),
        ("t.json", '["film", "plot"]', {"terms": ("film", "plot")}),
    ],
)
def test_terms_are_read_from_files(tmp_path: Path, file: str, content: str, groups: Any) -> None:
    (tmp_path / file).write_text(content, encoding="utf-8")
    found = read_terms(str(tmp_path / file))
    assert found is not None
    assert dict(found.groups) == groups


def test_terms_are_taken_as_lists_and_mappings() -> None:
    assert read_terms(None) is None
    listed, mapped = read_terms(["a", "b"]), read_terms({"x": ["a"]})
    assert listed is not None
    assert mapped is not None
    assert dict(listed.groups) == {"terms": ("a", "b")}
    assert dict(mapped.groups) == {"x": ("a",)}


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("n.json", "[1", "is not JSON"),
        ("n.json", "3", "expected JSON such as"),
        ("n.json", '{"a": "Anna"}', "expected a list of names"),
        ("n.json", '{"a": []}', "expected a list of names"),
        ("n.json", '{"a": [3]}', "3 is not a text"),
        ("n.json", "{}", "has no group"),
        ("n.csv", "Anna,a,b\n", "line 1: 3 cells; expected two, name,group"),
        ("n.csv", "Anna,a\n,b\n", "line 2: '' is not a text"),
        ("n.json", '{"a": ["An\\u001b[31mna"]}', "invisible characters"),
    ],
)
def test_what_is_no_list_of_names_is_refused(
    tmp_path: Path, file: str, content: str, message: str
) -> None:
    (tmp_path / file).write_text(content, encoding="utf-8")
    with pytest.raises(InputError) as refused:
        read_names(tmp_path / file)
    assert message in str(refused.value)
    assert file in str(refused.value)


def test_an_unknown_list_is_refused_with_those_there_are() -> None:
    with pytest.raises(InputError, match=r"us_gendr.*Did you mean 'us_gender'.*us_origin"):
        read_names("us_gendr")
    with pytest.raises(InputError, match="names= is a int"):
        read_names(3)


def test_a_file_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    (tmp_path / "n.csv").write_bytes(b"Ren\xe9,a\n")
    with pytest.raises(InputError, match="not UTF-8 at byte 3"):
        read_names(tmp_path / "n.csv")


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("t.txt", "by {name}\n\n{name} was here\n"),
        ("t.json", '["by {name}", "{name} was here"]'),
        ("t.json", '[{"text": "by {name}"}, {"text": "{name} was here"}]'),
    ],
)
def test_templates_are_read_from_files(tmp_path: Path, file: str, content: str) -> None:
    (tmp_path / file).write_text(content, encoding="utf-8")
    assert [t.text for t in read_templates(tmp_path / file)] == ["by {name}", "{name} was here"]


def test_templates_have_tones_where_they_are_given() -> None:
    assert read_templates({"good": ["a {name}"], "bad": ["b {name}"]}) == (
        Template("a {name}", "good"),
        Template("b {name}", "bad"),
    )
    assert read_templates([{"text": "a {name}", "tone": "good"}])[0].tone == "good"


@pytest.mark.parametrize("given", [["no slot"], [], {"good": "a {name}"}, 3, [None]])
def test_templates_without_a_slot_are_refused(given: Any) -> None:
    with pytest.raises(InputError):
        read_templates(given)


def test_a_template_is_refused_by_its_line(tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text("by {name}\n\nby nobody\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"t\.txt, line 3: 'by nobody' has no \{name\}"):
        read_templates(tmp_path / "t.txt")


def test_the_first_names_of_each_group() -> None:
    cut = read_names({"a": ["x", "y"], "b": ["z", "w"]}).first(1)
    assert dict(cut.groups) == {"a": ("x",), "b": ("z",)}
    with pytest.raises(InputError, match="per_group=0"):
        cut.first(0)

from __future__ import annotations

import pytest
from markupsafe import Markup

from whyformer.errors import InputError
from whyformer.explorer.limits import Limits
from whyformer.explorer.shelf import Result, Shelf
from whyformer.render.html.fragment import Page


def page(style: str) -> Page:
    return Page("", style, Markup(""), (), "")


def result(size: int = 10) -> Result:
    return Result(page("x" * size), b"", lambda view: b"drawn")


def test_the_oldest_makes_room() -> None:
    shelf = Shelf(Limits(results=2))
    first, second = shelf.put(result()), shelf.put(result())
    shelf.get(first)  # used, so that the other is the oldest now
    third = shelf.put(result())
    assert shelf.get(first)
    assert shelf.get(third)
    with pytest.raises(InputError, match="not kept any more; explain again"):
        shelf.get(second)


def test_bytes_are_bounded_but_the_newest_stays() -> None:
    shelf = Shelf(Limits(results=100, kept=1000))
    for _ in range(50):
        last = shelf.put(result(300))
    assert shelf.size <= 1000
    huge = shelf.put(result(5000))
    assert shelf.get(huge)
    with pytest.raises(InputError):
        shelf.get(last)


def test_a_picture_is_drawn_once_and_when_it_is_wanted() -> None:
    drawn = []

    def draw(view: str) -> bytes:
        drawn.append(view)
        return b"picture"

    one = Result(page(""), b"", draw)
    assert not drawn
    assert one.file("png") == one.file("png") == b"picture"
    assert drawn == ["png"]
    assert one.size == len(b"picture")

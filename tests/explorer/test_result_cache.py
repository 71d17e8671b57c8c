from __future__ import annotations

import pytest
from markupsafe import Markup

from whyformer.errors import InputError
from whyformer.explorer.limits import Limits
from whyformer.explorer.result_cache import Result, ResultCache
from whyformer.render.html.fragment import Page


def page(style: str) -> Page:
    return Page("", style, Markup(""), (), "")


def result(size: int = 10) -> Result:
    return Result(page("x" * size), b"", lambda view: b"drawn")


def test_the_oldest_makes_room() -> None:
    results = ResultCache(Limits(results=2))
    first, second = results.put(result()), results.put(result())
    results.get(first)  # used, so that the other is the oldest now
    third = results.put(result())
    assert results.get(first)
    assert results.get(third)
    with pytest.raises(InputError, match=r"no longer stored\. Explain again"):
        results.get(second)


def test_bytes_are_bounded_but_the_newest_stays() -> None:
    results = ResultCache(Limits(results=100, kept=1000))
    for _ in range(50):
        last = results.put(result(300))
    assert results.size <= 1000
    huge = results.put(result(5000))
    assert results.get(huge)
    with pytest.raises(InputError):
        results.get(last)


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

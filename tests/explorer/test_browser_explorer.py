"""The page in a real browser: what readers do, and what must never happen while they do."""

from __future__ import annotations

import base64
import io
import json
import time
from collections.abc import Iterator
from urllib.parse import urlencode

import pytest
from PIL import Image

from tests.explorer.conftest import Client, serve
from tests.explorer.visitor import Visitor
from whyformer.explorer.app import create_app

HOSTILE = (
    "<img src=x onerror=document.title=1><script>document.title=2</script> \"'` </textarea>"
    " \u202e\u05e9\u05dc\u05d5\u05dd \U0001f480\u200d\U0001f525 &lt;b&gt; {{7*7}}"
)


@pytest.fixture(autouse=True)
def nothing_strange(visitor: Visitor) -> Iterator[None]:
    """Nothing; after every test: no word in the console, and no request to anybody else."""
    yield
    assert visitor.complaints == []
    away = [url for url in visitor.requests if not url.startswith((visitor.home, "blob:"))]
    assert [url for url in away if url != "about:blank"] == []


def link(visitor: Visitor, **chosen: object) -> str:
    return f"{visitor.home}?{urlencode(chosen)}"


def rows(visitor: Visitor) -> list[str]:
    found = visitor.run("[...document.querySelectorAll('#rows th')].map((e) => e.innerText)")
    return [str(name) for name in found]


def test_a_sentence_is_explained(visitor: Visitor) -> None:
    visitor.open(visitor.home)
    assert visitor.text("#welcome h2") == "Ask a model why"
    visitor.click("#text")
    visitor.run("document.getElementById('text').value = ''")
    visitor.page.keyboard.insert_text("a gripping, beautifully acted film")
    visitor.press_explain()
    assert visitor.text(".bars button").split("\n")[0] == "positive"
    assert rows(visitor) == ["blend", "gae", "libragrad"]
    assert "Why positive?" in visitor.inside("document.body.innerText")
    drawn = "[...document.querySelectorAll('.charts polyline')].map((e) => e.points.length)"
    assert visitor.run(drawn) == [11, 11, 11]
    areas = visitor.run(
        "[...document.querySelectorAll('#rows td:last-child')].map((e) => +e.innerText)"
    )
    assert all(0 < area < 1 for area in areas)


def test_an_answer_is_written_or_given(visitor: Visitor) -> None:
    visitor.open(link(visitor, model="caption_shapes", methods="gae", example=0))
    visitor.wait_for_end()
    hidden = "['answer-field', 'target-field'].map((id) => document.getElementById(id).hidden)"
    assert visitor.run(hidden) == [False, True]
    said = "document.querySelector('.said')?.innerText ?? ''"
    assert visitor.inside(said).startswith("a purple circle")
    visitor.inside(
        "document.querySelectorAll('.said .word')[1]"
        ".dispatchEvent(new PointerEvent('pointerover', {bubbles: true}))"
    )
    shows = "document.querySelector('[data-panel=\"0\"] .shows').innerText"
    assert visitor.inside(shows).startswith("relevance for “purple”")
    visitor.run("document.getElementById('answer').value = 'a blue square'")
    visitor.press_explain()
    visitor.wait_inside(f"({said}).startsWith('a blue square')")
    assert "answer=a+blue+square" in visitor.run("location.search")


def test_another_class_and_another_method(visitor: Visitor) -> None:
    visitor.open(link(visitor, model="sst2", methods="gae,lrp_ah_ln", text="a gripping film"))
    visitor.wait_for_end()
    chosen = "document.querySelector('.choices input:checked + bdi').innerText"
    assert visitor.inside(chosen) == "gae"
    visitor.inside("document.querySelectorAll('.choices input')[1].click()")
    assert visitor.inside(chosen) == "lrp_ah_ln"
    visitor.run("delete document.body.dataset.state")
    visitor.click(".bars button", nth=1)
    visitor.wait_for_end()
    assert visitor.run("document.getElementById('target').value") == "negative"
    pressed = "document.querySelector('.bars [aria-pressed=true]').innerText"
    assert visitor.run(pressed).startswith("negative")
    visitor.wait("document.getElementById('report').style.height")
    assert "Why negative?" in visitor.inside("document.body.innerText")


def test_a_contrast(visitor: Visitor) -> None:
    chosen = {"model": "sst2", "methods": "gae", "text": "fine", "target": "positive>negative"}
    visitor.open(link(visitor, **chosen))
    visitor.wait_for_end()
    assert "rather than" in visitor.text("#rows td")


def test_an_image_of_ones_own_is_dropped(visitor: Visitor) -> None:
    file = io.BytesIO()
    Image.radial_gradient("L").resize((64, 64)).save(file, "PNG")
    visitor.open(link(visitor, model="mnist"))
    coded = json.dumps(base64.b64encode(file.getvalue()).decode())
    visitor.run(
        f"(() => {{ const bytes = Uint8Array.from(atob({coded}), (c) => c.charCodeAt(0));"
        " const data = new DataTransfer();"
        " data.items.add(new File([bytes], '<b>mine</b>.png', {type: 'image/png'}));"
        " document.getElementById('drop').dispatchEvent("
        "new DragEvent('drop', {dataTransfer: data, bubbles: true, cancelable: true})); })()"
    )
    visitor.wait("!document.getElementById('preview').hidden")
    assert visitor.text("#image-hint") == "<b>mine</b>.png"  # as text
    visitor.press_explain()
    assert visitor.run("document.querySelectorAll('.bars button').length") == 6
    assert "example" not in visitor.run("location.search")
    assert "text=" not in visitor.run("location.search")


def test_a_question_about_an_image_and_its_linked_streams(visitor: Visitor) -> None:
    visitor.open(link(visitor, model="lxmert_shapes", methods="gae"))
    visitor.click("#examples button", nth=1)
    assert (
        visitor.run("document.getElementById('text').value") == "what is the colour of the square?"
    )
    visitor.press_explain()
    assert visitor.text(".bars button").split("\n")[0] == "blue"
    assert visitor.run("document.querySelectorAll('.charts figure').length") == 2
    visitor.point_inside(".word", nth=7)
    visitor.wait_inside("document.body.innerText.includes('relevance for “square”')")


def test_a_detector_is_asked_about_one_of_its_objects(visitor: Visitor) -> None:
    shown = "!document.getElementById('query-field').hidden"
    visitor.open(link(visitor, model="sst2"))
    assert not visitor.run(shown)
    visitor.open(link(visitor, model="detr_shapes", methods="gae", example="0", query="2"))
    visitor.wait_for_end()
    assert visitor.run(shown)
    assert "query=2" in visitor.run("location.search")
    second = visitor.inside("document.body.innerText")
    visitor.open(link(visitor, model="detr_shapes", methods="gae", example="0"))
    visitor.wait_for_end()
    assert visitor.run("document.getElementById('query').value") == ""
    assert visitor.inside("document.body.innerText") != second
    visitor.open(link(visitor, model="detr_shapes", methods="gae", example="0", query="9999"))
    visitor.wait("!document.getElementById('error').hidden")
    assert "9999" in visitor.text("#error")


def test_a_link_brings_everything_back(visitor: Visitor) -> None:
    chosen = {"model": "sst2", "methods": "rollout", "text": "dull", "target": "negative"}
    visitor.open(link(visitor, **chosen))
    visitor.wait_for_end()
    assert rows(visitor) == ["rollout"]
    assert visitor.run("document.getElementById('text').value") == "dull"
    assert visitor.text("#rows td").startswith("negative ")  # and its probability
    again = visitor.run("location.search")
    for name, value in chosen.items():
        assert urlencode({name: value}) in again


@pytest.mark.parametrize(
    "query",
    [
        "model=..%2F..%2Fetc%2Fpasswd&methods=gae",
        "model=mnist&example=999",
        "model=mnist&example=..%2Fx",
        "methods=%3Cscript%3E",
    ],
)
def test_a_link_of_nonsense_fills_in_what_it_can(visitor: Visitor, query: str) -> None:
    visitor.open(f"{visitor.home}?{query}")
    assert visitor.run("document.body.dataset.state ?? 'idle'") == "idle"
    assert visitor.text("#error") == ""


def test_files_are_downloaded(visitor: Visitor) -> None:
    visitor.open(link(visitor, model="mnist", methods="gae,rollout", example=3))
    visitor.wait_for_end()
    for kind, start in (("html", b"<!doctype"), ("png", b"\x89PNG"), ("json", b"[{")):
        with visitor.page.expect_download() as coming:
            visitor.click(f"#{kind}")
        assert coming.value.suggested_filename == f"why.{kind}"
        assert coming.value.path().read_bytes().startswith(start)


def test_mistakes_are_sentences(visitor: Visitor) -> None:
    visitor.open(link(visitor, model="sst2", methods="gae", text="fine", target="nobody"))
    visitor.wait("document.body.dataset.state === 'error'")
    assert visitor.text("#error").startswith("There is no class 'nobody'.")
    visitor.run("document.getElementById('target').value = ''")
    visitor.press_explain()
    assert visitor.run("document.getElementById('error').hidden")


def test_long_work_shows_progress_and_can_be_cancelled(visitor: Visitor, client: Client) -> None:
    chosen = {"model": "sst2", "methods": "integrated_gradients,attention_flow"}
    visitor.open(link(visitor, **chosen, text="good and bad " * 30))
    visitor.wait("document.getElementById('status').innerText.includes('integrated_gradients')")
    assert visitor.run("document.querySelector('progress').value") > 0
    visitor.click("#cancel")
    visitor.wait("document.body.dataset.state === 'cancelled'")
    assert visitor.run("document.getElementById('progress').hidden")
    ends = time.monotonic() + 30
    while client.explorer.jobs.busy != (0, 0):
        assert time.monotonic() < ends
        time.sleep(0.05)


def test_hostile_text_is_text(visitor: Visitor) -> None:
    visitor.open(link(visitor, model="sst2", methods="gae,rollout", text=HOSTILE))
    visitor.wait_for_end()
    assert visitor.run("document.getElementById('text').value") == HOSTILE
    assert visitor.run("document.title") == "whyformer explorer"
    assert visitor.run("document.querySelectorAll('#result img, #result script').length") == 0
    assert visitor.inside("document.querySelectorAll('img').length") == 0
    assert visitor.inside("document.title").startswith("Why positive") or visitor.inside(
        "document.title"
    ).startswith("Why negative")


def test_the_report_cannot_reach_the_page(visitor: Visitor) -> None:
    visitor.open(link(visitor, model="sst2", methods="gae", text="fine"))
    visitor.wait_for_end()
    assert visitor.inside("origin") == "null"
    reach = "(() => { try { return parent.document.title; } catch (e) { return e.name; } })()"
    assert visitor.inside(reach) == "SecurityError"


def test_a_narrow_window_needs_no_sideways_scrolling(visitor: Visitor) -> None:
    for chosen in ({"model": "sst2", "text": "a gripping film"}, {"model": "mnist", "example": 1}):
        visitor.open(link(visitor, methods="gae,rollout,lrp_ah_ln", **chosen), 380)
        visitor.wait_for_end()
        assert visitor.run("document.documentElement.scrollWidth") == 380
        assert visitor.inside("document.documentElement.scrollWidth <= innerWidth")


def test_everything_can_be_reached_and_pressed_by_keyboard(visitor: Visitor) -> None:
    visitor.open(link(visitor, model="sst2", methods="gae"))
    visitor.run("document.getElementById('model').focus()")
    reached = []
    for _ in range(40):
        visitor.press("Tab")
        reached.append(visitor.run("document.activeElement.id || document.activeElement.value"))
        if reached[-1] == "explain":
            break
    assert {"text", "gae", "target", "explain"} <= set(reached)
    visitor.run("document.getElementById('text').value = 'fine'")
    visitor.press("Enter")
    visitor.wait_for_end()


def test_dark_is_dark(visitor: Visitor) -> None:
    chosen = {"model": "visualbert_shapes", "methods": "gae,lrp_ah_ln", "example": 0}
    visitor.open(link(visitor, **chosen, text="what is the colour of the triangle?"), dark=True)
    visitor.wait_for_end()
    colour = "getComputedStyle(document.body).backgroundColor"
    assert visitor.run(colour) == visitor.inside(colour) == "rgb(20, 22, 26)"


def choose_model(visitor: Visitor, name: str, example: int = 0) -> None:
    visitor.run(
        "(() => { const menu = document.getElementById('model');"
        f" menu.value = {json.dumps(name)}; menu.dispatchEvent(new Event('change'));"
        f" document.querySelectorAll('#examples button')[{example}].click(); }})()"
    )


@pytest.mark.parametrize("model", ["reader", "vlm_shapes"])
def test_a_word_of_a_chat_answer_recolours_the_prompt(visitor: Visitor, model: str) -> None:
    visitor.open(visitor.home)
    choose_model(visitor, model)
    visitor.press_explain()
    words = visitor.run(
        "[...document.querySelectorAll('#words button')].map((e) => e.innerText.split('\\n'))"
    )
    assert all(share.endswith("%") for _, share in words)
    assert visitor.text("#prompt") == visitor.run("document.getElementById('text').value")
    shows = "document.querySelector('.card').innerText"
    for index in (0, 1):
        visitor.click("#words button", nth=index)
        visitor.wait_inside(f"{shows}.includes('relevance for “{words[index][0]}”')")
        pressed = "[...document.querySelectorAll('#words button')].map((e) => e.ariaPressed)"
        assert visitor.run(pressed).index("true") == index


def test_an_edited_input_is_compared_with_the_one_before(visitor: Visitor) -> None:
    visitor.open(link(visitor, model="sst2", methods="gae", text="a gripping film"))
    visitor.wait_for_end()
    assert visitor.run("document.getElementById('change').hidden")
    visitor.run("document.getElementById('text').value = 'a boring film <b>'; null")
    visitor.click("#keep")
    visitor.press_explain()
    assert visitor.text("#change del") == "gripping"
    inserted = "[...document.querySelectorAll('#change ins')].map((e) => e.innerText)"
    assert visitor.run(inserted) == ["boring", "<b>"]
    assert "positive: 99" in visitor.text("#change ul")
    visitor.wait("document.querySelectorAll('#reports iframe[style]').length === 2")
    titles = visitor.run("[...document.querySelectorAll('#reports h3')].map((e) => e.innerText)")
    assert titles == ["Now", "Before"]
    texts = [
        frame.evaluate("document.body.innerText")
        for frame in visitor.page.frames
        if frame.url.endswith("/report")
    ]
    assert sum("gripping" in text for text in texts) == 1


def test_several_models_side_by_side(visitor: Visitor) -> None:
    visitor.open(link(visitor, model="lxmert_shapes", methods="gae"))
    choose_model(visitor, "lxmert_shapes", 1)
    visitor.run("document.getElementById('others-field').open = true; null")
    others = visitor.run("[...document.querySelectorAll('[name=other]')].map((e) => e.value)")
    assert "visualbert_shapes" in others
    assert "sst2" not in others
    visitor.run(
        "document.querySelector('[name=other][value=visualbert_shapes]').checked = true; null"
    )
    visitor.press_explain()
    visitor.wait("document.querySelectorAll('#reports iframe[style]').length === 2")
    titles = visitor.run("[...document.querySelectorAll('#reports h3')].map((e) => e.innerText)")
    assert titles == ["lxmert_shapes", "visualbert_shapes"]
    assert "blue" in visitor.text(".shares")
    assert "%" in visitor.text(".shares")
    assert "others=visualbert_shapes" in visitor.run("location.search")


def test_a_table_of_samples_is_walked_through(
    visitor: Visitor, tmp_path_factory: pytest.TempPathFactory
) -> None:
    file = tmp_path_factory.mktemp("data") / "reviews.csv"
    lines = ["a gripping film,positive", "dull and slow,positive", "<b>fine</b>,positive"]
    file.write_text("text,label\n" + "\n".join(lines * 20) + "\n")
    for client in serve(create_app(data=f"csv:{file}")):
        visitor.home = client.server.url
        visitor.open(link(visitor, model="sst2", methods="gae"), 380)
        visitor.wait("document.querySelectorAll('#samples tr').length === 50")
        assert visitor.text("#sample-place") == "60 samples"
        visitor.click("#sample-next")
        visitor.wait_for_end()
        visitor.run("delete document.body.dataset.state")
        visitor.click("#sample-next")
        visitor.wait_for_end()
        assert visitor.run("document.getElementById('text').value") == "dull and slow"
        assert visitor.text("#sample-place") == "2 of 60"
        cells = "[...document.querySelectorAll('#samples .predicted')].map((e) => e.innerText)"
        assert visitor.run(cells)[:3] == ["positive", "negative", ""]
        assert visitor.run("document.querySelectorAll('#samples .wrong').length") == 1
        visitor.click("#samples-more")
        visitor.wait("document.querySelectorAll('#samples tr').length === 60")
        assert visitor.run("document.querySelectorAll('#samples b').length") == 0
        assert visitor.run("document.documentElement.scrollWidth") == 380
        assert visitor.complaints == []
        visitor.go("about:blank")

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Iterator

import html5lib
import pytest

from tests.explorer.conftest import Client, serve
from whyformer.explorer.app import create_app
from whyformer.explorer.catalogue import Catalogue, OfferedModel
from whyformer.explorer.limits import Limits

HOSTILE = (
    "<img src=x onerror=alert(1)> \"'`</script></body> \u202egnp.exe \U0001f480 ${7*7} {{7*7}}"
)


@pytest.fixture(scope="module")
def small(offered: Catalogue) -> Iterator[Client]:
    """A client of an explorer that allows next to nothing."""
    limits = Limits(upload=1000, characters=10, reading=1.0)
    yield from serve(create_app(offered, limits=limits))


# -- what can be had -------------------------------------------------------------------------


def test_the_page_and_every_file_it_names_are_there(client: Client) -> None:
    page = client.get("/")
    assert page.status == 200
    for name in ("explorer.css", "explorer.js", "form.js", "results.js", "curve.js", "favicon.svg"):
        assert client.get(f"/files/{name}").status == 200
    assert client.get("/examples/mnist/3").body.startswith(b"\x89PNG")


@pytest.mark.parametrize(
    "path",
    [
        "/files/../server.py",
        "/files/..%2fserver.py",
        "/files/explorer.jinja",
        "/../../etc/passwd",
        "//etc/passwd",
        "/examples/mnist/99",
        "/examples/mnist/..%2f..%2fmodel.safetensors",
        "/examples/..%2fsst2/0",
        "/examples/sst2/0",
        "/results/aaaaaaaaaaaaaaaa/report",
        "/results/aaaaaaaaaaaaaaaa/why.png",
        "/results/../why.png",
        "/explain",
    ],
)
def test_nothing_else_is(client: Client, path: str) -> None:
    answer = client.get(path)
    assert answer.status in (400, 404, 405)
    assert answer.says  # a sentence


def test_every_answer_carries_the_headers_that_protect(client: Client) -> None:
    for answer in (client.get("/"), client.get("/files/explorer.js"), client.get("/nowhere")):
        policy = answer.headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'none'")
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Referrer-Policy"] == "no-referrer"
        assert not any(name.startswith("Access-Control") for name in answer.headers)


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "TRACE", "BREW"])
def test_other_verbs_are_refused(client: Client, method: str) -> None:
    answer = client.ask(method, "/")
    assert answer.status == 405
    assert answer.says


# -- who may ask -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:7861", "127.0.0.1.evil.example", "[", ""]
)
def test_a_name_that_somebody_else_owns_is_refused(client: Client, host: str) -> None:
    line = http.client.HTTPConnection(client.place, timeout=20)
    line.putrequest("GET", "/", skip_host=True)
    line.putheader("Host", host)
    line.endheaders()
    answer = line.getresponse()
    assert answer.status == 403
    assert "its own address" in json.loads(answer.read())["says"]
    line.close()


@pytest.mark.parametrize("host", ["localhost:1", "127.0.0.1", "192.168.1.7:80", "[::1]:9"])
def test_an_address_cannot_be_rebound(client: Client, host: str) -> None:
    assert client.get("/", Host=host).status == 200


@pytest.mark.parametrize(
    "origin", ["-", "null", "http://evil.example", "https://127.0.0.1", "http://127.0.0.1:1"]
)
def test_only_the_page_itself_may_ask(client: Client, origin: str) -> None:
    answer = client.explain({"Origin": origin}, text="good")
    assert answer.status == 403
    assert "its own page" in answer.says


def test_a_form_of_another_site_cannot_be_json(client: Client) -> None:
    assert client.explain({"Content_Type": "text/plain"}, text="good").status == 400


# -- limits ----------------------------------------------------------------------------------


def test_what_is_too_large_is_refused_in_a_sentence(small: Client) -> None:
    long = small.explain(text="x" * 11)
    assert (long.status, long.says) == (
        413,
        "the text has 11 characters, more than the limit of 10. Shorten it.",
    )
    heavy = small.explain(text="x" * 50_000)
    assert heavy.status == 413
    assert "Make the image smaller" in heavy.says


@pytest.mark.parametrize("length", ["-", "-1", "abc", "1" * 5000])
def test_a_length_that_is_none_is_refused(client: Client, length: str) -> None:
    line = http.client.HTTPConnection(client.place, timeout=20)
    line.putrequest("POST", "/explain")
    line.putheader("Origin", f"http://{client.place}")
    line.putheader("Content-Type", "application/json")
    if length != "-":
        line.putheader("Content-Length", length)
    line.endheaders()
    assert line.getresponse().status == 400
    line.close()


def test_a_body_that_never_comes_is_given_up(small: Client) -> None:
    head = (
        f"POST /explain HTTP/1.1\r\nHost: {small.place}\r\nOrigin: http://{small.place}\r\n"
        "Content-Type: application/json\r\nContent-Length: 50\r\n\r\n{"
    )
    answer = small.say(head.encode(), *[b" "] * 20, pause=0.2)
    assert answer.startswith(b"HTTP/1.1 408")
    assert b"did not arrive within 1 seconds" in answer


# -- what comes back -------------------------------------------------------------------------


def test_an_explanation_its_report_and_its_files(client: Client) -> None:
    answer = client.explain(text="a gripping film", methods=["gae", "lrp_ah_ln"])
    assert answer.status == 200
    assert answer.events[-1] == {"event": "done"}
    (report,) = answer.of("report")
    frame = client.get(f"/results/{report['id']}/report")
    assert frame.headers["Content-Security-Policy"].startswith("sandbox allow-scripts;")
    for kind, start in (("html", b"<!doctype"), ("png", b"\x89PNG"), ("json", b"[{")):
        file = client.get(f"/results/{report['id']}/why.{kind}")
        assert file.body.startswith(start)
        assert file.headers["Content-Disposition"] == f'attachment; filename="why.{kind}"'
    assert json.loads(file.body)[0]["method"] == "gae"


def test_a_mistake_of_the_reader_is_a_sentence(client: Client) -> None:
    answer = client.explain(text="good", target="nobody")
    assert answer.events[-1]["event"] == "error"
    assert "there is no class 'nobody'" in answer.says
    assert "Traceback" not in answer.body.decode()


def test_a_text_longer_than_the_model_reads_is_refused_in_the_pages_words(client: Client) -> None:
    answer = client.explain(text="very " * 700)
    assert answer.events[-1]["event"] == "error"
    assert "=" not in answer.says


def test_hostile_text_is_text_in_the_report(client: Client) -> None:
    for methods in (["gae"], ["gae", "lrp_ah_ln"]):
        answer = client.explain(text=HOSTILE, methods=methods)
        (report,) = answer.of("report")
        page = client.get(f"/results/{report['id']}/report").body.decode()
        tree = html5lib.parse(page, namespaceHTMLElements=False)
        assert not [e for e in tree.iter("img") if e.get("src") == "x" or e.get("onerror")]
        assert not [e for e in tree.iter() for name in e.attrib if str(name).startswith("on")]
        scripts = [e for e in tree.iter("script") if e.get("type") != "application/json"]
        assert len(scripts) == 2  # the report's own, and the frame's
        body = tree.find("body")
        assert body is not None
        assert "onerror" in "".join(body.itertext())


def test_hostile_names_of_models_are_text_in_the_page() -> None:
    name = '</script><b id="x">&amp; \'"'
    entry = OfferedModel(name, "none", name, frozenset({"text"}))
    page = create_app(Catalogue([entry])).state.explorer.page
    tree = html5lib.parse(page.decode(), namespaceHTMLElements=False)
    assert not [e for e in tree.iter() if e.get("id") == "x"]
    (option,) = tree.iter("option")
    assert option.get("value") == name
    data = next(e for e in tree.iter("script") if e.get("id") == "data")
    assert json.loads(str(data.text))["models"][0]["name"] == name


def test_a_browser_that_leaves_stops_its_job(client: Client) -> None:
    jobs = client.explorer.jobs
    body = json.dumps(
        {
            "model": "sst2",
            "methods": ["integrated_gradients", "attention_flow"],
            "text": "good " * 60,
        }
    )
    line = http.client.HTTPConnection(client.place, timeout=20)
    sent = {"Origin": f"http://{client.place}", "Content-Type": "application/json"}
    line.request("POST", "/explain", body, sent)
    line.getresponse().readline()
    assert jobs.busy[0] >= 1
    line.close()
    ends = time.monotonic() + 20
    while jobs.busy != (0, 0):
        assert time.monotonic() < ends
        time.sleep(0.02)


def test_a_mistake_of_ours_is_a_sentence_too(
    client: Client, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("whyformer.explorer.app.page_file", lambda name: 1 / 0)
    answer = client.get("/files/explorer.css")
    assert answer.status == 500
    assert "ZeroDivisionError" in answer.says
    assert "Traceback" in capfd.readouterr().err


def test_what_people_type_is_not_logged(client: Client, capfd: pytest.CaptureFixture[str]) -> None:
    client.get("/?text=secret")
    assert "secret" not in "".join(capfd.readouterr())

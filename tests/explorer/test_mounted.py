"""The application under a path, behind a proxy, and under a public name."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from tests.explorer.conftest import Client, serve
from whyformer.explorer.app import create_app
from whyformer.explorer.catalogue import Catalogue

NAME = "explorer.example.org"


@pytest.fixture(scope="module")
def mounted(offered: Catalogue) -> Iterator[Client]:
    """A client of a larger application that shows the explorer under /why."""
    inner = create_app(offered, hosts=[NAME])
    outer = Starlette(routes=[Mount("/why", inner)])
    outer.state.explorer = inner.state.explorer
    yield from serve(outer)


def test_every_address_of_the_page_is_relative(client: Client) -> None:
    page = client.get("/").body.decode()
    assert 'href="files/explorer.css"' in page
    for name in ("explorer.js", "form.js", "results.js"):
        script = client.get(f"/files/{name}").body.decode()
        assert not [word for word in ('"/', "`/", "'/") if word in script]


def test_it_works_under_a_path(mounted: Client) -> None:
    assert mounted.get("/why/").status == 200
    assert mounted.get("/why").headers["Location"].endswith("/why/")
    assert mounted.get("/why/files/explorer.js").status == 200
    assert mounted.get("/why/examples/mnist/3").body.startswith(b"\x89PNG")
    assert mounted.get("/").status == 404
    headers = {"Origin": f"http://{mounted.place}", "Content_Type": "application/json"}
    body = b'{"model": "sst2", "methods": ["rollout"], "text": "good"}'
    answer = mounted.ask("POST", "/why/explain", body, **headers)
    assert answer.events[-1] == {"event": "done"}
    (report,) = answer.of("report")
    assert mounted.get(f"/why/results/{report['id']}/report").status == 200


def test_a_proxy_may_speak_https_and_have_a_name(mounted: Client) -> None:
    assert mounted.get("/why/", Host=NAME).status == 200
    assert mounted.get("/why/", Host="other.example.org").status == 403
    body = b'{"model": "sst2", "methods": ["none"], "text": "good"}'
    for host in (NAME, mounted.place):  # some proxies send their own host
        sent = {"Host": host, "Origin": f"https://{NAME}", "Content_Type": "application/json"}
        assert mounted.ask("POST", "/why/explain", body, **sent).status == 400
        sent["Origin"] = "https://evil.example"
        assert mounted.ask("POST", "/why/explain", body, **sent).status == 403


def test_the_server_takes_the_path_of_a_proxy(offered: Catalogue) -> None:
    for client in serve(create_app(offered), root_path="/why"):
        assert client.get("/").status == 200  # the proxy has removed the path
        assert client.get("/files/explorer.js").status == 200

"""Malformed and slow requests: a clean refusal, no traceback, and others are served meanwhile."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.explorer.conftest import Client, serve
from whyformer.explorer.app import create_app
from whyformer.explorer.catalogue import Catalogue
from whyformer.explorer.connection_guard import DROPPED
from whyformer.explorer.limits import Limits


@pytest.fixture(scope="module")
def guarded(offered: Catalogue) -> Iterator[Client]:
    """A client of an explorer with few connections and short deadlines."""
    limits = Limits(connections=6, client_connections=6, headers=1.0, reading=1.5)
    yield from serve(create_app(offered, limits=limits))


def own(client: Client, **more: str) -> bytes:
    """The head of an explain request."""
    lines = {
        "Host": client.place,
        "Origin": f"http://{client.place}",
        "Content-Type": "application/json",
        **{name.replace("_", "-"): value for name, value in more.items()},
    }
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"POST /explain HTTP/1.1\r\n{head}\r\n".encode()


@pytest.mark.parametrize(
    "target", ["http://[::1/", "http://[", "//[", "*", "http://", "/%", "/%ff%00", "/..//", "/?%"]
)
def test_a_strange_target_is_refused_without_a_traceback(
    client: Client, target: str, capfd: pytest.CaptureFixture[str]
) -> None:
    head = f"GET {target} HTTP/1.1\r\nHost: {client.place}\r\nConnection: close\r\n\r\n"
    answer = client.say(head.encode())
    assert answer.split()[1] in ((b"200",) if target == "/?%" else (b"400", b"404"))
    assert not capfd.readouterr().err


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"GET / HTTP/1.1\r\nbroken\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 200_000 + b"\r\n\r\n",
        b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\n\r\n",
        b"POST /explain HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        b"POST /explain HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1, 2\r\n\r\n",
        b"POST /explain HTTP/1.1\r\nHost: localhost\r\nContent-Length: "
        + b"9" * 5000
        + b"\r\n\r\n",
        b"POST /explain HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: odd\r\n\r\n",
    ],
    ids=range(12),
)
def test_what_is_not_http_is_refused_in_a_sentence(
    client: Client, request_bytes: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    head, _, body = client.say(request_bytes).partition(b"\r\n\r\n")
    assert head.split()[1] in (b"400", b"403")
    assert b"content-security-policy: default-src 'none'" in head.lower()
    assert json.loads(body)["says"]
    assert not capfd.readouterr().err


@pytest.mark.parametrize(
    "body",
    [b"{", b"[" * 100_000, b'{"model":' * 50_000, b"\xff\xfe", b"NaN", b"1" * 5000, b'"x"', b""],
)
def test_bad_json_is_refused_in_a_sentence(
    client: Client, body: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    sent = {"Origin": f"http://{client.place}", "Content_Type": "application/json"}
    answer = client.ask("POST", "/explain", body, **sent)
    assert answer.status == 400
    assert answer.says
    assert not capfd.readouterr().err


def test_bad_chunks_after_the_head_are_refused(
    client: Client, capfd: pytest.CaptureFixture[str]
) -> None:
    answer = client.say(own(client, Transfer_Encoding="chunked"), b"zz\r\nhello\r\n")
    assert answer.startswith(b"HTTP/1.1 400")
    assert not capfd.readouterr().err


def test_a_damaged_body_of_a_request_for_the_head_alone(
    client: Client, capfd: pytest.CaptureFixture[str]
) -> None:
    """Its refusal has no body: h11 would raise."""
    head = own(client, Transfer_Encoding="chunked").replace(b"POST", b"HEAD", 1)
    answer = client.say(head + b"zz\r\nhello\r\n")
    assert answer.startswith(b"HTTP/1.1 4")
    assert answer.endswith(b"\r\n\r\n")
    assert not capfd.readouterr().err


def test_an_endless_body_is_cut_off(small_upload: Client) -> None:
    head = own(small_upload, Transfer_Encoding="chunked")
    part = b"10000\r\n" + b" " * 65536 + b"\r\n"
    assert small_upload.say(head, *[part] * 40).startswith(b"HTTP/1.1 413")


@pytest.fixture(scope="module")
def small_upload(offered: Catalogue) -> Iterator[Client]:
    """A client of an explorer that takes small images only."""
    yield from serve(create_app(offered, limits=Limits(upload=100_000)))


def test_the_rest_of_refused_requests_is_read_at_one_rate(small_upload: Client) -> None:
    """Slowly, so that a flood costs little; to its end, so that a browser sees the refusal."""
    size = DROPPED // 4
    head = own(small_upload, Content_Length=str(size))
    with ThreadPoolExecutor(2) as together:
        start = time.monotonic()
        answers = [together.submit(small_upload.say, head, b" " * size) for _ in range(2)]
        assert all(one.result().startswith(b"HTTP/1.1 413") for one in answers)
        assert time.monotonic() - start > 0.4  # of half a second


def test_dripped_headers_are_given_up_at_a_fixed_time(guarded: Client) -> None:
    start = time.monotonic()
    answer = guarded.say(b"GET / HTTP/1.1\r\n", *[b"X"] * 12, pause=0.15)
    assert answer.startswith(b"HTTP/1.1 408")
    # The bytes that arrived in between moved nothing: without a deadline it would be `wait`.
    assert time.monotonic() - start < 10


def test_a_connection_that_drips_after_an_answer_is_given_up_too(guarded: Client) -> None:
    head = f"GET /files/favicon.svg HTTP/1.1\r\nHost: {guarded.place}\r\n\r\n".encode()
    answer = guarded.say(head, *[b"G"] * 12, pause=0.15)
    assert answer.startswith(b"HTTP/1.1 200")
    assert b"HTTP/1.1 408" in answer


@pytest.mark.parametrize("kind", ["silent", "headers", "body"])
def test_slow_connections_keep_nobody_out(guarded: Client, kind: str) -> None:
    """More slow connections than there are places: every request is answered all the same."""
    first = {
        "silent": b"",
        "headers": b"GET / HTTP/1.1\r\nX",
        "body": own(guarded, Content_Length="100") + b"{",
    }[kind]
    place = ("127.0.0.1", guarded.server.port)
    lines = []
    try:
        for _ in range(20):
            line = socket.create_connection(place, timeout=10)
            line.sendall(first)
            lines.append(line)
            assert guarded.get("/files/favicon.svg").status == 200
    finally:
        for line in lines:
            line.close()


def test_too_many_requests_that_are_being_answered_refuse_the_next(
    offered: Catalogue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only a connection without a whole request makes room for others."""
    limits = Limits(connections=1, client_connections=1)
    for client in serve(create_app(offered, limits=limits)):
        with socket.create_connection(("127.0.0.1", client.server.port), timeout=20) as line:
            body = json.dumps(
                {"model": "sst2", "methods": ["attention_flow"], "text": "good " * 60}
            ).encode()
            line.sendall(own(client, Content_Length=str(len(body))) + body)
            assert line.recv(100).startswith(b"HTTP/1.1 200")
            answer = client.say(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert answer.startswith(b"HTTP/1.1 503")
            assert b"too many connections" in answer

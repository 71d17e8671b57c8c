"""Uploaded images: checked by their header, decoded after admission, reduced if large."""

from __future__ import annotations

import base64
import io
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from PIL import Image

from tests.explorer.conftest import Client
from whyformer.errors import InputError
from whyformer.explorer.explain_job import explain_job
from whyformer.explorer.explain_request import read_request
from whyformer.explorer.image_upload import UploadedImage, check_image
from whyformer.explorer.limits import Limits, TooMuchError
from whyformer.explorer.result_cache import ResultCache


def file(kind: str = "PNG", size: tuple[int, int] = (64, 32), **more: object) -> bytes:
    content = io.BytesIO()
    Image.new("RGB", size, (200, 30, 30)).save(content, kind, **more)
    return content.getvalue()


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF"])
def test_nothing_is_decoded_on_arrival(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    content = file(kind)
    with monkeypatch.context() as patch:
        patch.setattr("PIL.Image.Image.load", lambda self: pytest.fail("decoded"))
        upload = check_image(content, Limits())
        with pytest.raises(TooMuchError, match="64 x 32 pixels"):
            check_image(content, Limits(pixels=1000))
    assert upload.size == (64, 32)
    assert upload.decode().size == (64, 32)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "TIFF"])
def test_a_large_image_is_reduced_by_a_whole_number(kind: str) -> None:
    upload = check_image(file(kind, (600, 400)), Limits(decoded=30_000))
    assert upload.factor == 3
    image = upload.decode()
    assert 30_000 / 2 < image.size[0] * image.size[1] <= 4 * 30_000  # a JPEG has steps of 2
    assert all(
        abs(a - b) < 12 for a, b in zip(image.getpixel((50, 50)), (200, 30, 30), strict=True)
    )


def test_a_turned_image_is_upright_after_reducing() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # turned by 90 degrees
    image = check_image(file("JPEG", (600, 400), exif=exif), Limits(decoded=60_000)).decode()
    assert image.size[0] < image.size[1]


def test_a_file_that_breaks_while_decoding_is_refused_in_a_sentence() -> None:
    content = file("PNG", (600, 400))
    upload = check_image(content[: len(content) // 2], Limits())
    with pytest.raises(InputError, match="seems broken"):
        upload.decode()


def test_a_reduced_image_is_announced(client: Client) -> None:
    small = Limits(decoded=500)
    body = {"model": "mnist", "methods": ["gae"]}
    body["image"] = base64.b64encode(file(size=(40, 40))).decode()
    request = read_request(json.dumps(body).encode(), client.explorer.offered, small)
    told: list[tuple[str, dict[str, object]]] = []
    work = explain_job(request, ResultCache(small))
    while work is not None:  # first the image, then the rest
        work = work(lambda event, **facts: told.append((event, facts)))
    says = next(facts["says"] for event, facts in told if event == "note")
    assert says == "the image has 40 x 40 pixels and was reduced 2 times"


def test_images_are_decoded_one_at_a_time_and_only_those_in_the_queue(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of more uploads than the queue holds, the rest is refused and never decoded."""
    go, decoded, at_once = threading.Event(), [], []
    decode = UploadedImage.decode

    def watch(self: UploadedImage) -> object:
        at_once.append(1)
        decoded.append(len(at_once))
        go.wait(30)
        at_once.pop()
        return decode(self)

    monkeypatch.setattr(UploadedImage, "decode", watch)
    jobs, place = client.explorer.jobs, client.explorer.limits.uploads
    blocker = jobs.submit(lambda send: bool(go.wait(30)))
    coded = base64.b64encode(file()).decode()
    answers: list[int] = []

    def upload() -> None:
        answers.append(client.explain(model="mnist", methods=["rollout"], image=coded).status)

    threads = [threading.Thread(target=upload) for _ in range(place + 3)]
    for thread in threads:
        thread.start()
    try:
        while len(answers) < 3:
            threading.Event().wait(0.02)
        assert answers == [503] * 3
    finally:
        go.set()
        blocker.cancel()
        for thread in threads:
            thread.join()
    assert sorted(answers) == [200] * place + [503] * 3
    assert decoded == [1] * place


ALONE = "WHYFORMER_TEST_ALONE"  # set in a process that runs one test


def resident_peak() -> int:
    """The largest resident size of this process so far, in bytes."""
    status = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in status if line.startswith("VmHWM")).split()[1]) * 1024


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux")
def test_sixty_large_images_at_once_need_little_memory(request: pytest.FixtureRequest) -> None:
    if ALONE not in os.environ:  # memory that earlier tests used would blur the figure
        again = f"-m pytest -q -n 0 -p no:cacheprovider {__file__}::{request.node.name}"
        ran = subprocess.run(
            [sys.executable, *again.split(), "-m", ""],
            env={**os.environ, ALONE: "1"},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert ran.returncode == 0, ran.stdout
        assert "1 passed" in ran.stdout
        return
    client: Client = request.getfixturevalue("client")
    coded = base64.b64encode(file(size=(6000, 4000))).decode()
    client.explain(model="mnist", methods=["rollout"], image=coded)
    Path("/proc/self/clear_refs").write_text("5")  # start a new peak
    before, answers = resident_peak(), []

    def upload() -> None:
        answers.append(client.explain(model="mnist", methods=["rollout"], image=coded).status)

    threads = [threading.Thread(target=upload) for _ in range(60)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(answers) <= {200, 503}
    assert 200 in answers
    assert resident_peak() - before < 400_000_000  # before: 9 GB

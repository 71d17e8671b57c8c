"""Load test of the explorer: other users while images flood it, while headers drip, and in numbers.

    python benchmarks/explorer_load.py [--seconds 60] [--users 20] [--check] [--json FILE]

Starts `whyformer explore` in a separate process and runs five scenes of `--seconds` each. The first
four take turns in rounds, so that other work on the machine slows all of them down alike:

- quiet: visitors arrive at random times, and take two fifths of the server's time
- flood: the same, while 60 clients send PNG files of 24 megapixels again and again
- drip: the same, while 200 connections send one byte of a header every five seconds
- body drip: the same, while 200 connections send one byte of a body every second
- users: `--users` people at once, each asks again as soon as an answer has come

A request of a visitor that ends in "done" is answered; anything else is a failure (in the scene
`users` one question in five exceeds a limit on purpose). Memory is the resident size of the server.
`--check` exits with 1 if an answer failed, if the median under flood or drip is more than twice the
quiet one, or if the server needed more than 1.5 GB.
"""

from __future__ import annotations

import argparse
import base64
import http.client
import io
import itertools
import json
import random
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

TEXT = {"model": "sst2", "methods": ["libragrad", "gae"], "text": "a gripping film"}
QUESTIONS: tuple[dict[str, Any], ...] = (
    TEXT,
    {"model": "mnist", "methods": ["gae"], "example": 3},
    {"model": "lxmert_shapes", "methods": ["gae"], "example": 1, "text": "what colour is it?"},
    {"model": "sst2", "methods": ["rollout"], "text": "too long " * 1000},
    {"model": "mnist", "methods": ["rollout", "gae", "lrp_ah_ln"], "example": 7},
)
FLOOD, DRIPS, MEMORY, FACTOR = 60, 200, 1500.0, 2.0
SIZE = (6000, 4000)
SHARE = 0.4  # of the visitors that could be answered one after the other


@dataclass
class Scene:
    """What the users of one scene met."""

    seconds: list[float] = field(default_factory=list)  # per answer
    limited: int = 0
    refused: int = 0
    failures: list[str] = field(default_factory=list)
    memory: float = 0.0  # largest, MB
    others: dict[str, int] = field(default_factory=dict)  # what the attackers got, by status

    def percentile(self, share: float) -> float:
        """The time within which a share of the answers came."""
        times = sorted(self.seconds)
        return times[min(int(share * len(times)), len(times) - 1)] if times else float("nan")


class Recorder:
    """Asks, and notes the outcome; used by many threads."""

    def __init__(self, place: str) -> None:
        self.place, self.scene, self._lock = place, Scene(), threading.Lock()

    def ask(self, question: dict[str, Any]) -> int:
        """Ask once; return the status."""
        start = time.perf_counter()
        try:
            status, says = ask(self.place, question)
        except OSError as error:
            status, says = 0, repr(error)
        with self._lock:
            if status == 200 and says == "done":
                self.scene.seconds.append(time.perf_counter() - start)
            elif status == 413 and "the limit of" in says:
                self.scene.limited += 1
            elif status == 503:
                self.scene.refused += 1
            else:
                self.scene.failures.append(f"{status}: {says}")
        return status


def ask(place: str, question: dict[str, Any] | bytes) -> tuple[int, str]:
    """The status and the last event."""
    line = http.client.HTTPConnection(place, timeout=300)
    headers = {"Origin": f"http://{place}", "Content-Type": "application/json"}
    body = question if isinstance(question, bytes) else json.dumps(question).encode()
    try:
        line.request("POST", "/explain", body, headers)
        answer = line.getresponse()
        content = answer.read()
    finally:
        line.close()
    last = json.loads(content.splitlines()[-1])
    return answer.status, last.get("says", last["event"])


# -- visitors --------------------------------------------------------------------------------


def visit(recorder: Recorder, seconds: float, rate: float, seed: int = 0) -> None:
    """Visitors arrive at random times, `rate` per second; the seed decides when."""
    gaps, ends, threads = random.Random(seed), time.monotonic() + seconds, []
    while True:
        time.sleep(min(gaps.expovariate(rate), 4 / rate))
        if time.monotonic() > ends:
            break
        thread = threading.Thread(target=recorder.ask, args=(TEXT,))
        thread.start()
        threads.append(thread)
    for thread in threads:
        thread.join()


def crowd(recorder: Recorder, users: int, seconds: float) -> None:
    """`users` people at once, who ask again as soon as they have an answer."""
    ends = time.monotonic() + seconds

    def use(first: int) -> None:
        for question in itertools.islice(itertools.cycle(QUESTIONS), first, None):
            if time.monotonic() > ends:
                return
            if recorder.ask(question) == 503:
                time.sleep(0.1)  # a user would wait before trying again

    run_threads([partial(use, number) for number in range(users)])


def run_threads(work: list[Callable[[], None]]) -> None:
    """Run all functions at the same time, and wait for them."""
    threads = [threading.Thread(target=one) for one in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


# -- attackers -------------------------------------------------------------------------------


@contextmanager
def flood(place: str, scene: Scene, clients: int = FLOOD) -> Iterator[None]:
    """Large images from many clients, sent again and again."""
    over, lock, body = threading.Event(), threading.Lock(), upload()

    def send() -> None:
        while not over.is_set():
            status = 0
            with suppress(OSError, ValueError, IndexError):
                status, _ = ask(place, body)
            with lock:
                scene.others[str(status)] = scene.others.get(str(status), 0) + 1
            over.wait(0.5)

    yield from _meanwhile([send] * clients, over)


def upload() -> bytes:
    """An explain request with a PNG of 24 megapixels."""
    from PIL import Image

    content = io.BytesIO()
    Image.radial_gradient("L").resize(SIZE).convert("RGB").save(content, "PNG", compress_level=1)
    coded = base64.b64encode(content.getvalue()).decode()
    return json.dumps({"model": "mnist", "methods": ["rollout"], "image": coded}).encode()


@contextmanager
def drip(place: str, scene: Scene, head: bytes, pause: float) -> Iterator[None]:
    """Connections that send a head and then one byte after each pause; a closed one is replaced."""
    over, lock = threading.Event(), threading.Lock()
    host, port = place.split(":")

    def send() -> None:
        while not over.is_set():
            with suppress(OSError), socket.create_connection((host, int(port)), timeout=10) as line:
                line.sendall(head)
                while not over.wait(pause):
                    line.sendall(b"x")
            with lock:
                scene.others["closed"] = scene.others.get("closed", 0) + 1
            over.wait(0.5)

    yield from _meanwhile([send] * DRIPS, over)


def _meanwhile(work: list[Callable[[], None]], over: threading.Event) -> Iterator[None]:
    threads = [threading.Thread(target=one, daemon=True) for one in work]
    for thread in threads:
        thread.start()
    time.sleep(1.0)
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join(30)


def body_head(place: str) -> bytes:
    """The head of a request whose body has a hundred bytes."""
    return (
        f"POST /explain HTTP/1.1\r\nHost: {place}\r\nOrigin: http://{place}\r\n"
        "Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
    ).encode()


# -- the server ------------------------------------------------------------------------------


@contextmanager
def server() -> Iterator[tuple[str, int]]:
    """An explorer in a process of its own: its address and its process id."""
    command = [sys.executable, "-m", "whyformer", "explore", "--port", "0", "--no-browser"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        place = re.search(r"//([^/]+)/", process.stdout.readline())[1]  # type: ignore[index]
        yield place, process.pid
    finally:
        process.terminate()
        process.wait(30)


def resident(process: int) -> float:
    """Megabytes that a process has in memory."""
    status = Path(f"/proc/{process}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+) kB", status)
    return int(found[1]) / 1000 if found else float("nan")


@contextmanager
def watch_memory(process: int, scene: Scene) -> Iterator[None]:
    """Note the largest resident size, ten times a second."""
    over = threading.Event()

    def look() -> None:
        while not over.wait(0.1):
            scene.memory = max(scene.memory, resident(process))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def run_scenes(place: str, process: int, given: argparse.Namespace) -> dict[str, Scene]:
    """Run all scenes; return them by name."""
    times = Recorder(place)
    for _ in range(5):
        times.ask(TEXT)
    rate = SHARE / times.scene.percentile(0.5)
    print(
        f"one answer takes {SHARE / rate:.2f} s; {rate:.2f} visitors arrive per second", flush=True
    )
    attacks: dict[str, Callable[[Scene], Any]] = {
        "quiet": lambda scene: contextmanager(lambda: iter([None]))(),
        "flood": lambda scene: flood(place, scene),
        "drip": lambda scene: drip(place, scene, b"GET / HTTP/1.1\r\nX-", 5.0),
        "body drip": lambda scene: drip(place, scene, body_head(place), 1.0),
    }
    recorders = {name: Recorder(place) for name in attacks}
    for number in range(given.rounds):
        for name, attack in attacks.items():
            scene = recorders[name].scene
            for _ in range(3):
                ask(place, TEXT)  # what the scene before left behind is over
            with watch_memory(process, scene), attack(scene):
                visit(recorders[name], given.seconds / given.rounds, rate, number)
    scenes = {name: recorder.scene for name, recorder in recorders.items()}
    for name, scene in scenes.items():
        report(name, scene)
    recorder = Recorder(place)
    with watch_memory(process, recorder.scene):
        crowd(recorder, given.users, given.seconds)
    scenes["users"] = recorder.scene
    report("users", recorder.scene)
    return scenes


def report(name: str, scene: Scene) -> None:
    """Print one line."""
    times = ", ".join(f"p{int(100 * p)} {scene.percentile(p):.2f} s" for p in (0.5, 0.9, 0.99))
    print(
        f"{name}: {len(scene.seconds)} answered, {times}; {scene.refused} refused,"
        f" {scene.limited} over a limit, {len(scene.failures)} failures; {scene.memory:.0f} MB"
        + (f"; attackers {scene.others}" if scene.others else ""),
        flush=True,
    )
    for failure in sorted(set(scene.failures))[:5]:
        print("  ", failure)


def problems(scenes: dict[str, Scene]) -> list[str]:
    """What does not hold."""
    quiet = scenes["quiet"].percentile(0.5)
    found = []
    for name, scene in scenes.items():
        if scene.failures or not scene.seconds or scene.refused:
            found.append(f"{name}: {len(scene.failures)} failures, {scene.refused} refused")
        if scene.memory > MEMORY:
            found.append(f"{name}: {scene.memory:.0f} MB")
        median = scene.percentile(0.5)
        if name not in ("quiet", "users") and not median <= FACTOR * quiet:
            found.append(f"{name}: median {median:.2f} s, {median / quiet:.1f}x of {quiet:.2f} s")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--users", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    with server() as (place, process):
        for question in QUESTIONS:
            ask(place, question)
        print(f"memory after the first answers: {resident(process):.0f} MB", flush=True)
        scenes = run_scenes(place, process, given)
    if given.json:
        given.json.write_text(json.dumps({name: asdict(scene) for name, scene in scenes.items()}))
    found = problems(scenes)
    for problem in found:
        print("not held:", problem)
    sys.exit(bool(found) and given.check)


if __name__ == "__main__":
    main()

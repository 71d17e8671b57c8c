"""Load test of the explorer with twenty users at once: answers, refusals, failures, memory.

    python benchmarks/explorer_load.py [--users 20] [--seconds 60] [--json FILE]

Starts `whyformer explore` in a separate process. Every user explains sentences, images and
questions in turn, and some requests exceed a limit. An answer that ends in "done" counts as
answered, status 503 as refused, a sentence about a limit as limited; anything else is a failure.
Memory is the resident size of the server after the first answer of every kind, and its largest and
last size after that.
"""

from __future__ import annotations

import argparse
import http.client
import itertools
import json
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

QUESTIONS: tuple[dict[str, Any], ...] = (
    {"model": "sst2", "methods": ["lrp_ah_ln", "gae"], "text": "a gripping film"},
    {"model": "mnist", "methods": ["gae"], "example": 3},
    {"model": "lxmert_shapes", "methods": ["gae"], "example": 1, "text": "what colour is it?"},
    {"model": "sst2", "methods": ["rollout"], "text": "too long " * 1000},
    {"model": "mnist", "methods": ["rollout", "gae", "lrp_ah_ln"], "example": 7},
)


@dataclass
class Load:
    """Counts over all users."""

    answered: int = 0
    refused: int = 0
    limited: int = 0
    failures: list[str] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)  # per answer


def load(place: str, users: int, seconds: float) -> Load:
    """Run `users` threads that ask for `seconds` seconds; return the counts."""
    told, lock = Load(), threading.Lock()
    ends = time.monotonic() + seconds

    def use(first: int) -> None:
        for question in itertools.islice(itertools.cycle(QUESTIONS), first, None):
            if time.monotonic() > ends:
                return
            start = time.perf_counter()
            try:
                status, says = ask(place, question)
            except OSError as error:
                status, says = 0, repr(error)
            with lock:
                if status == 200 and says == "done":
                    told.answered += 1
                    told.seconds.append(time.perf_counter() - start)
                elif status == 503:
                    told.refused += 1
                elif status == 413 and "the limit of" in says:
                    told.limited += 1
                else:
                    told.failures.append(f"{status}: {says}")
            if status == 503:
                time.sleep(0.1)  # a user would wait before trying again

    threads = [threading.Thread(target=use, args=(number,)) for number in range(users)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return told


def ask(place: str, question: dict[str, Any]) -> tuple[int, str]:
    """The status and the last event."""
    line = http.client.HTTPConnection(place, timeout=300)
    headers = {"Origin": f"http://{place}", "Content-Type": "application/json"}
    line.request("POST", "/explain", json.dumps(question), headers)
    answer = line.getresponse()
    body = answer.read()
    line.close()
    if not body.startswith(b"{"):
        return answer.status, body.decode()
    last = json.loads(body.splitlines()[-1])
    return answer.status, last.get("says", last["event"])


def resident(process: int) -> float:
    """Megabytes that a process has in memory."""
    status = Path(f"/proc/{process}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+) kB", status)
    return int(found[1]) / 1000 if found else float("nan")


def resident_sizes(process: int, until: threading.Event) -> Iterator[float]:
    """The resident size every half second."""
    while not until.wait(0.5):
        yield resident(process)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--users", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    command = [sys.executable, "-m", "whyformer", "explore", "--port", "0", "--no-browser"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        place = re.search(r"//([^/]+)/", server.stdout.readline())[1]  # type: ignore[index]
        for question in QUESTIONS:
            ask(place, question)
        start, over = resident(server.pid), threading.Event()
        sizes: list[float] = []
        watch = threading.Thread(target=lambda: sizes.extend(resident_sizes(server.pid, over)))
        watch.start()
        told = load(place, given.users, given.seconds)
        over.set()
        watch.join()
        memory = {"start": start, "most": max(sizes, default=start), "end": resident(server.pid)}
    finally:
        server.terminate()
        server.wait(30)
    times = sorted(told.seconds)
    median = times[len(times) // 2] if times else float("nan")
    print(
        f"{given.users} users, {given.seconds:g} s: {told.answered} answered, median {median:.1f} s"
    )
    print(f"{told.refused} refused, {told.limited} over a limit, {len(told.failures)} failures")
    print("memory, MB: " + ", ".join(f"{name} {size:.0f}" for name, size in memory.items()))
    for failure in sorted(set(told.failures))[:10]:
        print("  ", failure)
    if given.json:
        given.json.write_text(json.dumps({**asdict(told), "memory": memory}))
    sys.exit(bool(told.failures))


if __name__ == "__main__":
    main()

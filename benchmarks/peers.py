"""Our methods against other packages' on the same model and question, in one process.

    python benchmarks/peers.py [--rounds 5] [--steps 32] [--shapes bert,vit] [--tokens 128]
                               [--threads 1,2] [--peers captum,zennit,...] [--json FILE]

BERT-base shape with 128 tokens and ViT-B/16 shape, random weights, frozen, one sample. All
start from the same token states (computed again each time) and explain the same logit. Peers run
from the states straight through the blocks; ours is called as users call it, with the model's
inputs. All take turns in each round; the figure is the best round. With one thread it is the CPU
time of this process; with more it is elapsed time, which is useful on an idle machine only. Memory
is the peak of what torch allocates for the work (see benchmarks/memory.py), in one thread.

If a peer computes the same quantity, the scores have to agree. The winner is the faster one in one
thread; there is none if the two are within two per cent. A peer that cannot be imported, or fails
on the model, is listed with its error message. No peer is left out by hand. If a peer imports only
with stand-ins for names that it does not need here, it is measured so, and its row says why.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
from torch import Tensor

import turns
import whyformer as wf
from contenders import PEERS, Job, Peer
from memory import peak
from report import finish
from stand_ins import one_line
from subjects import Subject, bert, vit

PLAIN = "forward+backward"
AGREE = 1e-4  # of the largest score, if both compute the same quantity
EVEN = 0.02


def ours(subject: Subject, peer: Peer, steps: int) -> tuple[str, Job]:
    """Our method for the peer's quantity, with a name that includes its options."""
    options = dict(peer.options)
    if peer.method == "integrated_gradients":
        options["steps"] = steps
    name = ", ".join([peer.method, *(f"{key}={value}" for key, value in options.items())])

    def answer() -> Tensor:
        return wf.explain(
            subject.inputs, subject.model, method=peer.method, target=0, **options
        ).scores

    return name, answer


class Ready(NamedTuple):
    """A peer's work, its first result, and the import problem that was worked around."""

    job: Job
    scores: Tensor
    got_round: str


def ready(subject: Subject, peer: Peer, steps: int) -> Ready | str:
    """The peer after a first run, or the reason why it cannot run."""
    try:
        got_round = peer.load()
    except Exception as error:  # any error of another package becomes the text of its row
        return f"not importable: {one_line(error)}"
    try:
        job = peer.make(subject, steps)
        return Ready(job, job(), got_round)
    except Exception as error:
        return f"imports, and fails on this model: {one_line(error)}"


def measure(
    subject: Subject, peers: Sequence[Peer], steps: int, rounds: int, threads: Sequence[int]
) -> dict[str, Any]:
    """Figures by what was run, one row for each peer, and the peers that failed."""
    work: dict[str, Callable[[], Any]] = {PLAIN: subject.plain}
    scores: dict[str, Tensor] = {}
    rows: list[dict[str, Any]] = []
    missing = []
    for peer in peers:
        found = ready(subject, peer, steps)
        if isinstance(found, str):
            missing.append({"peer": peer.name, "method": peer.method, "why": found})
            continue
        name, answer = ours(subject, peer, steps)
        if name not in scores:
            scores[name] = answer()
        work[name], work[peer.name] = answer, found.job
        rows.append(
            {
                "peer": peer.name,
                "version": version(peer.package) if peer.package else None,
                "ours": name,
                "compared": peer.compared,
                "got round": found.got_round,
                "difference": apart(scores[name], found.scores) if peer.same else None,
            }
        )
    figures = best_times(work, rounds, threads)
    figures["bytes"] = {name: peak(job) for name, job in work.items()}
    first = figures[f"{threads[0]} thread"]
    for row in rows:
        row["winner"] = winner(first[row["ours"]], first[row["peer"]])
    return {"figures": figures, "rows": rows, "missing": missing}


def best_times(
    work: dict[str, Callable[[], Any]], rounds: int, threads: Sequence[int]
) -> dict[str, dict[str, float]]:
    """Best seconds, by number of threads and by what was run."""
    found = {}
    for count in threads:
        torch.set_num_threads(count)
        clock = time.process_time if count == 1 else time.perf_counter
        found[f"{count} thread"] = turns.best(work, rounds, clock)
    torch.set_num_threads(threads[0])
    return found


def apart(a: Tensor, b: Tensor) -> float:
    """The largest difference of two scores, as a share of the largest score."""
    largest = max(float(a.abs().max()), float(b.abs().max()))
    return float((a - b).abs().max()) / largest if largest else 0.0


def winner(ours: float, peer: float) -> str:
    """Return which of the two is faster."""
    if abs(peer / ours - 1) <= EVEN:
        return "even"
    return "ours" if ours < peer else "peer"


def show(title: str, found: dict[str, Any]) -> None:
    figures = found["figures"]
    (time_of, *_) = figures.values()
    print(f"\n{title}; plain pass {time_of[PLAIN] * 1e3:.0f} ms; peer / ours: {', '.join(figures)}")
    for row in found["rows"]:
        ratios = "".join(f"{f[row['peer']] / f[row['ours']]:8.2f}x" for f in figures.values())
        agreed = "" if row["difference"] is None else f"  differ by {row['difference']:.0e}"
        print(f"  {row['peer']:48s}{ratios}  {row['winner']}{agreed}  ({row['ours']})")
    for row in found["missing"]:
        print(f"  {row['peer']:48s}{row['why']}", flush=True)


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=32, help="of integrated gradients")
    parser.add_argument("--shapes", default="bert,vit")
    parser.add_argument("--tokens", type=int, default=128, help="of the text")
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--hidden", type=int, default=768)
    parser.add_argument("--threads", default="1,2", help="the first decides the winner")
    parser.add_argument("--peers", default="", help="parts of names; all unless given")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(words)
    threads = [int(count) for count in options.threads.split(",")]
    size = {"layers": options.layers, "hidden": options.hidden}
    make: dict[str, Callable[[], Subject]] = {
        "bert": lambda: bert(options.tokens, **size),
        "vit": lambda: vit(**size),
    }
    torch.set_num_threads(threads[0])
    results: dict[str, Any] = {"steps": options.steps, "rounds": options.rounds, "shapes": {}}
    exceeded = []
    wanted = options.peers.lower().split(",")
    for shape in options.shapes.split(","):
        subject = make[shape]()
        peers = [
            peer
            for peer in PEERS
            if shape in peer.shapes and any(part in peer.name.lower() for part in wanted)
        ]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # warnings of the peers
            found = measure(subject, peers, options.steps, options.rounds, threads)
        results["shapes"][subject.title] = found
        show(subject.title, found)
        for row in found["rows"]:
            if (row["difference"] or 0.0) > AGREE:
                exceeded.append(f"{row['peer']} on {subject.title} differs by {row['difference']}")
    return finish(results, exceeded, options.json)


if __name__ == "__main__":
    raise SystemExit(main())

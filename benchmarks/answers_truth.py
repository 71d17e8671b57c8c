"""How often the sentence that an answer comes from has the most relevance.

    python benchmarks/answers_truth.py [--questions 500] [--slow-questions 100]
                                       [--methods a,b,...] [--batch 25] [--threads 1] [--json FILE]

The bundled chat model `reader` answers questions about held-out passages
(`whyformer.reproduce.passages`), where it is known which sentence gives the answer. One question is
asked about each passage, every kind of question equally often. The explained value is the logit of
the word that the passage must give, such as " kitchen" after "In the": the word that the model
writes there, right or wrong.

A sentence scores the sum of the positive scores of its tokens. It is a hit if the supporting
sentence scores more than every other sentence of the passage; the question and the signs of the
chat do not compete. "where", "who", "colour" and "what" are the hits at such questions, "signed"
are the hits if negative scores count as well. `mass` is the share of the positive relevance of all
sentences that lies in the supporting one. The row "chance" is the expected score of a sentence
drawn at random.

Each figure is in per cent, with one standard error over the questions. Times are CPU milliseconds
for a question, explained in batches. Slow methods get the first `--slow-questions` alone, and the
table says how many. Methods that refuse the model are listed below the table.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import warnings
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
import transformers
from rich.console import Console
from rich.progress import Progress
from torch import Tensor, nn

import whyformer as wf
from pointing import CONTENDERS, Contender, Figure, plain, table
from whyformer.errors import TrustWarning, WhyformerError
from whyformer.models.load import load_folder
from whyformer.reproduce.passages import Passage, PassageQuestion, held_out_questions

NAME = "reader"
SLOW = ("attention_flow", "kernel_shap", "partition_shap")  # seconds for a question
COLUMNS = ("hit", "where", "who", "colour", "what", "signed", "mass", "ms")


@dataclass(frozen=True)
class Prompt:
    """A passage, a question, and the answer up to the word that the passage must give."""

    ids: tuple[int, ...]
    sentences: tuple[tuple[int, int], ...]  # the first token and the one after the last
    support: int
    kind: str
    value: int  # the id of the right word


@dataclass(frozen=True)
class Reading:
    """Prompts, and the word that the model writes next at each."""

    model: nn.Module
    prompts: Sequence[Prompt]
    written: Sequence[int]

    @property
    def right(self) -> float:
        """The share of right words."""
        pairs = zip(self.prompts, self.written, strict=True)
        return sum(prompt.value == word for prompt, word in pairs) / len(self.prompts)

    def take(self, count: int) -> Reading:
        """Return the first prompts."""
        return Reading(self.model, self.prompts[:count], self.written[:count])


def read_prompt(tokenizer: Any, read: Passage, question: PassageQuestion) -> Prompt:
    """Return a question about a passage as a chat, with the tokens of every sentence."""
    message = {"role": "user", "content": f"{read.text} {question.text}"}
    text = tokenizer.apply_chat_template([message], add_generation_prompt=True, tokenize=False)
    answer = question.answer[: question.answer.rindex(f" {question.value}")]
    encoded = tokenizer(text + answer, add_special_tokens=False, return_offsets_mapping=True)
    ends = [end for _, end in encoded["offset_mapping"]]
    spans, at = [], text.index(read.text)
    for sentence in read.sentences:
        inside = [i for i, end in enumerate(ends) if at < end <= at + len(sentence)]
        spans.append((inside[0], inside[-1] + 1))
        at += len(sentence) + 1
    (value,) = tokenizer.encode(f" {question.value}", add_special_tokens=False)
    return Prompt(tuple(encoded["input_ids"]), tuple(spans), question.support, question.kind, value)


def equal_lengths(prompts: Sequence[Prompt], batch: int) -> Iterator[list[int]]:
    """Yield the indices of prompts in batches without padding."""
    by_length: dict[int, list[int]] = defaultdict(list)
    for i, prompt in enumerate(prompts):
        by_length[len(prompt.ids)].append(i)
    for same in by_length.values():
        for first in range(0, len(same), batch):
            yield same[first : first + batch]


def inputs_of(prompts: Sequence[Prompt]) -> dict[str, Tensor]:
    """Return prompts of one length as arguments of the model."""
    ids = torch.tensor([prompt.ids for prompt in prompts])
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


@torch.inference_mode()
def ask(count: int, batch: int) -> Reading:
    """Ask the model held-out questions."""
    folder = wf.models()[NAME].folder
    model = load_folder(folder, torch.float32).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    prompts = [read_prompt(tokenizer, *pair) for pair in held_out_questions(count)]
    written = [0] * len(prompts)
    for these in equal_lengths(prompts, batch):
        logits = model(**inputs_of([prompts[i] for i in these])).logits[:, -1]
        for i, word in zip(these, logits.argmax(-1).tolist(), strict=True):
            written[i] = word
    return Reading(model, prompts, written)


def measure(reading: Reading, contender: Contender, batch: int) -> dict[str, Any]:
    """Return the figures of one method; a doubtful explanation counts like any other."""
    hits: dict[str, list[bool]] = defaultdict(list)
    mass: list[float] = []
    started = time.process_time()
    for these in equal_lengths(reading.prompts, batch):
        prompts = [reading.prompts[i] for i in these]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TrustWarning)
            found = wf.explain(
                inputs_of(prompts),
                reading.model,
                method=contender.method,
                target=[reading.written[i] for i in these],
                **contender.options,
            )
        for prompt, scores in zip(prompts, found.scores.double(), strict=True):
            positive = sentence_sums(prompt, scores.clamp(min=0))
            hit = is_hit(positive, prompt.support)
            hits["hit"].append(hit)
            hits[prompt.kind].append(hit)
            hits["signed"].append(is_hit(sentence_sums(prompt, scores), prompt.support))
            mass.append(float(positive[prompt.support] / positive.sum().clamp(min=1e-300)))
    spent = time.process_time() - started
    figures: dict[str, Any] = {key: Figure.of(torch.tensor(one)) for key, one in hits.items()}
    figures["mass"] = Figure.of(torch.tensor(mass))
    count = len(reading.prompts)
    return figures | {"ms": 1000 * spent / count, "questions": count}


def sentence_sums(prompt: Prompt, scores: Tensor) -> Tensor:
    """Return the sum of the scores (tokens,) of each sentence of the passage."""
    return torch.stack([scores[start:end].sum() for start, end in prompt.sentences])


def is_hit(sums: Tensor, support: int) -> bool:
    """Whether the supporting sentence scores more than every other; a tie is a miss."""
    others = torch.cat([sums[:support], sums[support + 1 :]])
    return bool(sums[support] > others.max())


def chance(reading: Reading) -> dict[str, Figure]:
    """Return the expected scores of a sentence drawn at random."""
    shares: dict[str, list[float]] = defaultdict(list)
    for prompt in reading.prompts:
        for key in ("hit", "signed", "mass", prompt.kind):
            shares[key].append(1 / len(prompt.sentences))
    return {key: Figure.of(torch.tensor(values)) for key, values in shares.items()}


def title(name: str, count: int, whole: int) -> str:
    """The name of a row, with the number of questions if it is not that of the others."""
    return f"`{name}`" if count == whole else f"`{name}` ({count} questions)"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--questions", type=int, default=500)
    parser.add_argument("--slow-questions", type=int, default=100, help="of slow methods")
    parser.add_argument("--methods", help="all, by default")
    parser.add_argument("--batch", type=int, default=25)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    names = options.methods.split(",") if options.methods else [*CONTENDERS]
    unknown = [name for name in names if name not in CONTENDERS]
    if unknown:
        print(f"unknown: {', '.join(unknown)}; there are {', '.join(CONTENDERS)}", file=sys.stderr)
        return 2
    torch.set_num_threads(options.threads)
    transformers.utils.logging.disable_progress_bar()
    reading = ask(options.questions, options.batch)
    found: dict[str, dict[str, Any]] = {}
    refused: dict[str, str] = {}
    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(NAME, total=len(names))
        for name in names:
            bar.update(task, advance=1, description=f"{NAME}: {name}")
            try:
                most = options.slow_questions if name in SLOW else options.questions
                found[name] = measure(reading.take(most), CONTENDERS[name], options.batch)
            except WhyformerError as error:
                refused[name] = str(error)
    by_chance = chance(reading)
    print(f"{NAME}: {options.questions} questions, {100 * reading.right:.1f} % of words right\n")
    best = sorted(found, key=lambda name: -found[name]["hit"].mean)
    rows = [
        (title(name, found[name]["questions"], options.questions), found[name]) for name in best
    ]
    print(table(COLUMNS, [*rows, ("chance", by_chance)]))
    for name, why in refused.items():
        print(f"\n`{name}` refused: {why}")
    if options.json:
        results = {
            "questions": options.questions,
            "right": reading.right,
            "chance": by_chance,
            "methods": found,
            "refused": refused,
        }
        options.json.write_text(json.dumps(plain(results), indent=2), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

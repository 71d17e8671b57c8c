"""100,000 sentences through `whyformer explain --input --engine ray`: every row, in flat memory.

    python benchmarks/bulk.py --rows 100000 --engine ray

The model is a tiny random BERT, so that the time goes into moving rows. The memory of the driver
is read every second; it counts as flat if its last quarter is at most 1.25x of its first quarter
after the start.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

WORDS = ("a", "good", "bad", "film", "and", "dull", "story", "the", "plot", "is")
PIECES = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS)
FLAT = 1.25


def sentences(source: Path | None, rows: int) -> list[str]:
    """The sentences of a file with one per line, or made-up ones, repeated."""
    if source is not None:
        found = [line.strip() for line in source.read_text("utf-8").splitlines() if line.strip()]
    else:
        found = [" ".join(WORDS[(i * j) % 10] for j in range(1, 4 + i % 12)) for i in range(997)]
    return [found[i % len(found)] for i in range(rows)]


def tiny_model(folder: Path) -> None:
    """Write a tiny random classifier with a WordPiece tokenizer of these words."""
    import transformers
    from tokenizers import Tokenizer
    from tokenizers.models import WordPiece
    from tokenizers.pre_tokenizers import Whitespace
    from tokenizers.processors import TemplateProcessing

    backend = Tokenizer(WordPiece({p: i for i, p in enumerate(PIECES)}, unk_token="[UNK]"))
    backend.pre_tokenizer = Whitespace()
    backend.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    names = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=backend, **{f"{name}_token": sign for name, sign in names.items()}
    )
    config = transformers.BertConfig(
        vocab_size=len(PIECES),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
    )
    transformers.BertForSequenceClassification(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def watch(pid: int, sizes: list[int], done: threading.Event) -> None:
    """Add the resident memory of a process in bytes, once a second."""
    while not done.wait(1.0):
        try:
            pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        except (OSError, IndexError):
            return
        sizes.append(pages * os.sysconf("SC_PAGE_SIZE"))


def main() -> None:
    """Explain the rows, check the output, and print time and memory."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--source", type=Path, help="a file with one sentence per line")
    parser.add_argument("--engine", default="ray")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    arguments = parser.parse_args()
    import pyarrow.parquet as parquet

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tiny_model(folder / "model")
        texts = sentences(arguments.source, arguments.rows)
        lines = "".join(json.dumps({"text": text}) + "\n" for text in texts)
        (folder / "in.jsonl").write_text(lines, "utf-8")
        command = (
            f"explain --input in.jsonl --out out.parquet --model model --engine {arguments.engine}"
        )
        words = [sys.executable, "-m", "whyformer", *command.split()]
        begin = time.perf_counter()
        driver = subprocess.Popen([*words, "--workers", str(arguments.workers)], cwd=folder)
        sizes: list[int] = []
        done = threading.Event()
        watcher = threading.Thread(target=watch, args=(driver.pid, sizes, done))
        watcher.start()
        code = driver.wait()
        seconds = time.perf_counter() - begin
        done.set()
        watcher.join()
        assert code == 0, f"explain ended with {code}"
        table = parquet.read_table(folder / "out.parquet", columns=["index", "text"])
        assert table.column("index").to_pylist() == list(range(arguments.rows)), "rows are missing"
        assert table.column("text").to_pylist() == texts, "rows are out of order"
    # Start-up, in which the model is loaded and Ray begins, is left out.
    steady = sizes[len(sizes) // 5 :]
    quarter = max(1, len(steady) // 4)
    growth = max(steady[-quarter:]) / max(steady[:quarter])
    facts: dict[str, Any] = {
        "rows": arguments.rows,
        "engine": arguments.engine,
        "workers": arguments.workers,
        "seconds": round(seconds, 1),
        "rows per second": round(arguments.rows / seconds, 1),
        "driver GiB": round(max(sizes) / 2**30, 2),
        "growth": round(growth, 3),
    }
    print(json.dumps(facts, indent=2))
    if arguments.json:
        arguments.json.write_text(json.dumps(facts, indent=2) + "\n")
    if growth > FLAT:
        sys.exit(f"the driver's memory grew {growth:.2f}x")


if __name__ == "__main__":
    main()

"""Options, training run, accuracy and stored folder: what the training scripts share."""

from __future__ import annotations

import argparse
import json
import os
import platform
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import torch
import transformers
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from whyformer.models.packed_weights import PACKED, write_packed
from whyformer.reproduce.training_loop import (
    LabelledBatch,
    Schedule,
    build_optimiser,
    train_steps,
)

BUNDLED = Path(__file__).resolve().parent.parent / "src" / "whyformer" / "models" / "bundled"
CARDS = Path(__file__).resolve().parent / "cards"

DATA = "folder with sst2/ and mnist/; default: WHYFORMER_DATA"

WARMUP = 0.06  # share of the steps in which the learning rate rises
REPORT = 50  # steps between two lines of progress


def arguments(
    description: str | None, name: str, *, epochs: int, batch: int, peak: float
) -> argparse.Namespace:
    """Return the options of a script that trains on real data; `name` is the bundled model."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    add_data_option(parser)
    parser.add_argument("--epochs", type=int, default=epochs)
    add_options(parser, name, batch=batch, peak=peak)
    return parser.parse_args()


def add_options(parser: argparse.ArgumentParser, name: str, *, batch: int, peak: float) -> None:
    """Add the options of every training script; `name` is the bundled model."""
    parser.add_argument("--output", type=Path, default=BUNDLED / name, help="folder to write")
    parser.add_argument(
        "--work",
        type=Path,
        default=Path(tempfile.gettempdir()) / f"train_{name}",
        help="folder of the checkpoint",
    )
    parser.add_argument("--batch", type=int, default=batch, help="samples in one step")
    parser.add_argument("--peak", type=float, default=peak, help="highest learning rate")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1, help="CPU threads")
    parser.add_argument("--most-steps", type=int, help="stop after this many steps, for a trial")
    parser.add_argument(
        "--store-only",
        action="store_true",
        help="do not train: write the folder from the checkpoint in --work",
    )


def add_data_option(parser: argparse.ArgumentParser) -> None:
    """Add the option `--data`, which defaults to WHYFORMER_DATA."""
    default = os.environ.get("WHYFORMER_DATA")
    parser.add_argument(
        "--data",
        type=Path,
        default=Path(default) if default else None,
        required=not default,
        help=DATA,
    )


def prepare(seed: int, threads: int) -> torch.Generator:
    """Seed torch; return a seeded generator for the order of samples."""
    torch.set_num_threads(threads)
    torch.manual_seed(seed)
    return torch.Generator().manual_seed(seed)


@torch.inference_mode()
def accuracy(model: nn.Module, batches: Iterable[LabelledBatch]) -> float:
    """Return the fraction of samples whose highest logit is the label; restore the mode."""
    was_training = model.training
    model.eval()
    right = total = 0
    for inputs, labels in batches:
        right += int((model(**inputs).logits.argmax(-1) == labels).sum())
        total += len(labels)
    model.train(was_training)
    return right / total


@dataclass(frozen=True)
class TrainingRun:
    """How a model is trained.

    Args:
        steps: How many steps there are.
        peak: The highest learning rate; it rises to it over the first 6 % of the steps.
        decay: The weight decay of matrices.
        shape: How the learning rate falls, "linear" or "cosine".
        every: After how many steps the model is measured.
        most: Stop after this many steps, for a trial; None for all.
    """

    steps: int
    peak: float
    decay: float
    shape: str
    every: int
    most: int | None = None

    def train(
        self,
        model: nn.Module,
        batches: Iterable[LabelledBatch],
        loss_of: Callable[[LabelledBatch], Tensor],
    ) -> Iterator[int]:
        """Train the model in place and print progress; yield the steps to measure it after."""
        last = min(self.steps, self.most or self.steps)
        steps = train_steps(
            model,
            islice(batches, last),
            loss_of,
            build_optimiser(model, self.peak, self.decay, fused=True),
            Schedule(self.steps, self.peak, round(self.steps * WARMUP), self.shape),
        )
        started, losses = time.monotonic(), 0.0
        for step in steps:
            losses += step.loss
            if step.number % REPORT == 0:
                self._report(step.number, losses / REPORT, (time.monotonic() - started) / 60)
                losses = 0.0
            if step.number % self.every == 0 or step.number == last:
                yield step.number

    def _report(self, step: int, loss: float, minutes: float) -> None:
        left = minutes / step * (self.steps - step)
        print(
            f"step {step}/{self.steps}  loss {loss:.4f}  {minutes:.1f} min, {left:.1f} to go",
            flush=True,
        )


def save_weights(model: nn.Module, path: Path, dtype: torch.dtype = torch.float32) -> None:
    """Write the model's weights to `path` as safetensors."""
    path.parent.mkdir(parents=True, exist_ok=True)
    weights = {name: w.detach().to(dtype).clone() for name, w in model.state_dict().items()}
    save_file(weights, path, metadata={"format": "pt"})
    path.chmod(0o644)  # safetensors files are readable by their owner only


def load_weights(model: nn.Module, path: Path) -> None:
    """Load the weights that `save_weights` wrote."""
    model.load_state_dict(load_file(path))


def store_model(model: PreTrainedModel, folder: Path, *, packed: bool = False) -> None:
    """Write config.json and the weights to `folder`, in 16 bits or packed in 8.

    This keeps the file small; the config says float32, so that it is loaded as float32.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if packed:
        write_packed(model.state_dict(), folder / PACKED)
    else:
        save_weights(model, folder / "model.safetensors", torch.float16)
    config = {
        key: value
        for key, value in model.config.to_diff_dict().items()
        if key not in {"_name_or_path", "gradient_checkpointing"}
    }
    config |= {"architectures": [type(model).__name__], "dtype": "float32"}
    write_json(folder / "config.json", dict(sorted(config.items())))


def store_tokenizer(tokenizer: PreTrainedTokenizerFast, folder: Path, **more: object) -> None:
    """Write the two files that AutoTokenizer needs to `folder`; `more` are further settings."""
    tokenizer.backend_tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": tokenizer.model_max_length,
        "model_input_names": tokenizer.model_input_names,
        **{name: str(token) for name, token in tokenizer.special_tokens_map.items()},
    }
    write_json(folder / "tokenizer_config.json", settings | more)


def write_json(path: Path, content: object) -> None:
    """Write `content` to `path`, indented, with a last newline."""
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def write_run(options: argparse.Namespace, kept: int, steps: int, last: float) -> None:
    """Write --work/run.json: how the checkpoint of step `kept` was trained.

    `last` is the accuracy after the latest step, which may be after the checkpoint.
    """
    names = ("epochs", "batch", "peak", "seed", "threads", "scenes")
    run = {name: getattr(options, name) for name in names if hasattr(options, name)}
    run |= {
        "kept": kept,
        "steps": steps,
        "last": last,
        "cpu_minutes": round(time.process_time() / 60),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "python": platform.python_version(),
    }
    write_json(options.work / "run.json", run)


def write_card(
    options: argparse.Namespace,
    name: str,
    measured: dict[str, float],
    counts: dict[str, int] | None = None,
) -> None:
    """Write card.md from its template in training/cards, the run and the measured figures."""
    run = json.loads((options.work / "run.json").read_text(encoding="utf-8"))
    figures = {key: f"{value:.2%}" for key, value in measured.items()}
    size = f"{megabytes(options.output):.1f}"
    template = (CARDS / f"{name}.md").read_text(encoding="utf-8")
    card = template.format(**run, **figures, **(counts or {}), megabytes=size)
    (options.output / "card.md").write_text(card, encoding="utf-8")


def megabytes(folder: Path) -> float:
    """Return the size of a folder in millions of bytes."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6

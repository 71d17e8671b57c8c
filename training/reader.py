"""Train a small Llama to answer questions about passages, and write the bundled model `reader`."""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional
from transformers import (
    AutoTokenizer,
    GenerationConfig,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
)

from training import common, start_llama
from training.chat_tokenizer import (
    ASSISTANT,
    BEGIN,
    END,
    USER,
    build_tokenizer,
    special_ids,
    store_tokenizer,
)
from whyformer.reproduce import passages
from whyformer.reproduce.passages import Passage, PassageQuestion
from whyformer.reproduce.training_loop import LabelledBatch

NAME = "reader"
LENGTH = 256  # tokens of a chat, at most
LICENCE = "the licence of whyformer, Apache-2.0; so are the passages, which it writes itself"
CHECKPOINT = "last.safetensors"
TURNS = 5  # questions about one passage in training
PLAIN = 0.3  # share of training passages without the signs of a chat
HELD_OUT = 1_000  # questions to measure on
PROGRESS = 500_000_000  # passages to measure progress on have numbers from here on
# How far the heads of the first two layers look back before training, in tokens. From the end of a
# sentence it is 1 to the place, 4 to the thing, 5 to the colour and 8 to the person; from an answer
# it is 2 to 6 to the words of the question.
DISTANCES = ((1, 4, 5, 8), (2, 3, 6, 4))
PARTS = (passages.PEOPLE, passages.COLOURS, passages.THINGS, passages.PLACES)
IGNORED = -100  # label of tokens that are not learnt


def make_tokenizer() -> PreTrainedTokenizerFast:
    """Return a tokenizer in which every word of the passages is one token."""
    texts = [*passages.PEOPLE]
    for number in range(500):
        read = passages.passage(number)
        texts.append(read.text)
        for one in read.questions():
            texts += [one.text, f" {one.text}", one.answer, f" {one.answer}"]
    return build_tokenizer(texts, LENGTH)


def build_model(tokenizer: PreTrainedTokenizerFast) -> LlamaForCausalLM:
    """Return an untrained Llama with 3 layers."""
    special = special_ids(tokenizer)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=start_llama.HIDDEN,
        intermediate_size=2 * start_llama.HIDDEN,
        num_hidden_layers=3,
        num_attention_heads=start_llama.HEADS,
        rope_parameters={"rope_type": "default", "rope_theta": start_llama.BASE},
        max_position_embeddings=LENGTH,
        initializer_range=start_llama.SPREAD,
        tie_word_embeddings=False,
        **special,
    )
    model = LlamaForCausalLM(config)
    model.generation_config = GenerationConfig(**special, do_sample=False, max_new_tokens=8)
    return model


def start_well(model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast) -> None:
    """Set initial weights that make training faster.

    The first two layers read the words before a token; the last one looks up the end of a sentence
    whose words are in the question.
    """
    names = [name for part in PARTS for name in part]
    content = tokenizer.convert_tokens_to_ids([f"Ġ{name}" for name in names])
    words = model.model.embed_tokens
    start_llama.set_words(words, model.lm_head, content)
    with torch.no_grad():  # at the start of a passage there is no space before a name
        for person in passages.PEOPLE:
            bare, spaced = tokenizer.convert_tokens_to_ids([person, f"Ġ{person}"])
            words.weight[bare, start_llama.CONTENT] = words.weight[spaced, start_llama.CONTENT]
    stop = words.weight[tokenizer.convert_tokens_to_ids("."), start_llama.NAME]
    first, second, third = (layer.self_attn for layer in model.model.layers)
    start_llama.look_back(first, DISTANCES[0], 0.7)
    start_llama.look_back(second, DISTANCES[1], 0.7)
    start_llama.look_up(third, start_llama.READ, stop, 2.5)


@dataclass(frozen=True)
class Chat:
    """A passage with questions and answers as token ids."""

    ids: list[int]
    written: list[bool]  # which tokens the model has to write


class Chats:
    """Turns passages with questions and answers into token ids."""

    def __init__(self, tokenizer: PreTrainedTokenizerFast) -> None:
        self.tokenizer = tokenizer
        self._ids = lru_cache(maxsize=100_000)(self._encode_text)

    def _encode_text(self, text: str) -> tuple[int, ...]:
        return tuple(self.tokenizer.backend_tokenizer.encode(text, add_special_tokens=False).ids)

    def encode(self, read: Passage, asked: Sequence[PassageQuestion], *, plain: bool) -> Chat:
        """Return a chat of several questions, or a plain text without the signs of a chat."""
        user, assistant, space = ("", "", " ") if plain else (USER, END + ASSISTANT, "")
        ids = [*self._ids(BEGIN + user)]
        for i, sentence in enumerate(read.sentences):
            ids += self._ids(f" {sentence}" if i else sentence)
        written = [False] * len(ids)
        for i, one in enumerate(asked):
            prompt = self._ids((f"{user}{space}" if i else " ") + one.text + assistant)
            answer = self._ids(space + one.answer + END)
            ids += [*prompt, *answer]
            written += [False] * len(prompt) + [True] * len(answer)
        return Chat(ids, written)

    def batch(self, numbers: range, sentences: int) -> LabelledBatch:
        """Return inputs, and labels (chats, tokens) of what the model has to write.

        Chats are padded on the right, where no token sees the padding.
        """
        chats = []
        for number in numbers:
            chance = random.Random(f"chat {number}")
            read = passages.passage(number, sentences)
            known = read.questions()
            asked = chance.sample(known, min(TURNS, len(known)))
            chats.append(self.encode(read, asked, plain=chance.random() < PLAIN))
        shape = len(chats), max(len(chat.ids) for chat in chats)
        words = torch.full(shape, self.tokenizer.pad_token_id)
        labels = torch.full(shape, IGNORED)
        for row, chat in enumerate(chats):
            ids = torch.tensor(chat.ids)
            words[row, : len(ids)] = ids
            labels[row, : len(ids)] = ids.where(torch.tensor(chat.written), IGNORED)
        return {"input_ids": words}, labels


def answer_loss(model: LlamaForCausalLM, batch: LabelledBatch) -> Tensor:
    """Return the cross-entropy of the tokens that the model has to write."""
    inputs, labels = batch
    states = model.model(**inputs, use_cache=False).last_hidden_state[:, :-1]
    written = labels[:, 1:] != IGNORED
    return functional.cross_entropy(model.lm_head(states[written]), labels[:, 1:][written])


def sentences_at(step: int, steps: int, chance: random.Random) -> int:
    """How many sentences the passages of a step have: few at first, up to 8 after a third."""
    most = passages.FEWEST + (passages.MOST - passages.FEWEST) * min(1.0, 3 * step / steps)
    return chance.randint(2 if step < steps / 10 else passages.FEWEST, round(most))


def train(
    model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, options: argparse.Namespace
) -> None:
    """Train the model; the weights of the last step are saved in --work."""
    common.prepare(options.seed, options.threads)
    chance = random.Random(options.seed)
    chats = Chats(tokenizer)
    start_well(model, tokenizer)
    fresh = [
        (read, read.questions()[number % 2])
        for number, read in ((i, passages.passage(PROGRESS + i)) for i in range(200))
    ]

    def batches() -> Iterator[LabelledBatch]:
        for step in range(options.steps):
            first = step * options.batch
            numbers = range(first, first + options.batch)
            yield chats.batch(numbers, sentences_at(step, options.steps, chance))

    run = common.TrainingRun(options.steps, options.peak, 0.05, "cosine", 100, options.most_steps)
    for step in run.train(model, batches(), lambda batch: answer_loss(model, batch)):
        measured = share_right(model, tokenizer, fresh)
        common.save_weights(model, options.work / CHECKPOINT)
        common.write_run(options, step, options.steps, measured)
        print(f"  answers right {measured:.4f} after step {step}", flush=True)


def prompt(
    tokenizer: PreTrainedTokenizerFast, read: Passage, question: PassageQuestion, *, plain: bool
) -> str:
    """Return the passage and the question as one message of the user, or as they are."""
    text = f"{read.text} {question.text}"
    if plain:
        return BEGIN + text
    chat = [{"role": "user", "content": text}]
    rendered = tokenizer.apply_chat_template(chat, add_generation_prompt=True, tokenize=False)
    return str(rendered)


@torch.inference_mode()
def share_right(
    model: LlamaForCausalLM,
    tokenizer: PreTrainedTokenizerFast,
    asked: Sequence[tuple[Passage, PassageQuestion]],
    *,
    plain: bool = False,
) -> float:
    """Return the share of answers, written by the model, that are right word by word."""
    was_training = model.training
    model.eval()
    right = 0
    for first in range(0, len(asked), 100):
        part = asked[first : first + 100]
        words = tokenizer(
            [prompt(tokenizer, *one, plain=plain) for one in part],
            add_special_tokens=False,
            padding=True,
            padding_side="left",
            return_tensors="pt",
        )
        ids = model.generate(**words)[:, words["input_ids"].shape[1] :]
        answers = tokenizer.batch_decode(ids, skip_special_tokens=True)
        right += sum(
            answer == (f" {one.answer}" if plain else one.answer)
            for answer, (_, one) in zip(answers, part, strict=True)
        )
    model.train(was_training)
    return right / len(asked)


def measure(folder: Path, count: int = HELD_OUT) -> dict[str, float]:
    """Return figures of a stored folder on held-out questions, loaded as a user would load it.

    "test" is the share of answers to chats that are right word by word; "where", "who", "colour"
    and "what" are that of one kind of question; "plain" is that of prompts without the signs of a
    chat; "swapped" is that with the passage of another question.
    """
    model = LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    asked = list(passages.held_out_questions(count))
    others = [(asked[i - 1][0], question) for i, (_, question) in enumerate(asked)]
    kinds = {one.kind: [pair for pair in asked if pair[1].kind == one.kind] for _, one in asked}
    by_kind = {kind: share_right(model, tokenizer, part) for kind, part in kinds.items()}
    return {
        "test": sum(by_kind[kind] * len(part) for kind, part in kinds.items()) / count,
        **by_kind,
        "plain": share_right(model, tokenizer, asked, plain=True),
        "swapped": share_right(model, tokenizer, others),
    }


def store_samples(path: Path, count: int = 8) -> None:
    """Write prompts about held-out passages, as a list of texts."""
    asked = passages.held_out_questions(HELD_OUT + count)
    prompts = [f"{read.text} {one.text}" for read, one in islice(asked, HELD_OUT, None)]
    common.write_json(path, prompts)


def store(
    model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, options: argparse.Namespace
) -> dict[str, float]:
    """Write the folder; return the figures measured from its files."""
    folder = options.output
    common.store_model(model, folder)
    model.generation_config.save_pretrained(folder)
    store_tokenizer(tokenizer, folder)
    store_samples(folder / "samples.json")
    measured = measure(folder)
    facts = {
        "name": NAME,
        "task": "text-generation",
        "stream": "text",
        "title": "A small Llama trained on short passages: a chat model that answers questions"
        " about them",
        "licence": LICENCE,
        "accuracy": round(measured["test"], 4),
        "metric": f"answers to {HELD_OUT:,} held-out questions that are right word by word",
        "samples": "samples.json",
    }
    common.write_json(folder / "bundled.json", facts)
    counts = {"questions": HELD_OUT, "tokens": len(tokenizer), "reserved": passages.RESERVED}
    common.write_card(options, NAME, measured, counts)
    return measured


def arguments() -> argparse.Namespace:
    """Return the options of the script."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=400, help="steps of training")
    common.add_options(parser, NAME, batch=24, peak=1.5e-3)
    return parser.parse_args()


def main() -> None:
    """Train, write the folder, and print the accuracy of its files."""
    options = arguments()
    torch.manual_seed(options.seed)
    tokenizer = make_tokenizer()
    model = build_model(tokenizer)
    if not options.store_only:
        train(model, tokenizer, options)
    common.load_weights(model, options.work / CHECKPOINT)
    measured = store(model, tokenizer, options)
    print(
        f"{options.output}: {common.megabytes(options.output):.2f} MB,"
        f" answers right {measured['test']:.4f}"
    )


if __name__ == "__main__":
    main()

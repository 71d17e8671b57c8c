"""Many texts through `explain`, batch by batch, each with the places of its tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from whyformer.attribution import Attribution, Stream
from whyformer.audit.answers import Answer, Question
from whyformer.audit.places import Span, parts_of, token_spans
from whyformer.errors import InputError, OptionError
from whyformer.explain import explain
from whyformer.inputs.detect import Text
from whyformer.inputs.text import tokenizer_scope
from whyformer.inputs.words import special_ids
from whyformer.methods import methods as known
from whyformer.models.load import Loaded, load_model
from whyformer.models.processors import tokenizer_of
from whyformer.models.signature import positions_of

BATCH = 32
Tick = Callable[[int, int], None]  # how many explanations are done, and how many there are


@dataclass(frozen=True)
class Explained:
    """One text, its attribution, where its tokens stand, and where it was asked for the answer."""

    text: Text
    attribution: Attribution
    spans: tuple[Span | None, ...]
    answer: Answer | None = None

    @property
    def stream(self) -> Stream:
        """The tokens that an audit reads."""
        return self.attribution.streams[self.attribution.main]

    @property
    def scores(self) -> list[float]:
        """The relevance of every token, special ones included."""
        found: list[float] = self.stream.scores[0].double().tolist()
        return found

    @property
    def shares(self) -> list[float]:
        """Every token's part of the sum of |relevance|; 0 where all relevance is 0."""
        scores: Tensor = self.stream.scores[0].double().abs()
        total = scores.sum()
        found: list[float] = (scores / total if float(total) else scores).tolist()
        return found


class Explainer:
    """A model that is loaded once and asked about many texts."""

    def __init__(
        self, model: Any, processor: Any = None, *, truncation: bool = False, batch: int = BATCH
    ) -> None:
        if isinstance(batch, bool) or batch < 1:
            raise OptionError(f"batch={batch!r}: give a whole number from 1")
        self.loaded = model if isinstance(model, Loaded) else load_model(model, processor, "text")
        self.module = self.loaded.module
        self.tokenizer: Any = tokenizer_of(self.loaded.processor, self.module)
        if self.tokenizer is None:
            raise InputError(
                f"{self.loaded.name} comes without a tokenizer, and an audit reads text; pass"
                " processor=, for instance the tokenizer it was trained with"
            )
        self.truncation, self.batch = truncation, batch
        self.versions: dict[str, str] = {}  # of what explained, once something was
        self.limit = positions_of(self.module) if truncation else None

    @property
    def name(self) -> str:
        """What the model is called in tables."""
        return self.loaded.name

    def says_something(self, text: Text) -> bool:
        """Whether the tokenizer keeps anything of the text."""
        if not all(part.strip() for part in parts_of(text)):
            return False
        with tokenizer_scope(self.tokenizer):
            ids = self.tokenizer(*parts_of(text))["input_ids"]
        return not set(ids) <= special_ids(self.tokenizer)

    def __call__(
        self, texts: Sequence[Text], method: str, target: Any = None, tick: Tick | None = None
    ) -> Iterator[tuple[int, Explained]]:
        """(place in `texts`, explanation) of every text; texts of one length go together."""
        order = sorted(range(len(texts)), key=lambda i: sum(map(len, parts_of(texts[i]))))
        done = 0
        for start in range(0, len(order), self.batch):
            chosen = order[start : start + self.batch]
            yield from zip(
                chosen, self._batch([texts[i] for i in chosen], method, target), strict=True
            )
            done += len(chosen)
            if tick is not None:
                tick(done, len(texts))

    def _batch(self, texts: list[Text], method: str, target: Any) -> Iterator[Explained]:
        together = explain(
            texts,
            self.module,
            processor=self.loaded.processor,
            method=method,
            target=target,
            truncation=self.truncation,
        )
        self.versions = dict(together.provenance.get("versions", {}))
        asked = isinstance(target, Question)
        answers = target.answers(together.output) if asked else [None] * len(texts)
        for text, one, answer in zip(texts, together, answers, strict=True):
            attribution = replace(one, provenance={**one.provenance, "model": self.name})
            stream = attribution.streams[attribution.main]
            if stream.tokens is None:
                raise InputError(f"{self.name} reads no text: an audit is about words")
            spans = token_spans(text, stream, self.tokenizer, self.limit)
            yield Explained(text, attribution, spans, answer)


def check_methods(methods: str | Sequence[str]) -> tuple[str, ...]:
    """The names of the methods, each known and each once."""
    listed = [methods] if isinstance(methods, str) else list(methods)
    if not listed:
        raise OptionError("methods= is empty; pass for example 'lrp_ah_ln'")
    for name in listed:
        known[name]  # an unknown name is refused before the model is loaded
    return tuple(dict.fromkeys(listed))


def counted(tick: Tick | None, before: int, total: int) -> Tick | None:
    """The same progress as a part of a larger whole."""
    return None if tick is None else lambda done, _: tick(before + done, total)

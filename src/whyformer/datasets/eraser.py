"""ERASER (all tasks): documents, annotations, and their evidence as spans of tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from whyformer.datasets.dataset import Contents, DatasetRow, Sample, Spot, dataset
from whyformer.datasets.files import (
    DatasetSource,
    check_choice,
    file_within,
    get_entry,
    parse_line,
    read_lines,
    require_utf8,
)
from whyformer.errors import InputError

# The query of Movies, which is the same for all samples.
SAME_FOR_ALL = "What is the sentiment of this review?"
# The classes of known tasks in their order; a task is recognised by its class names.
KNOWN = (
    ("NEG", "POS"),
    ("False", "True"),
    ("SUPPORTS", "REFUTES"),
    ("contradiction", "neutral", "entailment"),
    ("A", "B", "C", "D", "E"),
    ("significantly decreased", "no significant difference", "significantly increased"),
)
Sentences = list[list[str]]  # a document: its lines, each a list of tokens


@dataset(
    "eraser",
    title="ERASER: Movies, BoolQ, MultiRC, FEVER, Evidence Inference, e-SNLI, CoS-E",
    task="text-classification",
    splits=("test", "val", "train"),
    layout="{train,val,test}.jsonl and either a folder docs of token files or docs.jsonl",
    licence="research use; see each task",
    paper="DeYoung et al. 2020",
)
def eraser(source: DatasetSource, *, query: str = "auto") -> Contents:
    """Read documents with the tokens that people marked, as spans in `extras["rationale"]`.

    A text is a document's tokens with one space between them, so that a span (start, end) is one
    of `text.split(" ")`. Query and document are a pair, unless the query is the same for all
    samples (Movies) or query="no". Two documents without a query are a pair (e-SNLI).
    `extras["tokens"]` are the tokens of all documents in order, which the spans count.
    """
    check_choice("query", query, ("auto", "yes", "no"))
    file = source.find(f"{source.split}.jsonl")
    document = _documents(source)
    labels = _labels(file)

    def read(name: str, spot: Spot, annotation: dict[str, Any]) -> Sample:
        label = str(get_entry(annotation, "classification", (str, bool, int), spot))
        groups = get_entry(annotation, "evidences", list, spot)
        evidence = [span for group in groups for span in _spans(group, spot)]
        docids = _docids(annotation, [e["docid"] for e in evidence])
        docs = {docid: document(docid, spot) for docid in docids}
        tokens: list[str] = []
        starts: dict[str, int] = {}
        for docid, sentences in docs.items():
            starts[docid] = len(tokens)
            tokens += [token for sentence in sentences for token in sentence]
        spans = [_span(e, docs[e["docid"]], starts[e["docid"]], spot) for e in evidence]
        texts = [" ".join(t for sentence in d for t in sentence) for d in docs.values()]
        question = str(annotation.get("query") or "")
        extras = {
            "tokens": tuple(tokens),
            # Movies has empty spans.
            "rationale": tuple(sorted({(a, b) for a, b in spans if a < b})),
            "documents": tuple(docs),
            "query": question,
        }
        if query == "no" or (query == "auto" and question == SAME_FOR_ALL):
            question = ""
        return Sample(name, _inputs(question, texts), *_label(label, labels), extras)

    def row(spot: Spot, line: str) -> DatasetRow:
        try:
            annotation = parse_line(line, spot)
            at = source.id(get_entry(annotation, "annotation_id", (str, int), spot))
        except InputError as error:
            return DatasetRow(source.id(f"line {spot.line}"), spot, partial(_raise, error))
        return DatasetRow(at, spot, partial(read, at, spot, annotation))

    def rows() -> Iterator[DatasetRow]:
        return (row(spot, line) for spot, line in read_lines(file) if line.strip())

    return Contents(rows, labels)


def _raise(error: Exception) -> Sample:
    raise error


def _labels(file: Path) -> tuple[str, ...]:
    """The classes in their usual order if the task is known, else sorted."""
    found: set[str] = set()
    for spot, line in read_lines(file):
        try:
            found.add(str(parse_line(line, spot)["classification"]))
        except (InputError, KeyError):
            continue  # reported when the row is read
    known = next((names for names in KNOWN if found and found <= set(names)), None)
    return known or tuple(sorted(found))


def _label(name: str, labels: tuple[str, ...]) -> tuple[int | str, str]:
    return (labels.index(name) if name in labels else name), name


def _spans(group: Any, spot: Spot) -> list[Any]:
    for evidence in group if isinstance(group, list) else [group]:
        if not isinstance(evidence, dict) or not isinstance(evidence.get("docid"), str):
            raise spot.error("'evidences' has another form", "lists of objects with a docid")
    return group


def _docids(annotation: Mapping[str, Any], evidence: list[str]) -> list[str]:
    """The documents of a sample: those listed and in the evidence, else the one with its id."""
    listed = annotation.get("docids")
    listed = listed if isinstance(listed, list) else []
    every = [*listed, *evidence] or [annotation["annotation_id"]]
    ids = list(dict.fromkeys(map(str, every)))
    # e-SNLI lists them in either order, and models expect the premise first.
    return sorted(ids, key=lambda docid: docid.endswith("_hypothesis"))


def _inputs(query: str, texts: list[str]) -> str | tuple[str, str]:
    if query:
        return query, " ".join(texts)
    return (texts[0], texts[1]) if len(texts) == 2 else " ".join(texts)


def _span(
    evidence: Mapping[str, Any], sentences: Sentences, start: int, spot: Spot
) -> tuple[int, int]:
    """The start and end of a piece of evidence among the tokens of all documents."""
    ends = [0]
    for sentence in sentences:
        ends.append(ends[-1] + len(sentence))
    first, last = evidence.get("start_token", -1), evidence.get("end_token", -1)
    if first == -1 == last:  # only sentences were marked
        lines_of = evidence.get("start_sentence", -1), evidence.get("end_sentence", -1)
        if all(isinstance(n, int) and 0 <= n < len(ends) for n in lines_of):
            first, last = (ends[n] for n in lines_of)
    if not (isinstance(first, int) and isinstance(last, int) and 0 <= first <= last <= ends[-1]):
        raise spot.error(
            f"evidence from token {first} to {last} of {evidence['docid']}",
            f"a span within its {ends[-1]} tokens",
        )
    return start + first, start + last


def _documents(source: DatasetSource) -> Callable[[str, Spot], Sentences]:
    """A function from the id of a document to its sentences, lists of tokens."""
    found = source.find_optional("docs", "docs.jsonl")
    if found is None:
        raise source.missing_error("docs", "docs.jsonl")
    if found.is_dir():

        def from_folder(docid: str, spot: Spot) -> Sentences:
            file = file_within(found, docid, spot)
            if not file.is_file():
                raise spot.error(f"there is no document {file}", "a file for every document")
            return [_tokens(require_utf8(line, place)) for place, line in read_lines(file)]

        return from_folder
    texts: dict[str, str] = {}
    for spot, line in read_lines(found):
        if line.strip():
            row = parse_line(line, spot)
            texts[str(get_entry(row, "docid", (str, int), spot))] = get_entry(
                row, "document", str, spot
            )

    def from_file(docid: str, spot: Spot) -> Sentences:
        if docid not in texts:
            raise spot.error(f"{found.name} has no document {docid!r}", "a document for every id")
        return [_tokens(line) for line in texts[docid].split("\n")]

    return from_file


def _tokens(line: str) -> list[str]:
    """The tokens of a line, split at spaces only, as in the code of the benchmark."""
    return [token for token in line.strip().split(" ") if token]

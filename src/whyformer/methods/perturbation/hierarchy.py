"""Binary trees over a sample's features: halves of texts, sentences, words and images."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from whyformer.inputs.batch import Batch
from whyformer.methods.perturbation.game import Game
from whyformer.methods.perturbation.units import Columns, sentences, words

Tree = int | tuple["Tree", "Tree"]  # a feature, or two halves


def feature_tree(game: Game, sample: int) -> Tree:
    """Return the tree of one sample's features.

    Streams are parted first. A text is halved into sentences, then words, then tokens, and an
    image along the longer side of what is left of it.
    """
    trees = []
    for stream, segment in game.segments.items():
        own = {f.columns: i for i, f in enumerate(game.features[sample]) if f.stream == stream}
        read = game.run.batch.of(stream)
        if not own or read is None:
            continue
        if segment.grid is not None:
            patches = {column: i for columns, i in own.items() for column in columns}
            tree = _halve_grid(patches, segment.grid[1], (0, 0, *segment.grid))
            trees += [] if tree is None else [tree]
        elif read.word_ids is not None and read.tokens is not None:
            trees.append(_halve_text(read, sample, own))
        else:
            trees.append(_halve(list(own.values())))
    return _halve(trees)


def leaves(tree: Tree) -> list[int]:
    """Return the features of a tree."""
    return [tree] if isinstance(tree, int) else [*leaves(tree[0]), *leaves(tree[1])]


def _halve(trees: Sequence[Tree]) -> Tree:
    """One tree over several, in their order."""
    if len(trees) == 1:
        return trees[0]
    middle = len(trees) // 2
    return _halve(trees[:middle]), _halve(trees[middle:])


def _halve_text(read: Batch, sample: int, features: dict[Columns, int]) -> Tree:
    """Halves of the sentences, of the words in each, and of the features in each word."""
    tokens = sorted(column for columns in features for column in columns)
    sentence_of = _group_of(sentences(read, sample, tokens))
    word_of = _group_of(words(read, sample, tokens))
    return _halve(
        [
            _halve(
                [
                    _halve([features[columns] for columns in word])
                    for _, word in groupby(sentence, key=lambda columns: word_of[columns[0]])
                ]
            )
            for _, sentence in groupby(features, key=lambda columns: sentence_of[columns[0]])
        ]
    )


def _group_of(groups: Sequence[Columns]) -> dict[int, int]:
    """The number of each token's group."""
    return {column: number for number, group in enumerate(groups) for column in group}


def _halve_grid(
    patches: dict[int, int], width: int, area: tuple[int, int, int, int]
) -> Tree | None:
    """Halves of the patches in an area (top, left, bottom, right); None if it has none."""
    top, left, bottom, right = area
    if bottom - top == right - left == 1:
        return patches.get(top * width + left)
    if bottom - top >= right - left:
        middle = (top + bottom) // 2
        areas = ((top, left, middle, right), (middle, left, bottom, right))
    else:
        middle = (left + right) // 2
        areas = ((top, left, bottom, middle), (top, middle, bottom, right))
    halves = [_halve_grid(patches, width, one) for one in areas]
    found = [half for half in halves if half is not None]
    return _halve(found) if found else None

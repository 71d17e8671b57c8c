"""Owen values over a hierarchy of the input's parts (Owen, 1977; as in the package `shap`)."""

from __future__ import annotations

import heapq
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count

import torch
from torch import Tensor

from whyformer.engine.result import MethodResult
from whyformer.engine.run import Run
from whyformer.errors import OptionError
from whyformer.methods.method import method
from whyformer.methods.perturbation.game import Game, make_game
from whyformer.methods.perturbation.hierarchy import Tree, feature_tree, leaves
from whyformer.methods.perturbation.units import Unit

AT_ONCE = 32  # groups of one sample that are divided between two forward passes
FEWEST = 3  # forwards: nothing, and the two halves of the input

# Asks for the values of coalitions, gets them in the same order, and returns the scores.
Division = Generator[list[int], list[float] | None, list[float]]


@method(
    "partition_shap",
    title="Owen values: Shapley values over halves of the text or image, and halves of those",
    paper="Owen, 1977; the partition explainer of `shap`",
    needs=("removal",),
    signed=True,
    sums="completeness",
    slow=True,
)
def partition_shap(
    run: Run, *, samples: int = 1024, unit: Unit | None = None, fill: str | None = None
) -> MethodResult:
    """Owen values of the units in the explained value, shared evenly by a unit's tokens.

    A group's value is divided between its two halves: each gets the mean of what it adds without
    and with the other half, and so on down to units. A text is halved between sentences, then
    words, then tokens; an image along its longer side. At most `samples` forwards per input: the
    groups with the largest value are divided first, and what cannot be divided is shared evenly.
    1024 forwards are exact for about 30 units. The value with no unit left is the sink "baseline".
    """
    if samples < FEWEST:
        raise OptionError(
            f"samples={samples} is too few", argument="samples", remedy=f"Pass at least {FEWEST}"
        )
    game = make_game(run, fill, unit)
    nothing = [torch.zeros(1, len(own), dtype=torch.bool) for own in game.features]
    baseline = torch.cat(game.values(nothing))
    divisions = [
        _divide(feature_tree(game, i), samples, float(baseline[i]), float(game.whole[i]))
        for i in range(len(game.features))
    ]
    scores = _run_together(game, divisions)
    return game.result(scores, sinks={"baseline": baseline})


def _run_together(game: Game, divisions: Sequence[Division]) -> list[Tensor]:
    """The scores of each sample; all samples run through the model together."""
    answers: dict[int, list[float] | None] = dict.fromkeys(range(len(divisions)))
    scores: dict[int, list[float]] = {}
    while answers:
        asked = [torch.zeros(0, len(own), dtype=torch.bool) for own in game.features]
        for sample, answer in answers.items():
            try:
                coalitions = divisions[sample].send(answer)
                bits = torch.arange(len(game.features[sample]))
                asked[sample] = torch.stack(
                    [torch.tensor([c >> int(b) & 1 for b in bits]) == 1 for c in coalitions]
                )
            except StopIteration as done:
                scores[sample] = done.value
        found = game.values(asked) if len(scores) < len(divisions) else []
        answers = {i: found[i].tolist() for i in answers if i not in scores}
    return [torch.tensor(scores[i], dtype=torch.float64) for i in range(len(divisions))]


@dataclass(frozen=True)
class _Group:
    """Some features beside a coalition of others: what they add is to be divided among them."""

    tree: Tree
    others: int  # the coalition, one bit per feature
    weight: float
    added: float  # the value with the group less that without it


def _divide(tree: Tree, samples: int, nothing: float, whole: float) -> Division:
    """Ask for the values of coalitions, one bit per feature, and return the scores."""
    everything = _bits(tree)
    known = {0: nothing, everything: whole}
    scores = [0.0] * everything.bit_length()
    # The number breaks ties, so that groups of equal value are divided in the order they came.
    numbers = count()
    queue = [(0.0, next(numbers), _Group(tree, 0, 1.0, whole - nothing))]
    while queue:
        chosen: list[_Group] = []
        asked: dict[int, None] = {}
        while queue and len(chosen) < AT_ONCE:
            group = queue[0][2]
            new = [c for c in _halves(group) if c not in known and c not in asked]
            if len(known) - 1 + len(asked) + len(new) > samples:
                break
            asked |= dict.fromkeys(new)
            chosen.append(heapq.heappop(queue)[2])
        if not chosen:
            break
        if asked:
            values = yield list(asked)
            known |= zip(asked, values or (), strict=True)
        for child in (child for group in chosen for child in _children(group, known)):
            if isinstance(child.tree, int):
                scores[child.tree] += child.weight * child.added
            else:
                size = abs(child.weight * child.added)
                heapq.heappush(queue, (-size, next(numbers), child))
    for _, _, group in queue:
        members = leaves(group.tree)
        for member in members:
            scores[member] += group.weight * group.added / len(members)
    return scores


def _halves(group: _Group) -> list[int]:
    """The coalitions of the others with one half of the group and with the other half."""
    assert not isinstance(group.tree, int)
    return [group.others | _bits(half) for half in group.tree]


def _children(group: _Group, known: Mapping[int, float]) -> list[_Group]:
    """Both halves of a group, each without and with the other one; they add as much together."""
    assert not isinstance(group.tree, int)
    children = []
    for half, other in (group.tree, group.tree[::-1]):
        for others in (group.others, group.others | _bits(other)):
            added = known[others | _bits(half)] - known[others]
            children.append(_Group(half, others, group.weight / 2, added))
    return children


def _bits(tree: Tree) -> int:
    """The features of a tree as a coalition."""
    return sum(1 << feature for feature in leaves(tree))

"""Positive and negative perturbation (Chefer et al., CVPR 2021, sec. 4.1; ICCV 2021, sec. 4.1)."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from whyformer.attribution import Attribution, Stream
from whyformer.metrics import predictor, token_order
from whyformer.metrics.metric import Better, Compute, metric
from whyformer.metrics.pixels import image_size, pixel_map, pixels_of
from whyformer.metrics.predictor import Against, Predictor
from whyformer.metrics.score import Score
from whyformer.metrics.token_order import Rounding, Special

PAPER = "Chefer, Gur, Wolf: Transformer Interpretability Beyond Attention Visualization, CVPR 2021"

# As the authors have them: ViT's images, from the unperturbed one on (their script prints the
# other nine shares, their tables count it), and LXMERT's questions and regions.
IMAGE_STEPS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
TOKEN_STEPS = (0.0, 0.25, 0.5, 0.75, 0.8, 0.85, 0.9, 0.95, 1.0)

Level = Literal["token", "pixel"]
Measure = Literal["accuracy", "probability"]


def _perturbation(way: str, order: str, better: Better) -> Compute:
    """The metric that removes the most, or the least, relevant tokens first."""

    @metric(
        f"perturbation_{way}",
        title=f"{way.capitalize()} perturbation: remove the {order} relevant tokens first",
        paper=PAPER,
        better=better,
        range=(0.0, 1.0),
        convention=f"Area under the accuracy while the {order} relevant tokens are removed first.",
    )
    def perturbation(
        attribution: Attribution,
        rerun: Predictor,
        labels: Tensor | None = None,
        keep: Tensor | None = None,
        *,
        stream: str | None = None,
        steps: tuple[float, ...] | None = None,
        against: Against = "predicted",
        measure: Measure = "accuracy",
        level: Level = "token",
        special: Special = "keep",
        rounding: Rounding | None = None,
        normalised: bool = True,
        percent: bool = False,
    ) -> Score:
        """Area under the accuracy or probability while tokens or pixels are removed, (batch,).

        If the map is faithful, the curve falls at once when the most relevant tokens are removed
        first, and stays up when the least relevant are. `parts` has both curves. Steps and
        rounding are those of the authors' ViT experiment for images, else of their LXMERT script.
        Their tables have the area itself in per cent: `normalised=False, percent=True`.
        """
        one = token_order.find_stream(attribution, stream)
        images = one.grid is not None and len(attribution.streams) == 1
        steps = token_order.valid_shares(
            steps if steps is not None else IMAGE_STEPS if images else TOKEN_STEPS
        )
        # LXMERT's script rounds down the number of kept tokens, ViT's that of removed pixels.
        rounding = rounding or ("down" if images else "up")
        scores, there, among = _items(one, keep, special, level)
        places = token_order.rank_tokens(scores if order == "most" else -scores, among)

        full = predictor.kept_logits(rerun, one.name, there)
        classes = predictor.followed_class(against, full, attribution, labels)
        kept = [there & ~token_order.top_share(places, among, step, rounding) for step in steps]
        right, probable = [], []
        for logits in predictor.kept_logits_each(rerun, one.name, kept):
            right.append(logits.argmax(1) == classes)
            probable.append(predictor.at_class(logits.softmax(1), classes))
        curves = {
            "accuracy": torch.stack(right, 1).double(),
            "probability": torch.stack(probable, 1),
        }
        return Score(
            token_order.area_under(curves[measure], steps, normalised) * (100 if percent else 1),
            curves[measure],
            steps,
            f"{measure} of the {against} class while the {order} relevant {level}s of '{one.name}'"
            f" are removed first, shares {token_order.number_list(steps)}, {level} counts rounded"
            f" {rounding}; trapezoidal area{' x 100' if percent else ''},"
            f"{'' if normalised else ' not'} divided by its width; special tokens: {special}",
            curves,
        )

    return perturbation


positive = _perturbation("positive", "most", "lower")
negative = _perturbation("negative", "least", "higher")


def _items(
    stream: Stream, keep: Tensor | None, special: Special, level: Level
) -> tuple[Tensor, Tensor, Tensor]:
    """Scores, which are not padding, and which may be removed, (batch, tokens or pixels) each."""
    among = token_order.removable(stream, keep, special)
    if level == "token":
        return token_order.finite_scores(stream.scores, stream.mask), stream.mask, among
    scores, inside = (part.flatten(1) for part in pixel_map(stream, image_size(stream)))
    return scores, inside, inside & pixels_of(stream, among).flatten(1)

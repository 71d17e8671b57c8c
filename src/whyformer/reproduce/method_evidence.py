"""The experiment "methods": every method on every task, the evidence for the default method."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from whyformer.evaluation.plan import MethodSpec, MetricSpec
from whyformer.methods import methods
from whyformer.metrics.auac import STEPS
from whyformer.reproduce.experiment import (
    AUAC,
    AUTHORS_AREA,
    CONSERVATION,
    Experiment,
    ExperimentPart,
    method_rows,
)

# By label the method and its options; a method that is not registered has no row.
CANDIDATES: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "random": ("random", {"seed": 0}),
    "raw_attention": ("raw_attention", {}),
    "rollout": ("rollout", {}),
    "attention_flow": ("attention_flow", {}),
    "grad_cam": ("grad_cam", {}),
    "partial_lrp": ("partial_lrp", {}),
    "full_lrp": ("full_lrp", {}),
    "transformer_attribution": ("transformer_attribution", {}),
    "gae": ("gae", {}),
    "gradient_x_input": ("gradient_x_input", {}),
    "integrated_gradients": ("integrated_gradients", {"steps": 8}),
    "lrp_ah": ("lrp_ah", {}),
    "lrp_ln": ("lrp_ln", {}),
    "lrp_ah_ln": ("lrp_ah_ln", {}),
    "lrp_ah_ln (identity)": ("lrp_ah_ln", {"activations": "identity"}),
    "attn_lrp": ("attn_lrp", {}),
    "attn_lrp (gamma)": ("attn_lrp", {"gamma": 0.25}),
    "libragrad": ("libragrad", {}),
    "grad_cam (balanced)": ("grad_cam", {"gradient": "balanced"}),
    "transformer_attribution (balanced)": ("transformer_attribution", {"gradient": "balanced"}),
    "gae (balanced)": ("gae", {"gradient": "balanced"}),
    "blend": ("blend", {}),
    "legrad": ("legrad", {}),
    "occlusion": ("occlusion", {}),
}
# Methods whose cost grows too fast with the number of tokens for reviews and photographs.
COSTLY = ("attention_flow", "occlusion")


def registered_rows(
    without: Collection[str] = (), options: Mapping[str, Mapping[str, Any]] | None = None
) -> tuple[MethodSpec, ...]:
    """Return the candidates that this version has, without some methods.

    `options` are further options by method, for one kind of input.
    """
    more = options or {}
    found = {
        label: (name, {**more.get(name, {}), **chosen})
        for label, (name, chosen) in CANDIDATES.items()
        if name not in without and name in methods and chosen.keys() <= methods[name].options.keys()
    }
    return method_rows(found)


ALL = registered_rows()
LONG = registered_rows(COSTLY)
# On images the CVPR 2021 walks start at layer 1, as in the authors' scripts.
IMAGES = registered_rows(
    COSTLY, {"rollout": {"start_layer": 1}, "transformer_attribution": {"start_layer": 1}}
)

# The counterpart of AUAC: the same shares and tokens, removed instead of added.
DELETION = MetricSpec(
    "deletion",
    "perturbation_positive",
    {"against": "target", "measure": "probability", "level": "token", "steps": STEPS,
     "special": "remove", "rounding": "up"},
)  # fmt: skip
PERTURBATIONS = tuple(
    MetricSpec(name, name, AUTHORS_AREA)
    for name in ("perturbation_positive", "perturbation_negative")
)


def _classifier(name: str, title: str, limit: int | None, **more: Any) -> ExperimentPart:
    """A classifier of texts, molecules or digits; the true class is explained."""
    return ExperimentPart(
        name=name,
        title=title,
        model=name,
        data="",
        split=None,
        rows=more.pop("rows", ALL),
        measures=(AUAC, DELETION, CONSERVATION),
        targets=("label",),
        fill=more.pop("fill", "unknown"),
        limit=limit,
        **more,
    )


def _photographs(
    name: str, title: str, data: str, measures: tuple[MetricSpec, ...], target: str, **more: Any
) -> ExperimentPart:
    """DeiT-Tiny on photographs."""
    return ExperimentPart(
        name=name,
        title=title,
        model="deit-tiny",
        data=data,
        split=None,
        rows=IMAGES,
        measures=measures,
        targets=(target,),
        fill="black",
        **more,
    )


def _shapes(model: str) -> tuple[ExperimentPart, ...]:
    """A bundled model that answers questions about coloured shapes, one part per stream."""
    pointing = MetricSpec("pointing_game", "pointing_game", {"stream": "image", "tolerance": 0})
    return tuple(
        ExperimentPart(
            name=f"{model}-{stream}",
            title=f"{model}, {stream}",
            model=model,
            data="",
            split=None,
            rows=ALL,
            measures=(
                *([pointing] if stream == "image" else []),
                *(
                    MetricSpec(f"{name}/{stream}", name, {"stream": stream})
                    for name in ("perturbation_positive", "perturbation_negative")
                ),
            ),
            targets=("predicted",),
            fill="drop",
            limit=300,
            drawn=True,
            notes=("one question about each held-out scene",),
        )
        for stream in ("image", "text")
    )


METHODS = Experiment(
    "methods",
    "Every method on every task, to choose the default by",
    (
        _classifier("sst2", "SST-2", None),
        _classifier("imdb", "IMDB", 40, rows=LONG),
        _classifier("emotion", "T-Emotions", 200),
        _classifier("hate", "T-Hate", 200),
        _classifier("sentiment", "T-Sentiment", 200),
        _classifier("meld", "MELD-S", 200),
        _classifier("bace", "BACE", None),
        _classifier("mnist", "MNIST", 500, fill="black"),
        ExperimentPart(
            name="movies",
            title="ERASER Movies",
            model="movies",
            data="",
            split=None,
            rows=LONG,
            measures=(MetricSpec("token_f1", "token_f1", {}),),
            targets=("predicted",),
            fill=None,
            limit=100,
        ),
        _photographs("imagenet", "ImageNet", "imagenet:imagenet-val", PERTURBATIONS, "label",
                     limit=500),
        _photographs("pets", "Pets", "pets:pets-segmentation",
                     (MetricSpec("segmentation", "segmentation", {}),), "predicted"),
        _photographs("gridpg", "GridPG", "gridpg:imagenet-val",
                     (MetricSpec("grid_pointing", "grid_pointing", {}),), "label",
                     confident=0.5,
                     notes=("four images of different classes at half size, each recognised with"
                            " a probability of at least 0.5; all four classes are explained",)),
        *_shapes("lxmert_shapes"),
        *_shapes("visualbert_shapes"),
    ),
    notes=(
        "whole development sets of SST-2 (872 sentences) and BACE, all 500 images of ImageNet and"
        " 480 of pets that are provided; of the others a sample drawn with seed 0",
        f"{' and '.join(COSTLY)} only on short texts, molecules, digits and shapes: for reviews and"
        " photographs they take longer than all other methods together",
        "integrated gradients with 8 steps; rollout and transformer_attribution start at layer 1 on"
        " images, as in the authors' scripts",
        "deletion: the probability while the most relevant tokens are removed first, at the shares"
        " of AUAC",
    ),
    notes_title="How it was run",
    concludes=True,
)  # fmt: skip

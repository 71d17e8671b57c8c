"""The papers' experiments as data: methods, datasets, metrics, and the published figures."""

from __future__ import annotations

from typing import Any

from whyformer.evaluation.plan import MethodSpec, MetricSpec
from whyformer.reproduce.experiment import (
    AU_MSE,
    AUAC,
    AUTHORS_AREA,
    CONSERVATION,
    Experiment,
    ExperimentPart,
    method_rows,
)
from whyformer.reproduce.method_evidence import METHODS

# -- rows: the papers' names of the methods, with the options that the authors used ----------------

COLUMN_SUM = {"reduce": "column_sum"}
ALI = method_rows(
    {
        "Random": ("random", {"seed": 0}),
        "A-Last": ("raw_attention", COLUMN_SUM),
        "A-Flow": ("attention_flow", COLUMN_SUM),
        "Rollout": ("rollout", COLUMN_SUM),
        "GAE": ("gae", {}),
        "GI": ("gradient_x_input", {}),
        "LRP (AH)": ("lrp_ah", {}),
        "LRP (LN)": ("lrp_ln", {}),
        "LRP (AH+LN)": ("lrp_ah_ln", {}),
        "LRP (AH+LN), identity": ("lrp_ah_ln", {"activations": "identity"}),
        "Transformer Attribution": ("transformer_attribution", {}),
    }
)
# Attention flow from every token of a review takes hours; here only from the deciding token.
ALI_LONG = tuple(
    MethodSpec(one.label, one.method, {}) if one.method == "attention_flow" else one for one in ALI
)
VISION = method_rows(
    {
        "rollout": ("rollout", {"start_layer": 1}),
        "raw attention": ("raw_attention", {}),
        "A-Flow": ("attention_flow", {}),
        "Grad-CAM": ("grad_cam", {}),
        "LRP": ("full_lrp", {}),
        "partial LRP": ("partial_lrp", {}),
        "Transformer Attribution": ("transformer_attribution", {"start_layer": 1}),
        "GAE": ("gae", {}),
        "GI": ("gradient_x_input", {}),
        "LRP (AH)": ("lrp_ah", {}),
        "LRP (LN)": ("lrp_ln", {}),
        "LRP (AH+LN)": ("lrp_ah_ln", {}),
        "AttnLRP": ("attn_lrp", {}),
        "integrated gradients": ("integrated_gradients", {"steps": 8}),
        "random": ("random", {"seed": 0}),
    }
)
TEXT = tuple(  # without A-Flow, which takes half a minute for a review of 512 tokens
    MethodSpec(one.label, one.method, {} if "start_layer" in one.options else one.options)
    for one in VISION
    if one.method != "attention_flow"
)


def _column(figures: str) -> dict[str, float]:
    """One column of the paper's table by row; "-" is a missing figure."""
    pairs = zip((row.label for row in ALI), figures.split(), strict=False)
    return {label: float(value) for label, value in pairs if value != "-"}


def _ali(
    name: str, title: str, figures: str, limit: int | None, au_mse: str = "", **more: Any
) -> ExperimentPart:
    published = {"auac": _column(figures)}
    measures = [AUAC, CONSERVATION]
    if au_mse:
        measures.insert(1, AU_MSE)
        published["au_mse"] = _column(au_mse)
    return ExperimentPart(
        name=name,
        title=title,
        model=name,
        data="",
        split=None,
        rows=more.pop("rows", ALI),
        measures=tuple(measures),
        targets=("label",),
        fill=more.pop("fill", "unknown"),
        limit=limit,
        published=published,
        **more,
    )


ALI2022 = Experiment(
    "ali2022",
    "Ali et al.: XAI for Transformers: Better Explanations through Conservative Propagation,"
    " ICML 2022",
    (
        _ali("sst2", "SST-2", ".664 .712 .711 .713 .821 .847 .855 .907 .908", None,
             "3.977 2.566 - 2.430 - 2.106 2.027 - 1.564"),
        _ali("imdb", "IMDB", ".673 .708 - .738 .872 .920 .911 .935 .939", 100,
             "2.161 1.651 - 1.042 - .878 .777 - .659", rows=ALI_LONG),
        _ali("bace", "BACE", ".624 .620 .637 .653 .675 .646 .645 .702 .707", None),
        _ali("mnist", "MNIST", ".324 .862 - .358 .426 .942 .942 .947 .948", 500, fill="black"),
        _ali("emotion", "T-Emotions", ".516 .542 - .554 .675 .652 .675 .735 .750", 400),
        _ali("hate", "T-Hate", ".640 .663 - .659 .762 .772 .797 .829 .838", 400),
        _ali("sentiment", "T-Sentiment", ".484 .515 - .520 .611 .651 .668 .710 .713", 400),
        _ali("meld", "MELD-S", ".460 .483 - .489 .548 .591 .594 .632 .635", 400),
    ),
    notes=(
        "of a large test set a sample drawn with seed 0, as large as about two hours allow in all",
        "models: MiniLM-L6 fine-tuned here (BACE and MNIST: small transformers trained here); the"
        " paper has BERT-base attention blocks without feed-forward layers, and a ViT",
        "the true class is explained; removed tokens become the unknown token, removed patches"
        " black, as in the authors' code",
        "A-Last, A-Flow and Rollout are column sums over all rows, as in the authors' code; on IMDB"
        " A-Flow is from the deciding token alone",
        "GAE is the ICCV 2021 rule; the authors' SST script has a row-normalised roll-out",
        "LRP (AH+LN), identity also passes relevance through activations unchanged, which the"
        " paper's model without feed-forward layers does not need; this row and Transformer"
        " Attribution are not in the paper's table",
    ),
    missing=("SEMAINE (its transcripts are not public; `whyformer evaluate --data semaine:PATH`)",),
)  # fmt: skip

CHEFER2021_VISION = Experiment(
    "chefer2021-vision",
    "Chefer, Gur, Wolf: Transformer Interpretability Beyond Attention Visualization, CVPR 2021",
    (
        ExperimentPart(
            name="segmentation",
            title="Segmentation (pixel accuracy, mIoU, mAP)",
            model="deit-tiny",
            data="pets:pets-segmentation",
            split=None,
            rows=VISION,
            measures=(MetricSpec("segmentation", "segmentation", {}),),
            targets=("predicted",),
            fill=None,
            published={
                "segmentation/pixel_accuracy": {
                    "rollout": 0.7354, "raw attention": 0.6784, "Grad-CAM": 0.6444, "LRP": 0.5109,
                    "partial LRP": 0.7631, "Transformer Attribution": 0.7970,
                },
                "segmentation/miou": {
                    "rollout": 0.5542, "raw attention": 0.4637, "Grad-CAM": 0.4082, "LRP": 0.3289,
                    "partial LRP": 0.5794, "Transformer Attribution": 0.6195,
                },
                "segmentation/map": {
                    "rollout": 0.8476, "raw attention": 0.8024, "Grad-CAM": 0.7160, "LRP": 0.5568,
                    "partial LRP": 0.8467, "Transformer Attribution": 0.8603,
                },
            },
            notes=("Oxford-IIIT Pet with trimaps stands in for ImageNet-Segmentation",),
        ),
        ExperimentPart(
            name="perturbation",
            title="Perturbation (area under the accuracy in per cent, 0 to 90 % of pixels black)",
            model="deit-tiny",
            data="imagenet:imagenet-val",
            split=None,
            rows=VISION,
            measures=(
                MetricSpec("perturbation_negative", "perturbation_negative", AUTHORS_AREA),
                MetricSpec("perturbation_positive", "perturbation_positive", AUTHORS_AREA),
            ),
            targets=("predicted", "label"),
            fill="black",
            limit=500,
            published={
                "perturbation_negative, predicted": {
                    "rollout": 53.1, "raw attention": 45.55, "Grad-CAM": 41.52, "LRP": 43.49,
                    "partial LRP": 50.49, "Transformer Attribution": 54.16,
                },
                "perturbation_negative, label": {
                    "Grad-CAM": 42.02, "LRP": 43.49, "partial LRP": 50.49,
                    "Transformer Attribution": 55.04,
                },
                "perturbation_positive, predicted": {
                    "rollout": 20.05, "raw attention": 23.99, "Grad-CAM": 34.06, "LRP": 41.94,
                    "partial LRP": 19.64, "Transformer Attribution": 17.03,
                },
                "perturbation_positive, label": {
                    "Grad-CAM": 33.56, "LRP": 41.93, "partial LRP": 19.64,
                    "Transformer Attribution": 16.04,
                },
            },
            notes=("500 validation images instead of 50,000; hits are counted against the true"
                   " class, as in the authors' script",
                   "the area by the authors' convention: the unperturbed image is the first of"
                   " ten shares"),
        ),
    ),
    notes=("DeiT-Tiny instead of ViT-B/16: compare the order of the methods, not the figures",
           "the paper's figures as a published replication confirms them; rollout and raw"
           " attention do not depend on the class and have no figures for the true one"),
)  # fmt: skip


CHEFER2021_TEXT = Experiment(
    "chefer2021-text",
    "Chefer, Gur, Wolf: Transformer Interpretability Beyond Attention Visualization, CVPR 2021",
    (
        ExperimentPart(
            name="movies",
            title="Token-F1 on ERASER Movies",
            model="movies",
            data="",
            split=None,
            rows=TEXT,
            measures=(MetricSpec("token_f1", "token_f1", {}),),
            targets=("predicted",),
            fill=None,
            notes=("reviews are cut at 512 tokens; marked words after the cut count as missed,"
                   " as in the authors' evaluation",),
        ),
    ),
    notes=("MiniLM-L6 fine-tuned here instead of BERT-base",
           "the paper shows curves and no table, so there are no figures to compare with",
           "signed scores are ranked; the authors clamp theirs at 0"),
)  # fmt: skip


def _streams(model: str, data: str, split: str | None, **more: Any) -> tuple[ExperimentPart, ...]:
    """Perturbation of each stream of a question-answering model, as in the LXMERT script."""
    return tuple(
        ExperimentPart(
            name=f"{model}-{stream}",
            title=f"{model}: perturbation of the {stream} (area under the accuracy)",
            model=model,
            data=data,
            split=split,
            rows=MULTIMODAL,
            measures=tuple(
                MetricSpec(f"perturbation_{way}", f"perturbation_{way}", {"stream": stream})
                for way in ("negative", "positive")
            ),
            targets=("predicted",),
            fill="drop",
            **more,
        )
        for stream in ("image", "text")
    )


MULTIMODAL = method_rows(
    {
        "GAE": ("gae", {}),
        "Transformer Attribution": ("transformer_attribution", {}),
        "raw attention": ("raw_attention", {}),
        "partial LRP": ("partial_lrp", {}),
        "Grad-CAM": ("grad_cam", {}),
        "rollout": ("rollout", {}),
        "LRP (AH+LN)": ("lrp_ah_ln", {}),
        "random": ("random", {"seed": 0}),
    }
)

CHEFER2021_MULTIMODAL = Experiment(
    "chefer2021-multimodal",
    "Chefer, Gur, Wolf: Generic Attention-model Explainability for Bi-Modal and Encoder-Decoder"
    " Transformers, ICCV 2021",
    (
        *_streams("lxmert-vqa", "vqa:vqa,features=regions.tsv", "val2014", limit=500),
        *_streams("visualbert-vqa", "vqa:vqa,features=regions.tsv", "val2014", limit=500),
        *_streams("lxmert_shapes", "", None,
                  notes=("a bundled model on its bundled questions stands in for VQA",)),
        *_streams("visualbert_shapes", "", None,
                  notes=("a bundled model on its bundled questions stands in for VQA",)),
    ),
    notes=("an answer counts as right if it is the model's answer to the whole input",
           "the paper shows curves and no table, so there are no figures to compare with",
           "benchmarks/pointing.py has 500 questions per bundled model, and DETR"),
    missing=("segmentation of COCO objects by DETR (it needs COCO and a DETR checkpoint;"
             " `whyformer explain --model FOLDER --image FILE --query N`)",),
)  # fmt: skip

EXPERIMENTS = {
    one.name: one
    for one in (ALI2022, CHEFER2021_VISION, CHEFER2021_TEXT, CHEFER2021_MULTIMODAL, METHODS)
}

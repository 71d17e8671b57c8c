"""How each output of Chefer et al. ICCV 2021's own code is had through `wf.explain`.

A case is run in several settings that must all give the sample the authors' numbers: as they ran
it, in a batch with other and longer samples, and padded in front.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

import torch
from safetensors import safe_open
from torch import Tensor, nn

import whyformer as wf

from .cases import HERE, PRECISIONS, inputs, model, outputs, scaled

CASES = ("lxmert_gae", "visualbert_gae", "clip_gae", "detr_gae")
# Of the largest score. REFERENCE.md: what float32 can promise of LRP, as scores and per layer.
PLAIN = {precision: tolerance for precision, (_, tolerance) in PRECISIONS.items()}
LRP = {"f64": 1e-5, "f32": 1e-3}
LRP_OF_LAYER = {"f64": 1e-5, "f32": 1e-2}
KEPT = ("attention", "gradient", "relevance")


class Run(NamedTuple):
    """An attribution and which of its samples is the authors'."""

    whole: wf.Attribution
    sample: int

    @property
    def alone(self) -> wf.Attribution:
        """The sample's own, its padding cut off."""
        return self.whole[self.sample]

    def map(self, asking: str, answering: str) -> Tensor:
        return self.alone.maps[asking, answering][0].clone()

    def scores(self, stream: str) -> Tensor:
        return self.alone.streams[stream].scores[0].clone()

    def part(self, pair: str, number: int, part: str) -> Tensor:
        """(head, query, key) of the pair's nth layer, without padding."""
        own = [y for y in self.whole.layers if f"{y.asking}>{y.answering}" == pair]
        values = getattr(own[number], part)[self.sample]
        asking, answering = (
            self._real(stack, n) for stack, n in zip(pair.split(">"), values.shape[1:], strict=True)
        )
        return values[:, asking][:, :, answering]

    def _real(self, stack: str, count: int) -> Tensor:
        real = torch.cat([self.whole.streams[s].mask[self.sample] for s in stack.split("+")])
        # An image's class token is in the maps and not in the stream.
        return torch.cat([torch.ones(count - len(real), dtype=torch.bool), real])


class Reading(NamedTuple):
    """A method, its options, where its result shows the tensor, and how near that must be."""

    method: str
    options: dict[str, Any]
    read: Callable[[Run], Tensor]
    tolerance: dict[str, float] = PLAIN


# -- readings --------------------------------------------------------------------------------------


def without_own(matrix: Tensor, own: int = 0) -> Tensor:
    """The deciding token's own entry zeroed, as the authors do before they return."""
    matrix[own, own] = 0
    return matrix


def layer_reading(kind: str, pair: str, number: int) -> Reading:
    part = {"attn": "attention", "attn_grad": "gradient", "attn_cam": "relevance"}[kind]
    tolerance = LRP_OF_LAYER if kind == "attn_cam" else PLAIN
    options = {"use_lrp": True, "keep": KEPT}
    return Reading("gae", options, lambda run: run.part(pair, number, part), tolerance)


LXMERT_PAIRS = {  # the authors' word, whose tokens, and how many layers of theirs come before
    "lang": ("text>text", None),
    "vis": ("image>image", None),
    "x_t_i": ("text>image", None),
    "x_i_t": ("image>text", None),
    "x_lang": ("text>text", "l_layers"),
    "x_vis": ("image>image", "r_layers"),
}
LXMERT_METHODS: dict[str, tuple[str, dict[str, Any], dict[str, float]]] = {
    "ours": ("gae", {}, PLAIN),
    "ours_lrp": ("gae", {"use_lrp": True}, LRP),
    "ours_no_norm": ("gae", {"normalize": False}, PLAIN),
    "ours_no_self_in_rule_10": ("gae", {"self_in_rule_10": False}, PLAIN),
    "ours_no_agg": ("gae", {"normalize": False, "aggregate": False}, PLAIN),
    "transformer_attr": ("transformer_attribution", {}, LRP),
    "partial_lrp": ("partial_lrp", {}, LRP),
    "attn_gradcam": ("grad_cam", {}, PLAIN),
    "raw_attn": ("raw_attention", {}, PLAIN),
    "rollout": ("rollout", {}, PLAIN),
}
LETTERS = {"t": "text", "i": "image", "q": "queries"}


def lxmert(quantity: str) -> Reading:
    name, rest = quantity.split(".", 1)
    if name.startswith("attn") and name in ("attn", "attn_grad", "attn_cam"):
        word, number = rest.split(".")
        pair, behind = LXMERT_PAIRS[word]
        config: Any = model("lxmert_gae", "f64").config
        before = getattr(config, behind) if behind else 0
        return layer_reading(name, pair, before + int(number))
    asking, answering = (LETTERS[letter] for letter in rest.split("_")[1:])
    method, options, tolerance = LXMERT_METHODS[name]

    def read(run: Run) -> Tensor:
        found = run.map(asking, answering)
        found = scaled(found) if name == "partial_lrp" else found
        return without_own(found) if asking == answering == "text" else found

    return Reading(method, options, read, tolerance)


VISUAL_BERT_METHODS: dict[str, tuple[str, dict[str, Any], dict[str, float]]] = {
    "ours": ("gae", {}, PLAIN),
    "attn_gradcam": ("grad_cam", {}, PLAIN),
    "partial_lrp": ("partial_lrp", {}, LRP),
    "transformer_att": ("transformer_attribution", {}, LRP),
    "raw_attn": ("raw_attention", {}, PLAIN),
    "rollout": ("rollout", {"normalize": False}, PLAIN),
}


def visual_bert(quantity: str) -> Reading:
    name, *rest = quantity.split(".")
    if name in ("attn", "attn_grad", "attn_cam"):
        return layer_reading(name, "text+image>text+image", int(rest[0]))
    method, options, tolerance = VISUAL_BERT_METHODS[name]
    if rest:
        options = {**options, "start_layer": int(rest[0].removeprefix("start"))}
    own = int(inputs("visualbert_gae")["attention_mask"].sum()) - 2  # the token that decides

    def read(run: Run) -> Tensor:
        row = torch.cat([run.scores("text"), run.scores("image")])
        if name in ("attn_gradcam", "partial_lrp"):  # min-max scaled over the whole map
            streams = ("text", "image")
            rows = [torch.cat([run.map(a, b) for b in streams], 1) for a in streams]
            row = scaled(torch.cat(rows))[own]
        row[own] = 0
        return row.unsqueeze(0)

    return Reading(method, options, read, tolerance)


def clip(quantity: str) -> Reading:
    name, *rest = quantity.split(".")
    found = re.fullmatch(r"(attn|attn_grad)_(text|image)", name)
    if found:
        pair = f"{found[2]}>{found[2]}"
        # CLIP's texts have no relevance golden, and keeping the gradient is all that is needed.
        part = {"attn": "attention", "attn_grad": "gradient"}[found[1]]
        options: dict[str, Any] = {"keep": ("attention", "gradient")}
        return Reading("gae", options, lambda run: run.part(pair, int(rest[0]), part))
    options = {"start_layer": {"all_layers": 0, "last_layer": -1}[rest[0]], "keep": "maps"}
    if name == "R_image":
        return Reading("gae", options, lambda run: run.scores("image"))
    if name == "R_text":
        return Reading("gae", options, lambda run: run.map("text", "text"))
    assert name == "text_scores"

    def read(run: Run) -> Tensor:
        """The end of text's row without the start's and its own entry, adding up to 1."""
        ids = inputs("clip_gae")["input_ids"][int(rest[1])]
        row = run.scores("text")[1 : int(ids.argmax())]
        return row / row.sum()

    return Reading("gae", options, read)


DETR_PAIRS = {"enc": "image>image", "dec_self": "queries>queries", "dec_cross": "queries>image"}
DETR_METHODS: dict[str, tuple[str, dict[str, Any], dict[str, float]]] = {
    "ours": ("gae", {}, PLAIN),
    "ours_no_norm": ("gae", {"normalize": False}, PLAIN),
    "ours_lrp": ("gae", {"use_lrp": True}, LRP),
    "transformer_att": ("transformer_attribution", {}, LRP),
    "partial_lrp": ("partial_lrp", {}, LRP),
    "attn_gradcam": ("grad_cam", {}, PLAIN),
    "raw_attn": ("raw_attention", {}, PLAIN),
    "rollout": ("rollout", {}, PLAIN),
}


def detr(quantity: str) -> Reading:
    name, *rest = quantity.split(".")
    if name in ("attn", "attn_grad", "attn_cam"):
        return layer_reading(name, DETR_PAIRS[rest[0]], int(rest[1]))
    method, options, tolerance = DETR_METHODS[name]

    def read(run: Run) -> Tensor:
        if rest:
            asking, answering = (LETTERS[letter] for letter in rest[0].split("_")[1:])
            return run.map(asking, answering)
        row = run.scores("image")
        if name == "partial_lrp":  # min-max scaled over the whole map
            whole = run.map("queries", "image")
            row = (row - whole.min()) / (whole.max() - whole.min())
        return row

    return Reading(method, options, read, tolerance)


READINGS = {
    "lxmert_gae": lxmert,
    "visualbert_gae": visual_bert,
    "clip_gae": clip,
    "detr_gae": detr,
}
# What says which targets there are, and what the model put out: compared in tests of their own.
OUTPUTS = re.compile(
    r"classes|q\d\.classes|target_queries|logits|logits_per_(image|text)|pred_(logits|boxes)"
)
_NAN = (
    "a row of the queries' own relevancy is all zero, and eqs. 8-9 make it 0/0; the authors' next"
    " line turns every entry of the product that this NaN reached into 0"
)
LEFT_OUT = {  # by case, key and why
    ("detr_gae", "q1.c0.ours"): _NAN,
    ("detr_gae", "q1.c0.ours.R_q_i"): _NAN,
    ("detr_gae", "q3.c0.ours"): _NAN,
    ("detr_gae", "q3.c0.ours.R_q_i"): _NAN,
    ("detr_gae", "q3.c0.ours_lrp"): _NAN,
    ("detr_gae", "q3.c0.ours_lrp.R_q_i"): _NAN,
}


def keys(case: str) -> Iterator[str]:
    """Every tensor of the authors that has a reading and is not left out."""
    with safe_open(HERE / case / "outputs_f64.safetensors", "pt") as file:
        for key in sorted(file.keys()):
            if not OUTPUTS.fullmatch(key) and (case, key) not in LEFT_OUT:
                yield key


class Asked(NamedTuple):
    """A golden key taken apart."""

    query: int | None
    target: int | None  # the class, None where the tensor depends on none
    quantity: str


def asked(case: str, key: str) -> Asked:
    found = re.fullmatch(r"(?:q(\d+)\.)?(?:c(\d+)\.)?(.*)", key)
    assert found is not None
    query, target = (None if part is None else int(part) for part in found.groups()[:2])
    return Asked(query, target, found[3])


# -- settings --------------------------------------------------------------------------------------


def other(rows: Tensor, seed: int) -> Tensor:
    """Other rows of the same kind: tokens exchanged, features redrawn."""
    generator = torch.Generator().manual_seed(seed)
    if rows.is_floating_point():
        return torch.randn(rows.shape, generator=generator).to(rows.dtype)
    shuffled: Tensor = rows[..., torch.randperm(rows.shape[-1], generator=generator)]
    return shuffled


def grown(value: Tensor, more: int, front: bool, fill: float = 0) -> Tensor:
    """(batch, tokens, ...) with so many more tokens of padding."""
    padding = torch.full((len(value), more, *value.shape[2:]), fill, dtype=value.dtype)
    return torch.cat([padding, value] if front else [value, padding], 1)


def text_and_regions(case: str, setting: str) -> tuple[dict[str, Tensor], int]:
    """Two longer samples around the authors', or its padding in front of tokens and regions."""
    given = dict(inputs(case))
    if setting == "given":
        return given, 0
    regions = [k for k in given if k.startswith("visual") and k != "visual_attention_mask"]
    tokens = [k for k in given if k in ("input_ids", "token_type_ids")]
    front = setting == "front"
    more = {**dict.fromkeys(tokens, 3), **dict.fromkeys(regions, 2)}
    batch = {}
    for name, extra in more.items():
        own = given[name]
        padded = grown(own, extra, front)
        longer = grown(own, extra, front, fill=1)
        first, last = other(longer, 1), other(longer, 2)
        batch[name] = torch.cat([first, padded, last])
    for name, like in (("attention_mask", tokens[0]), ("visual_attention_mask", regions[0])):
        real = torch.ones(given[like].shape[:2], dtype=torch.long)
        full = torch.ones(batch[like].shape[:2], dtype=torch.long)
        full[1] = grown(real, more[like], front)[0]
        batch[name] = full
    return batch, 1


def batch_of(case: str, setting: str, sample: int = 0) -> tuple[dict[str, Tensor], int]:
    """The inputs in a setting, and at which place the authors' sample is."""
    if case in ("lxmert_gae", "visualbert_gae"):
        return text_and_regions(case, setting)
    given = dict(inputs(case))
    if case == "detr_gae":
        pixels = given["pixel_values"]
        if setting == "given":
            return {"pixel_values": pixels}, 0
        return {"pixel_values": torch.cat([other(pixels, 1), pixels, other(pixels, 2)])}, 1
    ids = given["input_ids"]
    if setting == "given":
        return given, sample
    if setting == "batch":  # each text by itself, as a pair with the image
        return {**given, "input_ids": ids[sample : sample + 1]}, 0
    mask = (torch.arange(ids.shape[1]) <= ids.argmax(1, keepdim=True)).long()
    if setting == "masked":
        return {**given, "attention_mask": mask}, sample
    turned = [row.roll(int((real == 0).sum())) for row, real in zip(ids, mask, strict=True)]
    return {**given, "input_ids": torch.stack(turned), "attention_mask": mask.flip(1)}, sample


@cache
def net(case: str, precision: str) -> nn.Module:
    """The stock model; a float64 DETR sees what the authors' did: features computed in float32."""
    loaded = model(case, precision)
    if case == "detr_gae" and precision == "f64":
        features, positions = (inputs(case)[k].double() for k in ("feature_map", "pos_embed"))
        golden = inputs(case)["pixel_values"].double()

        def recorded(module: nn.Module, args: tuple, result: Any) -> Any:
            own, mask = result[-1]
            same = (args[0] == golden).flatten(1).all(1).reshape(-1, 1, 1, 1)
            return [(torch.where(same, features, own), mask)]

        part: Any = loaded.model
        part.backbone.register_forward_hook(recorded)
        part.position_embedding.register_forward_hook(lambda m, args, result: positions)
    return loaded


def first_target(case: str) -> Asked:
    """What is explained where a tensor depends on no class."""
    golden = outputs(case, "f64")
    if case == "detr_gae":
        query = int(golden["target_queries"][0])
        return Asked(query, int(golden[f"q{query}.classes"][0]), "")
    return Asked(None, None if case == "clip_gae" else int(golden["classes"][0]), "")


@cache
def run(
    case: str,
    precision: str,
    setting: str,
    sample: int,
    query: int | None,
    target: int | None,
    method: str,
    options: tuple[tuple[str, Any], ...],
) -> Run:
    batch, place = batch_of(case, setting, sample)
    wanted: Any = target if query is None else wf.query(query, target)
    found = wf.explain(batch, net(case, precision), method=method, target=wanted, **dict(options))
    return Run(found, place)

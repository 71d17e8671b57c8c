"""Attention and gradient outputs of Chefer et al. CVPR 2021's own code, on stock BERT and ViT."""

import pytest

import whyformer as wf

from .cases import PRECISIONS, assert_equal, inputs, model, outputs, own_entry_out, scaled

pytestmark = pytest.mark.parametrize("precision", list(PRECISIONS))
SAMPLES = ["bert_cvpr21/s0", "bert_cvpr21/s1", "vit_cvpr21/img0", "vit_cvpr21/img1"]


def explained(precision, where, method, **options):
    case, sample = where.split("/")
    if case == "bert_cvpr21":
        batch = {"input_ids": inputs(case)[f"{sample}.input_ids"]}
    else:
        i = int(sample[3:])
        pixels = inputs(case)["pixel_values"][i : i + 1].to(PRECISIONS[precision][0])
        batch = {"pixel_values": pixels}
    return wf.explain(batch, model(case, precision), method=method, **options)


@pytest.mark.parametrize("where", SAMPLES)
def test_attention_and_its_gradient(precision, where):
    case, sample = where.split("/")
    golden, (_, tolerance) = outputs(case, precision), PRECISIONS[precision]
    for c in golden[f"{sample}.classes"].tolist():
        a = explained(precision, where, "gae", target=c, keep=("attention", "gradient"))
        for i, layer in enumerate(a.layers):
            assert_equal(layer.attention[0], golden[f"{sample}.attn.{i}"], tolerance)
            assert_equal(layer.gradient[0], golden[f"{sample}.c{c}.attn_grad.{i}"], tolerance)


@pytest.mark.parametrize("where", SAMPLES)
@pytest.mark.parametrize("start", [0, 1])
def test_rollout(precision, where, start):
    case, sample = where.split("/")
    golden, (_, tolerance) = outputs(case, precision), PRECISIONS[precision]
    ours = explained(precision, where, "rollout", start_layer=start).scores[0]
    theirs = golden[f"{sample}.rollout.start{start}"][0]
    if case == "bert_cvpr21":
        ours, theirs = own_entry_out(ours), own_entry_out(theirs)
    assert_equal(ours, theirs, tolerance)


@pytest.mark.parametrize("where", SAMPLES)
def test_raw_attention(precision, where):
    case, sample = where.split("/")
    golden, (_, tolerance) = outputs(case, precision), PRECISIONS[precision]
    ours = explained(precision, where, "raw_attention").scores[0]
    if case == "bert_cvpr21":
        theirs = golden[f"{sample}.last_layer_attn"][0]
        assert_equal(own_entry_out(ours), own_entry_out(theirs), tolerance)
    else:
        c = int(golden[f"{sample}.classes"][0])
        assert_equal(ours, golden[f"{sample}.c{c}.last_layer_attn"], tolerance)


@pytest.mark.parametrize("where", SAMPLES)
def test_grad_cam(precision, where):
    """The authors scale by min-max, over the whole map for text; 0/0 is NaN there and 0 here."""
    case, sample = where.split("/")
    golden, (_, tolerance) = outputs(case, precision), PRECISIONS[precision]
    for c in golden[f"{sample}.classes"].tolist():
        theirs = golden[f"{sample}.c{c}.attn_gradcam"]
        if case == "bert_cvpr21":
            a = explained(precision, where, "grad_cam", target=c, keep="maps")
            ours = scaled(a.maps["text", "text"][0])[0]
            assert_equal(own_entry_out(ours), own_entry_out(theirs[0]), tolerance)
        else:
            a = explained(precision, where, "grad_cam", target=c)
            if theirs.isnan().any():
                assert (a.scores == 0).all()
            else:
                assert_equal(scaled(a.streams["image"].score_map[0]), theirs, tolerance)

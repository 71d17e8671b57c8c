"""Every output of Ali et al. 2022's own code, on the same function as a stock BERT.

Left out by name, as REFERENCE.md has it: `*.gamma0.01*`, whose logits are another model's.
"""

import pytest
import torch

import whyformer as wf

from .cases import PRECISIONS, assert_equal, inputs, model, outputs, own_entry_out, scaled

CASE = "ali22_attention_only_bert"
SIGNED = {
    "gi": ("gradient_x_input", {}),
    "lrp_ah": ("lrp_ah", {}),
    "lrp_ln": ("lrp_ln", {}),
    "lrp_ah_ln": ("lrp_ah_ln", {}),
    "lrp_ln_meanstd": ("lrp_ln", {"detach_mean": True}),
    "lrp_ah_ln_meanstd": ("lrp_ah_ln", {"detach_mean": True}),
}

pytestmark = [
    pytest.mark.parametrize("precision", list(PRECISIONS)),
    pytest.mark.parametrize("sample", ["s0", "s1"]),
]


def explained(precision, sample, method, **options):
    ids = inputs(CASE)[f"{sample}.input_ids"]
    return wf.explain({"input_ids": ids}, model(CASE, precision), method=method, **options)


@pytest.mark.parametrize("name", list(SIGNED))
def test_signed_relevance(precision, sample, name):
    method, options = SIGNED[name]
    golden, (_, tolerance) = outputs(CASE, precision), PRECISIONS[precision]
    for c in golden[f"{sample}.classes"].tolist():
        a = explained(precision, sample, method, target=c, **options)
        assert_equal(a.scores[0], golden[f"{sample}.c{c}.{name}"], tolerance)


def test_output_and_states(precision, sample):
    golden, (_, tolerance) = outputs(CASE, precision), PRECISIONS[precision]
    a = explained(precision, sample, "lrp_ah_ln", keep="states")
    predicted = golden[f"{sample}.classes"][0]
    assert a.target[0] == predicted
    assert_equal(a.output[0], golden[f"{sample}.logits"][0, predicted], tolerance)
    assert_equal(a.streams["text"].states[0], golden[f"{sample}.embedding_output"], tolerance)


def test_attention_and_its_gradient(precision, sample):
    golden, (_, tolerance) = outputs(CASE, precision), PRECISIONS[precision]
    for c in golden[f"{sample}.classes"].tolist():
        a = explained(precision, sample, "gae", target=c, keep=("attention", "gradient"))
        for i, layer in enumerate(a.layers):
            assert_equal(layer.attention[0], golden[f"{sample}.attn.{i}"], tolerance)
            assert_equal(layer.gradient[0], golden[f"{sample}.c{c}.attn_grad.{i}"], tolerance)


def test_gae(precision, sample):
    """IMDB: the ICCV rule's row; SST: the normalised roll-out summed over rows."""
    golden, (_, tolerance) = outputs(CASE, precision), PRECISIONS[precision]
    for c in golden[f"{sample}.classes"].tolist():
        row = explained(precision, sample, "gae", target=c).scores[0].clone()
        row[0] = 0  # as the script does before it scales
        assert_equal(scaled(row), golden[f"{sample}.c{c}.gae_imdb"], tolerance)
        summed = explained(
            precision, sample, "gae", target=c, normalize=True, reduce="column_sum"
        ).scores[0]
        assert_equal(
            own_entry_out(summed), own_entry_out(golden[f"{sample}.c{c}.gae_sst"]), tolerance
        )


@pytest.mark.parametrize("layer", [0, 1, 2])
def test_rollout_and_flow_of_every_depth(precision, sample, layer):
    golden, (_, tolerance) = outputs(CASE, precision), PRECISIONS[precision]
    depth = {"end_layer": layer + 1}
    summed = explained(precision, sample, "rollout", reduce="column_sum", **depth)
    assert_equal(summed.scores[0], golden[f"{sample}.rollout.{layer}"], tolerance)
    whole = explained(precision, sample, "rollout", keep="maps", **depth)
    assert_equal(
        whole.maps["text", "text"][0], golden[f"{sample}.rollout_matrix.{layer}"], tolerance
    )
    flow = explained(precision, sample, "attention_flow", reduce="column_sum", **depth)
    assert_equal(flow.scores[0], golden[f"{sample}.attention_flow.{layer}"], tolerance)


def test_attention_without_residual(precision, sample):
    golden, (_, tolerance) = outputs(CASE, precision), PRECISIONS[precision]
    last = explained(precision, sample, "raw_attention", reduce="column_sum")
    assert_equal(last.scores[0], golden[f"{sample}.attn_last"], tolerance)
    product = explained(precision, sample, "rollout", reduce="column_sum", residual=False)
    assert_equal(product.scores[0], golden[f"{sample}.rollout_nores"], tolerance)


def test_batched_equals_alone(precision, sample):
    """Both sentences in one padded batch give each sentence's own numbers."""
    rows = [inputs(CASE)[f"{s}.input_ids"][0] for s in ("s0", "s1")]
    ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
    mask = torch.nn.utils.rnn.pad_sequence([torch.ones_like(r) for r in rows], batch_first=True)
    i = int(sample[1])
    golden, (_, tolerance) = outputs(CASE, precision), PRECISIONS[precision]
    for c in golden[f"{sample}.classes"].tolist():
        padded = {"input_ids": ids, "attention_mask": mask}
        a = wf.explain(padded, model(CASE, precision), method="lrp_ah_ln", target=c)
        assert_equal(a[i].scores[0], golden[f"{sample}.c{c}.lrp_ah_ln"], tolerance)

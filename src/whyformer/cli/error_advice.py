"""Errors in the command line's terms: which option to change, instead of which Python argument."""

from __future__ import annotations

from whyformer.errors import WhyformerError, join_sentences

# What to do if an error is about this argument of the Python API. {remedy} is the advice for
# Python: it is used if it is specific, and left out if it only names the Python argument.
ADVICE = {
    "truncation": "Pass --truncation, or shorten the text",
    "on_error": "Pass --skip-errors to leave out such inputs",
    "processor": "Add the tokenizer or image processor files to the --model folder",
    "model": "{remedy} (--model)",
    "target": "Choose another --target, or leave it out for the prediction",
    "max_new_tokens": "{remedy} (--max-new-tokens)",
    "device": "Pass --device cpu, or the name of another device of this machine",
    "dtype": "Pass --dtype float32, float64, bfloat16 or float16",
    "seed": "{remedy} (--seed)",
    "each": "{remedy} (--each)",
    "query": "Choose another --query, or leave it out for the most confident one",
    "mask_token": "Put the mask token into the text",
    "head": "Choose another --model, add --token WORD if this one gives a class per token, or use"
    " Python: {remedy}",
    "strict": "Choose another --method, or leave out --strict to get the scores with a warning",
    "deciding": "Pass --deciding first, last, mean or the index of a token",
    "at": "Pass --at states, or --at embeddings for a text model",
    "encoding": "Save the file as UTF-8, or name its encoding, as in csv:PATH,encoding=latin-1",
    "text": "Name one of them with --column, or as in csv:PATH,text=COLUMN",
    "label": "Name one of them with --target-column, or as in csv:PATH,label=COLUMN",
    "split": "Choose another --split, or leave it out",
    "blocks": "{remedy} (whyformer explain --option blocks=PATH)",
    "tokens": "{remedy} (whyformer explain --option tokens=NAME)",
    "batch_first": "{remedy} (whyformer explain --option batch_first=false)",
    "image_scale": "{remedy} (whyformer explain --option image_scale=patches)",
    "memory": "{remedy} (whyformer explain --option memory=maps)",
    "method": "{remedy} (see: whyformer methods)",
    "methods": "{remedy} (see: whyformer methods)",
    "metric": "{remedy} (see: whyformer metrics)",
    "metrics": "{remedy} (see: whyformer metrics)",
    "batch_size": "Pass a whole number from 1 as --batch-size, or leave it out",
    "batch": "{remedy} (--batch)",
    "limit": "{remedy} (--limit)",
    "fill": "{remedy} (--fill)",
    "base": "{remedy} (--base)",
    "engine": "{remedy} (--engine)",
    "workers": "{remedy} (--workers)",
    "threads": "{remedy} (--threads)",
    "address": "{remedy} (--address, --runtime-env)",
    "runtime_env": "{remedy} (--runtime-env)",
    "gpus": "{remedy} (--gpus)",
    "out": "{remedy} (--out)",
}


def describe_error(error: WhyformerError) -> str:
    """Return what is wrong and what to do about it, in one line."""
    advice = ADVICE.get(error.argument or "", "{remedy}")
    if error.remedy is None and "{remedy}" in advice:
        advice = ""
    remedy = (error.remedy or "").rstrip(".")
    return " ".join(join_sentences(error.message, advice.format(remedy=remedy)).split())

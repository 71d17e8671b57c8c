"""Global explanations: what a model uses over a whole dataset, for each of its classes."""

from whyformer.summarize.run import run_summary, summarize

__all__ = ["run_summary", "summarize"]

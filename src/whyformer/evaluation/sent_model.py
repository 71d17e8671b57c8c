"""A model on its way to workers: the model itself, or what loads it again in another process."""

from __future__ import annotations

from dataclasses import dataclass, replace

from whyformer.errors import ModelError
from whyformer.evaluation import fingerprint
from whyformer.models.load import Loaded, load_model
from whyformer.models.quiet import silence_transformers
from whyformer.workers import EngineOptions


@dataclass(frozen=True)
class SentModel:
    """What a task holds in place of a model.

    Args:
        model: The model, or what `load_model` loads again.
        name: The model's name to show.
        weights: The fingerprint of a model that is loaded again.
    """

    model: Loaded | str
    name: str
    weights: str = ""

    def load(self) -> Loaded:
        """Return the model; load it if this is a worker.

        Raises:
            ModelError: The worker has another model of this name.
        """
        if isinstance(self.model, Loaded):
            return self.model
        return replace(load_again(self.model, self.weights), name=self.name)


def send_model(loaded: Loaded, engine: EngineOptions) -> SentModel:
    """Return the model for the workers of an engine: by its name if they can load it."""
    in_process = engine.engine == "local" and engine.workers == 1
    if in_process or loaded.source is None:
        return SentModel(loaded, loaded.name)
    return SentModel(loaded.source, loaded.name, fingerprint.of_loaded(loaded))


def load_again(source: str, weights: str) -> Loaded:
    """Load a model in a worker; raise ModelError if its fingerprint is not `weights`."""
    silence_transformers()
    loaded = load_model(source)
    if fingerprint.of_loaded(loaded) != weights:
        raise ModelError(
            f"a worker loaded another model {source!r}: its weights or its processor differ from"
            " those where the run was started",
            argument="model",
            remedy="Put the same files on every machine, or pass the module itself",
        )
    return loaded

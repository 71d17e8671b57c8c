"""The same evaluation on every engine: identical tables, whatever dies in between."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import THIS_MACHINE
from tests.evaluation.making import classifier, plan, save, sentences
from tests.evaluation.poisoned import poisoned_classifier
from whyformer.errors import ModelError, SkippedWarning
from whyformer.evaluation import sample_batches
from whyformer.evaluation.evaluate import RunOptions, evaluate, run_evaluation
from whyformer.evaluation.results import RESULTS, SETTINGS, Results
from whyformer.evaluation.store import PARTS, Store
from whyformer.models.load import Loaded, load_model
from whyformer.workers import EngineError, EngineOptions

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
METHODS, METRICS = ("gae", "lrp_ah", "random"), ("auac", "agreement")
PROCESSES = EngineOptions(workers=2)


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sample_batches, "CHUNK", 4)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model in a folder, which every worker loads by itself."""
    return save(classifier(), tmp_path / "model")


def tables(folder: Path) -> str:
    content = (folder / RESULTS).read_bytes() + (folder / "table.md").read_bytes()
    return hashlib.sha256(content).hexdigest()


def run(model: Any, out: Path, engine: EngineOptions, count: int = 14, **more: Any) -> Results:
    loaded = model if isinstance(model, Loaded) else load_model(model)
    run_plan = plan(METHODS, METRICS)
    return evaluate(loaded, sentences(count), run_plan, out, report=False, engine=engine, **more)


@pytest.fixture
def cluster() -> Iterator[Any]:
    """A Ray cluster of two nodes on this machine, at the address that Ray finds."""
    pytest.importorskip("ray")
    import ray
    from ray.cluster_utils import Cluster

    nodes = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False}
    )
    THIS_MACHINE.add(nodes.address.rpartition(":")[0])
    nodes.second = nodes.add_node(num_cpus=1)
    yield nodes
    ray.shutdown()
    nodes.shutdown()


def test_identical_tables_on_processes_and_from_memory(tmp_path: Path, model: Path) -> None:
    run(model, tmp_path / "local", EngineOptions())
    run(model, tmp_path / "processes", PROCESSES)
    assert tables(tmp_path / "processes") == tables(tmp_path / "local")
    parts = [
        sorted(p.name for p in (tmp_path / n / PARTS).iterdir()) for n in ("local", "processes")
    ]
    assert parts[0] == parts[1]
    # A model that only lives in memory is sent to the workers.
    run(classifier(), tmp_path / "memory", EngineOptions())
    run(classifier(), tmp_path / "shipped", PROCESSES)
    assert tables(tmp_path / "shipped") == tables(tmp_path / "memory")


def test_a_worker_dies_and_an_input_is_poisoned(tmp_path: Path) -> None:
    run(classifier(), tmp_path / "sound", EngineOptions(), count=12)
    poisoned = poisoned_classifier(dies="dev/5", breaks="dev/9")
    with pytest.warns(SkippedWarning, match="2 of 12 samples could not be evaluated"):
        results = run(poisoned, tmp_path / "run", PROCESSES, count=12)
    by_sample = {one["sample"]: one for one in results.failures}
    assert list(by_sample) == ["dev/5", "dev/9"]
    assert "its worker died 3 times (exit code 9)" in by_sample["dev/5"]["error"]
    assert "RuntimeError: poisoned" in by_sample["dev/9"]["error"]
    assert by_sample["dev/9"]["attempts"] == 3
    table = (tmp_path / "run" / "table.md").read_text("utf-8")
    assert "dev/5: its worker died" in table
    assert len({row["sample"] for row in results.rows}) == 10


def test_other_weights_in_a_worker_are_refused(tmp_path: Path, model: Path) -> None:
    loaded = load_model(model)
    save(classifier(hidden_size=16), model)
    with pytest.raises(ModelError, match="a worker loaded another model"):
        run(loaded, tmp_path / "run", PROCESSES)


DRIVER = """
import sys
from pathlib import Path
from tests.evaluation.making import plan, sentences
from tests.evaluation.test_runs_on_workers import METHODS, METRICS
from whyformer.evaluation import sample_batches
from whyformer.evaluation.evaluate import evaluate
from whyformer.models.load import load_model
from whyformer.workers import EngineOptions
if __name__ == "__main__":
    sample_batches.CHUNK = 4
    evaluate(load_model(sys.argv[1]), sentences(60), plan(METHODS, METRICS), sys.argv[2],
             report=False, engine=EngineOptions(sys.argv[3], 2))
"""


@pytest.mark.parametrize("engine", ["local", pytest.param("ray", marks=pytest.mark.own_process)])
def test_a_killed_driver_loses_and_doubles_nothing(
    tmp_path: Path, model: Path, engine: str
) -> None:
    if engine == "ray":
        pytest.importorskip("ray")
    script = tmp_path / "driver.py"
    script.write_text(DRIVER)
    root = Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": f"{root / 'src'}:{root}"}
    out = tmp_path / "run"
    driver = subprocess.Popen(
        [sys.executable, str(script), str(model), str(out), engine],
        env=environment,
        start_new_session=True,
    )
    try:
        deadline = time.monotonic() + 120
        # The first of two shards has its line in the ledger.
        while time.monotonic() < deadline and len([*out.glob(f"{PARTS}/*.parquet")]) < 2:
            time.sleep(0.02)
        driver.send_signal(signal.SIGKILL)
    finally:
        driver.wait()
    kept = {p.name for p in out.glob(f"{PARTS}/*.parquet")}
    assert kept
    assert not (out / RESULTS).exists()
    before = len(Store(out).done)
    run(model, out, EngineOptions(engine, 2), count=60)
    run(model, tmp_path / "whole", EngineOptions(), count=60)
    assert tables(out) == tables(tmp_path / "whole")
    assert 0 < before < len(Store(out).done)
    units = [row["unit"] for row in Results.read(out).rows]
    assert len(units) == len(set(units)) == 60 * 3 * 4


@pytest.mark.own_process
def test_identical_tables_on_ray_also_if_a_node_is_killed(
    tmp_path: Path, model: Path, cluster: Any
) -> None:
    run(model, tmp_path / "local", EngineOptions(), count=24)
    one = EngineOptions("ray", 1, address=cluster.address)
    run(model, tmp_path / "one", one, count=24)
    assert tables(tmp_path / "one") == tables(tmp_path / "local")
    two = EngineOptions("ray", 2, address=cluster.address)
    loaded, run_plan = load_model(model), plan(METHODS, METRICS)
    killed = False
    options = RunOptions(report=False, engine=two)
    for event in run_evaluation(loaded, sentences(24), run_plan, tmp_path / "two", options):
        if not killed and getattr(event, "done", 0) >= 4:
            cluster.remove_node(cluster.second, allow_graceful=False)
            killed = True
    assert killed
    assert tables(tmp_path / "two") == tables(tmp_path / "local")
    units = [row["unit"] for row in Results.read(tmp_path / "two").rows]
    assert len(units) == len(set(units)) == 24 * 3 * 4


# Python imports this in every process of a node whose path has it first.
WITHOUT_WHYFORMER = """
import importlib.metadata, sys
found = importlib.metadata.version
def version(name):
    if name == "whyformer":
        raise importlib.metadata.PackageNotFoundError(name)
    return found(name)
importlib.metadata.version = version
sys.modules["whyformer"] = None
"""


@pytest.fixture
def bare_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let processes that start from now on not find whyformer."""
    folder = tmp_path / "path"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(WITHOUT_WHYFORMER, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(folder))


@pytest.mark.own_process
@pytest.mark.usefixtures("bare_path")
def test_a_cluster_without_whyformer(tmp_path: Path, model: Path, cluster: Any) -> None:
    message = r"whyformer is not installed on node .*runtime_env="
    with pytest.raises(EngineError, match=message):
        run(model, tmp_path / "run", EngineOptions("ray", 1, address=cluster.address))


def test_versions_and_damage_on_resume(tmp_path: Path, model: Path) -> None:
    out = tmp_path / "run"
    run(model, out, EngineOptions())
    whole = tables(out)
    shards = sorted((out / PARTS).iterdir())
    shards[0].write_bytes(shards[0].read_bytes()[:50])
    (out / PARTS / "foreign.parquet").write_bytes(b"not of this run")
    (out / SETTINGS).unlink()
    run(model, out, PROCESSES)
    assert tables(out) == whole
    assert [one.file for one in Store(out).damage] == [f"{PARTS}/foreign.parquet"]

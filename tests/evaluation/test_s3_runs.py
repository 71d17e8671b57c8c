"""Runs in an object store: moto's server stands for S3."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.evaluation.making import classifier, plan, sentences
from whyformer.evaluation import batch_evaluation, sample_batches
from whyformer.evaluation.evaluate import evaluate
from whyformer.evaluation.results import RESULTS, Results
from whyformer.evaluation.store import PARTS, Store, StoreError
from whyformer.pipeline.explain_each import explain_each
from whyformer.storage import open_folder
from whyformer.storage.ledger import LEDGER

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An empty bucket on a server of this test."""
    server_of = pytest.importorskip("moto.server")
    s3fs = pytest.importorskip("s3fs")
    server = server_of.ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    settings = {
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "FSSPEC_S3_ENDPOINT_URL": f"http://{host}:{port}",
    }
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    s3fs.S3FileSystem.clear_instance_cache()
    name = f"bucket-{secrets.token_hex(4)}"  # moto keeps buckets as long as the process lives
    s3fs.S3FileSystem(endpoint_url=settings["AWS_ENDPOINT_URL"]).mkdir(name)
    yield f"s3://{name}"
    s3fs.S3FileSystem.clear_instance_cache()
    server.stop()


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How many samples were explained by which method."""
    counted: Counter[str] = Counter()
    monkeypatch.setattr(sample_batches, "CHUNK", 4)

    def counting(inputs: Any, model: Any, asks: Any) -> Any:
        asks = list(asks)
        counted.update(ask.method for ask in asks)
        return explain_each(inputs, model, asks)

    monkeypatch.setattr(batch_evaluation, "explain_each", counting)
    return counted


def test_a_run_in_a_bucket_resumes_and_repairs_itself(
    bucket: str, tmp_path: Path, calls: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    place, run_plan = f"{bucket}/runs/one", plan(("gae", "random"), ("auac",))
    evaluate(classifier(), sentences(14), run_plan, tmp_path, report=False)
    calls.clear()
    evaluate(classifier(), sentences(8), run_plan, place, report=False)
    evaluate(classifier(), sentences(14), run_plan, place)
    assert calls["gae"] >= 14
    folder = open_folder(place)
    assert folder.read(RESULTS) == (tmp_path / RESULTS).read_bytes()
    assert b"<html" in folder.read("report.html")
    assert Results.read(place).rows == Results.read(tmp_path).rows
    calls.clear()
    evaluate(classifier(), sentences(14), run_plan, place, report=False)
    assert not calls
    # A truncated shard, a foreign one, and a ledger without its last line.
    names = folder.names(PARTS)
    folder.write(f"{PARTS}/{names[0]}", folder.read(f"{PARTS}/{names[0]}")[:60])
    folder.write(f"{PARTS}/foreign.parquet", b"nothing")
    ledger = folder.names(LEDGER)[-1]
    lines = folder.read(f"{LEDGER}/{ledger}").splitlines(keepends=True)
    folder.write(f"{LEDGER}/{ledger}", b"".join(lines[:-1]))
    assert len(Store(place).damage) >= 2
    evaluate(classifier(), sentences(14), run_plan, place, report=False)
    assert calls["gae"] in range(4, 9)
    assert folder.read(RESULTS) == (tmp_path / RESULTS).read_bytes()


def test_a_bucket_that_is_not_there_or_may_not_be_written(
    bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(StoreError, match=r"s3://nowhere/run/.*cannot be (written|read)"):
        evaluate(classifier(), sentences(2), plan(), "s3://nowhere/run", report=False)
    place = f"{bucket}/runs/two"
    evaluate(classifier(), sentences(2), plan(), place, report=False)
    import s3fs

    async def denied(*arguments: Any, **more: Any) -> None:
        raise PermissionError("Access Denied")

    monkeypatch.setattr(s3fs.S3FileSystem, "_pipe_file", denied)
    s3fs.S3FileSystem.clear_instance_cache()  # an instance holds its methods
    with pytest.raises(StoreError, match=r"Access Denied. The 4 finished rows are kept"):
        evaluate(classifier(), sentences(4), plan(), place, report=False)


def test_a_protocol_that_nobody_knows() -> None:
    with pytest.raises(StoreError, match="unknown protocol"):
        open_folder("nonsense://place/run")

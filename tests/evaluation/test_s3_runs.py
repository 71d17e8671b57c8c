"""Runs in an object store: moto's server stands for S3."""

from __future__ import annotations

import json
import os
import secrets
from collections import Counter
from collections.abc import Callable, Iterator
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
    found = Store(place)
    assert len(found.damage) >= 2
    sound = {row["sample"] for row in found.done.values()}
    evaluate(classifier(), sentences(14), run_plan, place, report=False)
    assert calls["gae"] == 14 - len(sound) > 0
    assert folder.read(RESULTS) == (tmp_path / RESULTS).read_bytes()


@pytest.fixture
def read_only(bucket: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    """A function after which the server denies writing: it checks the rights of its users."""
    boto3 = pytest.importorskip("boto3")
    requests = pytest.importorskip("requests")
    s3fs = pytest.importorskip("s3fs")
    server = os.environ["AWS_ENDPOINT_URL"]
    iam = boto3.client("iam", endpoint_url=server)
    iam.create_user(UserName="reader")
    rights = {"Effect": "Allow", "Action": ["s3:Get*", "s3:List*"], "Resource": "*"}
    policy = json.dumps({"Version": "2012-10-17", "Statement": rights})
    iam.put_user_policy(UserName="reader", PolicyName="read", PolicyDocument=policy)
    key = iam.create_access_key(UserName="reader")["AccessKey"]

    def deny() -> None:
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", key["AccessKeyId"])
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", key["SecretAccessKey"])
        s3fs.S3FileSystem.clear_instance_cache()
        requests.post(f"{server}/moto-api/reset-auth", data=b"0", timeout=10)

    yield deny
    requests.post(f"{server}/moto-api/reset-auth", data=b"inf", timeout=10)
    iam.delete_access_key(UserName="reader", AccessKeyId=key["AccessKeyId"])
    iam.delete_user_policy(UserName="reader", PolicyName="read")
    iam.delete_user(UserName="reader")


def test_a_bucket_that_is_not_there_or_may_not_be_written(
    bucket: str, read_only: Callable[[], None]
) -> None:
    with pytest.raises(StoreError, match=r"s3://nowhere/run/.*cannot be (written|read)"):
        evaluate(classifier(), sentences(2), plan(), "s3://nowhere/run", report=False)
    place = f"{bucket}/runs/two"
    evaluate(classifier(), sentences(2), plan(), place, report=False)
    read_only()
    with pytest.raises(StoreError, match=r"cannot be written.* The 4 finished rows are kept"):
        evaluate(classifier(), sentences(4), plan(), place, report=False)
    assert len(Store(place).done) == 4


def test_a_protocol_that_nobody_knows() -> None:
    with pytest.raises(StoreError, match="unknown protocol"):
        open_folder("nonsense://place/run")

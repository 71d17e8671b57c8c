"""MELD's CSV files."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.datasets.conftest import Write
from whyformer.datasets import RowError, open_dataset
from whyformer.errors import InputError, OptionError

HEADER = (
    "Sr No.,Utterance,Speaker,Emotion,Sentiment,Dialogue_ID,Utterance_ID,"
    "Season,Episode,StartTime,EndTime\r\n"
)
ROW = '1,"Oh, he said ""no"".",Phoebe,{},{},0,1,4,7,"00:20:57,256","00:21:00,049"\r\n'


def test_sentiment_and_emotion(write: Write) -> None:
    path = write({"dev_sent_emo.csv": HEADER + ROW.format("sadness", "negative")})
    (sample,) = open_dataset(f"meld:{path}")
    assert (sample.inputs, sample.label, sample.label_name) == ('Oh, he said "no".', 0, "negative")
    assert sample.extras == {"speaker": "Phoebe", "dialogue_id": "0", "utterance_id": "1"}
    (sample,) = open_dataset(f"meld:{path}", label="emotion")
    assert (sample.label, sample.label_name) == (5, "sadness")
    with pytest.raises(OptionError, match="sentiment, emotion"):
        open_dataset(f"meld:{path}", label="mood")


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (ROW.format("joy", "mixed"), "the sentiment is 'mixed'"),
        ("1,hello\r\n", "2 cells. Expected 11"),
        (ROW.format("joy", "positive").replace('"Oh, he said ""no""."', ""), "utterance is empty"),
    ],
)
def test_a_malformed_row_is_told_by_its_line(write: Write, row: str, message: str) -> None:
    good = ROW.format("joy", "positive")
    path = write({"dev_sent_emo.csv": HEADER + good + row + good})
    with pytest.raises(RowError, match=rf"dev_sent_emo\.csv, line 3: .*{message}"):
        list(open_dataset(f"meld:{path}"))
    assert len(list(open_dataset(f"meld:{path}", on_error="skip"))) == 2


def test_what_is_missing_is_named(write: Write) -> None:
    path = write({"dev_sent_emo.csv": "Utterance,Emotion\nhello,joy\n"})
    with pytest.raises(InputError, match="no column 'sentiment'"):
        open_dataset(f"meld:{path}")
    with pytest.raises(InputError, match=r"has no test_sent_emo\.csv"):
        open_dataset(f"meld:{path}", "test")


@pytest.mark.data
@pytest.mark.parametrize(("split", "count"), [("train", 9989), ("dev", 1109), ("test", 2610)])
def test_the_published_counts(data: Path, split: str, count: int) -> None:
    labels = Counter(s.label_name for s in open_dataset(f"meld:{data}/meld", split))
    assert sum(labels.values()) == count
    assert labels["neutral"] > labels["negative"] > labels["positive"] > 0.15 * count

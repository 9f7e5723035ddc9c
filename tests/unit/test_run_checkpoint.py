"""What is read from a checkpoint, and taken back there."""

from __future__ import annotations

from pathlib import Path

from headrace.compile.leaves import Leaf
from headrace.run.checkpoint import forget_unplanned, hold_back


def written(folder: Path, **files: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder


def names(folder: Path) -> set[str]:
    return {entry.name for entry in folder.iterdir()}


def test_files_listed_for_a_batch_that_was_never_begun_are_listed_again(tmp_path: Path) -> None:
    files = written(tmp_path / "sources" / "0", **dict.fromkeys(("0", "1", ".1.crc", "2", ".2.crc", "3.compact"), "v1"))
    topic = written(tmp_path / "sources" / "1", **{"0": 'v1\n{"t":{"0":0}}', "7": "v1"})
    others = written(tmp_path / "sources" / "2", **dict.fromkeys(("0", "5", "6"), "v1"))
    # The first source is read twice, so it has two lines and one folder.
    leaves = (Leaf("files", 0), Leaf("files", 0), Leaf("topic", 1), Leaf("others", 2))
    forget_unplanned(tmp_path, leaves)
    assert "2" in names(files)  # no batch at all: a topic's beginning must stay where it is
    written(tmp_path / "offsets", **{"4": 'v1\n{}\n{"logOffset":1}\n{"logOffset":1}\n{"t":{"0":9}}\n{"logOffset":5}'})
    forget_unplanned(tmp_path, leaves)
    assert names(files) == {"0", "1", ".1.crc", "3.compact"}
    assert names(topic) == {"0", "7"}
    assert names(others) == {"0", "5"}


def test_the_next_batch_may_begin_with_the_watermark_of_the_last_one(tmp_path: Path) -> None:
    assert hold_back(tmp_path) == (0, 0), "nothing is done yet"
    written(tmp_path / "offsets", **{"6": 'v1\n{"batchWatermarkMs":4000}\n{"t":{"0":9}}'})
    commit = 'v1\n{"nextBatchWatermarkMs": 9000, "stateUniqueIds": {"0": [["a"]]}}'
    written(tmp_path / "commits", **{"6": commit, ".6.crc": "of what was there"})

    assert hold_back(tmp_path) == (4000, 9000)
    assert (tmp_path / "commits" / "6").read_text() == commit.replace("9000", "4000")
    assert names(tmp_path / "commits") == {"6"}
    assert hold_back(tmp_path) == (4000, 4000)

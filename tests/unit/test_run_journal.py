from __future__ import annotations

from pathlib import Path

import pytest

from headrace.compile.leaves import Leaf
from headrace.connectors.base import Between
from headrace.errors import UsageError
from headrace.run.checkpoint import Planned
from headrace.run.journal import Entry, Journal, betweens, committed, note

TEXT = 'v1\n{"batchWatermarkMs":5000,"batchTimestampMs":9000,"conf":{}}\n{"logOffset":%d}\n-\n{"logOffset":%d}'
LEAVES = [Leaf("files", 0), Leaf("clock", 1), Leaf("files", 0)]


def entry(batch: int, left: int, right: int) -> Entry:
    return Entry.of(batch, Planned.parse(TEXT % (left, right)), LEAVES)


def test_a_batch_that_was_cut_short_and_repeated_is_there_once(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal" / "q.jsonl")
    assert journal.entries() == {}
    journal.add(entry(0, 0, 0))
    with journal.path.open("a") as file:
        file.write('{"batch":1,"waterm')
    journal.add(entry(1, 1, 1))
    journal.add(entry(1, 1, 1))

    assert journal.entries() == {0: entry(0, 0, 0), 1: entry(1, 1, 1)}
    assert journal.entries()[1].watermark == 5000


def test_what_batches_read_is_told_by_source(tmp_path: Path) -> None:
    entries = {n: entry(n, n, n) for n in range(3)}

    assert betweens(entries, "cp", 0, 1) == {
        "files": Between(start=None, end='{"logOffset":1}', kept="cp/sources/0"),
        "clock": Between(start=None, end=None, kept="cp/sources/1"),
    }
    assert betweens(entries, "cp", 2, 2)["files"].start == '{"logOffset":1}'


def test_a_source_that_is_further_in_one_place_than_in_another_is_said() -> None:
    with pytest.raises(UsageError, match="read in two places"):
        betweens({0: entry(0, 1, 2)}, "cp", 0, 0)


def test_batches_nobody_remembers_are_said() -> None:
    with pytest.raises(UsageError, match="batch 4 read is not known any more; batches 7 to 8"):
        betweens({7: entry(7, 1, 1), 8: entry(8, 2, 2)}, "cp", 5, 8)


def test_only_committed_batches_count(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "q.jsonl")
    for folder in ("offsets", "commits"):
        (tmp_path / folder).mkdir()
    for batch in range(2):
        (tmp_path / "offsets" / str(batch)).write_text(TEXT % (batch, batch))
        note(journal, tmp_path, batch, LEAVES)
    (tmp_path / "commits" / "0").write_text("v1")

    assert list(committed(journal.entries().values(), tmp_path)) == [0]

"""The ledger's file, and what an audit finds in it; no Spark."""

from __future__ import annotations

from pathlib import Path

from headrace.run.audit import audit, unbalanced
from headrace.run.expiring import near
from headrace.run.gaps import Short, short
from headrace.run.ledger import Entry, Ledger, Line, Lost
from headrace.run.lost import at_most, behind
from headrace.run.spans import Span


def source(batch: int, *, query: str = "q", **numbers: int) -> Entry:
    lines = (Line(part="orders", balance="source", numbers=numbers),)
    return Entry(query=query, batch=batch, lines=lines, at="2026-01-01T00:00:00.000Z")


def test_a_repeated_batch_replaces_its_own_entry(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.db")
    ledger.put(source(0, read=1, emitted=1))
    ledger.put(source(1, read=5, emitted=4))
    ledger.put(source(1, query="other", read=2, emitted=2))
    ledger.put(source(1, read=7, emitted=7))

    assert list(Ledger(tmp_path / "ledger.db").entries("q")) == [
        source(0, read=1, emitted=1),
        source(1, read=7, emitted=7),
    ]


def test_totals_are_added_up_in_the_file_and_of_what_is_held_the_last_counts(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.db")
    assert ledger.totals() == []
    for batch, held in ((0, 3), (1, 9), (2, 4)):
        made = (
            Line(part="orders", balance="source", numbers={"read": 5, "emitted": 4, "dead": 1}),
            Line(part="sums", balance="state", numbers={"read": 4, "held": held}),
            Line(part="table", balance="sink", numbers={"given": batch, "written": batch}),
            Line(part="large", balance="some", towards="table", numbers={"read": 2, "emitted": 1, "filtered": 1}),
        )
        ledger.put(Entry(query="q", batch=batch, lines=made))
    assert ledger.totals() == [
        {"query": "q", "part": "orders", "towards": "", "numbers": {"read": 15, "emitted": 12, "dead": 3}},
        {"query": "q", "part": "sums", "towards": "", "numbers": {"read": 12, "held": 4}},
        {"query": "q", "part": "table", "towards": "", "numbers": {"given": 3, "written": 3}},
        {"query": "q", "part": "large", "towards": "table", "numbers": {"read": 6, "emitted": 3, "filtered": 3}},
    ]


def test_only_committed_batches_are_added_up_and_none_may_be_missing() -> None:
    entries = [source(0, read=1, emitted=1), source(2, read=1, emitted=1), source(3, read=9, emitted=0)]
    made = audit(entries, {"q": 2})

    assert made.batches == 2
    assert [str(f) for f in made.findings] == ['query "q", batch 1, ledger: the batch is committed but has no entry']
    assert made.totals[0].numbers == {"read": 2, "emitted": 2}


def test_a_query_without_any_entry_is_found() -> None:
    assert not audit([], {"q": 0}).balanced
    assert audit([], {"q": None}).balanced


def test_each_equation_finds_what_is_missing_and_what_is_too_much() -> None:
    def found(balance: str, **numbers: int) -> list[str]:
        return unbalanced(Line(part="x", balance=balance, numbers=numbers))  # type: ignore[arg-type]

    assert found("source", offsets=10, read=10, emitted=9, dead=1) == []
    assert found("source", offsets=10, read=8, emitted=8) == ["offsets 10 = read 8 does not hold: 2 are missing"]
    assert found("each", read=5, emitted=5) == []
    assert found("each", read=5, emitted=6) == ["read 5 = emitted 6 does not hold: 1 too many"]
    assert found("some", read=5, emitted=3, filtered=1, dead=1) == []
    assert found("some", read=5, emitted=3, filtered=1) != []
    assert found("others", read=5, emitted=60) == []
    assert found("state", read=5, emitted=1, late=1, held=3) == []
    assert found("sink", given=5, written=3, skipped=2) == []
    assert found("sink", given=5, written=4) == ["given 5 = written 4 does not hold: 1 is missing"]


def test_lost_records_and_empty_offsets_account_for_what_was_not_read(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.db")
    gone = Lost(query="q", source="orders", topic="t", partition=0, start=5, end=9)
    ledger.lose(gone)  # the run stopped at them, was told to go on, and batch 1 went on behind them
    ledger.lose(Lost(query="q", source="orders", topic="t", partition=0, start=5, end=9, batch=1))
    entries = [source(0, offsets=5, read=5, emitted=5), source(1, offsets=10, read=4, emitted=4)]

    assert [lost.records for lost in ledger.lost()] == [4]
    assert short(entries, ledger.lost()) == [Short(query="q", batch=1, source="orders")]
    assert not audit(entries, {"q": 1}, ledger.lost()).balanced
    ledger.know("q", 1, "orders", 2)
    made = audit(entries, {"q": 1}, ledger.lost(), ledger.gaps())
    assert made.balanced
    assert made.gaps == {"orders": 2}
    assert made.as_dict()["lost_upstream"][0]["records"] == 4


def test_held_is_what_is_held_last_and_the_rest_is_added_up() -> None:
    def entry(batch: int, held: int) -> Entry:
        return Entry(
            query="q", batch=batch, lines=(Line(part="s", balance="state", numbers={"read": 5, "held": held}),)
        )

    made = audit([entry(0, 5), entry(1, 2)], {"q": 1})
    assert made.totals[0].numbers == {"read": 10, "held": 2}


def test_only_what_lies_before_the_oldest_record_is_lost() -> None:
    spans = [Span("t", 0, 5, 9), Span("t", 1, 5, 9), Span("t", 2, 5, 9), Span("t", 3, 5, 9)]
    oldest = {("t", 0): 5, ("t", 1): 7, ("t", 2): 50, ("t", 3): 0}

    found = behind("q", "orders", spans, oldest)
    assert [(lost.partition, lost.start, lost.end) for lost in found] == [(1, 5, 7), (2, 5, 9)]
    assert [(lost.partition, lost.start, lost.end) for lost in at_most(found, 3)] == [(1, 5, 7), (2, 5, 6)]
    assert at_most(found, 6) == found


def test_a_warning_comes_when_little_of_the_retention_is_left() -> None:
    assert near(90.0, 100.0)
    assert not near(10.0, 100.0)
    assert not near(1e9, -1)

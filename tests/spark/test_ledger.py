"""The ledger on Spark: every wire is counted, the counts add up, and a step that loses records is found out."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headrace.catalogue import OPERATORS
from headrace.check import check
from headrace.compile.planner import plan
from headrace.compile.where import Where
from headrace.declare import flowfile
from headrace.declare.resolve import resolve
from headrace.model import Schema
from headrace.operators.base import Lowering, Operator, Say, operator
from headrace.operators.distinct import Distinct
from headrace.run.audit import Audit, audit
from headrace.run.checkpoint import last_committed
from headrace.run.inline import run_to_end
from headrace.run.ledger import Ledger

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SOURCE = """
  lines:
    files: {path: data, per_batch: 1}
    format: json
    schema: id BIGINT, user STRING, at TIMESTAMP
    time: {column: at, watermark: 1 second}
"""
CHAIN = """
  known: {from: lines, filter: user is not null}
  named: {from: known, with: {name: upper(user)}}
  few: {from: named, filter: id % 4 <> 0}
"""


@operator("lossy", example="s: {from: a, lossy: {}}")
class Lossy(Operator):
    """Claims to hand on every record, and does not."""

    def output(self, given: Schema, say: Say) -> Schema:
        return given

    def lower(self, frames: tuple[DataFrame, ...], low: Lowering) -> dict[str, DataFrame]:
        return {"out": frames[0].where("id <> 7")}


def kept(
    spark: SparkSession,
    folder: Path,
    steps: str,
    sinks: str,
    *,
    streaming: bool = True,
    more: str = "",
    rules: str = "",
    third: str = "",
) -> Audit:
    """Runs a flow over two files of ten records each, and a third, and audits what it has written down."""
    data = folder / "data"
    data.mkdir(exist_ok=True)
    for number in range(2):
        users = [None if n % 5 == 0 else f"u{n}" for n in range(10)]
        rows = [
            f'{{"id": {number * 10 + n}, "at": "2026-01-01T00:0{number}:{n:02d}Z"'
            + (f', "user": "{user}"}}' if user else "}")
            for n, user in enumerate(users)
        ]
        file = data / f"{number}.json"
        file.write_text("\n".join(rows) + "\n", encoding="utf-8")
    (data / "1.json").write_text((data / "1.json").read_text() + more, encoding="utf-8")
    (data / "2.json").write_text(third, encoding="utf-8")
    for number in range(3):  # a stream takes files in the order of their times
        os.utime(data / f"{number}.json", (1_700_000_000 + number,) * 2)
    text = f"flow: ledger\nsources:{SOURCE}{rules}steps:{steps}sinks:{sinks}"
    report = check(resolve(flowfile.read(text)))
    assert report.errors == (), "\n".join(map(str, report.errors))
    made, ledger = plan(report.flow), Ledger(folder / "ledger.db")
    where = Where(session=spark, streaming=streaming, home=folder, base=folder, counted=True)
    committed: dict[str, int | None] = {}
    for query in made.queries:
        run_to_end(made, query, where, folder / "checkpoint" / query.name, ledger=ledger)
        committed[query.name] = last_committed(folder / "checkpoint" / query.name) if streaming else 0
    return audit(ledger.entries(), committed)


def numbers(made: Audit, part: str, towards: str = "") -> dict[str, int]:
    return dict(next(t.numbers for t in made.totals if (t.part, t.towards) == (part, towards)))


def test_a_screen_beside_other_sinks_does_not_make_them_compute_the_batch_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    steps = "\n  users: {from: lines, aggregate: {by: user, compute: {n: count(*)}}}\n"
    sinks = """
  screen: {from: users, console: {}}
  other: {from: users, console: {}}
  table: {from: users, memory: {key: user}}
"""
    made = kept(spark, tmp_path, steps, sinks)

    assert made.findings == ()
    assert numbers(made, "users")["emitted"] == 18, "nine users, in each of two batches"


@pytest.mark.parametrize("adaptive", ["true", "false"])
def test_every_wire_of_a_chain_is_counted(spark: SparkSession, tmp_path: Path, adaptive: str) -> None:
    before = spark.conf.get("spark.sql.adaptive.enabled")
    spark.conf.set("spark.sql.adaptive.enabled", adaptive)
    try:
        made = kept(spark, tmp_path, CHAIN, "\n  out: {from: few, memory: {}}\n")
    finally:
        spark.conf.set("spark.sql.adaptive.enabled", str(before))

    assert made.findings == ()
    assert made.batches >= 2
    assert numbers(made, "lines") == {"read": 20, "emitted": 20, "dead": 0}
    assert numbers(made, "known") == {"read": 20, "emitted": 16, "filtered": 4, "dead": 0}
    assert numbers(made, "named") == {"read": 16, "emitted": 16, "dead": 0}
    # 4, 8, 12 and 16 are divisible by four and have a user.
    assert numbers(made, "few") == {"read": 16, "emitted": 12, "filtered": 4, "dead": 0}
    assert numbers(made, "out") == {"given": 12, "written": 12, "skipped": 0}


@pytest.mark.parametrize("streaming", [True, False])
def test_branches_to_several_sinks_are_counted_each(spark: SparkSession, tmp_path: Path, streaming: bool) -> None:
    steps = f"""{CHAIN}
  sizes: {{from: few, split: {{low: id < 10}}}}
  tenfold: {{from: sizes.low, flat_map: {{each: "sequence(1, 10)", as: n}}}}
  none: {{from: few, filter: 1 = 2}}
"""
    sinks = """
  nobody: {from: none, memory: {}}
  all: {from: few, memory: {}}
  low: {from: tenfold, sqlite: {path: low.db, table: low}}
  high: {from: sizes.otherwise, files: {path: out}, format: json}
"""
    made = kept(spark, tmp_path, steps, sinks, streaming=streaming)

    assert made.findings == ()
    assert numbers(made, "few") == {"read": 16, "emitted": 12, "filtered": 4, "dead": 0}
    assert numbers(made, "all") == {"given": 12, "written": 12, "skipped": 0}
    assert numbers(made, "sizes.low", "low") == {"read": 12, "emitted": 6, "filtered": 6, "dead": 0}
    assert numbers(made, "sizes.otherwise", "high") == {"read": 12, "emitted": 6, "filtered": 6, "dead": 0}
    assert numbers(made, "tenfold", "low") == {"read": 6, "emitted": 60, "dead": 0}
    assert numbers(made, "low") == {"given": 60, "written": 60, "skipped": 0}
    assert numbers(made, "high") == {"given": 6, "written": 6, "skipped": 0}
    assert numbers(made, "none", "nobody") == {"read": 12, "emitted": 0, "filtered": 12, "dead": 0}


def test_windows_take_records_into_state_and_give_other_rows(spark: SparkSession, tmp_path: Path) -> None:
    steps = """
  both: {from: [lines, lines], union: {}}
  counts: {from: both, aggregate: {window: {tumbling: 5 seconds}, compute: {n: count(*)}}}
"""
    made = kept(spark, tmp_path, steps, "\n  out: {from: counts, memory: {}}\n")

    assert made.findings == ()
    # The frame is read by two inputs of one step, and so is in Spark's plan twice: counted once all the same.
    assert numbers(made, "lines") == {"read": 20, "emitted": 20, "dead": 0}
    assert numbers(made, "both") == {"read": 40, "emitted": 40, "dead": 0}
    assert numbers(made, "counts") == {"read": 40, "emitted": 4, "late": 0, "held": 0, "dead": 0}
    assert numbers(made, "out") == {"given": 4, "written": 4, "skipped": 0}


def test_every_record_that_comes_too_late_for_all_its_windows_is_counted(spark: SparkSession, tmp_path: Path) -> None:
    # The watermark of the batch before the last is 00:00:08; Spark has a row for each window and key.
    seconds = [*[0.5] * 5, 1, 2, 3.9, 4, 7, 7.9, 8.1, 70]
    third = "".join(
        f'{{"id": {n}, "user": "u", "at": "2026-01-01T00:{int(s) // 60:02d}:{s % 60:04.1f}Z"}}\n'
        for n, s in enumerate(seconds)
    )
    steps = """
  fours: {from: lines, aggregate: {by: user, window: {tumbling: 4 seconds}, compute: {n: count(*)}}}
  hops: {from: lines, aggregate: {window: {hopping: 4 seconds, every: 2 seconds}, compute: {n: count(*)}}}
  gaps: {from: lines, aggregate: {window: {session: 1 second}, compute: {n: count(*)}}}
  ones: {from: lines, aggregate: {by: user, window: {sliding: 1 second}, compute: {n: count(*)}}}
  named: {from: lines, aggregate: {window: {tumbling: 4 s}, late: port, compute: {n: count(*)}}}
  longer: {from: fours, aggregate: {window: {tumbling: 8 s}, compute: {n: sum(n)}}}
  mended:
    from: lines
    aggregate: {window: {tumbling: 1 s}, compute: {n: count(*)}, emit: changes, late: correct, allowance: 6 s}
"""
    sinks = "".join(
        f"\n  {name.replace('.', '_')}_out: {{from: {name}, memory: {{}}}}"
        for name in ("hops", "gaps", "ones", "named", "named.late", "longer")
    )
    sinks += "\n  mended_out: {from: mended, sqlite: {path: mended.db, table: mended, key: window_start}}\n"
    made = kept(spark, tmp_path, steps, sinks, third=third)

    assert made.findings == ()

    def late(part: str) -> int:
        return numbers(made, part)["late"]

    assert numbers(made, "fours")["read"] == 33
    assert late("fours") == sum(s // 4 * 4 + 4 <= 8 for s in seconds)
    assert late("longer") == 0
    assert late("hops") == sum(s // 2 * 2 + 4 <= 8 for s in seconds)
    assert late("gaps") == sum(s + 1 <= 8 for s in seconds)
    assert late("ones") == sum(s <= 8 for s in seconds)
    assert late("named") == late("fours")
    assert numbers(made, "named_late_out")["written"] == late("named")
    assert late("mended") == sum(s // 1 + 1 + 6 <= 8 for s in seconds)


def test_records_that_cannot_be_taken_are_counted_where_they_are_taken_out(spark: SparkSession, tmp_path: Path) -> None:
    more = 'no json\n{"id": 1}\n{"id": 99, "user": "x", "at": "2026-01-01T00:01:30Z"}\n'
    rules = """\
    expect:
      - {column: id, max: 50}
      - {column: user, not_null: true, else: drop}
"""
    steps = "\n  known: {from: lines, filter: id <> 1, expect: ['id <> 2']}\n"
    sinks = "\n  out: {from: known, memory: {}}\n  bad: {from: lines.dead_letter, memory: {}}\n"
    made = kept(spark, tmp_path, steps, sinks, more=more, rules=rules)

    assert made.findings == ()
    # Unreadable, without a time, and beyond 50; dropped are the four without a user.
    assert numbers(made, "lines") == {"read": 23, "emitted": 16, "filtered": 4, "dead": 3}
    assert numbers(made, "known") == {"read": 16, "emitted": 14, "filtered": 1, "dead": 1}
    assert numbers(made, "out") == {"given": 14, "written": 14, "skipped": 0}
    assert numbers(made, "bad") == {"written": 3, "skipped": 0}


class LossyDistinct(Distinct):
    """Lets a record go that is the first of its key."""

    def lower(self, frames: tuple[DataFrame, ...], low: Lowering) -> dict[str, DataFrame]:
        return super().lower((frames[0].where("id <> 7"),), low)


@pytest.mark.parametrize("within", ["", ", within: 1 minute"])
def test_what_is_there_already_is_counted_and_a_first_record_that_is_lost_is_found_out(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, within: str
) -> None:
    steps = f"\n  firsts: {{from: lines, distinct: {{by: user{within}}}}}\n"
    sinks = "\n  out: {from: firsts, memory: {}}\n"
    more = '{"id": 50, "user": "u1", "at": "2026-01-01T00:01:09Z"}\n'
    (tmp_path / "right").mkdir()
    made = kept(spark, tmp_path / "right", steps, sinks, more=more)
    assert made.findings == ()
    found = numbers(made, "firsts")
    assert (found["read"], found["emitted"], found["repeated"], found["late"]) == (21, 9, 12, 0)

    (tmp_path / "lossy").mkdir()
    monkeypatch.setitem(OPERATORS._loaded, "distinct", LossyDistinct)
    made = kept(spark, tmp_path / "lossy", steps, sinks, more=more)
    assert [str(f) for f in made.findings] == [
        'query "firsts", batch 0, step "firsts": read 10 = emitted 8 + repeated 1 does not hold: 1 is missing'
    ]


def test_a_step_that_loses_records_is_found_out(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(OPERATORS._entries, "lossy", "nowhere:Lossy")
    monkeypatch.setitem(OPERATORS._loaded, "lossy", Lossy)
    steps = CHAIN + "  passed: {from: few, lossy: {}}\n"
    made = kept(spark, tmp_path, steps, "\n  out: {from: passed, memory: {}}\n")

    assert not made.balanced
    assert [str(f) for f in made.findings] == [
        'query "lines", batch 0, step "passed": read 6 = emitted 5 does not hold: 1 is missing'
    ]

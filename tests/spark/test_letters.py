"""Records that cannot be taken become dead letters; the rest of their batch goes on."""

from __future__ import annotations

import base64
import json
import os
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headrace.check import check
from headrace.compile.planner import plan
from headrace.compile.where import Where
from headrace.declare import flowfile
from headrace.declare.resolve import resolve
from headrace.errors import DataError
from headrace.model import Flow, Mode
from headrace.run.inline import run_to_end

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FLOW = """\
flow: letters
sources:
  orders:
    files: {path: in}
    format: json
    schema: id BIGINT, user STRING, amount DOUBLE, of INT
    expect:
      - {column: id, not_null: true}
      - {column: amount, min: 0, name: sane}
      - {column: user, matches: "[a-z]+", else: drop}
steps:
  shares:
    from: orders
    with: {part: {python: "tests.spark.letters_functions:share"}}
  loud:
    from: shares
    map: {python: "tests.spark.letters_functions:shouted", returns: "id BIGINT, user STRING, part DOUBLE"}
  balance:
    from: loud
    process: {python: "tests.spark.letters_functions:Balance", by: user}
  checked:
    from: balance
    filter: total IS NOT NULL
    expect: [n < 3]
  seen:
    from: balance
    distinct: user
  why:
    from: orders.dead_letter
    select: [line, reason]
  together:
    from: [orders.dead_letter, shares.dead_letter, loud.dead_letter, balance.dead_letter, checked.dead_letter]
    union: {}
sinks:
  balances:
    from: checked
    sqlite: {path: out.db, table: balances}
  plain:
    from: loud
    sqlite: {path: out.db, table: plain}
  users:
    from: seen
    sqlite: {path: out.db, table: users}
  unread:
    from: why
    sqlite: {path: out.db, table: unread}
  failed:
    from: balance.dead_letter
    sqlite: {path: out.db, table: failed}
  every:
    from: together
    sqlite: {path: out.db, table: every}
"""
FIRST = [
    '{"id": 1, "user": "ann", "amount": 10, "of": 2}',
    "not json",
    '{"user": "ann", "amount": -1, "of": 2}',
    '{"id": 2, "user": "UPPER", "amount": 1, "of": 1}',
    '{"id": 3, "user": "bob", "amount": 1, "of": 0}',
    '{"id": 4, "amount": 1, "of": 1}',
    '{"id": 5, "user": "liar", "amount": 1, "of": 1}',
    '{"id": 6, "user": "ann", "amount": 1000, "of": 1}',
    '{"id": 7, "user": "ann", "amount": 20, "of": 2}',
]
SECOND = ['{"id": 8, "user": "ann", "amount": 1, "of": 1}', "\x00", '{"id": 9, "user": "bob", "amount": 6, "of": 3}']


def project(root: Path, text: str, *batches: Sequence[str]) -> Flow:
    (root / "in").mkdir()
    for number, lines in enumerate(batches):
        file = root / "in" / f"{number}.json"
        file.write_text("\n".join(lines) + "\n", encoding="utf-8")
        os.utime(file, (1_700_000_000 + number,) * 2)
    report = check(resolve(flowfile.read(text)))
    assert not report.errors, "\n".join(map(str, report.errors))
    return report.flow


def run(root: Path, flow: Flow, session: SparkSession, mode: Mode = Mode.MICRO_BATCH) -> None:
    made = plan(flow, mode=mode)
    where = Where(session=session, streaming=mode is not Mode.BATCH, home=root / "home", base=root)
    for query in made.queries:
        run_to_end(made, query, where, root / "checkpoints" / query.name)


def letters(root: Path) -> list[dict[str, Any]]:
    files = sorted((root / "home" / "dead-letters").glob("*/*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def rows(root: Path, table: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(root / "out.db")) as database:
        names = {"balances": "user, n, total", "plain": "id, user, part", "unread": "line, reason"}
        found = database.execute(f"SELECT {names.get(table, 'step, reason, record')} FROM {table}")
        return sorted(found, key=str)


@pytest.mark.parametrize("mode", [Mode.MICRO_BATCH, Mode.BATCH])
def test_each_bad_record_is_a_letter_once_and_the_others_go_on(mode: Mode, spark: SparkSession, tmp_path: Path) -> None:
    flow = project(tmp_path, FLOW.replace("files: {path: in}", "files: {path: in, per_batch: 1}"), FIRST, SECOND)
    run(tmp_path, flow, spark, mode)
    assert [row[0] for row in rows(tmp_path, "plain")] == [1, 6, 7, 8, 9]
    # The call that raised left nothing behind: 5, then 15, not 1015. The third of a user breaks a rule behind state.
    assert rows(tmp_path, "balances") == [("ANN", 1, 5.0), ("ANN", 2, 15.0), ("BOB", 1, 2.0)]
    found = {(one["step"], one["reason"]): one for one in letters(tmp_path)}
    unreadable = "the record is not a JSON object"
    assert sorted(found) == [
        ("balance", "ValueError: 1000.0 is too much"),
        ("checked", "n < 3 does not hold"),
        ("loud", "AttributeError: 'NoneType' object has no attribute 'upper'"),
        next(k for k in found if k[1].startswith("what it gave does not fit its columns: ArrowInvalid")),
        ("orders", "id is null; sane: amount is less than 0"),
        ("orders", unreadable),
        ("shares", "ZeroDivisionError: float division by zero"),
    ]
    assert len(letters(tmp_path)) == 8  # two were unreadable
    told = found["shares", "ZeroDivisionError: float division by zero"]
    assert told["function"] == "tests.spark.letters_functions:share"
    assert told["place"].endswith("letters_functions.py:17")
    assert json.loads(told["record"]) == {"id": 3, "user": "bob", "amount": 1.0, "of": 0}
    assert base64.b64decode(told["value"]).decode() == FIRST[4]
    assert (told["source"], told["line"], told["file"].rpartition("/")[2]) == ("orders", 5, "0.json")
    assert (
        json.loads(found["loud", next(k[1] for k in found if k[0] == "loud" and "Attr" in k[1])]["record"])["id"] == 4
    )
    assert json.loads(found["checked", "n < 3 does not hold"]["record"]) == {"user": "ANN", "n": 3, "total": 16.0}
    assert rows(tmp_path, "unread") == [
        (2, unreadable),
        (2, unreadable),
        (3, "id is null; sane: amount is less than 0"),
    ]
    with closing(sqlite3.connect(tmp_path / "out.db")) as database:
        assert sorted(u for (u,) in database.execute("SELECT user FROM users")) == ["ANN", "BOB"]
    assert not list((tmp_path / "home").glob("failed/**/*.jsonl")), "of the query that does not keep them either"
    [(step, reason, record)] = rows(tmp_path, "failed")
    assert (step, reason, json.loads(record)["id"]) == ("balance", "ValueError: 1000.0 is too much", 6)
    # One sink takes those of both queries, whose batches have the same numbers.
    every = [(one["step"], one["reason"], one.get("record")) for one in letters(tmp_path)]
    assert sorted(every, key=str) == sorted(rows(tmp_path, "every"), key=str)


KEYED = """\
flow: keyed-letters
sources:
  orders:
    files: {path: in}
    format: json
    schema: id BIGINT, user STRING, at TIMESTAMP
    time: {column: at, watermark: 0 seconds}
steps:
  initials:
    from: orders
    aggregate:
      by: {initial: {python: "tests.spark.letters_functions:initial"}}
      window: {tumbling: 1 minute}
      compute: {n: count(*)}
  alarms:
    from: orders
    process: {python: "tests.spark.letters_functions:Alarm", by: user}
  told:
    from: orders
    bolt: {python: "tests.spark.letters_functions:Shout", grouping: shuffle, parallelism: 2}
  counted:
    from: told
    bolt: {python: "tests.spark.letters_functions:Tally", grouping: {fields: user}, parallelism: 2}
sinks:
  per_initial: {from: initials, sqlite: {path: out.db, table: per_initial}}
  alarm: {from: alarms, sqlite: {path: out.db, table: alarm}}
  tally: {from: counted, sqlite: {path: out.db, table: tally}}
"""


def test_keys_timers_and_bolts_that_raise_give_letters_too(spark: SparkSession, tmp_path: Path) -> None:
    users = ["ann", "", "bob", None, "bad", "amy", "bob", "ann"]
    lines = [json.dumps({"id": n, "user": u, "at": f"2026-01-01T00:00:{n:02}Z"}) for n, u in enumerate(users)]
    flow = project(tmp_path, KEYED, lines)
    run(tmp_path, flow, spark)

    with closing(sqlite3.connect(tmp_path / "out.db")) as database:
        assert sorted(database.execute("SELECT initial, n FROM per_initial")) == [("A", 3), ("B", 3)]
        assert sorted(database.execute("SELECT user, n FROM alarm")) == [("amy", 1), ("ann", 2), ("bob", 2)]
        most = sorted(database.execute("SELECT user, max(n) FROM tally GROUP BY user"))
        assert most == [("AMY", 1), ("ANN", 2), ("BOB", 2)], "what the bolt had counted before it raised is not kept"
    found = [
        (o["step"], o["reason"], o["place"].rpartition("/")[2], json.loads(o["record"])) for o in letters(tmp_path)
    ]
    of = {step: sorted((r, p, x.get("id", x.get("user"))) for s, r, p, x in found if s == step) for step, *_ in found}
    code = (Path(__file__).parent / "letters_functions.py").read_text().splitlines()
    line = {
        name: 1 + next(n for n, text in enumerate(code) if f"# {name}" in text)
        for name in ("initial", "alarm", "shout", "tally")
    }
    empty, none = "IndexError: string index out of range", "TypeError: 'NoneType' object is not subscriptable"
    at = {name: f"letters_functions.py:{number}" for name, number in line.items()}
    assert of["initials"] == [(empty, at["initial"], 1), (none, at["initial"], 3)]
    assert of["alarms"] == [("ValueError: bad", at["alarm"], "bad")], "what was raised on is a timer"
    assert of["told"] == [("AttributeError: 'NoneType' object has no attribute 'upper'", at["shout"], 3)]
    assert of["counted"] == [("KeyError: ''", at["tally"], 1), ("KeyError: 'BAD'", at["tally"], 4)]
    [letter] = [one for one in letters(tmp_path) if one["step"] == "told"]
    assert (letter["function"], letter["line"]) == ("tests.spark.letters_functions:Shout.execute", 4)


FLAKY = """\
flow: flaky-letters
sources:
  orders:
    files: {path: in}
    format: json
    schema: id BIGINT, key STRING, folder STRING
steps:
  asking:
    from: orders
    with: {answer: {python: "tests.spark.letters_functions:asked"}}
  telling:
    from: asking
    map: {python: "tests.spark.letters_functions:told", returns: "id BIGINT, answer STRING"}
sinks:
  out: {from: telling, sqlite: {path: out.db, table: out}}
"""


@pytest.mark.parametrize("mode", [Mode.MICRO_BATCH, Mode.BATCH])
def test_a_letter_is_what_was_left_out_whether_or_not_a_second_call_raises(
    mode: Mode, spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "calls").mkdir()
    keys = {1: "first", 2: "first", 3: "first", 4: "later", 5: "always", 6: "good"}
    keys |= dict.fromkeys((100, 200, 300), "good") | {101: "later too"}
    given = [{"id": n, "key": key, "folder": str(tmp_path / "calls")} for n, key in keys.items()]
    flow = project(tmp_path, FLAKY, [json.dumps(one) for one in (*given, given[6])])
    run(tmp_path, flow, spark, mode)

    with closing(sqlite3.connect(tmp_path / "out.db")) as database:
        written = dict(database.execute("SELECT id, answer FROM out"))
    found = {json.loads(one["record"])["id"]: one for one in letters(tmp_path)}
    assert len(found) == len(letters(tmp_path))
    # Of three with the same argument the first call raised, whichever record it was for.
    assert len({1, 2, 3} & set(found)) == 1
    assert set(written) == {1, 2, 3, 4, 6, 100, 200} - (set(found) - {100})
    assert written[4] == "LATER"
    assert set(found) - {1, 2, 3} == {5, 100, 101, 300}
    assert found[5]["reason"] == "TimeoutError: always 1"
    assert found[100]["reason"] == "TimeoutError: 100 1", "of two records that are alike one was left out"
    assert found[300]["reason"].startswith("what it gave does not fit its columns")
    assert found[101]["reason"] == "TimeoutError: 101 1", "it did not come there again, but was noted"
    assert "value" not in found.pop(101)
    for number, letter in found.items():
        assert json.loads(base64.b64decode(letter["value"]))["id"] == number
        assert letter["place"].rpartition("/")[2].startswith("letters_functions.py:")


def test_more_letters_than_allowed_or_a_rule_that_stops_end_the_flow(spark: SparkSession, tmp_path: Path) -> None:
    from headrace.run.failure import explain

    flow = project(tmp_path, "dead_letters: {per_minute: 4}\n" + FLOW, FIRST)
    with pytest.raises(Exception) as raised:
        run(tmp_path, flow, spark)
    assert "more than 4 dead letters in a minute" in str(raised.value)
    assert letters(tmp_path) == []
    assert not list((tmp_path / "checkpoints").glob("*/commits/0"))
    stopping = check(resolve(flowfile.read(FLOW.replace("name: sane", "else: stop")))).flow
    with pytest.raises(Exception) as raised:
        run(tmp_path, stopping, spark, Mode.BATCH)
    failure = explain(raised.value)
    assert failure.kind == "data", failure
    assert isinstance(failure.error(), DataError)
    assert '"orders" stops at a record: amount is less than 0' in failure.message


def test_a_generator_that_raises_gives_nothing_of_that_record() -> None:
    import pyarrow as pa

    from headrace.operators.functions import Function
    from headrace.operators.letters import FAILED
    from tests.spark.letters_functions import halves

    text = pa.string()
    told = pa.struct([(name, text) for name in ("reason", "function", "place", "record")])
    schema = pa.schema([("n", pa.int64()), (FAILED, told)])
    run = Function.parse(halves).batches("step", schema, many=True)
    [made] = run(iter([pa.RecordBatch.from_pylist([{"n": 1}, {"n": 2}])]))
    failed, *good = made.to_pylist()
    assert [row["n"] for row in good] == [20, 10]
    assert (failed["n"], failed[FAILED]["reason"], failed[FAILED]["record"]) == (None, "KeyError: 'odd'", '{"n": 1}')
    assert failed[FAILED]["place"].endswith("letters_functions.py:31")

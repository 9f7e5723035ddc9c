"""What may be said about time and windows, and what is refused with which words."""

from __future__ import annotations

import pytest

from headrace.check import check
from headrace.compile.explain import text as explained
from headrace.compile.planner import plan
from headrace.declare import flowfile
from headrace.declare.resolve import resolve
from headrace.errors import FlowError, Problem
from headrace.model import Mode

FLOW = """\
flow: windows
sources:
  rows:
    kafka: {{topic: rows}}
    format: json
    schema: k STRING, x BIGINT, text STRING, at TIMESTAMP
    time: {time}
  more:
    files: {{path: more}}
    format: json
    schema: k STRING, x BIGINT, text STRING, at TIMESTAMP
    time: {more}
steps:
  counted:
    from: rows
    aggregate: {{by: k, {aggregate}}}
{steps}
sinks:
  out: {{from: counted, console: {{}}}}
  rest: {{from: more, console: {{}}}}
{sinks}
spark: {{{spark}}}
state: {state}
"""
TUMBLING = "window: {tumbling: 10 s}, compute: {n: count(*)}"


def text_of(**said: str) -> str:
    usual = {
        "aggregate": TUMBLING,
        "time": "at",
        "more": "at",
        "steps": "",
        "sinks": "",
        "spark": "",
        "state": "rocksdb",
    }
    return FLOW.format(**{**usual, **said})


def problems(**said: str) -> list[Problem]:
    return list(check(resolve(flowfile.read(text_of(**said), "flow.yaml"))).errors)


@pytest.mark.parametrize(
    "time",
    [
        "at",
        "ingestion",
        "processing",
        "{kind: ingestion, watermark: 5 s, idle: 1 minute}",
        '{column: text, format: "dd.MM.yyyy HH:mm", watermark: 5 s, ahead: 2 hours}',
        "{column: x, format: epoch-milliseconds, before: 2100-01-01T00:00:00Z}",
    ],
)
def test_a_source_may_tell_its_time_in_these_ways(time: str) -> None:
    assert problems(time=time) == []


@pytest.mark.parametrize(
    ("said", "code", "words"),
    [
        ({"time": "{column: text}"}, "type-mismatch", 'must be TIMESTAMP, but "text" is string'),
        ({"time": "{column: x, format: yyyy}"}, "type-mismatch", 'must be TIMESTAMP, but "x" is bigint'),
        ({"time": "{column: text, format: YYYY-MM-dd}"}, "bad-option", 'has letter "Y"'),
        ({"time": "{column: text, format: E dd.MM.yyyy}"}, "bad-option", 'letter "E", by which no time is read'),
        ({"time": "{column: text, format: yyyy-QQ}"}, "bad-option", 'letter "Q", by which no time is read'),
        ({"time": "{column: text, format: yyyy-MM-ddd}"}, "bad-option", '"ddd", one letter too many'),
        ({"time": '{column: text, format: "yyyy \'T"}'}, "bad-option", 'has letter "T"'),
        ({"spark": "spark.sql.streaming.multipleWatermarkPolicy: slowest"}, "bad-option", 'min or max, not "slowest"'),
        ({"spark": "spark.sql.session.timeZone: Europe/Berlin"}, "bad-option", 'is UTC, not "Europe/Berlin"'),
        *(
            (
                {"aggregate": f"window: {window}, compute: {{n: count(*)}}", "state": "memory"},
                "unsupported",
                "keeps records in their order, which cannot be done in memory",
            )
            for window in ("{count: 3}", "{sliding: 5 s}", "{session: 5 s, at_most: 1 minute}")
        ),
        ({"time": "{watermark: 5 s}"}, "missing-option", 'event time needs "column"'),
        ({"time": "{kind: processing, ahead: 5 s}"}, "bad-option", 'processing time takes no "ahead"'),
        ({"more": "ingestion"}, "unsupported", "does not know when a record arrived"),
        ({"more": "{column: at, ahead: 1 hour}"}, "unsupported", "does not know when a record arrived"),
        (
            {"aggregate": "window: {session: 5 s}, emit: changes, compute: {n: approx_count_distinct(x)}"},
            "unsupported",
            "approx_count_distinct cannot be computed over windows of records in order",
        ),
        (
            {
                "aggregate": "window: {count: 5}, emit: changes, compute: {n: count(*)}",
                "sinks": "  table: {from: counted, sqlite: {path: a.db, table: t, key: [window_start, window_end, k]}}",
            },
            "bad-option",
            'has a key without "window_number", which tells its changing rows apart',
        ),
        (
            {
                "aggregate": "window: {session: 5 s}, emit: changes, compute: {n: count(*)}",
                "sinks": "  table: {from: counted, sqlite: {path: a.db, table: t, key: [window_end, k]}}",
            },
            "bad-option",
            'has a key without "window_start", which tells its changing rows apart',
        ),
        (
            {
                "aggregate": "window: {session: 5 s}, emit: {early: 5 s}, compute: {n: count(*)}",
                "sinks": "  folder: {from: counted, files: {path: out}, format: json}",
            },
            "sink-needs-final",
            "(files) cannot change what it wrote",
        ),
        (
            {"aggregate": "window: {count: 5}, compute: {n: approx_count_distinct(x)}"},
            "unsupported",
            "approx_count_distinct cannot be computed over windows of records in order",
        ),
        ({"aggregate": "late: port, compute: {n: count(*)}"}, "bad-option", "without a window nothing is late"),
        (
            {"aggregate": f"late: correct, allowance: 1 h, {TUMBLING}"},
            "bad-option",
            "an answer that is given once cannot be corrected",
        ),
        (
            {"aggregate": f"late: correct, emit: changes, {TUMBLING}"},
            "missing-option",
            "late records can correct only for a stated time",
        ),
        ({"aggregate": f"allowance: 1 h, {TUMBLING}"}, "bad-option", "an allowance goes with `late: correct`"),
        (
            {"aggregate": "window: {tumbling: 5 h, zone: Europe/Berlin}, compute: {n: count(*)}"},
            "bad-option",
            "it needs a tumbling or hopping window of whole days",
        ),
        (
            {"aggregate": "window: {tumbling: 1 day, zone: Europe/Bärlin}, compute: {n: count(*)}"},
            "bad-option",
            'there is no time zone "Europe/Bärlin"',
        ),
        (
            {"aggregate": "window: {tumbling: 5 s, count: 3}, compute: {n: count(*)}"},
            "bad-option",
            "a window is one of tumbling, hopping, session, sliding, count",
        ),
        (
            {
                "aggregate": f"emit: changes, {TUMBLING}",
                "steps": "  again: {from: counted, aggregate: {compute: {n: sum(n)}}}",
                "sinks": "  sums: {from: again, console: {key: []}}",
            },
            "unsupported",
            "would count values that are replaced later",
        ),
        (
            {
                "steps": "  again: {from: counted, aggregate: {compute: {n: sum(n)}}}",
                "sinks": "  sums: {from: again, sqlite: {path: t.db, table: s, key: [n]}}",
            },
            "unsupported",
            'cannot give changing answers behind "counted"',
        ),
        (
            {
                "steps": """\
  ever: {from: more, aggregate: {by: k, compute: {n: count(*)}}}
  windows: {from: counted, select: [k, n]}
  all: {from: [ever, windows], union: {}}""",
                "sinks": "  sums: {from: all, sqlite: {path: t.db, table: s, key: [k]}}",
            },
            "unsupported",
            'puts changing answers of "ever" together with those of "counted", which are given once',
        ),
        (
            {
                "aggregate": f"late: port, {TUMBLING}",
                "steps": "  again: {from: counted.late, distinct: k}",
                "sinks": "  sums: {from: again, console: {}}",
            },
            "unsupported",
            'cannot follow "counted.late"',
        ),
        (
            {
                "time": "{column: at, watermark: 5 s}",
                "more": "{column: at, watermark: 5 s}",
                "steps": """\
  both: {from: [rows, more], join: {on: k, within: 10 s, prefix: b_}}
  pairs: {from: both, aggregate: {window: {tumbling: 10 s}, late: port, compute: {n: count(*)}}}""",
                "sinks": "  counts: {from: pairs, console: {}}\n  after: {from: pairs.late, console: {}}",
            },
            "unsupported",
            'cannot tell which records are late behind "both"',
        ),
    ],
)
def test_what_cannot_be_is_said_before_it_runs(said: dict[str, str], code: str, words: str) -> None:
    found = problems(**said)
    assert [p.code for p in found] == [code], "\n".join(map(str, found))
    assert words in found[0].message
    assert found[0].location.line


def test_explain_tells_what_is_done_with_time() -> None:
    said = text_of(
        aggregate=f"emit: {{early: 5 s}}, late: port, {TUMBLING}",
        time="{column: at, watermark: 10 s, idle: 1 minute}",
        more='{column: at, before: "2100-01-01T00:00:00Z"}',
        sinks="  late: {from: counted.late, console: {}}",
    )
    shown = explained(plan(check(resolve(flowfile.read(said))).flow))
    for words in (
        "at; watermark 10 seconds behind the newest; not believed: more than 1 hour after the record's arrival; "
        "silent for 1 minute, it holds nothing back",
        "not believed: from 2100-01-01T00:00:00+00:00 on",
        "spark.sql.streaming.multipleWatermarkPolicy = min: the slowest of rows, more leads",
        "counted: rows -> counted -> out, late (update, every 5 seconds)",
        "Python looks for late records in Arrow batches",
    ):
        assert words in shown
    stands = explained(plan(check(resolve(flowfile.read(text_of(time="processing")))).flow))
    assert "it stands still while no record comes, and the last windows stay open: `idle` ends that" in stands
    assert "no bound on times in the future" in stands, "of the files"
    assert stands.count("runs as  native\n") == 1, "said of each step"


def test_distinct_values_are_counted_in_batches_only() -> None:
    counted = "compute: {n: 1 + count(DISTINCT x), total: sum(x)}"
    found = check(resolve(flowfile.read(text_of(aggregate=f"window: {{tumbling: 5 s}}, {counted}"), "flow.yaml")))
    assert [(p.code, p.warning, p.step) for p in found.problems] == [("unsupported", True, "counted")]
    assert "approx_count_distinct" in found.problems[0].hint
    assert plan(found.flow, mode=Mode.BATCH).mode is Mode.BATCH
    with pytest.raises(FlowError, match="which Spark does in batches only"):
        plan(found.flow)
    assert problems(aggregate=f"window: {{count: 5}}, {counted}") == []


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        ("before: {from: rows, aggregate: {by: k, window: {count: 3}, compute: {n: count(*)}}}", "end in no order"),
        ("before: {from: rows, aggregate: {by: k, window: {sliding: 3 s}, compute: {n: sum(x)}}}", "end in no order"),
        ("before: {from: [rows, more], join: {on: k, within: 3 s, kind: full, prefix: b_}}", "use left or right"),
        ("before: {from: rows, select: [k, x]}", 'keep its column "at"'),
        ("before: {from: rows, map: {python: 'math:floor', returns: 'k STRING'}}", 'keep its column "at"'),
        ("other: {from: more, rename: {at: then}}\n  before: {from: [rows, other], union: {}}", "have one name"),
    ],
)
def test_a_window_without_a_time_names_the_step_that_lost_it(steps: str, words: str) -> None:
    behind = "  after: {from: before, aggregate: {window: {tumbling: 10 s}, compute: {m: count(*)}}}"
    found = problems(steps=f"  {steps}\n{behind}", sinks="  last: {from: after, console: {}}")
    hints = [p.hint for p in found if p.code == "no-watermark"]
    assert len(hints) == 1
    assert 'step "before" gives records without their event time' in hints[0]
    assert words in hints[0]

"""Generated flows: written in any form and read again, they are the same flow; laid out twice, the same text."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace import Aggregator, Bolt, Spout
from headrace.catalogue import FORMATS, OPERATORS, SINKS, SOURCES
from headrace.declare import convert as forms
from headrace.declare import flowfile
from headrace.declare.draft import Draft, Entry
from headrace.declare.load import declare
from headrace.declare.resolve import resolve
from headrace.model import Flow, Places


class Longest(Aggregator):
    """The longest user of a group."""

    returns = "STRING"

    def start(self) -> str:
        return ""

    def add(self, state: str, user: str) -> str:
        return max(state, user, key=len)

    def merge(self, one: str, other: str) -> str:
        return max(one, other, key=len)


class Words(Bolt):
    """The words of a text."""

    returns = "word STRING"

    def __init__(self, **arguments: Any) -> None:
        self.arguments = arguments

    def execute(self, record: Any, out: Any) -> None:
        out.emit("word")


class Ticks(Spout):
    """Numbers without end."""

    returns = "n BIGINT"

    def __init__(self, **arguments: Any) -> None:
        self.arguments = arguments

    def next(self) -> Any:
        return {"n": 1}


def batches(batch: Any) -> Any:
    """A batch as it is."""
    return batch


NAMES = st.one_of(
    st.sampled_from(
        "orders table all from select view my-step late port x Y2 _z class print flow hopping first".split()
    ),
    st.from_regex(r"[A-Za-z_][A-Za-z0-9_-]{0,8}", fullmatch=True),
)
COLUMNS = st.sampled_from(["id", "user", "order", "a b", "amount", "from", "é", "window", "group", "at", "name", "by"])
EXPRESSIONS = st.sampled_from(
    [
        "id + 1",
        "upper(user)  ||\n 'it''s -- no comment; \\\\ \"q\"'",
        "CASE WHEN amount > 1 THEN 'a' ELSE NULL END",
        "transform(tags, x -> x || '!')",
        "a.b.c[0]",
        "`a b` IS NOT DISTINCT FROM user",
        "at + INTERVAL '1' DAY",
        "-amount * (2 - -3)",
        "CAST(amount AS DECIMAL(10,2)) >= 0.5D",
        "x'1F' = X'1f' AND NOT (id IN (1, 2))",
        "TIMESTAMP '2026-01-01 00:00:00'",
        "count(*)",
        "explode(tags)",
        "TRUE",
        "named_struct('a', 1, 'b', array(1, 2))",
    ]
)
AGGREGATES = st.sampled_from(
    [
        "count(*)",
        "sum(amount) / count(*)",
        "max(length(user))",
        "count(DISTINCT id)",
        "1",
        {"python": f"{__name__}:Longest"},
        {"python": f"{__name__}:Longest", "returns": "STRING"},
    ]
)
LENGTHS = st.sampled_from(["1 second", "90 seconds", "10 minutes", "1 day", "250 milliseconds"])
MADE = st.dictionaries(COLUMNS, EXPRESSIONS, min_size=1, max_size=3)
KEYS = st.lists(COLUMNS, min_size=1, max_size=3, unique=True)
WINDOWS = st.one_of(
    st.builds(lambda a: {"tumbling": a}, LENGTHS),
    st.just({"hopping": "10 minutes", "every": "1 second"}),
    st.just({"session": "90 seconds", "at_most": "10 minutes"}),
    st.just({"count": 10, "each": 3}),
    st.builds(lambda a: {"sliding": a}, LENGTHS),
    st.just({"tumbling": "1 day", "zone": "Europe/Berlin"}),
)
GENERATED: dict[str, st.SearchStrategy[Any]] = {
    "select": MADE,
    "with": MADE,
    "map": MADE,
    "filter": EXPRESSIONS,
    "drop": KEYS,
    "rename": st.dictionaries(COLUMNS, COLUMNS, min_size=1, max_size=3),
    "explode": st.fixed_dictionaries({"each": EXPRESSIONS, "as": COLUMNS}, optional={"outer": st.booleans()}),
    "flat_map": st.fixed_dictionaries({"each": EXPRESSIONS, "as": COLUMNS}),
    "distinct": st.fixed_dictionaries({"by": KEYS}, optional={"within": LENGTHS}),
    "limit": st.fixed_dictionaries({"rows": st.integers(1, 9), "by": KEYS}),
    "split": st.dictionaries(st.sampled_from(["large", "small", "into"]), EXPRESSIONS, min_size=1),
    "aggregate": st.fixed_dictionaries(
        {"compute": st.dictionaries(COLUMNS, AGGREGATES, min_size=1, max_size=3)},
        optional={
            "by": st.one_of(KEYS, MADE),
            "window": WINDOWS,
            "emit": st.one_of(st.sampled_from(["final", "changes"]), st.builds(lambda a: {"early": a}, LENGTHS)),
            "late": st.sampled_from(["drop", "port", "correct"]),
            "allowance": LENGTHS,
        },
    ),
    "join": st.fixed_dictionaries(
        {"on": st.one_of(KEYS, st.dictionaries(COLUMNS, COLUMNS, min_size=1, max_size=2))},
        optional={
            "within": st.one_of(LENGTHS, st.builds(lambda a, b: {"before": a, "after": b}, LENGTHS, LENGTHS)),
            "kind": st.sampled_from(["inner", "left"]),
            "prefix": st.sampled_from(["p_", "it's "]),
        },
    ),
    "bolt": st.fixed_dictionaries(
        {"python": st.just(f"{__name__}:Words")},
        optional={
            "grouping": st.one_of(
                st.sampled_from(["shuffle", "all", "global"]),
                st.builds(lambda keys: {"fields": keys}, KEYS),
                st.builds(lambda keys: [{"fields": keys}, "all"], KEYS),
            ),
            "parallelism": st.integers(1, 4),
            "arguments": st.sampled_from([{"cut": " "}, {"from": [1, {"a": None}], "class": "it's"}]),
            "bound": st.just("few words"),
        },
    ),
    "map_batches": st.fixed_dictionaries(
        {"python": st.just(f"{__name__}:batches"), "returns": st.sampled_from(["id BIGINT, `a b` STRING", "id INT"])},
        optional={"as": st.sampled_from(["arrow", "pandas"])},
    ),
    "as_of": st.fixed_dictionaries({"on": KEYS}, optional={"tolerance": LENGTHS, "kind": st.just("inner")}),
}


SPOUTS = st.fixed_dictionaries(
    {"python": st.just(f"{__name__}:Ticks")},
    optional={"per_batch": st.integers(1, 9), "arguments": st.sampled_from([{"up_to": 3}, {"a b": ["x", True]}])},
)
RULES = st.lists(
    st.one_of(
        EXPRESSIONS.filter(lambda e: "count" not in e and "explode" not in e),
        st.builds(lambda c: {"column": c, "not_null": True}, COLUMNS),
        st.builds(lambda c: {"column": c, "min": 0, "max": 9.5, "name": "it's sane", "else": "drop"}, COLUMNS),
        st.builds(lambda c: {"column": c, "matches": r"[a-z]+\d*", "else": "stop"}, COLUMNS),
        st.builds(lambda c: {"column": [c, "id"], "in": ["a", "it's"]}, COLUMNS),
    ),
    min_size=1,
    max_size=3,
)
EXPECT = st.one_of(
    RULES, st.builds(lambda rules, fate: {"rules": rules, "else": fate}, RULES, st.sampled_from(["drop", "stop"]))
)
PARAMETERS: dict[str, Any] = {
    "limit": {"type": "int", "default": 3, "description": "It's a limit."},
    "pause": {"type": "duration", "default": "10 seconds"},
    "who": {"type": "string", "default": "o'hara", "choices": ["o'hara", "ann"]},
    "most": {"type": "int", "default": 500},
}
OPEN: dict[str, Any] = {
    "filter": "amount > ${param:limit} AND user <> '${param:who}'",
    "limit": {"rows": "${param:limit}", "by": "user"},
    "distinct": {"by": ["id"], "within": "${param:pause}"},
    "with": {"x": "amount * ${param:limit}"},
    "aggregate": {"by": "user", "window": {"tumbling": "${param:pause}"}, "compute": {"n": "count(*)"}},
}
"""Options that a parameter is in."""


def _example(cls: Any) -> dict[str, Any]:
    """The one entry that a part's example is."""
    read = flowfile.plain_yaml(cls.example, "example")[0]
    (entry,) = read.values()
    return dict(entry)


@st.composite
def flows(draw: st.DrawFn) -> Flow:
    names = iter(draw(st.lists(NAMES, min_size=12, max_size=12, unique_by=lambda n: n.lower())))
    entries: list[Entry] = []
    ports: list[str] = []

    def add(kind: Any, data: dict[str, Any]) -> str:
        name = next(names)
        entries.append(Entry(kind=kind, name=name, data=data, places=Places()))
        return name

    parameters = PARAMETERS if draw(st.booleans()) else {}
    for _ in range(draw(st.integers(1, 2))):
        connector = draw(st.sampled_from(list(SOURCES)))
        data = {"spout": draw(SPOUTS)} if connector == "spout" else _example(SOURCES[connector])
        if draw(st.booleans()):
            data["time"] = {"column": draw(COLUMNS), "watermark": "${param:pause}" if parameters else draw(LENGTHS)}
        if draw(st.integers(0, 3)) == 0:
            data["expect"] = draw(EXPECT)
        name = add("source", data)
        ports += [name, f"{name}.dead_letter"] if "table" not in data else [name]
    for _ in range(draw(st.integers(0, 6))):
        operator = draw(st.sampled_from(list(OPERATORS)))
        cls = OPERATORS[operator]
        generated = operator in GENERATED and draw(st.integers(0, 3)) > 0
        options = draw(GENERATED[operator]) if generated else _example(cls)[operator]
        if parameters and operator in OPEN and draw(st.booleans()):
            options = OPEN[operator]
        count = cls.inputs or draw(st.integers(1, 2))
        inputs = [draw(st.sampled_from(ports)) for _ in range(count)]
        data = {"from": inputs[0] if count == 1 else inputs, operator: options}
        if draw(st.integers(0, 3)) == 0:
            data["expect"] = draw(EXPECT)
        entry = Entry(kind="step", name="x", data=data, places=Places())
        declared = resolve(Draft(name="x", entries=(entry,), parameters=parameters))
        if any(not problem.warning for problem in declared.problems):  # options that do not go together
            continue
        name = add("step", data)
        (step,) = declared.flow.steps
        ports += [name if port == "out" else f"{name}.{port}" for port in (*step.options.ports(), "dead_letter")]
    for _ in range(draw(st.integers(0, 2))):
        connector = draw(st.sampled_from(list(SINKS)))
        data = _example(SINKS[connector]) | {"from": draw(st.sampled_from(ports))}
        if "format" in data and draw(st.booleans()):
            data["format"] = draw(st.sampled_from([n for n in FORMATS if n != "raw"]))
        if draw(st.booleans()):
            data["delivery"] = draw(st.sampled_from(["exactly-once", "at-least-once"]))
        add("sink", data)
    draft = Draft(
        name=draw(NAMES),
        description=draw(st.sampled_from(["", 'It\'s: a "test" # of \\ things', "Plain words."])),
        goal=draw(st.sampled_from([None, "latency", "throughput", {"latency": "2 seconds", "checkpoint": "1 minute"}])),
        state=draw(st.sampled_from([None, "memory"])),
        spark=draw(st.sampled_from([{}, {"spark.sql.shuffle.partitions": 4, "spark.x-y": "a b"}])),
        dead_letters=draw(st.sampled_from([None, {"per_minute": 7}, {}, {"per_minute": "${param:most}"}]))
        if parameters
        else draw(st.sampled_from([None, {"per_minute": 0}])),
        parameters=parameters,
        entries=tuple(entries),
    )
    declared = resolve(draft)
    assert not [problem for problem in declared.problems if not problem.warning]
    return declared.flow


@settings(max_examples=20, deadline=None)
@given(flows())
def test_a_flow_written_in_any_form_and_read_again_is_the_same(flow: Flow) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for form, suffix in forms.FORMS.items():
            text = forms.write(flow, form)
            file = Path(folder) / f"made{suffix}"
            file.write_text(text, encoding="utf-8")
            declared = declare(file)
            assert not [problem for problem in declared.problems if not problem.warning], text
            assert declared.flow == flow, text
            if form != "python":
                assert forms.tidy(file, text) == text

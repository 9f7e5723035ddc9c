"""Generated flows: written in any form and read again, they are the same flow; laid out twice, the same text."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.catalogue import FORMATS, OPERATORS, SINKS, SOURCES
from headrace.declare import convert as forms
from headrace.declare import flowfile
from headrace.declare.draft import Draft, Entry
from headrace.declare.load import declare
from headrace.declare.resolve import resolve
from headrace.model import Flow, Places

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
AGGREGATES = st.sampled_from(["count(*)", "sum(amount) / count(*)", "max(length(user))", "count(DISTINCT id)", "1"])
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
    "as_of": st.fixed_dictionaries({"on": KEYS}, optional={"tolerance": LENGTHS, "kind": st.just("inner")}),
}


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

    for _ in range(draw(st.integers(1, 2))):
        data = _example(SOURCES[draw(st.sampled_from(list(SOURCES)))])
        if draw(st.booleans()):
            data["time"] = {"column": draw(COLUMNS), "watermark": draw(LENGTHS)}
        ports.append(add("source", data))
    for _ in range(draw(st.integers(0, 6))):
        operator = draw(st.sampled_from(list(OPERATORS)))
        cls = OPERATORS[operator]
        generated = operator in GENERATED and draw(st.integers(0, 3)) > 0
        options = draw(GENERATED[operator]) if generated else _example(cls)[operator]
        count = cls.inputs or draw(st.integers(1, 2))
        inputs = [draw(st.sampled_from(ports)) for _ in range(count)]
        data = {"from": inputs[0] if count == 1 else inputs, operator: options}
        declared = resolve(Draft(name="x", entries=(Entry(kind="step", name="x", data=data, places=Places()),)))
        if declared.problems:  # options that do not go together
            continue
        name = add("step", data)
        (step,) = declared.flow.steps
        ports += [name if port == "out" else f"{name}.{port}" for port in step.options.ports()]
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
        state=draw(st.sampled_from([None, "memory"])),
        spark=draw(st.sampled_from([{}, {"spark.sql.shuffle.partitions": 4, "spark.x-y": "a b"}])),
        entries=tuple(entries),
    )
    declared = resolve(draft)
    assert declared.problems == ()
    return declared.flow


@settings(max_examples=40, deadline=None)
@given(flows())
def test_a_flow_written_in_any_form_and_read_again_is_the_same(flow: Flow) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for form, suffix in forms.FORMS.items():
            text = forms.write(flow, form)
            file = Path(folder) / f"made{suffix}"
            file.write_text(text, encoding="utf-8")
            declared = declare(file)
            assert declared.problems == (), text
            assert declared.flow == flow, text
            if form != "python":
                assert forms.tidy(file, text) == text

"""What each rule of the compiler gives: the same work with it and without it, in one process, in turns.

    python -m bench rules [--events 4000000] [--rounds 3] [--only json-in-one-pass …]

A rule is left out by putting Spark's own way in its place; the product has no switch for it. Every answer is checked.
The first rounds of each work warm Java up and do not count.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from bench import answers, report, results
from bench.events import NESTED_SCHEMA, VARIANT_SCHEMA, WIDE_SCHEMA, Expected, load_events
from bench.flows import flow
from bench.measure import spread
from bench.ours import once
from bench.place import Place, place
from bench.throughput import FULL, TOPIC

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

    from headrace.compile.plan import Plan
    from headrace.model import Flow, Port, Schema

Patched = Callable[[], AbstractContextManager[object]]
_WIDE = "wide"
"""The topic of the wide events."""


def _all_columns() -> AbstractContextManager[object]:
    """Every column of the schema is parsed."""
    from headrace.model import Port

    def everything(flow: Flow, schemas: dict[Port, Schema]) -> dict[str, frozenset[str]]:
        return {source.name: frozenset(schemas[Port(source.name)].names) for source in flow.sources}

    return patch("headrace.compile.planner.needed", everything)


def _json_by_spark() -> AbstractContextManager[object]:
    """JSON through `from_json` and `to_json`."""
    from headrace.formats.json import JsonFormat

    return patch.multiple(JsonFormat, decode=decode_by_spark, encode=_encode_by_spark)


def decode_by_spark(_: Any, value: Column, schema: Schema) -> tuple[Column, Column]:
    """Columns, and a reason where the record is bad. As the only item of a list a record is parsed to its end."""
    from pyspark.sql import functions as F

    text = value.cast("string")
    read = F.from_json(
        F.concat(F.lit('{"r":['), text, F.lit("]}")),
        f"r ARRAY<STRUCT<{schema.ddl()}>>, _corrupt STRING",
        {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "_corrupt"},
    )
    row = F.get(read["r"], F.lit(0))
    bad = read["_corrupt"].isNotNull() | row.isNull() | (F.size(read["r"]) != 1) | ~F.is_valid_utf8(text)
    return row, F.when(bad, F.lit("bad"))


def _encode_by_spark(self: Any, schema: Schema) -> Column:
    from pyspark.sql import functions as F

    return F.to_json(F.struct(*(f"`{name}`" for name in schema.names)), self._writing()).cast("binary")


def _windows_by_spark() -> AbstractContextManager[object]:
    """Windows as Spark's own structs of start and end."""
    from headrace.operators.windows import Window

    def group(self: Any, frame: Any, time: str, keys: list[Any], *_: object) -> Any:
        from pyspark.sql import functions as F

        return frame.groupBy(self._column(F.col(f"`{time}`")).alias("window"), *keys)

    return patch.object(Window, "group", group)


def _clients_own(*names: str) -> Callable[[Plan], Plan]:
    """A plan without some settings of Kafka's clients, so that the clients' own hold."""

    def without(made: Plan) -> Plan:
        reading, writing = ({k: v for k, v in one.items() if k not in names} for one in (made.reading, made.writing))
        return replace(made, reading=reading, writing=writing)

    return without


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One rule, and how it is left out."""

    what: str
    works: tuple[str, ...] = ("w1", "w2")
    patched: Patched = nullcontext
    always: Patched = nullcontext
    """What is changed for both."""
    planned: Callable[[Plan], Plan] = lambda made: made
    schema: str = ""
    """What is stated of wide events, if it is not what the work needs."""


RULES = {
    "needed-columns": Rule(
        what="only columns that a sink needs are parsed, here of 25", patched=_all_columns, schema=WIDE_SCHEMA
    ),
    "no-needless-variant": Rule(
        what="a column that Spark must parse, and no sink needs", patched=_all_columns, schema=VARIANT_SCHEMA
    ),
    "json-in-one-pass": Rule(what="JSON is read and written in Java of our own", patched=_json_by_spark),
    "nested-in-one-pass": Rule(
        what="so is JSON with a list and a struct", always=_all_columns, patched=_json_by_spark, schema=NESTED_SCHEMA
    ),
    "windows-by-their-end": Rule(what="a tumbling window is one number", works=("w1",), patched=_windows_by_spark),
    "fetch-wait": Rule(what="a batch does not wait at the end of its topic", planned=_clients_own("fetch.max.wait.ms")),
    "poll-records": Rule(what="Kafka's consumer hands over more at a time", planned=_clients_own("max.poll.records")),
    "first-transaction": Rule(
        what="Kafka's client hardly waits between the answers before one", planned=_clients_own("retry.backoff.ms")
    ),
    "producer-batches": Rule(
        what="records are sent many at a time, compressed",
        works=("w2",),
        planned=_clients_own("linger.ms", "compression.type", "batch.size"),
    ),
}


def measured(
    session: SparkSession, at: Place, work: str, rule: Rule, without: bool, expected: Expected, number: int
) -> float:
    """Events a second of one run; ends the benchmark if its answer is wrong."""
    from headrace.check import load
    from headrace.compile.planner import plan
    from headrace.connectors.kafka_transactions import MARKS

    out = f"rules-{number}"
    at.topic(out)
    folder = at.fresh(out)
    text = flow(work, _WIDE if rule.schema else TOPIC, out)
    if rule.schema:
        text = re.sub("schema: .*", f'schema: "{rule.schema}"', text)
    file = Path(folder, f"{work}.yaml")
    file.write_text(text, encoding="utf-8")
    made = plan(load(file), cores=2)
    with rule.always(), rule.patched() if without else nullcontext():
        begun, ended, _ = once(session, rule.planned(made) if without else made, folder, at.bootstrap)
    check = answers.wrong_windows if work == "w1" else answers.wrong_records
    if wrong := check(expected, answers.written(at.client, out)):
        sys.exit(f"{work}, {'without' if without else 'with'} {rule.what}: {wrong}")
    at.clear(keep=[TOPIC, _WIDE, MARKS])  # which this process knows to be there
    shutil.rmtree(folder)
    return expected.events / (ended - begun)


def main(arguments: list[str]) -> None:
    """Measures, prints a table, keeps the result."""
    from headrace.project import Project
    from headrace.run.inline import local_session

    parser = results.parser("rules", __doc__)
    parser.add_argument("--events", type=int, default=FULL)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="+", default=list(RULES), metavar="RULE")
    asked = parser.parse_args(arguments)
    runs = results.Runs(asked, {"events": asked.events, "rounds": asked.rounds})
    with place() as at:
        expected = load_events(at.client, TOPIC, asked.events)
        load_events(at.client, _WIDE, asked.events, wide=True)
        session = local_session(Project.find(at.folder), cores=2)
        number = 0
        for work in ("w1", "w2"):
            for _ in range(3):  # Java is slow at first
                number += 1
                measured(session, at, work, RULES["fetch-wait"], False, expected, number)
            for name, rule in RULES.items():
                if work not in rule.works or name not in asked.only or name in runs.found.get(work, {}):
                    continue
                rates: dict[str, list[float]] = {"with": [], "without": []}
                for _ in range(asked.rounds):
                    for kind, found in rates.items():
                        number += 1
                        found.append(measured(session, at, work, rule, kind == "without", expected, number))
                kept = {kind: spread(found) for kind, found in rates.items()}
                runs.found.setdefault(work, {})[name] = {"what": rule.what, **kept}
                print(
                    f"{work} {name:20} {kept['with']['median']:,} with, {kept['without']['median']:,} without",
                    flush=True,
                )
                runs.keep()
        session.stop()
    print(f"\n{report.rules_text(runs.keep(whole=True))}")
    report.write()


if __name__ == "__main__":
    main(sys.argv[1:])

"""What a run remembers, read from its checkpoint by key or as a scan, while it runs and after it has stopped.

Read as of the last batch that is done, which stays as it is while the run goes on. Nothing is written there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.errors import InternalError, UsageError, nearest
from headrace.operators.drawers import DRAWER
from headrace.operators.keyed import EXPIRES
from headrace.operators.ordered import LIKE, PACKED
from headrace.run.checkpoint import last_committed, planned
from headrace.run.home import Home

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One thing that is remembered for a key."""

    key: Mapping[str, Any]
    value: Any
    state: str = ""
    """Which of a processor's states, or which side of a join; empty where there is only one."""
    at: Any = None
    """The key within a map state."""
    expires: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """Without what does not apply."""
        said = {"key": dict(self.key), "state": self.state, "at": self.at, "value": self.value, "expires": self.expires}
        return {k: v for k, v in said.items() if k in ("key", "value") or v not in ("", None)}


@dataclass(frozen=True, kw_only=True)
class Found:
    """What was found, as of a batch."""

    run: str
    step: str
    query: str
    batch: int
    entries: tuple[Entry, ...]
    more: bool
    """Whether there is more than was asked for."""

    def as_dict(self) -> dict[str, Any]:
        """As plain data, for `--json`."""
        head = {"run": self.run, "step": self.step, "query": self.query, "batch": self.batch, "more": self.more}
        return {**head, "entries": [e.as_dict() for e in self.entries]}


def query_of(home: Home, step: str) -> str:
    """The query whose checkpoint holds a step's state; raises UsageError."""
    queries: Mapping[str, Any] = home.read().queries
    held = {name: query for query, about in queries.items() for name in about.get("stateful", {})}
    if step not in held:
        there = nearest(step, sorted(held)).replace("It takes", "State is held by")
        hint = there if held else "no step of this flow remembers anything between batches"
        raise UsageError(f'run "{home.name}" holds no state for a step "{step}"', hint=hint)
    return held[step]


def settings_of(checkpoint: Path, batch: int) -> dict[str, str]:
    """The settings a checkpoint was written with and must be read with, such as the kind of its store."""
    kept: Mapping[str, Any] = planned(checkpoint, batch).metadata.get("conf", {})
    return {name: str(value) for name, value in kept.items() if ".stateStore." in name}


def read(home: Home, step: str, session: SparkSession, *, key: str | None = None, limit: int = 20) -> Found:
    """What a step remembers, all of it or of one key; raises UsageError for what is not there."""
    query = query_of(home, step)
    checkpoint = home.checkpoint(query)
    batch = last_committed(checkpoint)
    if batch is None:
        raise UsageError(f'run "{home.name}" has not finished a batch yet, so nothing is remembered')
    for name, value in settings_of(checkpoint, batch).items():
        session.conf.set(name, value)
    steps = list(home.read().queries[query]["stateful"])
    entries = _entries(session, checkpoint, batch, steps.index(step), len(steps), key, limit)
    return Found(
        run=home.name, step=step, query=query, batch=batch, entries=tuple(entries[:limit]), more=len(entries) > limit
    )


def _entries(
    session: SparkSession, checkpoint: Path, batch: int, index: int, count: int, key: str | None, limit: int
) -> list[Entry]:
    try:
        about = _operator(session, checkpoint, index, count)
        found: list[Entry] = []
        for state, options in _parts(about):
            reader = (
                session.read.format("statestore").option("batchId", batch).option("operatorId", about["operatorId"])
            )
            for name, value in options.items():
                reader = reader.option(name, value)
            frame = _unpacked(_by_key(reader.load(str(checkpoint))))
            if key is not None:
                frame = frame.where(_is_key(frame, key))
            rows = frame.limit(max(0, limit + 1 - len(found))).collect()
            found += [_entry(state, row.asDict(recursive=True)) for row in rows]
        return found
    except UsageError:
        raise
    except Exception as error:
        from headrace.run.failure import root_cause

        raise InternalError("the state could not be read", detail=root_cause(str(error))) from error


def _operator(session: SparkSession, checkpoint: Path, index: int, count: int) -> dict[str, Any]:
    """Spark's own description of a stateful operator; it numbers them from the sink up, we from the source down."""
    rows = session.read.format("state-metadata").load(str(checkpoint)).collect()
    known = {row["operatorId"]: row.asDict() for row in rows}
    numbers = sorted(known, reverse=True)
    if len(numbers) != count:
        raise UsageError(
            f"the checkpoint holds {len(numbers)} states for {count} steps, and it cannot be told which is whose"
        )
    return known[numbers[index]]


def _parts(about: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, str]]]:
    """What can be read of an operator: its name among ours, and the reader's options."""
    name = str(about["operatorName"])
    if name.startswith("symmetricHashJoin"):
        for side in ("left", "right"):
            yield side, {"joinSide": side}
    elif name.startswith("transformWithState"):
        variables = json.loads(about["operatorProperties"])["stateVariables"]
        own = [v for v in variables if not v["stateName"].startswith(("_", "$"))]
        for variable in own:
            said = "" if len(own) == 1 else variable["stateName"]
            yield said, {"stateVarName": variable["stateName"]}
    else:
        yield "", {}


def _by_key(frame: DataFrame) -> DataFrame:
    """The entries under their own keys, where keys share drawers."""
    from pyspark.sql import functions as F

    if frame.select("key.*").columns != [DRAWER]:
        return frame
    return frame.select(F.col("user_map_key").alias("key"), F.col("user_map_value").alias("value"))


def _unpacked(frame: DataFrame) -> DataFrame:
    """The entries with their records in the place of the bytes."""
    from pyspark.sql import Column
    from pyspark.sql import functions as F

    kind: Any = frame.schema["value"].dataType if "value" in frame.columns else None
    if LIKE not in getattr(kind, "names", ()):
        return frame
    java: Any = frame.sparkSession._jvm
    packed: Any = F.col(f"value.{PACKED}")
    held = Column(java.headrace.InOrder.held(packed._jc, kind[LIKE].dataType.json()))
    return frame.select("key", held.alias("value"))


def _is_key(frame: DataFrame, key: str) -> Any:
    """The condition that an entry is of a key, given as `ann`, `ann,3` or `user=ann,day=3`."""
    from pyspark.sql import functions as F

    columns = list(frame.select("key.*").columns)
    given = parse_key(key, columns)
    wanted = F.lit(True)
    for name, text in given.items():
        column = F.col(f"key.`{name}`")
        wanted = wanted & (column.isNull() if text is None else (column.cast("string") == text))
    return wanted


def parse_key(key: str, columns: list[str]) -> dict[str, str | None]:
    """Texts by key column; some columns may be left out if the others are named.

    >>> parse_key("ann", ["user"]), parse_key("user=ann", ["user", "day"]), parse_key("ann,null", ["user", "day"])
    ({'user': 'ann'}, {'user': 'ann'}, {'user': 'ann', 'day': None})
    """
    parts = [key] if len(columns) == 1 else re.split(r",\s*", key)
    named = [part.partition("=") for part in parts]
    if all(sign and name in columns for name, sign, _ in named):
        found = {name: value for name, _, value in named}
    elif len(parts) == len(columns):
        found = dict(zip(columns, parts, strict=True))
    else:
        shown = ", ".join(columns)
        hint = "write " + ",".join(f"{name}=…" for name in columns) + ", or the values in that order"
        raise UsageError(f'"{key}" is not a key here; a key is made of {shown}', hint=hint)
    return {name: None if value == "null" else value for name, value in found.items()}


def _entry(state: str, row: Mapping[str, Any]) -> Entry:
    value = row.get("value", row.get("list_element", row.get("user_map_value")))
    expires = None
    if isinstance(value, dict) and set(value) == {"value", "ttlExpirationMs"}:  # Spark's own time to live
        expires, value = value["ttlExpirationMs"], value["value"]
    if isinstance(value, dict) and EXPIRES in value:
        expires = value[EXPIRES]
        value = {k: v for k, v in value.items() if k != EXPIRES}
    at = row.get("user_map_key")
    return Entry(
        key=_shown(row["key"]),
        state=state,
        at=_shown(next(iter(at.values())) if isinstance(at, dict) and len(at) == 1 else at),
        value=_shown(value),
        expires=None if expires is None else _time(int(expires)),
    )


def _time(milliseconds: int) -> str:
    when = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds)
    return when.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _shown(value: Any) -> Any:
    """A value as JSON can say it."""
    if isinstance(value, Mapping):
        return {str(k): _shown(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_shown(v) for v in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, bytes | bytearray):
        return bytes(value).hex()
    return value.isoformat() if hasattr(value, "isoformat") else str(value)

"""What a run has done so far, in numbers, from what Spark reports after each batch. Pure.

`measure` turns one report into the fields of a "progress" event; `Totals` adds events up; `show` makes the
line a person reads.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

OUT_METRIC = "headrace_out"
"""The name under which the driver counts the rows that leave a query's trunk."""

RECENT = 10.0
"""Seconds over which the shown rate is taken: short enough to follow a change, long enough to be read."""


def measure(report: Mapping[str, Any], query: str, sources: Sequence[str] = ()) -> dict[str, Any]:
    """The fields of a "progress" event from one of Spark's progress reports.

    `sources` are the flow's names of what the query reads; with several, Spark's own description is used,
    since its order need not be ours.
    """
    read = [_source(s, sources[0] if len(sources) == 1 else None) for s in report.get("sources", ())]
    observed = dict(report.get("observedMetrics") or {})
    out = (observed.pop(OUT_METRIC, None) or {}).get("rows")
    operators = report.get("stateOperators") or ()
    lags = [s["lag"] for s in read if s["lag"] is not None]
    durations = report.get("durationMs") or {}
    return {
        "query": query,
        "batch": report["batchId"],
        "in": report.get("numInputRows", 0),
        "out": out,
        "rate": _round(report.get("processedRowsPerSecond")),
        "seconds": round(durations.get("triggerExecution", report.get("batchDuration", 0)) / 1000, 3),
        "split": {name: round(ms / 1000, 3) for name, ms in durations.items() if name != "triggerExecution"},
        "watermark": _watermark(report),
        "watermarks": _watermarks(observed),
        "lag": sum(lags) if lags else None,
        "state": sum(o.get("numRowsTotal", 0) for o in operators) if operators else None,
        "state_bytes": sum(o.get("memoryUsedBytes", 0) for o in operators) if operators else None,
        "late": _late(observed, operators),
        "refused": sum(map(_refused, operators)),
        "unreadable": sum(int(m.get("unreadable") or 0) for m in observed.values()),
        "sources": read,
        "observed": observed,
    }


def _late(observed: Mapping[str, Mapping[str, Any]], operators: Sequence[Mapping[str, Any]]) -> int:
    """Records that came too late. Before an aggregate they are counted one by one; behind it Spark counts rows."""
    counted = [int(metrics["late"] or 0) for metrics in observed.values() if "late" in metrics]
    others = (o for o in operators if not (counted and "StateStoreSave" in str(o.get("operatorName"))))
    return sum(counted) + sum(map(_refused, others))


def _refused(operator: Mapping[str, Any]) -> int:
    """Rows that a state has refused as too late."""
    return int(operator.get("numRowsDroppedByWatermark", 0))


def _source(report: Mapping[str, Any], name: str | None) -> dict[str, Any]:
    end, latest = _json(report.get("endOffset")), _json(report.get("latestOffset"))
    return {
        "name": name or describe_source(str(report.get("description", ""))),
        "in": report.get("numInputRows", 0),
        "from": _json(report.get("startOffset")),
        "to": end,
        "lag": lag(end, latest),
    }


def describe_source(description: str) -> str:
    """A short name for a source that Spark describes.

    >>> describe_source("KafkaV2[Subscribe[tweets]]"), describe_source("FileStreamSource[file:/data/in]")
    ('kafka tweets', 'files /data/in')
    """
    kafka = re.match(r"KafkaV2?\[\w+\[(.*)\]\]", description) or re.match(r"KafkaSource\w*\[\w+\[(.*)\]\]", description)
    files = re.match(r"FileStreamSource\[(?:file:)?(.*)\]", description)
    if kafka:
        return f"kafka {kafka[1]}"
    if files:
        return f"files {files[1]}"
    return re.split(r"[\[(@]", description, maxsplit=1)[0].removesuffix("V2").removesuffix("Stream").lower() or "source"


def lag(end: Any, latest: Any) -> int | None:
    """Records that are there but not read yet; None where offsets do not count records.

    >>> lag({"tweets": {"0": 5, "1": 7}}, {"tweets": {"0": 9, "1": 7}})
    4
    """
    if not isinstance(latest, dict) or not latest or not all(isinstance(p, dict) for p in latest.values()):
        return None
    done = end if isinstance(end, dict) else {}
    try:
        return sum(
            max(0, int(at) - int((done.get(topic) or {}).get(partition, 0)))
            for topic, partitions in latest.items()
            for partition, at in partitions.items()
        )
    except (TypeError, ValueError, AttributeError):
        return None


def _json(value: Any) -> Any:
    if isinstance(value, str):
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value


def _round(value: Any) -> float | None:
    return round(float(value), 1) if isinstance(value, int | float) and value == value else None


def _watermark(report: Mapping[str, Any]) -> str | None:
    """The watermark as it is; Spark's epoch means that there is none yet."""
    mark = (report.get("eventTime") or {}).get("watermark")
    return None if mark is None or mark.startswith("1970-01-01T00:00:00") else str(mark)


def _watermarks(observed: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """How far each source has come, less its delay, by the records of one batch."""
    found = {n.removesuffix(".time"): m.get("watermark") for n, m in observed.items() if n.endswith(".time")}
    return {name: _iso(int(mark)) for name, mark in found.items() if mark is not None}


def _iso(milliseconds: int) -> str:
    when = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds)
    return when.isoformat(timespec="milliseconds").replace("+00:00", "Z")


@dataclass(frozen=True, kw_only=True)
class Totals:
    """What a run has done, added up over its batches. A batch that is repeated after a crash counts once."""

    rows_in: int = 0
    rows_out: int | None = None
    late: int = 0
    unreadable: int = 0
    """Records that their format could not read; they are left out."""
    letters: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Of each query: the last batch that had dead letters, and how many there were up to it."""
    batches: int = 0
    last: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """The newest progress of each query."""
    recent: tuple[tuple[float, int], ...] = ()
    watermarks: Mapping[str, str] = field(default_factory=dict)
    """Each source's own watermark; a query's is the slowest of its sources', one batch later."""

    def add(self, event: Mapping[str, Any]) -> Totals:
        """With one more "progress" event."""
        query, batch = event["query"], event["batch"]
        known = self.last.get(query)
        if known is not None and batch <= known["batch"]:
            return self
        out = event.get("out")
        at = _at(event)
        return replace(
            self,
            rows_in=self.rows_in + event["in"],
            rows_out=self.rows_out if out is None else (self.rows_out or 0) + out,
            late=self.late + (event.get("late") or 0),
            unreadable=self.unreadable + (event.get("unreadable") or 0),
            batches=self.batches + 1,
            last={**self.last, query: event},
            watermarks=_later(self.watermarks, event.get("watermarks") or {}),
            recent=(*(r for r in self.recent if r[0] > at - RECENT), (at - event["seconds"], event["in"])),
        )

    def add_letters(self, event: Mapping[str, Any]) -> Totals:
        """With one more "dead-letters" event."""
        query, batch = event["query"], event["batch"]
        last, number = self.letters.get(query, (-1, 0))
        if batch <= last:
            return self
        return replace(self, letters={**self.letters, query: (batch, number + sum(event["steps"].values()))})

    @property
    def dead_letters(self) -> int:
        """Records that could not be taken, and are kept."""
        return sum(number for _, number in self.letters.values())

    def rate(self, now: float) -> float:
        """Records read per second, lately."""
        fresh = [r for r in self.recent if r[0] > now - RECENT]
        if fresh:
            return sum(n for _, n in fresh) / max(1.0, now - fresh[0][0])
        # Batches that last longer, as in real-time mode: the last one's rate holds until the next is due.
        held = [e for e in self.last.values() if e["seconds"] >= RECENT / 2 and now < _at(e) + e["seconds"] + RECENT]
        return float(sum(e["in"] / e["seconds"] for e in held))

    @property
    def lag(self) -> int | None:
        """Records not read yet, over all queries."""
        return _sum(e.get("lag") for e in self.last.values())

    @property
    def state(self) -> int | None:
        """Rows held in state."""
        return _sum(e.get("state") for e in self.last.values())

    @property
    def watermark(self) -> str | None:
        """The slowest query's watermark."""
        marks = [m for e in self.last.values() if (m := e.get("watermark")) is not None]
        return min(marks) if marks else None

    def as_dict(self) -> dict[str, Any]:
        """The numbers alone, for the index, `status --json` and the API."""
        return {
            "in": self.rows_in,
            "out": self.rows_out,
            "late": self.late,
            "unreadable": self.unreadable,
            "dead_letters": self.dead_letters,
            "batches": self.batches,
            "lag": self.lag,
            "state": self.state,
            "watermark": self.watermark,
            "watermarks": dict(self.watermarks),
        }


def _at(event: Mapping[str, Any]) -> float:
    return datetime.fromisoformat(event["at"]).timestamp()


def _later(known: Mapping[str, str], new: Mapping[str, str]) -> dict[str, str]:
    """The later of two times for each name; as text, which sorts as they do."""
    return {name: max(m for m in (known.get(name), new.get(name)) if m is not None) for name in (*known, *new)}


def _sum(values: Any) -> int | None:
    known = [v for v in values if v is not None]
    return sum(known) if known else None


def show(totals: Totals, now: float, width: int | None = None) -> str:
    """The numbers as one line, cut to `width`: what matters most stands first.

    >>> show(Totals(rows_in=1234567, rows_out=10, batches=3), now=0.0)
    'in 1,234,567 · out 10 · 0/s · 3 batches'
    """
    mark = totals.watermark
    parts = [
        f"in {totals.rows_in:,}",
        f"out {totals.rows_out:,}" if totals.rows_out is not None else "",
        f"{short(totals.rate(now))}/s",
        f"lag {totals.lag:,}" if totals.lag is not None else "",
        f"watermark {show_time(mark)}{_each(totals.watermarks)}" if mark else "",
        f"late {totals.late:,}" if totals.late else "",
        f"unreadable {totals.unreadable:,}" if totals.unreadable and not totals.dead_letters else "",
        f"dead letters {totals.dead_letters:,}" if totals.dead_letters else "",
        f"{totals.batches:,} batch{'es' if totals.batches != 1 else ''}",
        f"state {totals.state:,}" if totals.state is not None else "",
    ]
    line = " · ".join(p for p in parts if p)
    return line if width is None or len(line) <= width else line[: max(0, width - 1)] + "…"


def _each(marks: Mapping[str, str]) -> str:
    """The watermark of each source, where there are several.

    >>> _each({"orders": "2024-01-01T00:02:26.000Z", "payments": "2024-01-01T00:02:20.000Z"})
    ' (orders 00:02:26, payments 00:02:20)'
    """
    shown = ", ".join(f"{name} {show_time(mark)[-8:]}" for name, mark in sorted(marks.items()))
    return f" ({shown})" if len(marks) > 1 else ""


def show_time(mark: str) -> str:
    """A point in time in UTC to the second, as short as it can be said.

    >>> show_time("2024-01-01T00:02:26.000Z"), show_time("9999-01-01T00:00:00.000Z")
    ('2024-01-01 00:02:26', 'end')
    """
    at = datetime.fromisoformat(mark).astimezone(UTC)
    return "end" if at.year >= 9999 else f"{at:%Y-%m-%d %H:%M:%S}"


def short(number: float) -> str:
    """A number in three digits or so.

    >>> short(12), short(1234), short(2_500_000)
    ('12', '1.2k', '2.5M')
    """
    for size, unit in ((1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.1f}{unit}"
    return f"{number:.0f}"

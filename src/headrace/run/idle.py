"""Sources that fall silent: after their `idle` timeout they no longer hold the watermark back.

Spark moves a watermark only with records, and refuses to have it moved under a running query. So the query is ended
between two batches, the next batch is planned by hand with the watermark it should have and no new records, as in
`headrace.run.flush`, and the query goes on from there. Like any other batch it is durable before it runs.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace.compile.plan import Plan, Query
from headrace.connectors.time import Time
from headrace.observe import events
from headrace.run.checkpoint import last_committed, last_planned, planned
from headrace.run.flush import holds_windows, plan_watermark
from headrace.run.home import Home
from headrace.run.queries import Running, Stopping

STOP_WITHIN = 30.0
FARTHEST = 16
"""How many times the silence it takes may lie at most between two moves: where others go on, their answers wait."""


@dataclass(kw_only=True)
class Silence:
    """What is known of one query's sources. Times are seconds of a clock that only runs forward."""

    times: Mapping[str, Time]
    """The sources that have a time."""
    since: dict[str, float]
    """When each gave its last record."""
    marks: dict[str, int] = field(default_factory=dict)
    """How far each has come: its newest event time less its delay, in milliseconds; without those that gave none."""
    state: int | None = None
    """Rows held; None: not known yet."""
    batch: int | None = None
    """The last batch that was reported."""
    heard: float = 0.0
    """When that was."""
    spoken: set[str] = field(default_factory=set)
    """Those that gave a record since the query was started: Spark forgets then how far each had come."""
    past: set[str] = field(default_factory=set)
    """The silent sources that time was moved past."""
    tries: int = 0
    """How often it was, since one of them last spoke."""
    tried: float = -math.inf

    def note(self, measured: Mapping[str, Any], now: float) -> None:
        """Takes in what a batch reported."""
        self.state, self.batch, self.heard = measured.get("state"), measured.get("batch"), now
        for name, time_ in self.times.items():
            seen = measured["observed"].get(f"{name}.time") or {}
            if not seen.get("records"):
                continue
            self.since[name] = now
            self.spoken.add(name)
            if seen["newest"]:
                mark = int(seen["newest"]) - _milliseconds(time_)
                self.marks[name] = max(self.marks.get(name, mark), mark)
            if name in self.past:
                self.past.remove(name)
                self.tries = 0

    def due(self, now: float) -> int | None:
        """The watermark in milliseconds that should hold now because sources are silent; None: none of them is.

        Where others go on, the slowest of them leads, however far a silent one had come. Where all are silent nobody is
        waited for: the one that came farthest leads, and time goes on as the clock does.
        """
        quiet = self.quiet(now)
        live = [name for name in self.times if name not in quiet]
        if not quiet or not self.marks or self.state == 0:
            return None
        shortest = min(time_.idle.total_seconds() for n in quiet if (time_ := self.times[n]).idle is not None)
        if now - self.tried < shortest * min(2**self.tries, FARTHEST):
            return None  # each time at twice the distance: a query that goes on is better than one that restarts
        if not live:
            return max(self.marks.values()) + round((now - max(self.since.values())) * 1000)
        if not set(live) <= set(self.marks):
            return None  # one that is to be waited for has not given a record yet
        lead = min(self.marks[name] for name in live)
        behind = (name not in self.spoken or self.marks.get(name, lead) < lead for name in quiet)
        return lead if any(behind) else None

    def quiet(self, now: float) -> list[str]:
        """The sources that have been silent for as long as they may be waited for."""
        return [
            name
            for name, time_ in self.times.items()
            if time_.idle is not None and now - self.since[name] >= time_.idle.total_seconds()
        ]

    def move(self, now: float) -> None:
        """Notes that time is moved past the silent sources."""
        self.past.update(self.quiet(now))
        self.spoken.clear()
        self.tries, self.tried = self.tries + 1, now


def _milliseconds(time_: Time) -> int:
    return round(time_.watermark.total_seconds() * 1000)


class Idle:
    """Watches the queries whose sources have an `idle` timeout."""

    def __init__(self, plan: Plan, home: Home, clock: Callable[[], float] = time.monotonic) -> None:
        self._home, self._clock, self._lock = home, clock, threading.Lock()
        self._silences = {query.name: made for query in plan.queries if (made := self._silence(plan, query))}
        self._deaf = set(self._silences)
        """The queries that have not looked for records yet: it is not their sources that are silent."""

    def _silence(self, plan: Plan, query: Query) -> Silence | None:
        times = {s.name: s.time for s in plan.flow.sources if s.name in query.sources and s.time is not None}
        if not any(time_.idle for time_ in times.values()):
            return None
        now, checkpoint = self._clock(), self._home.checkpoint(query.name)
        batch = last_committed(checkpoint)
        # Of an earlier run only the watermark is known: each source is taken to have come so far.
        mark = planned(checkpoint, batch).metadata.get("batchWatermarkMs", 0) if batch is not None else 0
        return Silence(
            times=times,
            since=dict.fromkeys(times, now),
            marks=dict.fromkeys(times, mark) if mark else {},
            batch=batch,
            heard=now,
        )

    def note(self, measured: Mapping[str, Any]) -> None:
        """A batch was committed."""
        with self._lock:
            silence = self._silences.get(measured["query"])
            if silence is not None:
                silence.note(measured, self._clock())
                self._deaf.discard(measured["query"])

    def tend(self, running: list[Running], stopping: Stopping) -> None:
        """Moves time on where a silence has lasted too long."""
        for one in running:
            mark = self._due(one.query.name) if self._listens(one) else None
            if mark is None or not one.active or stopping.asked:
                continue
            if not holds_windows(one.query, watermarked=one.watermarked):
                continue
            refused = one.hold(STOP_WITHIN)
            one.check()
            if plan_watermark(self._home.checkpoint(one.query.name), mark, refused=refused) is not None:
                events.append(self._home.events, "idle", query=one.query.name, watermark=mark)
            one.resume()

    def _listens(self, one: Running) -> bool:
        """Whether a query has looked for records since this process began; silence is counted from then on."""
        name = one.query.name
        with self._lock:
            if name not in self._deaf:
                return True
            if one.active and one.waits:
                self._deaf.remove(name)
                self._silences[name].since = dict.fromkeys(self._silences[name].times, self._clock())
        return False

    def _due(self, query: str) -> int | None:
        """The watermark that a query is to be moved to now; None: it is not to be moved."""
        with self._lock:
            silence, now = self._silences.get(query), self._clock()
            if silence is None or silence.due(now) is None:
                return None
            if last_planned(self._home.checkpoint(query)) != silence.batch:
                now = silence.heard  # whose records the batch has that is under way is not known yet
            mark = silence.due(now)
            if mark is not None:
                silence.move(now)
            return mark

"""Sources that fall silent: after their `idle` timeout they no longer hold the watermark back.

Spark moves a watermark only with records, and refuses to have it moved under a running query. So the query is ended
between two batches, the next batch is planned by hand with the watermark it should have and no new records, as in
`headrace.run.flush`, and the query goes on from there. Like any other batch it is durable before it runs.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace.compile.plan import Plan, Query
from headrace.connectors.time import Time
from headrace.observe import events
from headrace.run.checkpoint import last_committed, planned
from headrace.run.flush import holds_windows, plan_watermark
from headrace.run.home import Home
from headrace.run.queries import Running, Stopping

STOP_WITHIN = 30.0


@dataclass(kw_only=True)
class Silence:
    """What is known of one query's sources. Times are seconds of a clock that only runs forward."""

    times: Mapping[str, Time]
    """The sources that have a time."""
    since: dict[str, float]
    """When each gave its last record."""
    newest: int | None = None
    """The newest event time in milliseconds."""
    state: int | None = None
    """Rows held; None: not known yet."""
    tries: int = 0
    """How often time was moved on since the last record."""
    tried: float = field(default=0.0)

    def note(self, measured: Mapping[str, Any], now: float) -> None:
        """Takes in what a batch reported."""
        self.state = measured.get("state")
        for name in self.times:
            seen = measured["observed"].get(f"{name}.time") or {}
            if seen.get("records"):
                self.since[name], self.tries = now, 0
                self.newest = max(self.newest or 0, int(seen["newest"] or 0)) or None

    def due(self, now: float) -> int | None:
        """The watermark in milliseconds that should hold now because sources are silent; None: none of them is.

        Where others go on, theirs leads; where all are silent, time goes on as the clock does.
        """
        quiet = [
            name
            for name, time_ in self.times.items()
            if time_.idle is not None and now - self.since[name] >= time_.idle.total_seconds()
        ]
        if not quiet or self.newest is None or self.state == 0:
            return None
        shortest = min(self.times[name].idle.total_seconds() for name in quiet)  # type: ignore[union-attr]
        if self.tries and now - self.tried < shortest * 2**self.tries:
            return None  # each time at twice the distance: a query that goes on is better than one that restarts
        passed = now - max(self.since.values()) if len(quiet) == len(self.times) else 0.0
        delay = max(time_.watermark.total_seconds() for time_ in self.times.values())
        return self.newest + round((passed - delay) * 1000)


class Idle:
    """Watches the queries whose sources have an `idle` timeout."""

    def __init__(self, plan: Plan, home: Home, clock: Callable[[], float] = time.monotonic) -> None:
        self._home, self._clock, self._lock = home, clock, threading.Lock()
        self._silences = {query.name: made for query in plan.queries if (made := self._silence(plan, query))}

    def _silence(self, plan: Plan, query: Query) -> Silence | None:
        times = {s.name: s.time for s in plan.flow.sources if s.name in query.sources and s.time is not None}
        if not any(time_.idle for time_ in times.values()):
            return None
        return Silence(times=times, since=dict.fromkeys(times, self._clock()), newest=self._known(query.name, times))

    def _known(self, query: str, times: Mapping[str, Time]) -> int | None:
        """The newest time of an earlier run, by its watermark."""
        checkpoint = self._home.checkpoint(query)
        batch = last_committed(checkpoint)
        mark = planned(checkpoint, batch).metadata.get("batchWatermarkMs", 0) if batch is not None else 0
        return int(mark + max(t.watermark.total_seconds() for t in times.values()) * 1000) if mark else None

    def note(self, measured: Mapping[str, Any]) -> None:
        """A batch was committed."""
        with self._lock:
            silence = self._silences.get(measured["query"])
            if silence is not None:
                silence.note(measured, self._clock())

    def tend(self, running: list[Running], stopping: Stopping) -> None:
        """Moves time on where a silence has lasted too long."""
        for one in running:
            with self._lock:
                silence, now = self._silences.get(one.query.name), self._clock()
                mark = silence.due(now) if silence is not None else None
                if silence is None or mark is None:
                    continue
                silence.tries, silence.tried = silence.tries + 1, now
            if not one.active or stopping.asked or not holds_windows(one.query, watermarked=one.watermarked):
                continue
            one.stop(STOP_WITHIN)
            one.check()
            if plan_watermark(self._home.checkpoint(one.query.name), mark) is not None:
                events.append(self._home.events, "idle", query=one.query.name, watermark=mark)
            one.resume()

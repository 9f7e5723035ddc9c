"""Functions of the golden flow beside it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from headrace import ListState, Processor, ValueState


def running(record: dict[str, Any], state: dict[str, Any] | None) -> tuple[dict[str, Any], dict[str, Any]]:
    total = (state["total"] if state else 0) + record["x"]
    return {**record, "total": total}, {"total": total}


class Silence(Processor):
    """Says when a key has been silent for twenty seconds, and what it had said before."""

    returns = "k STRING, since TIMESTAMP, n BIGINT, said ARRAY<BIGINT>"
    clicks = ValueState("n BIGINT")
    said = ListState("x BIGINT")
    bound = "cleared twenty seconds after the last record"

    def on_record(self, record: dict[str, Any], state: Any, timers: Any) -> None:
        state.clicks.set(state.clicks.get(0) + 1)
        state.said.append(record["x"])
        for old in timers.all():
            timers.delete(old)
        timers.at(record["at"] + timedelta(seconds=20))

    def on_timer(self, when: datetime, key: dict[str, Any], state: Any, timers: Any) -> Iterator[dict[str, Any]]:
        yield {"k": key["k"], "since": when, "n": state.clicks.get(), "said": list(state.said)}
        state.clicks.clear()
        state.said.clear()

"""Functions of the dead letter tests; some records make them raise."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from headrace.author.topology import Bolt, Out, Record, Store
from headrace.processor import Processor, ValueState


def share(amount: float, of: int) -> float:
    """Raises on zero."""
    print(end="")  # keeps it from being compiled to an expression
    return amount / of


def shouted(record: dict[str, Any]) -> dict[str, Any] | None:
    """Raises on a user that is null; gives what does not fit for "liar"."""
    part = "x" if record["user"] == "liar" else record["part"]
    return {"id": record["id"], "user": record["user"].upper(), "part": part}


def halves(record: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Changes what it is given, gives one record, then raises on an odd one."""
    record["n"] *= 10
    yield {"n": record["n"]}
    if record["n"] % 20:
        raise KeyError("odd")
    yield {"n": record["n"] // 2}


class Balance(Processor):
    """Changes its state, then may raise: nothing of that call may stay."""

    total = ValueState("total DOUBLE")
    seen = ValueState("n BIGINT")
    returns = "user STRING, n BIGINT, total DOUBLE"
    bound = "few users"

    def on_record(self, record: dict[str, Any], state: Any, timers: Any) -> dict[str, Any]:
        state.seen.set(state.seen.get(0) + 1)
        state.total.set(state.total.get(0.0) + record["part"])
        if record["part"] > 900:
            raise ValueError(f"{record['part']} is too much")
        return {"user": record["user"], "n": state.seen.get(), "total": state.total.get()}


def initial(user: str | None) -> str:
    """Raises on a user that is null or empty."""
    print(end="")
    return user[0].upper()  # type: ignore[index]  # initial


class Alarm(Processor):
    """How many records there were of a user, a second after the last; raises for one."""

    seen = ValueState("n BIGINT")
    returns = "user STRING, n BIGINT"
    bound = "few users"

    def on_record(self, record: dict[str, Any], state: Any, timers: Any) -> None:
        state.seen.set(state.seen.get(0) + 1)
        for old in timers.all():
            timers.delete(old)
        timers.at(record["at"] + timedelta(minutes=1))

    def on_timer(self, when: Any, key: dict[str, Any], state: Any, timers: Any) -> dict[str, Any] | None:
        n = state.seen.get()
        state.seen.clear()
        if key["user"] == "bad":
            raise ValueError("bad")  # alarm
        return {"user": key["user"], "n": n} if key["user"] else None


class Shout(Bolt):
    """Raises on a user that is null."""

    returns = "id BIGINT, user STRING"

    def execute(self, record: Record, out: Out) -> None:
        out.emit(record["id"], record["user"].upper())  # shout


class Tally(Bolt):
    """Counts, then raises for some users: that is not counted."""

    returns = "user STRING, n BIGINT"
    counts = Store("user STRING", "n BIGINT")
    bound = "few users"

    def execute(self, record: Record, out: Out) -> None:
        user = record["user"]
        self.counts[user] = self.counts.get(user, 0) + 1  # type: ignore[index,attr-defined]
        if user in ("", "BAD"):
            raise KeyError(user)  # tally
        out.emit(user, self.counts[user])  # type: ignore[index]

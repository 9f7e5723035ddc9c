"""Functions of the dead letter tests; some records make them raise."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
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


def _calls(folder: str, name: object) -> int:
    """How often it was called with this, with this call."""
    with (Path(folder) / str(name)).open("ab") as file:
        file.write(b".")
        return file.tell()


def asked(key: str, folder: str) -> str:
    """Raises on the first call only, on all but the first, or always; like a service that is not always there."""
    called, kind = _calls(folder, f"asked-{key}"), key.partition(" ")[0]
    if kind == "always" or (kind == "first" and called == 1) or (kind == "later" and called > 1):
        raise TimeoutError(f"{key} {called}")
    return key.upper()


def told(record: dict[str, Any]) -> dict[str, Any]:
    """The same for whole records, by the hundreds of their numbers; gives what does not fit for one."""
    called, kind = _calls(record["folder"], f"told-{record['id']}"), record["id"] // 100
    if (kind == 1 and called == 1) or (kind == 2 and called > 1):
        raise TimeoutError(f"{record['id']} {called}")
    return {"id": record["id"], "answer": 7 if kind == 3 and called == 1 else record["answer"]}


def halved(amount: float, folder: str) -> float:
    """Raises on 13 as long as it is broken."""
    if amount == 13 and (Path(folder) / "broken").exists():
        raise ValueError("thirteen")
    return amount / 2


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

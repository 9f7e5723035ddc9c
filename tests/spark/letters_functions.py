"""Functions of the dead letter tests; some records make them raise."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

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

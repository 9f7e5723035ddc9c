"""A count per key: whatever the order of a key's records, the numbers 1 to n are given."""

from __future__ import annotations

from typing import Any


def count(record: dict[str, Any], state: dict[str, Any] | None) -> tuple[dict[str, Any], dict[str, Any]]:
    """The record's user and how many came so far."""
    number = (state["n"] if state else 0) + 1
    return {"user": record["user"], "n": number}, {"n": number}

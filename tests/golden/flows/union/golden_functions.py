"""Functions the flow calls: one of the whole record, one of a column."""

from __future__ import annotations

from typing import Any


def tell(record: dict[str, Any]) -> dict[str, Any]:
    return {"id": record["id"], "text": f"number {record['id']:04d}"}


def half(id: int) -> float:
    return id / 2

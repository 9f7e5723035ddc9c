"""A place in a topic: the beginning, the end, an offset or a time."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal

from pydantic_core import PydanticCustomError

from headrace.errors import UsageError
from headrace.options import parse_duration

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

EXAMPLES = '"beginning", "end", an offset such as 1500, a time such as 2026-05-01T12:00:00Z, or "10 min ago"'


@dataclass(frozen=True)
class Position:
    """Where to begin; `value` is an offset, or a time in milliseconds since 1970."""

    kind: Literal["beginning", "end", "offset", "time"]
    value: int = 0


BEGINNING, END = Position("beginning"), Position("end")


def parse_position(text: str, now_ms: int | None = None) -> Position:
    """The position a user wrote; a time without a zone is UTC.

    >>> parse_position("1500"), parse_position("1970-01-01T00:00:01Z"), parse_position("1 s ago", now_ms=5000)
    (Position(kind='offset', value=1500), Position(kind='time', value=1000), Position(kind='time', value=4000))
    """
    word = text.strip()
    if word.lower() in ("beginning", "earliest", "start"):
        return BEGINNING
    if word.lower() in ("end", "latest"):
        return END
    if word.isascii() and word.isdigit():
        return Position("offset", int(word))
    try:
        if ago := re.fullmatch(r"(.+?)\s+ago", word):
            now = round(time.time() * 1000) if now_ms is None else now_ms
            return Position("time", now - round(parse_duration(ago[1]).total_seconds() * 1000))
        moment = datetime.fromisoformat(word)
    except (ValueError, PydanticCustomError):
        raise UsageError(f'"{text}" is not a place in a topic', hint=f"write {EXAMPLES}") from None
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return Position("time", round(aware.timestamp() * 1000))


def resolve(
    asking: AdminClient, client: Mapping[str, str], topic: str, partitions: list[int], position: Position
) -> dict[int, int]:
    """The offset in each partition that a position stands for, within what the partition still has."""
    from confluent_kafka.admin import OffsetSpec

    from headrace.log.client import earliest, latest, offsets

    def ask(spec: Any) -> dict[int, int]:
        return {p: o for (_, p), o in offsets(asking, client, {(topic, p): spec for p in partitions}).items()}

    if position.kind == "beginning":
        return ask(earliest())
    ends = ask(latest())
    if position.kind == "end":
        return ends
    if position.kind == "time":  # -1: nothing is that young, so the place is the end
        found = ask(OffsetSpec.for_timestamp(position.value))
        return {p: ends[p] if found[p] < 0 else found[p] for p in partitions}
    begins = ask(earliest())
    return {p: min(max(position.value, begins[p]), ends[p]) for p in partitions}

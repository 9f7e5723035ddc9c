"""A record as text, JSON or its own bytes, for `headrace consume`."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from typing import Literal

from headrace.log.consume import Consumed

Form = Literal["text", "json", "raw"]


def show(record: Consumed, form: Form = "text", metadata: bool = False) -> bytes:
    """One record, ready to be written.

    text: the value and a new line. json: one object or value a line, bytes that are no text in base64.
    raw: nothing but the value's bytes. `metadata` adds where the record stands, when it came, key and headers.
    """
    if form == "raw":
        return record.value or b""
    if form == "json":
        body = {**_metadata(record), **_value(record.value)} if metadata else next(iter(_value(record.value).values()))
        return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
    before = f"{record.partition}:{record.offset}\t{_time(record) or '-'}\t{_text(record.key)}\t" if metadata else ""
    return before.encode() + _text(record.value).encode() + b"\n"


def _text(value: bytes | None) -> str:
    return "" if value is None else value.decode("utf-8", errors="backslashreplace")


def _time(record: Consumed) -> str | None:
    if record.timestamp is None:
        return None
    return (
        datetime.fromtimestamp(record.timestamp / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    )


def _metadata(record: Consumed) -> dict[str, object]:
    place: dict[str, object] = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": _time(record),
        **_plain("key", record.key),
    }
    return place | ({"headers": {name: _text(value) for name, value in record.headers}} if record.headers else {})


def _plain(name: str, value: bytes | None) -> dict[str, object]:
    try:
        return {name: None if value is None else value.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(value or b"").decode("ascii")}


def _value(value: bytes | None) -> dict[str, object]:
    """JSON stays JSON, other text becomes a JSON string."""
    try:
        return {"value": None if value is None else json.loads(value)}
    except (ValueError, RecursionError):
        return _plain("value", value)

"""What a flow under chaos is given to read: copies of its own records, those of its cases, or made-up ones."""

from __future__ import annotations

import json
import random
import shutil
import threading
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

from headrace.errors import HeadraceError, UsageError
from headrace.model import Source
from headrace.model import types as T
from headrace.testing.cases import read_cases, read_input
from headrace.testing.chaos.scratch import Moved, files_given
from headrace.testing.find import cases_of

Record = tuple[bytes | None, bytes]
_MOST = 20_000
START = datetime(2026, 1, 1, tzinfo=UTC)


def records_for(moved: Moved, source: Source, flow_file: Path, user: Mapping[str, str] | None) -> list[Record] | None:
    """A copy of what the user's topic holds, else what the cases give; None: they are made up."""
    if source.connector == "kafka" and user is not None:
        copied = _copied(source.options.topic, user)
        if copied:
            return copied
    cases = cases_of(flow_file)
    if cases.is_file():
        given = [case.given[source.name] for case in read_cases(cases, moved.original) if source.name in case.given]
        found = [record for value in given for record in read_input(value, cases).records]
        if found:
            return [(None, r.encode() if isinstance(r, str) else json.dumps(r, default=str).encode()) for r in found]
    return None


def _copied(topics: tuple[str, ...], client: Mapping[str, str]) -> list[Record]:
    from headrace.log.consume import consume

    try:
        return [(r.key, r.value or b"") for t in topics for r in consume(client, t, maximum=_MOST, until_end=True)]
    except HeadraceError:
        return []  # the user's Kafka is away, or has no such topic yet


def made_up(source: Source, number: int, draw: random.Random) -> bytes:
    """A JSON record that fits the source's schema: few keys, times that go on, one in twenty some seconds back."""
    if source.schema is None or source.format not in ("json", None):
        raise UsageError(
            f'there are no records for source "{source.name}", and only JSON ones can be made up',
            hint="write cases beside the flow, or run where the topic has records",
        )
    late = draw.uniform(0, 8) if draw.random() < 0.05 else 0
    at = START + timedelta(seconds=number * 0.05 - late)
    return json.dumps({f.name: _value(f.type, f.name, number, at, draw) for f in source.schema}).encode()


def _value(kind: T.DataType, name: str, number: int, at: datetime, draw: random.Random) -> Any:
    if kind in (T.BIGINT, T.INT, T.SMALLINT, T.TINYINT):
        bound = {T.TINYINT: 100, T.SMALLINT: 30_000}.get(kind, 2**31 - 1)
        return number % bound if name.lower().endswith("id") else draw.randrange(100)
    if kind in (T.DOUBLE, T.FLOAT):
        return draw.randrange(4000) / 4
    if isinstance(kind, T.Decimal):
        return draw.randrange(100)
    if kind == T.BOOLEAN:
        return draw.random() < 0.5
    if kind == T.TIMESTAMP:
        return at.isoformat()
    if kind == T.TIMESTAMP_NTZ:
        return at.replace(tzinfo=None).isoformat()
    if kind == T.DATE:
        return date(2026, 1, 1 + number % 28).isoformat()
    if isinstance(kind, T.Array):
        return [_value(kind.item, name, number, at, draw)]
    if isinstance(kind, T.Struct):
        return {f.name: _value(f.type, f.name, number, at, draw) for f in kind.fields}
    return f"{name}-{draw.randrange(20)}"


class Feeder(threading.Thread):
    """Gives one source its records at a steady pace until it is told to stop; through outages, each once."""

    def __init__(self, moved: Moved, source: Source, records: list[Record] | None, *, rate: float, seed: int) -> None:
        super().__init__(name=f"feed {source.name}", daemon=True)
        self._moved, self._source, self._records, self._rate = moved, source, records, rate
        self._draw, self._ended, self.fed = random.Random(seed), threading.Event(), 0
        self.bootstrap = ""
        self.failure: Exception | None = None

    def stop(self) -> None:
        self._ended.set()

    def run(self) -> None:
        try:
            if self._source.connector == "kafka":
                self._to_topic()
            else:
                self._to_files()
        except Exception as error:  # noqa: BLE001 - told by whoever waits for the thread
            self.failure = error

    def _next(self) -> Record:
        number, self.fed = self.fed, self.fed + 1
        if self._records is None:
            return None, made_up(self._source, number, self._draw)
        return self._records[number % len(self._records)]

    def _to_topic(self) -> None:
        from confluent_kafka import Producer

        # Idempotent, and patient: a broker that is killed must neither lose nor double what it is sent.
        writer = Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "enable.idempotence": True,
                "delivery.timeout.ms": 600_000,
                "log_level": 0,
            }
        )
        wrong: list[str] = []
        topics = self._source.options.topic
        while not self._ended.wait(1 / self._rate):
            key, value = self._next()
            topic = topics[self.fed % len(topics)]
            writer.produce(topic, value, key, on_delivery=lambda e, _: wrong.append(str(e)) if e else None)
            writer.poll(0)
        left = writer.flush(600)
        if left or wrong:
            raise UsageError(f"{left + len(wrong)} records could not be fed: {wrong[:1] or 'no answer'}")

    def _to_files(self) -> None:
        inbox = self._moved.inbox(self._source)
        given = files_given(self._moved, self._source) if self._records is None else []
        number = 0
        while not self._ended.wait(20 / self._rate):
            draft = inbox / f".{number:06d}"
            if number < len(given):
                shutil.copy(given[number], draft)
            else:
                lines = [self._next()[1] for _ in range(20)]
                draft.write_bytes(b"\n".join(lines) + b"\n")
            draft.rename(inbox / f"{number:06d}.json")
            number += 1

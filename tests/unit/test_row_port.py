"""Rows brought to a sink one by one: all of them, in order, and what goes wrong is told to the task."""

from __future__ import annotations

import contextlib
import json
import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack, closing
from decimal import Decimal
from typing import Any

import pytest

from headrace.connectors.row_port import Port, Take, valued
from headrace.errors import EndpointError
from headrace.expressions.spark import spark_type
from headrace.model.types import parse_type
from tests.waiting import eventually


class Tasks:
    """Makes ports and connects to them as tasks do; all is closed at the end."""

    def __init__(self, stack: ExitStack) -> None:
        self.stack, self.taken = stack, list[list[Any]]()

    def connect(self, *names: str, take: Take | None = None, secret: str | None = None) -> socket.socket:
        port = self.stack.enter_context(closing(Port(take=take or self.taken.extend, names=names)))
        task = self.stack.enter_context(socket.create_connection((port.host, port.number), timeout=10))
        said = (secret or port.secret).encode()
        task.sendall(struct.pack(">H", len(said)) + said)
        return task


@pytest.fixture
def tasks() -> Iterator[Tasks]:
    with ExitStack() as stack:
        yield Tasks(stack)


def row(**values: Any) -> bytes:
    text = json.dumps(values).encode()
    return struct.pack(">i", len(text)) + text


def answer(connection: socket.socket) -> str | None:
    """What the port says; None: it hung up."""
    size = connection.recv(2)
    return connection.recv(struct.unpack(">H", size)[0]).decode() if size else None


def test_rows_come_at_once_and_in_order_and_the_end_is_answered(tasks: Tasks) -> None:
    task, taken = tasks.connect("c0", "c1"), tasks.taken
    task.sendall(row(c0="a", c1=1))
    eventually(lambda: taken == [["a", 1]])
    whole = row(c0="b", c1=None) + row(c1=3, c0="c")
    for byte in whole:  # however the network cuts it
        task.sendall(bytes([byte]))
    task.sendall(struct.pack(">i", -1))
    assert answer(task) == ""
    assert taken == [["a", 1], ["b", None], ["c", 3]]


def test_a_sink_that_fails_says_so_to_the_task(tasks: Tasks) -> None:
    def take(rows: list[list[Any]]) -> None:
        raise EndpointError("the database is away")

    task = tasks.connect("c0", take=take)
    task.sendall(row(c0=1))
    assert answer(task) == "headrace.errors.EndpointError: the database is away"


@pytest.mark.parametrize("secret", ["wrong", "0" * 32])
def test_who_does_not_know_the_secret_is_not_heard(tasks: Tasks, secret: str) -> None:
    stranger = tasks.connect("c0", secret=secret)
    stranger.sendall(row(c0=1))
    with contextlib.suppress(ConnectionResetError):
        assert answer(stranger) is None
    assert tasks.taken == []


def test_what_a_task_that_dies_has_sent_is_kept_and_nothing_is_said(tasks: Tasks) -> None:
    task = tasks.connect("c0")
    task.sendall(row(c0=1) + row(c0=2)[:3])
    eventually(lambda: tasks.taken == [[1]])
    task.close()


@pytest.mark.parametrize(
    ("kind", "said", "value"),
    [
        ("double", '"NaN"', "nan"),
        ("double", '"-Infinity"', "-inf"),
        ("double", "1", "1.0"),
        ("double", "0.1", "0.1"),
        ("float", "0.1", "0.10000000149011612"),
        ("decimal(6,2)", "1.50", "Decimal('1.50')"),
        ("timestamp", '"2024-01-01T00:00:00.000001"', "datetime.datetime(2024, 1, 1, 0, 0, 0, 1)"),
        ("date", '"2024-02-29"', "datetime.date(2024, 2, 29)"),
        ("binary", '"AP8="', "b'\\x00\\xff'"),
        ("array<double>", '[1.5, null, "NaN"]', "[1.5, None, nan]"),
        ("struct<x:float,y:string>", '{"y": "a"}', "{'x': None, 'y': 'a'}"),
        ("map<string,double>", '{"a": "Infinity"}', "{'a': inf}"),
        ("string", '"NaN"', "'NaN'"),
        ("bigint", "null", "None"),
    ],
)
def test_a_value_is_what_a_collected_row_has(kind: str, said: str, value: str) -> None:
    assert repr(valued(json.loads(said, parse_float=Decimal), spark_type(parse_type(kind)))) == value

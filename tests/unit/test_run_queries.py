"""When a query that has ended is begun again in the same driver."""

from __future__ import annotations

import os
import signal
import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest

from headrace import Flow
from headrace.compile.planner import plan
from headrace.run.queries import Running, Stopping

SLOW = "org.apache.spark.SparkException: Python worker failed to connect back."


def ended(*whys: str) -> Running:
    """A query that has ended, and ends again with the next reason each time it is begun; after the last it runs."""
    flow = Flow("f")
    flow.source("a", "rate").sink("out", "memory")
    left = iter(whys)

    def begin(trigger: dict[str, Any]) -> Any:
        why = next(left, None)
        error = None if why is None else RuntimeError(why)
        return SimpleNamespace(isActive=why is None, exception=lambda: error, awaitTermination=lambda: None)

    query = plan(flow.build()).queries[0]
    return Running(query=query, watermarked=False, begin=begin, stopping=Stopping(), spark=begin({}))


def test_a_query_for_which_python_was_too_slow_to_start_is_begun_again() -> None:
    query = ended(SLOW, SLOW)
    assert query.goes_on()
    assert not query.active
    assert query.goes_on()
    assert query.active


def test_it_is_begun_again_only_so_often_and_not_for_another_reason_or_when_asked_to_stop() -> None:
    query = ended(SLOW, SLOW, SLOW)
    query.goes_on()
    query.goes_on()
    with pytest.raises(RuntimeError, match="connect back"):
        query.goes_on()
    with pytest.raises(RuntimeError, match="no such column"):
        ended("no such column").goes_on()
    asked = ended(SLOW)
    asked.stopping.ask("asked to stop")
    assert not asked.goes_on()


def test_a_wait_ends_when_there_is_news_and_says_whether_a_stop_was_asked_for() -> None:
    stopping = Stopping()
    assert not stopping.wait(0.01)
    begun = time.monotonic()
    threading.Timer(0.05, stopping.tell).start()
    assert not stopping.wait(60), "a query has ended, which is no stop"
    before = signal.signal(signal.SIGUSR1, lambda *_: stopping.ask("asked to stop"))
    try:
        threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGUSR1)).start()
        assert stopping.wait(60)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert stopping.wait(60), "and from then on at once"
    assert time.monotonic() - begun < 60

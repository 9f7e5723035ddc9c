"""Waiting for something to become true, with a deadline; never for a duration."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")


SOONEST, LATEST, SHARE = 0.05, 0.25, 0.05
"""Seconds between two looks, at least and at most, and the part of the time waited so far that is in between."""


def eventually(
    condition: Callable[[], T],
    seconds: float = 30.0,
    *,
    every: float | None = None,
    diagnose: Callable[[], str] | None = None,
) -> T:
    """The first true answer of `condition`; fails if there is none in time, with the last one and what `diagnose` says.

    An AssertionError inside the condition counts as "not yet"; any other exception is a failure and passes through.
    The longer it takes the less often it is looked, since a look takes processor time from what is waited for; who
    must see something soon after it has happened says `every`.
    """
    began = time.monotonic()
    deadline = began + seconds
    while True:
        refusal = None
        answer: T | None = None
        try:
            answer = condition()
        except AssertionError as error:
            refusal = error
        if refusal is None and answer:
            return answer
        if time.monotonic() >= deadline:
            last = f"last failed with: {refusal}" if refusal else f"last answered: {answer!r}"
            raise AssertionError("\n".join([f"not within {seconds:g} s; {last}", *_said(diagnose)])) from refusal
        waited = time.monotonic() - began
        time.sleep(min(max(SOONEST, SHARE * waited), LATEST) if every is None else every)


def tail(path: Path, lines: int = 30) -> str:
    """The end of a log, for `diagnose`."""
    if not path.exists():
        return f"{path}: not there"
    text = path.read_text(encoding="utf-8", errors="replace").splitlines()
    return "\n".join([f"{path}, last {min(lines, len(text))} of {len(text)} lines:", *text[-lines:]])


def _said(diagnose: Callable[[], str] | None) -> list[str]:
    if diagnose is None:
        return []
    try:
        return [diagnose()]
    except Exception as error:  # noqa: BLE001  the test's own failure must not be hidden by this one
        return [f"(the diagnosis failed too: {error!r})"]

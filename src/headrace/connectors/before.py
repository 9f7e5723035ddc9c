"""What a sink or source held before a run began, noted once in the folder of its place."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from headrace.connectors import durable
from headrace.connectors.base import Place

_FILE = "before.json"


def note_before(place: Place, look: Callable[[], Any]) -> None:
    """Notes what `look` finds, unless something is noted already."""
    path = place.home / _FILE
    if path.exists():
        return
    durable.write(path, json.dumps(look()))


def noted_before(place: Place) -> Any:
    """What was noted; None: nothing was."""
    path = place.home / _FILE
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None

"""What a sink or source held before a run began, noted once in the folder of its place."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

from headrace.connectors.base import Place

_FILE = "before.json"


def note_before(place: Place, look: Callable[[], Any]) -> None:
    """Notes what `look` finds, unless something is noted already."""
    path = place.home / _FILE
    if path.exists():
        return
    found = look()
    place.home.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".new")
    with draft.open("w", encoding="utf-8") as file:
        json.dump(found, file)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


def noted_before(place: Place) -> Any:
    """What was noted; None: nothing was."""
    path = place.home / _FILE
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None

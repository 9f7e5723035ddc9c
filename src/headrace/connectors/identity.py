"""Who writes a batch: a name that outside systems remember, to recognise a batch that is repeated.

Batch ids begin again at 0 when a run is started afresh. If the name stayed the same, a sink would take the new
batches for ones it already has and drop them. So the name has a part that lives in the run's home: it survives
restarts, and is gone when the home is.
"""

from __future__ import annotations

import os
import uuid

from headrace.connectors.base import Batch, Place

_FILE = "writer"


def writer(batch: Batch) -> str:
    """The name of the batch's writer; the same as long as the run's home is.

    Short and plain enough for a file name: `flow-step-1a2b3c4d5e6f`.
    """
    return writer_of(batch.place)


def writer_of(place: Place) -> str:
    """The name under which a place is written from."""
    home = place.home
    home.mkdir(parents=True, exist_ok=True)
    path = home / _FILE
    if not path.exists():
        fresh = path.with_suffix(".new")
        fresh.write_text(uuid.uuid4().hex[:12] + "\n", encoding="utf-8")
        with fresh.open("rb") as file:
            os.fsync(file.fileno())
        fresh.replace(path)
    return f"{place.flow}-{place.step}-{path.read_text(encoding='utf-8').strip()}"

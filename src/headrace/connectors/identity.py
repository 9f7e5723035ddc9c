"""Who writes a batch: a name that outside systems remember, to recognise a batch that is repeated.

Batch ids begin again at 0 when a run is started afresh. If the name stayed the same, a sink would take the new
batches for ones it already has and drop them. So the name has a part that lives in the run's home: it survives
restarts, and is gone when the home is. A run that is prepared gives its own identity as that part.
"""

from __future__ import annotations

import uuid
from pathlib import Path

from headrace.connectors import durable
from headrace.connectors.base import Batch, Place

_FILE = "writer"


def writer(batch: Batch) -> str:
    """The name of the batch's writer; the same as long as the run's home is.

    Short and plain enough for a file name: `flow-step-1a2b3c4d5e6f`.
    """
    return writer_of(batch.place)


def writer_of(place: Place) -> str:
    """The name under which a place is written from; a place that has none yet is given one."""
    return f"{place.flow}-{place.step}-{name_writer(place.home, uuid.uuid4().hex[:12])}"


def name_writer(home: Path, part: str) -> str:
    """The part of a writer's name that lives in a place's folder: this one, unless there is one already."""
    path = home / _FILE
    if not path.exists():
        durable.write(path, part + "\n")
    return path.read_text(encoding="utf-8").strip()


def known_writer(place: Place) -> str | None:
    """The name under which a place was written from; None: nothing ever was."""
    return writer_of(place) if (place.home / _FILE).exists() else None

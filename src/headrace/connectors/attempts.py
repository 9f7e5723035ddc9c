"""At most once: a batch that was begun is never begun again.

The batch's id is made durable before anything is written. After a crash Spark repeats the batch; its id is found
and it is left out, whether its rows had reached the sink or not.
"""

from __future__ import annotations

from headrace.connectors import durable
from headrace.connectors.base import Place

_FILE = "attempted"


def first_attempt(place: Place, batch_id: int) -> bool:
    """Notes that a batch is begun; False if it was begun before."""
    path = place.home / _FILE
    if path.exists() and int(path.read_text(encoding="ascii")) >= batch_id:
        return False
    durable.write(path, str(batch_id))
    return True

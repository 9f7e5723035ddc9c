"""Whether a sink has more of a run than the run itself knows of.

A sink leaves out a batch whose number is not above the newest it has. If the run was put back behind its sinks, as by
an older copy of its home, the batches between are planned anew, over other records, and every one of them would be
left out without a word. So it is looked for before the first batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.catalogue import SINKS
from headrace.compile.plan import Plan, Query
from headrace.errors import DataError
from headrace.model import Mode

if TYPE_CHECKING:
    from headrace.compile.where import Where


def require_behind(plan: Plan, query: Query, where: Where, last: int | None) -> None:
    """Raises DataError if a sink has a batch behind the last one that the query has planned.

    In real-time mode only dead letters are written batch by batch.
    """
    from headrace.compile.lower import sink_place

    written = {*query.letters, *(() if plan.mode is Mode.REAL_TIME else query.sinks)}
    for sink in (s for s in plan.flow.sinks if s.name in written):
        place = sink_place(plan, query, where, sink)
        newest = SINKS[sink.connector](sink.options).newest(where.session, place)
        if newest is not None and newest > (-1 if last is None else last):
            known = "has none" if last is None else f"ends at batch {last}"
            raise DataError(
                f'sink "{sink.name}" ({sink.connector}) has batch {newest} of this run, and the checkpoint of query '
                f'"{query.name}" {known}: the run was put back behind its sink',
                detail="it would plan those batches anew, over other records, and the sink would leave them out",
                hint="go on from a newer copy of the run's home; or begin anew with --fresh, into another table, "
                "folder or topic, since everything is written once more",
            )

"""The audit of a run from its home: reads the ledger, counts what must be counted apart, adds up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from headrace.compile.planner import plan as make_plan
from headrace.errors import UsageError
from headrace.model import Mode
from headrace.observe import events
from headrace.project import Project, kafka_client
from headrace.run.audit import Audit, audit
from headrace.run.checkpoint import last_committed
from headrace.run.driver import load_flow
from headrace.run.gaps import count_gaps, short
from headrace.run.home import Home
from headrace.run.ledger import ledger_of


def of_run(project: Project, home: Home) -> Audit:
    """The ledger of a run, added up; of the last one, where it ran in batch mode."""
    record, ledger = home.read(), ledger_of(home)
    if not ledger.path.exists():
        raise UsageError(f'run "{home.name}" has no ledger yet', hint="it is begun with the first batch")
    entries = list(ledger.entries())
    if record.mode == Mode.BATCH.value:
        return audit(entries, dict.fromkeys((e.query for e in entries), 0))
    queries = dict.fromkeys([*(e.query for e in entries), *record.queries])
    committed = _committed(home, list(queries))
    if record.mode == Mode.REAL_TIME.value and record.driver is not None and record.driver.alive:
        # The newest batch is counted a moment after it is committed.
        newest = {name: max((e.batch for e in entries if e.query == name), default=None) for name in queries}
        committed = {
            n: newest[n] if last is not None and last - 1 == newest[n] else last for n, last in committed.items()
        }
    entries = [e for e in entries if (last := committed[e.query]) is not None and e.batch <= last]
    lost, known = ledger.lost(), ledger.gaps()
    open_ = [s for s in short(entries, lost) if (s.query, s.batch, s.source) not in known]
    if open_:
        plan = make_plan(load_flow(home, record), mode=Mode(record.mode))
        count_gaps(home, plan, open_, kafka_client(project, record.asked.bootstrap), record.asked.stop)
        known = ledger.gaps()
    return audit(entries, committed, lost, known)


def _committed(home: Home, queries: Sequence[str]) -> dict[str, int | None]:
    """The last batch of each query that is done; of checkpoints that only Spark can read, as far as it was told."""
    if all(isinstance(home.checkpoint(name), Path) for name in queries):
        return {name: last_committed(home.checkpoint(name)) for name in queries}
    told = [(e["query"], e["batch"]) for e in events.read(home.events) if e["event"] == "progress"]
    return {name: max((batch for query, batch in told if query == name), default=None) for name in queries}


def entries(home: Home) -> list[dict[str, Any]]:
    """Every entry as plain data."""
    return [asdict(entry) for entry in ledger_of(home).entries()]

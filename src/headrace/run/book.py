"""Keeps the ledger of one query while it runs: an entry for each batch, before the batch is committed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.compile.leaves import Leaf
from headrace.compile.plan import Plan, Query
from headrace.run import journal
from headrace.run.checkpoint import planned
from headrace.run.ledger import Ledger, entry
from headrace.run.lost import lost_in
from headrace.run.spans import counted, spans

if TYPE_CHECKING:
    from headrace.compile.lower import Outcome


class Book:
    """What one query writes into the ledger."""

    def __init__(
        self,
        ledger: Ledger,
        plan: Plan,
        query: Query,
        checkpoint: Path,
        leaves: Sequence[Leaf],
        kafka: Mapping[str, str],
        stop: str | None,
    ) -> None:
        self._ledger, self._plan, self._query, self._checkpoint = ledger, plan, query, checkpoint
        self._leaves, self._kafka, self._stop = leaves, kafka, stop
        self._before: journal.Entry | None = None

    def record(self, read: journal.Entry, outcome: Outcome) -> None:
        """Notes what became of a batch that was written; durable on return."""
        went = spans(self._plan, self._previous(read.batch), read, self._checkpoint, self._stop)
        made = entry(self._plan, self._query, read.batch, outcome, counted(went))
        for line in made.lines:
            missing = line.numbers.get("offsets", 0) - line.numbers.get("read", 0)
            if line.balance == "source" and missing > 0:
                gone = lost_in(self._plan, self._query, line.part, went[line.part], missing, self._kafka, read.batch)
                self._ledger.lose(*gone)
        self._ledger.put(made)
        self._before = read

    def _previous(self, batch: int) -> journal.Entry | None:
        """What the batch before read: the one just recorded, or as the checkpoint says."""
        if batch == 0:
            return None
        if self._before is not None and self._before.batch == batch - 1:
            return self._before
        return journal.Entry.of(batch - 1, planned(self._checkpoint, batch - 1), self._leaves)

"""Does the ledger of a run add up? Pure: entries in, an answer out.

For each batch and part, by counts that were taken apart from each other:

    source           offsets gone on by = records read + lost upstream + offsets that hold no record
                     records read = emitted + filtered + dead-lettered
    step, each       read = emitted + dead-lettered
    step, some       read = emitted + filtered + dead-lettered
    step, once       read = emitted + repeated + late + filtered + dead-lettered, where its query remembers nothing else
    sink             rows given = written + skipped as already written

And every batch that is committed has an entry. Of these no sum is checked, since records become other ones and nobody
else counts how many went into each; their numbers are shown:

    step, others     read, emitted: it makes other records
    step, state      read, late, dead-lettered, emitted, held
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from headrace.run.ledger import Entry, Line, Lost

COLUMNS = ("read", "emitted", "filtered", "repeated", "late", "dead", "held", "given", "written", "skipped")


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One place where the numbers do not add up."""

    query: str
    batch: int
    part: str
    says: str

    def __str__(self) -> str:
        return f'query "{self.query}", batch {self.batch}, {self.part}: {self.says}'


@dataclass(frozen=True, kw_only=True)
class Total:
    """One part, added up over the run."""

    query: str
    part: str
    balance: str
    towards: str
    numbers: Mapping[str, int]


@dataclass(frozen=True, kw_only=True)
class Audit:
    """The ledger, added up."""

    batches: int
    totals: tuple[Total, ...]
    findings: tuple[Finding, ...]
    lost: tuple[Lost, ...] = ()
    gaps: Mapping[str, int] = field(default_factory=dict)
    """By source: offsets that held no record, such as the ends of transactions and what compaction removed."""

    @property
    def balanced(self) -> bool:
        return not self.findings

    def as_dict(self) -> dict[str, Any]:
        lost = [asdict(one) | {"records": one.records} for one in self.lost]
        return {
            "balanced": self.balanced,
            "batches": self.batches,
            "parts": [asdict(total) for total in self.totals],
            "lost_upstream": lost,
            "gaps": dict(self.gaps),
            "findings": [asdict(one) for one in self.findings],
        }


def audit(
    entries: Iterable[Entry],
    committed: Mapping[str, int | None],
    lost: Sequence[Lost] = (),
    gaps: Mapping[tuple[str, int, str], int] | None = None,
) -> Audit:
    """Adds the entries up; `committed` is the last batch of each query that is done, None: none is.

    `gaps` is, by query, batch and source, how many of its offsets hold no record, where somebody has counted.
    """
    known = gaps or {}
    kept = [e for e in entries if (last := committed.get(e.query)) is not None and e.batch <= last]
    findings = [*_missing(kept, committed)]
    totals: dict[tuple[str, str, str], Total] = {}
    empty: dict[str, int] = {}
    for entry in kept:
        for line in entry.lines:
            gone = sum(_within(one, entry, line) for one in lost)
            gap = known.get((entry.query, entry.batch, line.part), 0)
            if gap:
                empty[line.part] = empty.get(line.part, 0) + gap
            findings += [
                Finding(query=entry.query, batch=entry.batch, part=shown(line), says=says)
                for says in unbalanced(line, lost=gone, gap=gap)
            ]
            key = (entry.query, line.part, line.towards)
            totals[key] = _added(totals.get(key), entry.query, line)
    return Audit(
        batches=len(kept), totals=tuple(totals.values()), findings=tuple(findings), lost=tuple(lost), gaps=empty
    )


def unbalanced(line: Line, *, lost: int = 0, gap: int = 0) -> list[str]:
    """What does not add up in a line.

    >>> unbalanced(Line(part="large", balance="some", numbers={"read": 9, "emitted": 5, "filtered": 3}))
    ['read 9 = emitted 5 + filtered 3 does not hold: 1 is missing']
    """
    n = line.numbers
    sums: list[tuple[str, tuple[tuple[str, int], ...]]] = []
    if line.balance == "source":
        if "offsets" in n:
            sums.append(("offsets", (("read", n.get("read", 0)), ("lost upstream", lost), ("without a record", gap))))
        sums.append(("read", _terms(n, "emitted", "filtered", "dead")))
    elif line.balance in ("each", "some"):
        sums.append(("read", _terms(n, "emitted", "filtered", "dead")))
    elif line.balance == "once" and "repeated" in n:
        sums.append(("read", _terms(n, "emitted", "repeated", "late", "filtered", "dead")))
    elif line.balance == "sink" and "given" in n:
        sums.append(("given", _terms(n, "written", "skipped")))
    return [says for whole, terms in sums if whole in n and (says := _differs(whole, n[whole], terms))]


def _terms(numbers: Mapping[str, int], *names: str) -> tuple[tuple[str, int], ...]:
    return tuple((name, numbers.get(name, 0)) for name in names)


def _differs(whole: str, value: int, terms: Sequence[tuple[str, int]]) -> str:
    missing = value - sum(n for _, n in terms)
    if missing == 0:
        return ""
    right = " + ".join(f"{name} {n:,}" for name, n in terms if n or name == terms[0][0])
    what = f"{missing:,} {'is' if missing == 1 else 'are'} missing" if missing > 0 else f"{-missing:,} too many"
    return f"{whole} {value:,} = {right} does not hold: {what}"


def _missing(entries: Sequence[Entry], committed: Mapping[str, int | None]) -> Iterable[Finding]:
    there: dict[str, set[int]] = {}
    for entry in entries:
        there.setdefault(entry.query, set()).add(entry.batch)
    for query, last in committed.items():
        mine = there.get(query, set())
        # A run that is older than its ledger begins in the middle.
        for batch in range(min(mine, default=0), (last if last is not None else -1) + 1):
            if batch not in mine:
                yield Finding(query=query, batch=batch, part="ledger", says="the batch is committed but has no entry")


def _within(lost: Lost, entry: Entry, line: Line) -> int:
    """How much of a loss falls into a batch: a batch that read over it says so itself."""
    same = (lost.query, lost.source) == (entry.query, line.part) and line.balance == "source"
    return lost.records if same and lost.batch == entry.batch else 0


def _added(total: Total | None, query: str, line: Line) -> Total:
    numbers = dict(total.numbers) if total is not None else {}
    for name, value in line.numbers.items():
        numbers[name] = value if name == "held" else numbers.get(name, 0) + value
    return Total(query=query, part=line.part, balance=line.balance, towards=line.towards, numbers=numbers)


def shown(line: Line) -> str:
    """A part in words."""
    kind = line.balance if line.balance in ("source", "sink") else "step"
    return f'{kind} "{line.part}"' + (f' towards "{line.towards}"' if line.towards else "")

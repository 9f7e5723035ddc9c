"""The dead letters of a run: listed, shown, and put through the flow again, each once.

dead-letters/
  <query>/<batch>.jsonl   the letters of a batch, one JSON object a line, bytes in base64
  replays/<n>/plan.json   which letters the n-th replay takes, written before it begins
  replays/<n>/done.json   what became of them, written when all are where they belong
  replays/<n>/places/     who wrote, so that a replay that is repeated is recognised by the sinks
  replays/<n>/rows/       what goes to each sink

A letter that is in a plan is not taken by a later one. A replay that was cut short is completed first, with the same
letters under the same name.
"""

from __future__ import annotations

import base64
import fcntl
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.compile.letters import FOLDER
from headrace.compile.plan import Plan
from headrace.errors import UsageError
from headrace.model import Source, Step
from headrace.run.home import Home

if TYPE_CHECKING:
    from headrace.compile.again import Way
    from headrace.compile.where import Where

REPLAYS = "replays"


@dataclass(frozen=True)
class Letter:
    """One dead letter as it lies in the home."""

    id: str
    told: dict[str, Any]

    @property
    def step(self) -> str:
        return str(self.told["step"])

    @property
    def reason(self) -> str:
        return str(self.told.get("reason", ""))

    def bytes_of(self, name: str) -> bytes | None:
        """The original value or key."""
        text = self.told.get(name)
        return None if text is None else base64.b64decode(text)

    def plain(self) -> dict[str, Any]:
        """Its columns with bytes and times as they are."""
        told = {**self.told, "value": self.bytes_of("value"), "key": self.bytes_of("key")}
        for name in ("timestamp", "at"):
            if told.get(name):
                told[name] = datetime.fromisoformat(told[name])
        return told


def folder(home: Home) -> Path:
    """Where a run's dead letters are."""
    return home.path / FOLDER


def letters(home: Home, *, step: str | None = None) -> Iterator[Letter]:
    """The letters of a run, oldest batch first; those of replays, and of runs in batch mode, last."""
    for prefix, root in _roots(home):
        for file in sorted(p for p in root.glob("*/*.jsonl") if p.parent.name != REPLAYS):
            with file.open(encoding="utf-8") as lines:
                for line in lines:
                    told = json.loads(line)
                    if step is None or told["step"] == step:
                        yield Letter(prefix + told.pop("id"), told)


def _roots(home: Home) -> Iterator[tuple[str, Path]]:
    yield "", folder(home)
    for batch in sorted((home.path / "batches").glob("*/"), key=lambda p: p.name.zfill(10)):
        yield f"batch-{batch.name}/", batch / FOLDER
    for replay in sorted((folder(home) / REPLAYS).glob("*/"), key=lambda p: p.name.zfill(10)):
        yield f"replay-{replay.name}/", replay / FOLDER


def replayed(home: Home) -> frozenset[str]:
    """The letters that a replay has taken."""
    plans = (folder(home) / REPLAYS).glob("*/plan.json")
    return frozenset(i for plan in plans for i in json.loads(plan.read_text(encoding="utf-8"))["letters"])


def summary(home: Home, *, step: str | None = None) -> list[dict[str, Any]]:
    """How many letters there are of each step and reason, with one of each, most first."""
    taken = replayed(home)
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for letter in letters(home, step=step):
        kind = found.setdefault(
            (letter.step, letter.reason),
            {"step": letter.step, "reason": letter.reason, "letters": 0, "replayed": 0, "example": letter.id},
        )
        kind["letters"] += 1
        kind["replayed"] += letter.id in taken
        kind["last"] = letter.told.get("at")
    return sorted(found.values(), key=lambda kind: (-kind["letters"], kind["step"], kind["reason"]))


def raised(home: Home) -> dict[str, tuple[str, str, str]]:
    """The calls of functions that raised in a run, with reason, function and place: its sinks have nothing of them."""
    return {
        str(one.told["call"]): (one.reason, str(one.told.get("function")), str(one.told.get("place")))
        for one in letters(home)
        if "call" in one.told and not one.id.startswith("replay-")
    }


def replays(home: Home, sink: str) -> Iterator[tuple[Path, bool, list[Path]]]:
    """Each replay that wrote to a sink, or may have: its home, whether it is complete, and the rows, as Parquet."""
    for root in sorted((folder(home) / REPLAYS).glob("*/")):
        rows = [ready.parent / sink for ready in sorted(root.glob("rows/*/failed.json"))]
        if there := [path for path in rows if path.exists()]:
            yield root, (root / "done.json").exists(), there


@dataclass(frozen=True)
class Replayed:
    """What a replay did."""

    number: int
    taken: int = 0
    sent: int = 0
    """Of them, sent to their topic again."""
    failed: int = 0
    """Of them, or of what was made from them, dead letters once more."""
    left: tuple[tuple[str, str, int], ...] = ()
    """Letters that cannot be put through again: the step, why, and how many."""

    def as_dict(self) -> dict[str, Any]:
        left = [{"step": step, "why": why, "letters": number} for step, why, number in self.left]
        told = {"replay": self.number, "taken": self.taken, "sent": self.sent, "failed": self.failed}
        return told | {"left": left}


@contextmanager
def _only_one(home: Home) -> Iterator[None]:
    """Holds the replays of a run; two at once would take the same letters."""
    root = folder(home) / REPLAYS
    root.mkdir(parents=True, exist_ok=True)
    with (root / "lock").open("a") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(f'the dead letters of run "{home.name}" are being replayed already') from None
        yield


def unfinished(home: Home) -> int | None:
    """The replay that was begun and not completed."""
    plans = sorted((int(p.parent.name) for p in (folder(home) / REPLAYS).glob("*/plan.json")), reverse=True)
    return next((n for n in plans if not (folder(home) / REPLAYS / str(n) / "done.json").exists()), None)


def replay(home: Home, plan: Plan, make: Callable[[Path], Where], chosen: Iterable[str] | None = None) -> Replayed:
    """Puts letters through the flow again: those of an unfinished replay, else those chosen, else all that are left.

    `make` gives where to run, for a home of the replay's own.
    """
    from headrace.compile.again import written_whole

    with _only_one(home):
        number, left = unfinished(home), {}
        if number is None:
            number = _next(home)
            left = _plan(home, plan, number, chosen)
        root = folder(home) / REPLAYS / str(number)
        wanted = set(json.loads((root / "plan.json").read_text(encoding="utf-8"))["letters"])
        found = sorted((one for one in letters(home) if one.id in wanted), key=_group)
        done = _put_through(plan, make(root), number, found, left) if found else Replayed(number, left=_listed(left))
        written_whole(root / "done.json", done.as_dict())
        return done


def _next(home: Home) -> int:
    return max((int(p.name) for p in (folder(home) / REPLAYS).glob("*/") if p.name.isdigit()), default=0) + 1


def _plan(home: Home, plan: Plan, number: int, chosen: Iterable[str] | None) -> dict[tuple[str, str], int]:
    """Writes down which letters a replay takes; gives those it cannot, by step and why, which stay as they are."""
    from headrace.compile.again import written_whole

    taken = replayed(home)
    known = {one.id: one for one in letters(home)}
    wanted = list(chosen) if chosen is not None else [i for i in known if i not in taken]
    left: dict[tuple[str, str], int] = {}
    able: list[str] = []
    for i in wanted:
        if i not in known:
            hint = f"headrace dead-letters list {home.name}"
            raise UsageError(f'run "{home.name}" has no dead letter "{i}"', hint=hint)
        if i in taken:
            raise UsageError(f'dead letter "{i}" was replayed already', hint="what failed again is a letter of its own")
        way = _way(plan, known[i])
        if way.kind == "none":
            left[known[i].step, way.why] = left.get((known[i].step, way.why), 0) + 1
        else:
            able.append(i)
    (folder(home) / REPLAYS / str(number)).mkdir(parents=True)
    written_whole(folder(home) / REPLAYS / str(number) / "plan.json", {"letters": able})
    return left


def _listed(left: dict[tuple[str, str], int]) -> tuple[tuple[str, str, int], ...]:
    return tuple((step, why, number) for (step, why), number in left.items())


def _group(letter: Letter) -> tuple[str, bool, bool, str]:
    """Letters that go through together: of one step, and raised on, refused by a rule, or files as a whole."""
    from headrace.compile.again import of_file

    return letter.step, "function" in letter.told, of_file(letter.told), letter.id


def _way(plan: Plan, letter: Letter) -> Way:
    from headrace.compile.again import Way, of_file, way

    known = letter.step in plan.flow and isinstance(plan.flow[letter.step], Step)
    if known and not letter.told.keys() & {"record", "value"}:
        return Way("none", why="its record is not known")
    name = str(letter.told.get("source", ""))
    source = next((s for s in plan.flow.sources if s.name == name), None)
    topic = source is not None and source.connector == "kafka" and "topic" in letter.told
    value = "value" in letter.told or of_file(letter.told)
    return way(plan, letter.step, function="function" in letter.told, topic=topic, value=value)


def _put_through(
    plan: Plan, where: Where, number: int, found: Sequence[Letter], left: dict[tuple[str, str], int]
) -> Replayed:
    from headrace.compile.again import put_through

    taken = sent = failed = 0
    for batch, (_, group) in enumerate(groupby(found, key=lambda one: _group(one)[:3])):
        ways = [(_way(plan, one), one) for one in group]
        through = [one.plain() for way, one in ways if way.kind == "step"]
        if through:
            failed += sum(put_through(plan, where, ways[0][1].step, through, batch).values())
        resent = [one for way, one in ways if way.kind == "topic"]
        if resent:
            _send(plan, where, batch, resent)
        taken, sent = taken + len(through) + len(resent), sent + len(resent)
    return Replayed(number, taken, sent, failed, _listed(left))


def _send(plan: Plan, where: Where, batch: int, found: Sequence[Letter]) -> None:
    """Sends records to the topics they came from, all of a topic in one transaction with the mark of the replay."""
    from headrace.connectors.base import Batch
    from headrace.connectors.identity import writer
    from headrace.connectors.kafka_client import client_settings
    from headrace.connectors.kafka_transactions import write_once
    from headrace.model import Changes

    by_topic = lambda one: (one.told["source"], one.told["topic"])  # noqa: E731
    for (name, topic), group in groupby(sorted(found, key=by_topic), key=by_topic):
        source = plan.flow[name]
        assert isinstance(source, Source)
        place = where.place(plan.flow, f"{name}-{topic}-{batch}")
        client = client_settings(source.options.bootstrap, where.kafka, name)
        rows = [(one.bytes_of("key"), one.bytes_of("value")) for one in group]
        frame = where.session.createDataFrame(rows, "key BINARY, value BINARY").coalesce(1)
        who = writer(Batch(id=0, changes=Changes.APPEND, place=place))
        write_once(frame, client, topic, 0, who, name)

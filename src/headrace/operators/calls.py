"""Calls of the author's functions that raised: noted where they are made, so that nobody has to call again to know.

A function may raise once and not the next time: a service did not answer, a file was not there yet. So which records a
batch left out because of it is not found out by calling again: each worker notes its calls that raised, and Spark
brings the notes to the driver with the results of the task, as it does with any accumulator. When the batch is read
once more, a call raises if and only if it is noted.

A call is known by its step, its function and a digest of the whole record, which the second reading meets again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LONGEST = 2_000
"""Characters of a record in a note; what is longer is only known by its digest."""


class Note(NamedTuple):
    """A call that raised."""

    step: str
    reason: str
    function: str
    place: str
    record: str | None
    """All of the record as JSON; None: that is not known here, or too long."""
    times: int = 1
    """How many records with the same digest it raised on."""


def call_of(step: str, number: int, digest: object) -> str:
    """What a call is known by: its step, which of the step's functions it is, and its record."""
    return f"{step}/{number}/{digest}"


def digest_of(text: str) -> str:
    """A digest of a record."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


@dataclass(frozen=True)
class Calls:
    """What becomes of calls that raise in one lowering of a flow; goes to the workers with the functions."""

    noted: Any = None
    """The accumulator that takes notes; None: nobody wants them."""
    towards: str = ""
    """The sink, behind the trunk: what two sinks read is called for each."""
    known: Mapping[str, tuple[str, str, str]] | None = None
    """When a batch is read again: the calls that raised the first time, with reason, function and place."""

    def before(self, call: str) -> dict[str, str | None] | None:
        """What is known of a call before it is made: that it raised when it counted. None: it is to be made."""
        found = (self.known or {}).get(call)
        return None if found is None else _told(*found, call)

    def raised(self, call: str, step: str, failure: Mapping[str, str], *, whole: bool) -> dict[str, str | None]:
        """What to tell of a call that has raised; without a reason if it did not when it counted.

        `whole`: the record in it is all of the record.
        """
        if self.known is not None:
            return _told(None, None, None, call)
        told = (failure["reason"], failure["function"], failure["place"])
        if self.noted is not None:
            record = failure["record"] if whole and len(failure["record"]) <= _LONGEST else None
            self.noted.add({(self.towards, call): Note(step, *told, record)})
        return _told(*told, call)


UNNOTED = Calls()
"""Where nobody asks afterwards which calls have raised."""


def _told(reason: str | None, function: str | None, place: str | None, call: str) -> dict[str, str | None]:
    return {"reason": reason, "function": function, "place": place, "record": None, "call": call}


@dataclass(frozen=True)
class _Gathering:
    """How notes come together: no more than so many; whoever has that many stops."""

    most: int

    def zero(self, value: object) -> dict[tuple[str, str], Note]:
        return {}

    def addInPlace(self, here: dict[Any, Note], more: dict[Any, Note]) -> dict[Any, Note]:  # noqa: N802, Spark's name
        for key, note in more.items():
            if key in here:
                here[key] = here[key]._replace(times=here[key].times + note.times)
            elif len(here) < self.most:
                here[key] = note
        return here


@dataclass
class Notes:
    """The notes of the batch that is under way; on the driver."""

    session: SparkSession
    most: int
    """More calls than that are not told apart."""
    _noted: Any = field(init=False)

    def __post_init__(self) -> None:
        gathering: Any = _Gathering(self.most)
        self._noted = self.session.sparkContext.accumulator({}, gathering)

    def calls(self, towards: str = "") -> Calls:
        """For functions whose calls count."""
        return Calls(noted=self._noted, towards=towards)

    def take(self) -> dict[str, Note]:
        """What was noted since the last time, by call. One that was made for several sinks is noted once."""
        found: dict[str, Note] = {}
        for (_, call), note in self._noted.value.items():
            times = max(note.times, found[call].times if call in found else 0)
            found[call] = note._replace(times=times)
        self._noted.value = {}
        return found


def once_more(notes: Mapping[str, Note]) -> Calls:
    """For functions that are called again to find the records that they raised on."""
    return Calls(known={call: (n.reason, n.function, n.place) for call, n in notes.items()})

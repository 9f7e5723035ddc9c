"""What can go wrong, and who must act.

    HeadraceError
    ├── FlowError       the author: the flow or its data is wrong               exit 1
    ├── UsageError      whoever typed the command                               exit 2
    ├── EndpointError   whoever runs the other system; the only one retried     exit 3
    └── InternalError   us                                                      exit 4

A `Problem` is one thing that is wrong, at its place, with something to do about it. Checks collect
problems; a `FlowError` carries all of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches

from headrace.model import Location

CODES = {
    "bad-yaml": "The file is not YAML.",
    "bad-python": "The Python file could not be loaded.",
    "bad-flow": "The file does not have the shape of a flow.",
    "bad-name": "A name has characters that cannot be in a file or topic name.",
    "bad-expression": "An expression cannot be parsed.",
    "bad-function": "A Python function cannot be used where it stands.",
    "bad-option": "An option has a value it does not take.",
    "bad-parameter": "A parameter is declared, or given a value, that does not fit.",
    "bad-schema": "A schema cannot be read.",
    "bad-sql": "A statement of SQL cannot be read.",
    "bad-case": "A test case is not written as cases are.",
    "cycle": "Steps read from each other in a circle.",
    "duplicate-name": "Two parts of a flow have the same name.",
    "file-not-found": "A file that is named does not exist.",
    "format-required": "A connector that carries bytes is not told their format.",
    "format-unused": "A format or schema is given where the connector has its own.",
    "guarantee-too-strong": "A sink asks for more than its path can give.",
    "missing-option": "An option that is needed is not given.",
    "missing-parameter": "A parameter without a default is not given.",
    "missing-secret": "A secret is not in the environment, or its file is not there.",
    "no-sink": "A flow that leads nowhere.",
    "no-source": "A step or sink is not told what it reads from.",
    "no-watermark": "Windows that never close, because nothing says when they are complete.",
    "not-grouped": "An aggregate names a column that is neither grouped nor aggregated.",
    "schema-mismatch": "Streams that are put together have different columns.",
    "schema-required": "A source whose columns are not known.",
    "sink-needs-final": "A sink that cannot change what it wrote is given changing results.",
    "state-unbounded": "State that grows for ever.",
    "too-many-kinds": "One entry names several connectors or operators.",
    "type-mismatch": "A value has a type that does not fit.",
    "unknown-column": "A column that the input does not have.",
    "unknown-connector": "There is no connector of that name.",
    "unknown-format": "There is no format of that name.",
    "unknown-function": "There is no function of that name.",
    "unknown-input": "A step reads from something that does not exist.",
    "unknown-operator": "There is no operator of that name.",
    "unknown-option": "An option that does not exist.",
    "unknown-parameter": "A parameter that the flow does not declare.",
    "unsupported": "Something that cannot work here, with the reason.",
    "unused": "A source or step that nothing reads from.",
}
"""Every code a problem can have. Codes are stable; `tests/golden/errors` has an example of each."""


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One thing that is wrong, with place, code and hint."""

    code: str
    message: str
    location: Location = Location()
    step: str = ""
    detail: str = ""
    hint: str = ""
    warning: bool = False
    """Worth knowing, but the flow runs."""

    def __post_init__(self) -> None:
        assert self.code in CODES, f"unlisted problem code {self.code!r}"

    def __str__(self) -> str:
        kind = "warning: " if self.warning else ""
        lines = [f"{self.location}: {kind}{self.message} [{self.code}]"]
        lines += [f"  {word}: {text}" for word, text in (("detail", self.detail), ("hint", self.hint)) if text]
        return "\n".join(lines)

    def as_dict(self) -> dict[str, object]:
        """The problem as plain data, for `--json` and the API."""
        at = self.location
        place = {"file": at.file, "line": at.line, "column": at.column}
        severity = "warning" if self.warning else "error"
        return {"code": self.code, "severity": severity, "message": self.message, **place} | {
            k: v for k, v in (("step", self.step), ("detail", self.detail), ("hint", self.hint)) if v
        }


class HeadraceError(Exception):
    """Base of every error we raise on purpose; `exit_code` is what the command line returns."""

    exit_code = 4

    def __init__(self, message: str, *, detail: str = "", hint: str = "") -> None:
        super().__init__(message)
        self.message, self.detail, self.hint = message, detail, hint

    def __str__(self) -> str:
        parts = [self.message, *(f"  {w}: {t}" for w, t in (("detail", self.detail), ("hint", self.hint)) if t)]
        return "\n".join(parts)


class FlowError(HeadraceError):
    """The flow or its data is wrong; carries every problem found."""

    exit_code = 1

    def __init__(self, *problems: Problem) -> None:
        super().__init__("\n".join(str(p) for p in problems))
        self.problems = problems


class DataError(HeadraceError):
    """What came out is not what should have: a failed case, a broken record, a function that raised."""

    exit_code = 1


class UsageError(HeadraceError):
    """The command was called in a way that makes no sense."""

    exit_code = 2


class EndpointError(HeadraceError):
    """An outside system could not be reached or refused; worth another try."""

    exit_code = 3


class InternalError(HeadraceError):
    """A mistake of ours."""

    exit_code = 4


def nearest(word: str, known: Iterable[str]) -> str:
    """A hint that names the closest known word, then all of them.

    >>> nearest("que", ["queue", "url"])
    'did you mean "queue"? It takes queue, url.'
    """
    names = list(known)
    close = get_close_matches(word, names, n=1, cutoff=0.5)
    guess = f'did you mean "{close[0]}"? ' if close else ""
    return f"{guess}It takes {', '.join(names)}." if names else guess.strip()

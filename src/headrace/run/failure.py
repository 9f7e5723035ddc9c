"""One readable error out of what Spark, Java or a user's function threw. Pure.

The rules look at the text, because that is all that survives the way from a worker through Java; they are
tried in order, the most telling first. The full trace stays in the driver's log.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any
from urllib.parse import unquote

from headrace.errors import DataError, EndpointError, FlowError, HeadraceError, InternalError, UsageError
from headrace.operators.functions import MARKER

_KINDS: Mapping[str, type[HeadraceError]] = {
    "data": DataError,
    "usage": UsageError,
    "endpoint": EndpointError,
    "internal": InternalError,
}


class NotThereError(EndpointError):
    """Something the outside does not have; asking again at once will not bring it."""


@dataclass(frozen=True, kw_only=True)
class Failure:
    """Why a driver ended, for the terminal, the events and the API."""

    kind: str
    message: str
    detail: str = ""
    hint: str = ""
    step: str = ""
    query: str = ""
    file: str = ""
    line: int = 0
    record: str = ""
    retry: bool = False
    """Whether the same might work a moment later."""
    problems: tuple[Mapping[str, Any], ...] = field(default=())

    @property
    def exit_code(self) -> int:
        """What the driver and the command line return."""
        return 1 if self.kind == "flow" else _KINDS[self.kind].exit_code

    def as_dict(self) -> dict[str, Any]:
        """Without what is not known."""
        return {k: v for k, v in asdict(self).items() if v or k in ("kind", "message", "retry")}

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> Failure:
        return cls(**{k: v for k, v in given.items() if k in cls.__dataclass_fields__})

    def error(self, log: str = "") -> HeadraceError:
        """As an error to show; `log` is where the whole trace is."""
        kind = DataError if self.kind == "flow" else _KINDS[self.kind]
        details = [self.detail, f"record: {self.record}" if self.record else "", f"trace: {log}" if log else ""]
        return kind(self.message, detail="\n          ".join(d for d in details if d), hint=self.hint)


def explain(error: BaseException, *, query: str = "", kafka: str = "") -> Failure:
    """What an exception means to whoever runs the flow; `kafka` is the address of its Kafka."""
    ours = _ours(error)
    if ours is not None and MARKER not in str(ours):
        return replace(ours_as_failure(ours), query=query)
    found = explain_text(_text(error), query=query, kafka=kafka)
    culprit = getattr(error, "headrace_culprit", None)
    return found if culprit is None else _at(found, culprit, query)


def _at(failure: Failure, culprit: Any, query: str) -> Failure:
    """A failure with the step, its place and the record that were found to be behind it."""
    at, step = culprit.location, culprit.step
    said = failure.message.removeprefix(f'query "{query}": ')
    message = f'{f"{at}: " if at.file else ""}step "{step}": {said}'
    return replace(failure, message=message, step=step, file=at.file, line=at.line, record=culprit.record)


def ours_as_failure(error: HeadraceError) -> Failure:
    """One of our own errors as it is."""
    if isinstance(error, FlowError):
        return Failure(kind="flow", message=error.message, problems=tuple(p.as_dict() for p in error.problems))
    kind = next((k for k, cls in _KINDS.items() if isinstance(error, cls)), "internal")
    retry = isinstance(error, EndpointError) and not isinstance(error, NotThereError)
    return Failure(kind=kind, message=error.message, detail=error.detail, hint=error.hint, retry=retry)


def explain_text(text: str, *, query: str = "", kafka: str = "") -> Failure:
    """The same from the text of a trace."""
    rules = (_function, _from_worker, lambda t: _kafka(t, kafka), _cluster, _checkpoint, _damaged, *_OTHERS)
    found = next((failure for rule in rules if (failure := rule(text)) is not None), None)
    if found is None:
        refused = re.search(
            r"AnalysisException|\[(UNRESOLVED|STREAMING_OUTPUT_MODE|STREAMING_REAL_TIME_MODE|DATATYPE_MISMATCH)[\w.]*\]",
            text,
        )
        found = Failure(
            kind="internal",
            message=f"{'Spark refused the plan' if refused else 'the driver failed'}: {root_cause(text)}",
            retry=refused is None,
        )
    message = found.message if found.step or not query else f'query "{query}": {found.message}'
    return replace(found, message=message, query=query)


def _ours(error: BaseException | None) -> HeadraceError | None:
    """The nearest error of ours among an exception and its causes."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, HeadraceError):
            return error
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return None


def _text(error: BaseException) -> str:
    trace = getattr(error, "_stackTrace", None)
    return f"{type(error).__name__}: {error}" + (f"\n{trace}" if trace else "")


def _function(text: str) -> Failure | None:
    start = text.find(MARKER)
    if start < 0:
        return None
    try:
        said, _ = json.JSONDecoder().raw_decode(text[start + len(MARKER) :])
    except ValueError:
        return None
    file, line, step = str(said.get("file") or ""), int(said.get("line") or 0), str(said.get("step") or "")
    place = f"{file}:{line}: " if file and line else f"{file}: " if file else ""
    record = said.get("record")
    return Failure(
        kind="data",
        message=f'{place}step "{step}": function "{said.get("function")}" raised {said.get("error")}',
        step=step,
        file=file,
        line=line,
        record=record if isinstance(record, str) else "" if record is None else json.dumps(record, default=str),
        hint="handle such records in the function, or filter them out before it",
    )


def _from_worker(text: str) -> Failure | None:
    """An error of ours that a step raised in a worker; only its first line survives the way through Java."""
    found = re.search(r"headrace\.errors\.(EndpointError|DataError): ([^\n]+)", text)
    if found is None:
        return None
    endpoint = found[1] == "EndpointError"
    return Failure(kind="endpoint" if endpoint else "data", message=found[2].strip(), retry=endpoint)


_UNREACHABLE = re.compile(
    r"No resolvable bootstrap urls|Timed out waiting for a node assignment|Failed to update metadata after"
    r"|TimeoutException: (?:Timeout|Call\(callName)[^\n]*|Timed out waiting to send the call"
    r"|Broker may not be available|DisconnectException|all broker connections are down|_TRANSPORT|_ALL_BROKERS_DOWN"
)
_REFUSED = re.compile(r"\w*(?:AuthenticationException|AuthorizationException|SslHandshakeException)\b[^\n]*")
_NO_TOPIC = re.compile(
    r"UnknownTopicOrPartitionException|UNKNOWN_TOPIC_OR_PART|Unknown topic|Topic '?([\w.-]+)'? not present in metadata"
)
_LOST = re.compile(r"KAFKA_DATA_LOSS|Some data may have been lost|OffsetOutOfRangeException|failOnDataLoss")


def tells_of_loss(error: BaseException) -> bool:
    """Whether an error says that records were deleted before they were read."""
    return _LOST.search(_text(error)) is not None


def _kafka(text: str, address: str) -> Failure | None:
    if not re.search(r"[kK]afka|KAFKA|librdkafka", text):
        return None
    at = f' at "{address}"' if address else ""
    refused = _REFUSED.search(text)
    if refused:
        return Failure(
            kind="endpoint", message=f"Kafka{at} refused us: {refused[0]}", hint="see [kafka] in headrace.toml"
        )
    topic = _NO_TOPIC.search(text)
    if topic:
        named = topic[1] or next(iter(re.findall(r"Subscribe\[([\w.,-]+)\]", text)), "")
        which = f'topic "{named}"' if named else "a topic of this flow"
        return Failure(
            kind="endpoint",
            message=f"{which} does not exist in Kafka{at}",
            hint=f"headrace topic create {named or 'TOPIC'}",
        )
    if _LOST.search(text):
        return Failure(
            kind="data",
            message=f"Kafka{at} no longer has records this run has not read yet",
            detail=root_cause(text),
            hint="they were deleted by retention or with their topic; --fresh begins anew with what is there",
        )
    if _UNREACHABLE.search(text):
        return Failure(
            kind="endpoint",
            message=f"could not reach Kafka{at}",
            detail=root_cause(text),
            hint="headrace broker status, or see [kafka] in headrace.toml",
            retry=True,
        )
    return None


def _cluster(text: str) -> Failure | None:
    if not re.search(r"All masters are unresponsive|Could not parse Master URL|Failed to connect to master", text):
        return None
    return Failure(
        kind="endpoint",
        message="could not reach the Spark master",
        detail=root_cause(text),
        hint="see --master, or [spark] master in headrace.toml",
        retry="parse" not in text,
    )


_INCOMPATIBLE = re.compile(
    r"STATE_STORE_\w*SCHEMA\w*|StateSchemaNotCompatible\w*|STREAMING_STATEFUL_OPERATOR_NOT_MATCH\w*"
    r"|STATE_STORE_\w*NOT_COMPATIBLE\w*|sources in the checkpoint offsets and now there are"
    r"|doesn't match the schema for existing state|INCOMPATIBLE_\w*CHECKPOINT\w*"
)


_DAMAGED = re.compile(
    r"Incomplete log file|Log file was malformed|[Mm]alformed log|ChecksumException|CANNOT_LOAD_STATE_STORE"
    r"|CANNOT_READ_(?:CHECKPOINT|DELTA_FILE|SNAPSHOT_FILE|MISSING_SNAPSHOT)\w*|STREAM_CHECKPOINT_\w+"
    r"|batch \d+ doesn't exist|Offset log for batch|MISSING_METADATA_LOG|FAILED_TO_GET_CHANGELOG\w*"
)
_FILE_NAMED = re.compile(r"(?:[a-z][a-z0-9+.-]*:/+|/)[^\s,\"']*/(?:offsets|commits|state|sources)/[^\s,\"':)\]]+")


def _damaged(text: str) -> Failure | None:
    """A checkpoint that Spark could not read; what is found before it starts says more."""
    found = _DAMAGED.search(text)
    if not found:
        return None
    named = _FILE_NAMED.search(text)
    return Failure(
        kind="data",
        message=f'checkpoint file "{named[0]}" cannot be read' if named else "a file of the checkpoint cannot be read",
        detail=root_cause(text),
        hint="restore a copy of the run's home with --restore PATH, or begin anew with --fresh",
    )


def _checkpoint(text: str) -> Failure | None:
    if not _INCOMPATIBLE.search(text):
        return None
    return Failure(
        kind="usage",
        message="the checkpoint was made by a flow that meant something else",
        detail=root_cause(text),
        hint="headrace run --fresh sets it aside and begins anew",
    )


def _old_times(text: str) -> Failure | None:
    if "EMITTING_ROWS_OLDER_THAN_WATERMARK_NOT_ALLOWED" not in text:
        return None
    return Failure(
        kind="data",
        message="a step gave a record whose event time is behind the watermark",
        hint="give that column another name in `returns`, or take the time of the record at hand or of the timer",
    )


def _memory(text: str) -> Failure | None:
    if "java.lang.OutOfMemoryError" not in text:
        return None
    return Failure(
        kind="internal",
        message="Spark ran out of memory",
        detail=root_cause(text),
        hint='give it more: [spark.settings] "spark.driver.memory" = "4g" in headrace.toml',
        retry=True,
    )


SLOW_STARTS = 3
"""How often a query is tried while Python is too slow to start, as on a busy machine; it goes on where it was."""


def slow_start(text: str) -> bool:
    """Whether Python did not start in the ten seconds that Spark waits; it has no setting for them."""
    return "Python worker failed to connect back" in text


def _slow_start(text: str) -> Failure | None:
    if not slow_start(text):
        return None
    return Failure(
        kind="internal",
        message="Python did not start within ten seconds, which is as long as Spark waits",
        hint="the machine may be busy; it is tried again",
        retry=True,
    )


_VALUES = re.compile(
    r"\[((?:CAST_|DIVIDE_|ARITHMETIC_|NUMERIC_|INVALID_ARRAY_INDEX|MALFORMED_|CANNOT_PARSE|INTERVAL_|DATETIME_)[\w.]*)\]"
    r" (.+?)(?: If necessary[^\n]*)?(?: SQLSTATE: \w+|\n|$)"
)


def tells_of_value(error: BaseException) -> bool:
    """Whether an error says that Spark refuses to evaluate something for a value."""
    return MARKER not in (text := _text(error)) and _VALUES.search(text) is not None


def _data(text: str) -> Failure | None:
    found = _VALUES.search(text)
    if not found:
        return None
    return Failure(
        kind="data",
        message=f"{found[2].strip()} [{found[1]}]",
        hint="try_cast and try_divide give NULL instead of an error",
    )


def _worker(text: str) -> Failure | None:
    """A Python failure in a worker that no step reported: the last frame outside libraries, and what was raised."""
    if "PythonException" not in text and "Python worker" not in text:
        return None
    trace = text[text.rfind("Traceback (most recent call last)") :]
    raised = re.findall(r"^([A-Za-z_][\w.]*(?:Error|Exception|Warning|Interrupt)?: .*)$", trace, re.MULTILINE)
    frames = re.findall(r'File "([^"]+)", line (\d+), in (\w+)', trace)
    own = [f for f in frames if "site-packages" not in f[0] and "/pyspark" not in f[0]]
    if not raised or not own:
        return None
    file, line, function = own[-1]
    return Failure(
        kind="data",
        message=f'{file}:{line}: function "{function}" raised {raised[-1].strip()}',
        file=file,
        line=int(line),
    )


def _disk(text: str) -> Failure | None:
    found = re.search(r"No space left on device|File too large|Disk quota exceeded", text)
    if not found:
        return None
    return Failure(
        kind="endpoint",
        message=f"the checkpoint could not be written: {found[0].lower()}",
        detail=root_cause(text),
        hint="free some space; the run asks again by itself",
        retry=True,
    )


def _file(text: str) -> Failure | None:
    """A file of a source that is not what its format says, where it cannot be left out: of a table, for one."""
    found = re.search(r"(\S+) is not a Parquet file", text)
    if found:
        said = f'file "{found[1].removeprefix("file:")}" is not a whole Parquet file'
    else:
        found = re.search(r"\[FAILED_READ_FILE\.(?!FILE_NOT_EXIST)\w+\] [^\n]*?reading file (\S+?)\.?(?:\s|$)", text)
        if not found:
            return None
        said = f'file "{unquote(re.sub("^file:/+", "/", found[1]))}" cannot be read'
    return Failure(
        kind="data",
        message=said,
        detail="" if "Parquet file" in said else root_cause(text),
        hint="put the whole file in its place; the run goes on from where it was",
    )


_OTHERS = (_disk, _file, _old_times, _memory, _slow_start, _data, _worker)


def root_cause(text: str) -> str:
    """The line of a trace that says why.

    >>> root_cause("Py4JError: x\\n\\tat a.b.C\\nCaused by: java.io.IOException: disk full\\n\\tat d.e.F")
    'java.io.IOException: disk full'
    """
    causes = re.findall(r"^\s*Caused by: (.+)$", text, re.MULTILINE)
    if causes:
        return _shorten(causes[-1])
    raised = re.findall(r"^((?:[a-z]\w*\.)*[A-Z]\w*(?:Error|Exception)\b.*)$", text, re.MULTILINE)
    lines = [line for line in text.splitlines() if line.strip()]
    return _shorten(raised[-1] if raised else lines[0] if lines else "no reason was given")


def _shorten(line: str, limit: int = 300) -> str:
    line = re.sub(r" SQLSTATE: \w+", "", line.strip()).rstrip(":")
    return line if len(line) <= limit else line[: limit - 1] + "…"

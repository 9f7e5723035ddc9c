"""Options: what an author may say about an operator, connector or format, said once.

Checking, the reference, `headrace describe`, forms and completion all come from these models.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, ClassVar, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    PlainSerializer,
    SecretStr,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
)
from pydantic_core import PydanticCustomError, core_schema


class Options(BaseModel):
    """Base of all option models: frozen, and unknown fields are refused."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        arbitrary_types_allowed=True,
        validate_by_name=True,
        validate_by_alias=True,
        defer_build=True,  # a check uses a few of the models, and building all of them takes time
    )

    shorthand: ClassVar[str | None] = None
    """The field a bare value stands for: `filter: amount > 3` is `filter: {where: amount > 3}`."""

    @field_validator("*", mode="before")
    @classmethod
    def _sound_number(cls, value: Any, info: ValidationInfo) -> Any:
        """Refuses what Python would take for a number, or Spark could not take for one."""
        if isinstance(value, int | float) and _counts(cls.model_fields[str(info.field_name)].annotation):
            if isinstance(value, bool):
                raise refuse("bad-option", f"{info.field_name} is a number, not {str(value).lower()}")
            if not abs(value) < 2**63:
                raise refuse("bad-option", f"{info.field_name} cannot be so large a number")
        return value


def _counts(annotation: Any) -> bool:
    """Whether an option is a number."""
    kinds = {annotation, *get_args(annotation)}
    return bool(kinds & {int, float}) and bool not in kinds


def refuse(code: str, message: str, hint: str = "", at: int = 0) -> PydanticCustomError:
    """An error for a validator to raise that becomes a Problem with this code; `at` is an offset in the text."""
    return PydanticCustomError(  # the braces of a message must not be read as a template
        "headrace", "{message}", {"message": message, "code": code, "hint": hint, "at": at}
    )


def refuse_all(errors: Sequence[tuple[tuple[str | int, ...], PydanticCustomError]]) -> PydanticCustomError:
    """One error to raise for several made by `refuse`, each with the path from the option to what is wrong."""
    several = [(path, error.context) for path, error in errors]
    return PydanticCustomError("headrace", "{message}", {**(errors[0][1].context or {}), "several": several})


_UNITS = {
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), 0.001),
    **dict.fromkeys(("s", "sec", "second", "seconds"), 1.0),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60.0),
    **dict.fromkeys(("h", "hour", "hours"), 3600.0),
    **dict.fromkeys(("d", "day", "days"), 86400.0),
    **dict.fromkeys(("w", "week", "weeks"), 604800.0),
}


def parse_duration(value: object) -> timedelta:
    """A length of time from text such as "10 seconds", "1h 30m", "250 ms".

    >>> parse_duration("1h 30m")
    datetime.timedelta(seconds=5400)
    """
    if isinstance(value, timedelta):
        return value
    parts = re.findall(r"(\d+(?:\.\d+)?)\s*([A-Za-z]+)", value) if isinstance(value, str) else []
    rest = re.sub(r"(\d+(?:\.\d+)?)\s*([A-Za-z]+)", "", value).strip(" ,") if isinstance(value, str) else "?"
    if not parts or rest or any(unit.lower() not in _UNITS for _, unit in parts):
        raise refuse("bad-option", f"{value!r} is not a length of time", 'write "10 seconds", "5 min" or "1h 30m"')
    try:
        return timedelta(milliseconds=round(sum(float(n) * _UNITS[u.lower()] * 1000 for n, u in parts)))
    except OverflowError:
        raise refuse("bad-option", f"{value!r} is too long a time") from None


def show_duration(value: timedelta) -> str:
    """The canonical text of a length of time, in the largest unit that divides it.

    >>> show_duration(timedelta(seconds=90)), show_duration(timedelta(seconds=1))
    ('90 seconds', '1 second')
    """
    ms = round(value.total_seconds() * 1000)
    for unit, size in (("day", 86_400_000), ("hour", 3_600_000), ("minute", 60_000), ("second", 1000)):
        if ms and ms % size == 0:
            return f"{ms // size} {unit}{'s' if ms != size else ''}"
    return f"{ms} milliseconds" if ms else "0 seconds"


Duration = Annotated[
    timedelta,
    BeforeValidator(parse_duration),
    PlainSerializer(show_duration),
    WithJsonSchema({"type": "string", "format": "duration", "examples": ["10 seconds"]}),
]
"""A length of time with its unit, written "10 seconds", "5 min", "1h 30m"."""

_SIZES = {"b": 1, "kb": 1000, "mb": 1000**2, "gb": 1000**3, "kib": 1024, "mib": 1024**2, "gib": 1024**3}


def parse_size(value: object) -> int:
    """A number of bytes from text such as "64 MiB".

    >>> parse_size("1.5 kB")
    1500
    """
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", value) if isinstance(value, str) else None
    if match is None or (match[2] or "b").lower() not in _SIZES:
        raise refuse("bad-option", f"{value!r} is not a size", 'write "64 MiB" or "1 GB"')
    return round(float(match[1]) * _SIZES[(match[2] or "b").lower()])


Size = Annotated[int, BeforeValidator(parse_size), WithJsonSchema({"type": "string", "examples": ["64 MiB"]})]
"""A number of bytes with its unit, written "64 MiB"."""

_REFERENCE = re.compile(r"\$\{(env|file):([^}]+)\}")


def resolve_secret(text: str) -> str:
    """Text with `${env:NAME}` and `${file:path}` replaced by what they name. Done when a run needs it, never before."""

    def find(match: re.Match[str]) -> str:
        kind, name = match[1], match[2].strip()
        if kind == "env":
            if name not in os.environ:
                raise LookupError(f'the environment has no "{name}"')
            return os.environ[name]
        try:
            return Path(name).expanduser().read_text(encoding="utf-8").strip()
        except OSError as error:
            raise LookupError(f'the secret file "{name}" could not be read: {error.strerror}') from None

    return _REFERENCE.sub(find, text)


class Secret(SecretStr):
    """A value that is never shown: `${env:NAME}` or `${file:path}`, resolved only where it is used.

    Its text is shown as long as it is only a reference; a literal value never is.
    """

    def reveal(self) -> str:
        """The secret itself."""
        return resolve_secret(self.get_secret_value())

    @property
    def reference(self) -> str:
        """What may be shown: the reference as written, with anything literal masked."""
        text = self.get_secret_value()
        return text if _REFERENCE.fullmatch(text) else "********"

    def _display(self) -> str:
        return self.reference

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        made = super().__get_pydantic_core_schema__(source, handler)
        shown = core_schema.plain_serializer_function_ser_schema(lambda secret: secret.reference, when_used="json")
        return {**made, "serialization": shown}


def one_or_many(value: Any) -> Any:
    """Lets an author write `by: user` for `by: [user]`."""
    return (value,) if isinstance(value, str) else value


def one_if_single(values: tuple[str, ...]) -> str | list[str]:
    """The shorter spelling of a list of names."""
    return values[0] if len(values) == 1 else list(values)


Names = Annotated[tuple[str, ...], BeforeValidator(one_or_many), PlainSerializer(one_if_single)]
"""Column names; a single one need not be in a list."""


def _topic(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,249}", name) or name in (".", ".."):
        raise refuse("bad-option", f"{name!r} cannot name a topic", "letters, digits, . _ and -, at most 249")
    return name


Topic = Annotated[str, AfterValidator(_topic)]
"""The name of a topic, by Kafka's own rule."""

Topics = Annotated[tuple[Topic, ...], BeforeValidator(one_or_many), PlainSerializer(one_if_single)]
"""Names of topics; a single one need not be in a list."""


def _postgresql(url: Secret) -> Secret:
    text = url.get_secret_value()
    if not _REFERENCE.match(text) and not re.match(r"postgres(ql)?://|\w+ *=", text):
        raise refuse(
            "bad-option", "this is no address of a PostgreSQL database", "write postgresql://user@host:5432/db"
        )
    return url


PostgresqlUrl = Annotated[Secret, AfterValidator(_postgresql)]
"""Where a PostgreSQL database is, as libpq takes it: `postgresql://…` or `host=… dbname=…`."""


_UTC = ("utc", "etc/utc", "gmt", "z")


def refused_setting(name: str, value: str) -> tuple[str, str] | None:
    """What is wrong with a setting of Spark, and what to do; None: nothing that we know.

    >>> refused_setting("spark.sql.streaming.multipleWatermarkPolicy", "max")
    >>> refused_setting("spark.sql.session.timeZone", "Europe/Berlin")[0]
    'the time zone of a session is UTC, not "Europe/Berlin": days and windows are counted in it'
    """
    if name == "spark.sql.streaming.multipleWatermarkPolicy" and value.lower() not in ("min", "max"):
        return f'{name} is min or max, not "{value}"', "min: the slowest source leads; max: the fastest"
    if name == "spark.sql.session.timeZone" and value.lower() not in _UTC:
        message = f'the time zone of a session is UTC, not "{value}": days and windows are counted in it'
        return message, "give a window a `zone`, or use from_utc_timestamp(…) in a column"
    return None

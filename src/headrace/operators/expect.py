"""expect: rules that records must keep, and what becomes of those that do not."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import reduce
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, PlainSerializer, WithJsonSchema, model_validator

from headrace.expressions.expression import Expression
from headrace.model import Schema
from headrace.model.types import DATE, STRING, TIMESTAMP, UNKNOWN, DataType, is_numeric
from headrace.operators.base import Say
from headrace.operators.columns import condition, has_columns
from headrace.options import Names, Options, refuse

if TYPE_CHECKING:
    from pyspark.sql import Column

Fate = Literal["dead-letter", "drop", "stop"]
Plain = bool | int | float | str
_TEMPORAL = (DATE, TIMESTAMP)
_CHECKS = ("not_null", "min", "max", "matches", "in")


class Rule(Options):
    """One rule: a condition on the whole record, or checks of a column.

    A condition must be true; one that is null does not hold. The checks of a column other than `not_null` let a
    null pass.
    """

    shorthand: ClassVar[str] = "that"
    name: str | None = Field(None, min_length=1, description="What the rule is called in the reason.")
    that: Expression | None = Field(None, description="A condition that must be true.", examples=["amount > 0"])
    column: Names = Field((), description="The column, or columns, that the checks are of.", examples=["amount"])
    not_null: bool = Field(False, description="It must have a value.")
    min: Plain | None = Field(None, description="The least it may be.", examples=[0])
    max: Plain | None = Field(None, description="The most it may be.", examples=[1000])
    matches: str | None = Field(None, description="A regular expression that all of it must match.")
    in_: tuple[Plain, ...] | None = Field(None, alias="in", min_length=1, description="The values it may have.")
    else_: Fate | None = Field(None, alias="else", description="As on `expect`, for this rule alone.")

    @model_validator(mode="after")
    def _fits_together(self) -> Rule:
        given = {name: getattr(self, "in_" if name == "in" else name) for name in _CHECKS}
        checks = [name for name, value in given.items() if value is not None and value is not False]
        if (self.that is not None) == bool(self.column):
            raise refuse("bad-option", 'a rule has either a condition ("that") or a "column" with checks')
        if self.column and not checks:
            raise refuse("missing-option", "the rule does not say what the column must be", f"it takes {_listed()}")
        if self.that is not None and checks:
            raise refuse("bad-option", f'"{checks[0]}" is a check of a column', 'add "column"')
        if self.matches is not None and (said := _bad_pattern(self.matches)):
            raise refuse("bad-option", f'"{self.matches}" is not a regular expression: {said}')
        return self

    def check(self, given: Schema, say: Say, *option: str | int) -> None:
        """Says what is wrong with the rule for these columns."""
        if self.that is not None:
            condition(self.that, given, say, *option, "that")
        for name in has_columns(self.column, given, say, *option, "column"):
            kind = given[name]
            if self.matches is not None and kind not in (STRING, UNKNOWN):
                say("type-mismatch", f'"matches" is for text, but "{name}" is {kind}', *option, "matches")
            for word, value in (("min", self.min), ("max", self.max), *(("in", v) for v in self.in_ or ())):
                if value is not None and not _comparable(kind, value):
                    say("type-mismatch", f'"{name}" is {kind}, which cannot be compared with {value!r}', *option, word)

    def columns(self) -> frozenset[str]:
        """The columns it reads."""
        return frozenset(self.column) | (self.that.columns() if self.that is not None else frozenset())

    def conditions(self, given: Schema) -> Iterator[tuple[str, Column]]:
        """What is wrong in words, and where it is not: conditions that are never null."""
        from pyspark.sql import functions as F

        from headrace.expressions.spark import spark_type, to_spark

        if self.that is not None:
            yield self._said(f"{self.that.text} does not hold"), F.coalesce(to_spark(self.that), F.lit(False))
        for asked in self.column:
            found = given.find(asked)
            assert found is not None
            here, kind = F.col(f"`{found.name}`"), spark_type(found.type)
            if self.not_null:
                yield self._said(f"{found.name} is null"), here.isNotNull()
            if self.min is not None:
                yield self._said(f"{found.name} is less than {self.min}"), _passes(here >= F.lit(self.min).cast(kind))
            if self.max is not None:
                yield self._said(f"{found.name} is more than {self.max}"), _passes(here <= F.lit(self.max).cast(kind))
            if self.matches is not None:
                whole = here.rlike(rf"\A(?:{self.matches})\z")
                yield self._said(f"{found.name} does not match {self.matches}"), _passes(whole)
            if self.in_ is not None:
                values = [F.lit(value).cast(kind) for value in self.in_]
                yield (
                    self._said(f"{found.name} is not one of {', '.join(map(str, self.in_))}"),
                    _passes(here.isin(*values)),
                )

    def _said(self, text: str) -> str:
        return f"{self.name}: {text}" if self.name else text

    def show(self) -> Any:
        """The flow-file form, the shortest."""
        said = self.model_dump(mode="json", by_alias=True, exclude_defaults=True)
        return said["that"] if list(said) == ["that"] else said

    def __str__(self) -> str:
        if self.that is not None:
            return self.that.text
        said = self.model_dump(
            mode="json", by_alias=True, exclude_defaults=True, include={"min", "max", "matches", "in_"}
        )
        checks = ["not null"] * self.not_null + [f"{word} {_plain(value)}" for word, value in said.items()]
        return f"{', '.join(self.column)}: {'; '.join(checks)}" + (f" ({self.name})" if self.name else "")


def _plain(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _listed() -> str:
    return ", ".join(_CHECKS)


def _passes(holds: Column) -> Column:
    from pyspark.sql import functions as F

    return F.coalesce(holds, F.lit(True))


def _bad_pattern(text: str) -> str:
    """Why a regular expression cannot be used; nothing if it can. Java's classes of letters are not looked into."""
    try:
        re.compile(re.sub(r"\\[pP]\{\w+\}", r"\\w", text))
    except re.error as error:
        return str(error)
    return ""


def _comparable(kind: DataType, value: Plain) -> bool:
    if kind == UNKNOWN:
        return True
    if is_numeric(kind):
        return isinstance(value, int | float) and not isinstance(value, bool)
    if kind in _TEMPORAL:
        try:
            return isinstance(value, str) and bool(datetime.fromisoformat(value))
        except ValueError:
            return False
    return isinstance(value, str) if kind == STRING else str(kind) == "boolean" and isinstance(value, bool)


def _rules(given: object) -> object:
    """Rules from one or several, each a condition or a mapping."""
    items = given if isinstance(given, list | tuple) else [given]
    return [{"that": item} if not isinstance(item, Mapping | Rule) else item for item in items]


class Expect(Options):
    """Rules the records of a source, or those that leave a step, must keep.

    A record that breaks one is a dead letter, with every rule it broke in the reason; or it is dropped and counted;
    or the flow stops at it.
    """

    shorthand: ClassVar[str] = "rules"
    rules: Annotated[
        tuple[Rule, ...],
        BeforeValidator(_rules),
        PlainSerializer(lambda rules: [r.show() for r in rules]),
        WithJsonSchema(
            {"type": "array", "items": {"anyOf": [{"type": "string", "format": "expression"}, {"type": "object"}]}}
        ),
    ] = Field(min_length=1, description="Conditions, and checks of columns.")
    else_: Fate = Field("dead-letter", alias="else", description="What becomes of a record that breaks a rule.")

    def check(self, given: Schema, say: Say) -> None:
        """Says what is wrong with the rules for these columns."""
        for index, rule in enumerate(self.rules):
            rule.check(given, say, "rules", index)

    def columns(self, given: Schema) -> frozenset[str]:
        """The columns the rules read, as the schema spells them."""
        asked = frozenset().union(*(rule.columns() for rule in self.rules))
        return frozenset(f.name for name in asked if (f := given.find(name)) is not None)

    def fate(self, rule: Rule) -> Fate:
        return rule.else_ or self.else_

    def broken(self, given: Schema, fate: Fate) -> tuple[Column, Column] | None:
        """Which rules of one fate a record breaks, in words, null: none; and whether it does. None: no such rules."""
        from pyspark.sql import functions as F

        rules = [rule for rule in self.rules if self.fate(rule) == fate]
        conditions = [condition for rule in rules for condition in rule.conditions(given)]
        if not conditions:
            return None
        said = F.concat_ws("; ", *(F.when(~holds, F.lit(text)) for text, holds in conditions))
        return F.nullif(said, F.lit("")), ~reduce(lambda a, b: a & b, (holds for _, holds in conditions))


class DeadLetters(Options):
    """What is done about the records that a flow could not take."""

    per_minute: int = Field(
        10_000,
        ge=0,
        description="Most dead letters in a minute; at more the flow stops, so that what is broken upstream "
        "does not fill a disk.",
    )

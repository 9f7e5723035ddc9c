"""From a draft to a flow: every word looked up in the catalogue, every option validated.

All problems are collected. A part that could not be understood is left out of the flow and named in
`broken`, so that what reads from it, or what it reads from, is not blamed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Any, get_args

from pydantic import ValidationError

from headrace.catalogue import FORMATS, OPERATORS, SINKS, SOURCES
from headrace.connectors.table import Table
from headrace.connectors.time import Time
from headrace.declare.draft import KEY, Claim, Draft, Entry
from headrace.declare.parameters import Parameters, Values
from headrace.declare.show import as_written
from headrace.errors import Problem, nearest
from headrace.model import Delivery, Flow, Location, Port, Schema, Sink, Source, Step
from headrace.model.flow import STORES
from headrace.model.types import TypeSyntaxError
from headrace.options import Options, Secret

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,99}")
COMMON = {
    "source": ("format", "schema", "time", "table", "expect"),
    "step": ("from", "expect"),
    "sink": ("from", "format", "delivery", "goal"),
}
_KNOWN: dict[str, Mapping[str, Any]] = {"source": SOURCES, "step": OPERATORS, "sink": SINKS}
_DELIVERIES = [str(d) for d in Delivery]


@dataclass(frozen=True, kw_only=True)
class Declared:
    """A flow as far as it could be understood."""

    flow: Flow
    problems: tuple[Problem, ...] = ()
    broken: Mapping[str, tuple[Port, ...]] = field(default_factory=dict)
    """Parts that could not be understood, and what they read from."""
    claims: tuple[Claim, ...] = ()


def resolve(draft: Draft, given: Values | None = None) -> Declared:
    """The flow a draft means with these values for its parameters, and everything that is wrong with it."""
    problems = list(draft.problems)
    parameters = Parameters.of(draft.name, draft.parameters, draft.places, given or Values())
    if not NAME.fullmatch(draft.name):
        problems.append(_bad_name("flow", draft.name, draft.places.at("flow")))
    if draft.state is not None and draft.state not in STORES:
        message = f"state cannot be held in {draft.state!r}"
        at, hint = draft.places.at("state"), nearest(str(draft.state), STORES)
        problems.append(Problem(code="bad-option", message=message, location=at, hint=hint))
    whole = _Reader(Entry(kind="step", name="", data={}, places=draft.places))
    said, letters_by, complete = parameters.fill(draft.dead_letters, draft.places, "dead_letters")
    letters = whole.dead_letters(said) if complete else None
    aim, goal_by, known = parameters.fill(draft.goal, draft.places, "goal")
    goal = whole.goal(aim) if known else None
    problems += whole.problems
    parts: dict[str, list[Any]] = {"source": [], "step": [], "sink": []}
    seen: dict[str, Entry] = {}
    broken: dict[str, tuple[Port, ...]] = {}
    for entry in draft.entries:
        if entry.name in seen:
            problems.append(_twice(entry, seen[entry.name]))
            continue
        seen[entry.name] = entry
        reader = _Reader(entry)
        part = reader.read(parameters)
        problems += reader.problems
        if part is None:
            broken[entry.name] = reader.inputs
        else:
            parts[entry.kind].append(part)
    spark, set_by, _ = parameters.fill(draft.spark, draft.places, "spark")
    problems += [*parameters.problems, *parameters.unused()]
    flow = Flow(
        name=draft.name,
        description=draft.description,
        sources=tuple(parts["source"]),
        steps=tuple(parts["step"]),
        sinks=tuple(parts["sink"]),
        spark=tuple(sorted((str(k), _spark_text(v)) for k, v in spark.items())),
        goal=goal,
        state=draft.state if draft.state in STORES else None,
        parameters=parameters.declared,
        values=parameters.values,
        written={
            name: as_written(getattr(draft, name), parameters.declared)
            for name, uses in (("spark", set_by), ("dead_letters", letters_by), ("goal", goal_by))
            if uses
        },
        dead_letters=letters,
        places=draft.places,
    )
    return Declared(flow=flow, problems=tuple(problems), broken=broken, claims=draft.claims)


def _spark_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _bad_name(kind: str, name: str, location: Location) -> Problem:
    return Problem(
        code="bad-name",
        message=f"{kind} cannot be named {name!r}",
        location=location,
        hint="begin with a letter; then letters, digits, - and _, at most 100",
    )


def _twice(entry: Entry, first: Entry) -> Problem:
    return Problem(
        code="duplicate-name",
        message=f'{entry.kind} "{entry.name}" has the name of a {first.kind} at {first.places.location}',
        location=entry.places.location,
        step=entry.name,
        hint="names must differ: they wire the flow and key its state",
    )


@dataclass
class _Reader:
    """Reads one entry and collects what is wrong with it."""

    entry: Entry
    problems: list[Problem] = field(default_factory=list)
    inputs: tuple[Port, ...] = ()
    short: str | None = None

    def say(self, code: str, message: str, *path: str | int, hint: str = "", at: int = 0) -> None:
        location = self.entry.places.at(*path, short=self.short).right(at)
        self.problems.append(Problem(code=code, message=message, location=location, step=self.entry.name, hint=hint))

    @property
    def title(self) -> str:
        return f'{self.entry.kind} "{self.entry.name}"'

    def read(self, parameters: Parameters) -> Source | Step | Sink | None:
        """The part the entry means; None if it cannot be understood, or if a parameter it uses has no value."""
        places = self.entry.places
        filled, uses, complete = parameters.fill(self.entry.data, places)
        if not complete:
            self.inputs = self._inputs(filled.get("from")) if self.entry.kind != "source" else ()
            return None
        part = self._read(filled)
        if part is None or not uses:
            return part
        self._no_secrets(part)
        return replace(part, uses=uses, written=as_written(self.entry.data, parameters.declared))

    def _no_secrets(self, part: Source | Step | Sink) -> None:
        what = part.operator if isinstance(part, Step) else part.connector
        given = self.entry.data.get(what)
        for name, info in type(part.options).model_fields.items():
            said = given.get(info.alias or name) if isinstance(given, Mapping) else None
            if isinstance(getattr(part.options, name), Secret) and "${param:" in str(said):
                message = (
                    f'{self.title} takes "{name}" from a parameter, and parameters are shown and kept with the run'
                )
                self.say("bad-option", message, what, name, hint="write ${env:NAME} or ${file:path}")

    def _read(self, data: Mapping[str, Any]) -> Source | Step | Sink | None:
        name, kind = self.entry.name, self.entry.kind
        if not NAME.fullmatch(name):
            self.problems.append(_bad_name(kind, name, self.entry.places.location))
        known = _KNOWN[kind]
        what = self._kind(data, known)
        self.inputs = self._inputs(data.get("from")) if kind != "source" else ()
        format_name, format_options = self._format(data.get("format"))
        schema = self._schema(data.get("schema"))
        time = self._options("the time", Time, data["time"], "time") if data.get("time") is not None else None
        table = self._table(data.get("table"))
        expect = self._expect(data.get("expect"))
        delivery = self._delivery(data.get("delivery"))
        goal = self.goal(data.get("goal"))
        options = None
        if what is not None:
            model = known[what] if kind == "step" else known[what].options_model
            options = self._options(f"{self.title} ({what})", model, data[what], what)
        if what is None or options is None or self.problems:
            return None
        places = self.entry.places
        if kind == "source":
            return Source(
                name=name,
                connector=what,
                options=options,
                format=format_name,
                format_options=format_options,
                schema=schema,
                time=time,
                table=table,
                expect=expect,
                places=places,
            )
        if kind == "step":
            return Step(name=name, inputs=self.inputs, operator=what, options=options, expect=expect, places=places)
        return Sink(
            name=name,
            inputs=self.inputs,
            connector=what,
            options=options,
            format=format_name,
            format_options=format_options,
            delivery=delivery,
            goal=goal,
            places=places,
        )

    def _kind(self, data: Mapping[str, Any], known: Mapping[str, Any]) -> str | None:
        """The connector or operator an entry names; exactly one."""
        word = "operator" if self.entry.kind == "step" else "connector"
        common = COMMON[self.entry.kind]
        named = [key for key in data if key in known]
        others = [key for key in data if key not in known and key not in common]
        for key in others if named else ():
            hint = nearest(str(key), common)
            self.say("unknown-option", f'{self.title} has no option "{key}"', key, KEY, hint=hint)
        if len(named) > 1:
            both = " and ".join(f'"{n}"' for n in named)
            self.say("too-many-kinds", f"{self.title} names {both}", named[1], KEY, hint=f"one {word} an entry")
            return None
        if named:
            return named[0]
        if others:
            hint = nearest(str(others[0]), known).replace("It takes", f"The {word}s are")
            self.say(
                f"unknown-{word}",
                f'there is no {word} "{others[0]}" for a {self.entry.kind}',
                others[0],
                KEY,
                hint=hint,
            )
        else:
            self.say("bad-flow", f"{self.title} names no {word}", hint=f"one of {', '.join(known)}")
        return None

    def _inputs(self, given: object) -> tuple[Port, ...]:
        names = [given] if isinstance(given, str) else given
        if names is None:
            self.say("no-source", f"{self.title} does not say what it reads from", hint='add "from: NAME"')
            return ()
        if not isinstance(names, list | tuple) or not names or not all(isinstance(n, str) and n for n in names):
            self.say(
                "bad-option", f"{self.title} reads from {given!r}", "from", hint="write a name, or a list of names"
            )
            return ()
        return tuple(Port.parse(str(n)) for n in names)

    def _format(self, given: object) -> tuple[str | None, Options | None]:
        if given is None:
            return None, None
        if isinstance(given, Mapping) and len(given) == 1:
            name, options = next(iter(given.items()))
        elif isinstance(given, str):
            name, options = given, {}
        else:
            self.say("bad-option", f"{self.title} has a format of {given!r}", "format", hint=nearest("", FORMATS))
            return None, None
        if name not in FORMATS:
            hint = nearest(str(name), FORMATS).replace("It takes", "The formats are")
            self.say("unknown-format", f'there is no format "{name}"', "format", hint=hint)
            return None, None
        return name, self._options(f"format {name}", FORMATS[name].options_model, options, "format", name)

    def _schema(self, given: object) -> Schema | None:
        if given is None or isinstance(given, Schema):
            return given
        if isinstance(given, Mapping):
            text = ", ".join(f"`{name}` {kind}" for name, kind in given.items())
        elif isinstance(given, str):
            text = given
        else:
            self.say("bad-schema", f"{given!r} is not a schema", "schema", hint="write `name TYPE, name TYPE`")
            return None
        try:
            schema = Schema.parse(text)
        except TypeSyntaxError as error:
            place = error.at if isinstance(given, str) else 0
            hint = error.hint or "write `name TYPE, name TYPE`"
            self.say("bad-schema", f"{self.title}: {error}", "schema", hint=hint, at=place)
            return None
        if not schema.fields:
            self.say("bad-schema", f"{self.title} has a schema without columns", "schema")
        return schema

    def _table(self, given: object) -> Options | None:
        if given is None or given is False:
            return None
        return self._options("the table", Table, {} if given is True else given, "table")

    def _expect(self, given: object) -> Options | None:
        if given is None:
            return None
        from headrace.operators.expect import Expect  # few flows have rules, and a check should be quick

        return self._options("the rules", Expect, given, "expect")

    def dead_letters(self, given: object) -> Options | None:
        """What a flow says about its dead letters; None: the defaults."""
        if given is None:
            return None
        from headrace.operators.expect import DeadLetters

        said = self._options("dead_letters", DeadLetters, given, "dead_letters")
        return said if said != DeadLetters() else None

    def goal(self, given: object) -> Options | None:
        """What a flow or a sink is to be good at; None: it does not say."""
        if given is None:
            return None
        from headrace.goal import Goal

        return self._options("goal", Goal, given, "goal")

    def _delivery(self, given: object) -> str | None:
        if given is None or (isinstance(given, str) and given in _DELIVERIES):
            return given
        self.say("bad-option", f"{given!r} is not a guarantee", "delivery", hint=nearest(str(given), _DELIVERIES))
        return None

    def _options(self, owner: str, model: type[Options], given: Any, *path: str) -> Options | None:
        """The validated options, or None after saying what is wrong with them."""
        if isinstance(given, model):
            return given
        fields = {f.alias or name for name, f in model.model_fields.items()} | set(model.model_fields)
        if given is None:
            given = {}
        if model.shorthand is not None and not (isinstance(given, Mapping) and set(given) <= fields):
            misspelt = isinstance(given, Mapping) and not _maps(model)
            given = given if misspelt else {model.shorthand: given}
        if not isinstance(given, Mapping):
            self.say("bad-option", f"{owner} takes options, not {given!r}", *path, hint=nearest("", sorted(fields)))
            return None
        try:
            return model.model_validate({str(k): v for k, v in given.items()})
        except ValidationError as error:
            self.short = model.shorthand
            for wrong in _told_once(error.errors(include_url=False)):
                self._explain(owner, model, wrong, path)
            self.short = None
            return None

    def _explain(self, owner: str, model: type[Options], wrong: Any, path: tuple[str, ...]) -> None:
        """One validation error in the author's words."""
        where = tuple(part for part in wrong["loc"])
        option = ".".join(str(w) for w in where if not (isinstance(w, str) and ("[" in w or "(" in w)))
        if wrong["type"] == "headrace":
            for deeper, facts in wrong["ctx"].get("several", [((), wrong["ctx"])]):
                place = (*path, *where, *deeper)
                message = f"{owner}: {facts['message']}"
                cut = "found the end" in message and self._cut_off(place)
                hint = facts["hint"] or ("put a text with commas inside { } in quotes" if cut else "")
                if get_close_matches(str(place[-1]), ["python"], cutoff=0.8) and place[-1] != "python":
                    hint = 'did you mean "python"?'
                self.say(facts["code"], message, *place, hint=hint, at=facts["at"])
        elif wrong["type"] == "extra_forbidden":
            inner = _model_at(model, where[:-1])
            known = [f.alias or name for name, f in inner.model_fields.items()] if inner else []
            hint = nearest(str(where[-1]), known)
            self.say("unknown-option", f'{owner} has no option "{option}"', *path, *where, KEY, hint=hint)
        elif wrong["type"] == "missing":
            self.say("missing-option", f'{owner} needs option "{option}"', *path, hint=_describe(model, where))
        else:
            message = f'{owner}: option "{option}" cannot be {_shown(wrong["input"])}: {_wanted(wrong)}'
            self.say("bad-option", message, *path, *where, hint=_describe(model, where))

    def _cut_off(self, path: tuple[Any, ...]) -> bool:
        """Whether a text ended at a comma: what was behind it is a name without a value then."""
        around: Any = self.entry.data
        for key in path[:-1]:
            around = around.get(key, around) if isinstance(around, Mapping) else around
        return isinstance(around, Mapping) and None in around.values()


def _told_once(errors: Sequence[Any]) -> list[Any]:
    """Without what another error says already.

    That is a missing option that is only misspelt, the other kinds of value that an option could have had, and a list
    that is too short because its items are wrong.
    """
    unknown = [str(e["loc"][-1]) for e in errors if e["type"] == "extra_forbidden"]
    told: list[Any] = []
    for error in errors:
        kind, at = error["type"], error["loc"]
        if kind == "missing" and get_close_matches(str(at[-1]), unknown, n=1, cutoff=0.5):
            continue
        if kind.endswith("_type") and any(e["loc"][:-1] == at[:-1] and e["input"] is error["input"] for e in told):
            continue
        if kind == "too_short" and any(e["loc"][: len(at)] == at for e in told):
            continue
        told.append(error)
    return told


_WORDS = {
    "int": "a whole number is wanted",
    "float": "a number is wanted",
    "bool": "true or false is wanted",
    "string": "a text is wanted",
    "tuple": "a list is wanted",
    "list": "a list is wanted",
    "dict": "options are wanted, `name: value`",
    "model": "options are wanted, `name: value`",
}


def _wanted(wrong: Any) -> str:
    """What would do instead, without the words of Python."""
    word = (
        _WORDS.get(wrong["type"].split("_")[0])
        if wrong["type"].endswith(("_type", "_parsing", "_parsing_size"))
        else None
    )
    if wrong["type"] == "int_from_float":
        word = _WORDS["int"]
    if wrong["type"] == "too_short":
        least = wrong["ctx"]["min_length"]
        word = f"at least {least} {'is' if least == 1 else 'are'} wanted"
    return word or str(wrong["msg"]).lower()


_LONGEST_SHOWN = 200


def _shown(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "empty", True: "true", False: "false"}[value]
    text = "an empty list" if value in ([], ()) else repr(value)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"


def _model_at(model: type[Options], path: tuple[Any, ...]) -> type[Options] | None:
    """The model of the options at a path within others."""
    for part in path:
        info = next((f for name, f in model.model_fields.items() if part in (name, f.alias)), None)
        if info is not None:
            found = next(_models(info.annotation), None)
            if found is None:
                return None
            model = found
    return model


def _models(annotation: Any) -> Iterator[type[Options]]:
    if isinstance(annotation, type) and issubclass(annotation, Options):
        yield annotation
    for inner in get_args(annotation):
        yield from _models(inner)


def _maps(model: type[Options]) -> bool:
    """Whether the shorthand field itself is a mapping of the author's names."""
    annotation = str(model.model_fields[model.shorthand].annotation) if model.shorthand else ""
    return "NamedValue" in annotation or annotation.startswith("dict")


def _describe(model: type[Options], where: tuple[Any, ...]) -> str:
    """What an option is for, from its model."""
    for name, info in model.model_fields.items():
        if where and where[0] in (name, info.alias):
            return info.description or ""
    return ""

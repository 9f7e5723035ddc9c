"""SQL text -> draft: statements become the entries a flow file would have, each word with its place.

SET flow = 'large-orders';
CREATE STREAM orders (id BIGINT, amount DOUBLE, at TIMESTAMP, EVENT TIME at WATERMARK '10 seconds')
  WITH (connector = 'kafka', topic = 'orders', format = 'json');
CREATE VIEW large AS SELECT * FROM orders WHERE amount > 100;
CREATE SINK screen WITH (connector = 'console');
INSERT INTO screen FROM large;
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from headrace.catalogue import SINKS, SOURCES
from headrace.declare.draft import Claim, Draft
from headrace.declare.flowfile import LONGEST, TOP, draft_of
from headrace.declare.placed import Placed, PlacedList
from headrace.declare.resolve import COMMON
from headrace.declare.sql.groups import Groups
from headrace.declare.sql.joins import Joins
from headrace.declare.sql.steps import Chain, Pending
from headrace.declare.sql.words import FORMAT, Name, StatementError, masked
from headrace.errors import Problem, nearest
from headrace.expressions.functions import functions as known_functions
from headrace.expressions.lex import ExpressionSyntaxError, Token, tokens
from headrace.expressions.parse import ExpressionReader
from headrace.model import DEAD_LETTER, Location, Places

_STATEMENTS = "SET, CREATE FLOW, CREATE STREAM, CREATE TABLE, CREATE VIEW, CREATE SINK, CREATE FUNCTION, INSERT INTO"
_TIMES = {"event": None, "ingestion": "ingestion", "processing": "processing"}

_LETTERS = "_letters"
"""What is behind a sink's name in that of the step that puts dead letters together for it."""


def read(text: str, file: str = "<sql>", name: str = "unnamed") -> Draft:
    """The draft a file of statements holds; `name` is the flow's unless the text gives it one. Never raises."""
    if len(text) > LONGEST:
        problem = Problem(
            code="bad-flow",
            message=f"the file has {len(text):,} characters; at most {LONGEST:,} are read",
            location=Location(file),
        )
        return Draft(name=name, places=Places(problem.location), problems=(problem,))
    reader, problems = reader_of(text, file)
    reader.statements()
    return reader.draft(name, problems)


def reader_of(text: str, file: str) -> tuple[Reader, list[Problem]]:
    """A reader of the text, up to where it can be cut into words, and what is wrong there."""
    wrong: list[ExpressionSyntaxError] = []
    end = len(text)
    while True:
        try:
            cut = tokens(masked(text)[:end], longest=LONGEST, comments=True)
            reader = Reader(text, [Token(t.kind, text[t.at : t.end], t.at) for t in cut], file)
        except ExpressionSyntaxError as error:
            wrong, end = [error], error.at
            continue
        return reader, [_unreadable(error, reader.place(error.at)) for error in wrong]


def _unreadable(error: ExpressionSyntaxError, at: Location) -> Problem:
    message = error.message.replace("the expression", "the file")
    return Problem(code="bad-sql", message=message, location=at, hint=error.hint)


@dataclass(frozen=True)
class Statement:
    """What one statement was about: where it stands, and the parts it said something about."""

    at: int
    end: int
    parts: tuple[str, ...]


class Reader(Joins, Groups):
    """Reads statement by statement; after a mistake it goes on behind the next semicolon."""

    def __init__(self, text: str, cut: list[Token], file: str) -> None:
        super().__init__(text, cut, file)
        self.tree = Placed()
        self.problems: list[Problem] = []
        self.functions: dict[str, tuple[str, str | None]] = {}
        self.function_names: dict[str, str] = {}
        self.scope: dict[str, Name] = {}
        self.inserts: list[tuple[Name, list[Name]]] = []
        self.late_sinks: list[tuple[Name, Pending]] = []
        self.letter_sinks: dict[str, tuple[Name, list[Name]]] = {}
        self.claims: list[Claim] = []
        self.said: list[Statement] = []
        self.touched: list[str] = []
        self.names_of: dict[int, str] = {}

    def draft(self, name: str, problems: list[Problem]) -> Draft:
        """What was read so far."""
        for sink, inputs in self.inserts:  # a sink may be created behind what is put into it
            self.into_sink(sink, inputs)
        for target, step in self.late_sinks:
            self.into_sink(target, [Name(f"{self.names_of.get(id(step), '?')}.late", target.at)])
        for target, ports in self.letter_sinks.values():
            self.into_sink(target, ports if len(ports) == 1 else [self.together(target, ports)])
        if "flow" not in self.tree:
            self.tree.put("flow", name, Location(self.file, 1, 1))
        made = draft_of(self.tree, self.file, [*problems, *self.problems])
        return replace(made, claims=tuple(self.claims))

    # -- statements

    def statements(self) -> None:
        while self.token.kind != "end":
            if self.accept(";"):
                continue
            at, self.touched = self.token.at, []
            self.brackets, self.scope = 0, {}
            try:
                self.statement()
                if not self.ended:
                    raise self.fail(f"unexpected {self.found()}", hint="statements end with a semicolon")
            except StatementError as error:
                place = self.place(min(error.at, len(self.text)))
                self.problems.append(Problem(code=error.code, message=error.message, location=place, hint=error.hint))
                while not self.ended:
                    self.move()
            except RecursionError:
                message = "the statement is nested too deeply"
                self.problems.append(Problem(code="bad-sql", message=message, location=self.place(at)))
                while not self.ended:
                    self.move()
            self.said.append(Statement(at, self.behind, tuple(self.touched)))

    def statement(self) -> None:
        word = self.word()
        if self.accept("set"):
            self.set()
        elif self.accept("create"):
            self.create()
        elif self.accept("insert"):
            self.insert()
        elif word in ("select", "with", "from"):
            hint = "write CREATE VIEW name AS … or INSERT INTO sink …; headrace sql answers queries"
            raise self.fail("a query in a file needs a name or a sink", hint=hint)
        elif word in ("drop", "alter", "update", "delete", "merge", "truncate", "use", "show", "describe", "explain"):
            hint = "a file says what the flow is; it is not changed step by step"
            raise self.fail(f"there is no {word.upper()} in a flow", hint=hint, code="unsupported")
        else:
            raise self.wanted("a statement", f"there are {_STATEMENTS}")

    def set(self) -> None:
        """`SET flow = 'name'`, `SET spark.sql.shuffle.partitions = 4`, and the other settings of a flow."""
        path, at = self.key()
        self.need("=")
        value_at = self.token.at
        value = self.value()
        place, value_place = self.place(at), self.value_place(value, value_at)
        if path[0] == "spark" and len(path) > 1:
            into, last = self.tree.within("spark", place), ".".join(path)
        elif path[0] in TOP:
            into = self.tree
            for name in path[:-1]:
                into = into.within(name, place)
            last = path[-1]
        else:
            known = [*TOP, "spark.…"]
            raise self.fail(f'a flow has no "{path[0]}"', at, nearest(path[0], known), "unknown-option")
        if last in into:
            raise self.fail(f'"{".".join(path)}" is set twice', at, "remove one", "duplicate-name")
        into.put(last, value, place, value_place)

    def create(self) -> None:
        if self.phrase("or", "replace"):
            raise self.fail("nothing is replaced in a flow: each name is given once", hint="write CREATE alone")
        self.phrase("temporary")
        what = self.accept("flow", "stream", "source", "table", "view", "sink", "function")
        if not what:
            raise self.wanted("FLOW, STREAM, TABLE, VIEW, SINK or FUNCTION")
        if self.phrase("if", "not", "exists"):
            raise self.fail("each name is given once in a flow", self.token.at, "leave IF NOT EXISTS out")
        if what == "flow":
            name = self.named("a name for the flow")
            if "flow" in self.tree:
                raise self.fail("the flow has a name already", name.at, "remove one", "duplicate-name")
            self.tree.put("flow", name.text, self.place(name.at))
        elif what in ("stream", "source", "table"):
            self.stream(as_table=what == "table")
        elif what == "view":
            self.view()
        elif what == "sink":
            self.sink()
        else:
            self.function()

    def entry(self, section: str, name: Name) -> Placed:
        """A new entry of the flow."""
        entries = self.tree.within(section, self.place(name.at))
        if name.text in entries:
            hint = "the second one is not used; give it another name or remove it"
            raise self.fail(f'"{name.text}" is written twice', name.at, hint, "duplicate-name")
        made = Placed()
        entries.put(name.text, made, self.place(name.at))
        self.touched.append(name.text)
        return made

    # -- sources

    def stream(self, as_table: bool) -> None:
        """`CREATE STREAM name (columns, EVENT TIME column WATERMARK '…') WITH (connector = …, …)`."""
        name = self.named("a name for the stream")
        entry = Placed()
        table = Placed()
        if self.symbol() == "(":
            self.columns_and_time(entry, table)
        if as_table and self.accept("refresh"):
            self.accept("every")
            self.said_once(table, "refresh", self.text_of("a length of time"))
        if self.word() == "as":
            raise self.fail("a stream comes from outside", hint="write CREATE VIEW name AS … for a query")
        self.connector("source", entry, name, table if as_table else None)
        if as_table and self.word() == "dead":
            hint = "a record of it that cannot be read stops the flow; leave the clause out"
            raise self.fail("a table has no dead letters", hint=hint, code="unsupported")
        if as_table:
            entry.put("table", table or True, self.place(name.at))
        elif table:
            raise self.fail("a stream has no key", name.at, "write CREATE TABLE for what is read as a table")
        made = self.entry("sources", name)
        for key, value in entry.items():
            made.put(key, value, entry.lc.key(key), entry.lc.value(key))
        self.dead_letters()

    def columns_and_time(self, entry: Placed, table: Placed) -> None:
        self.need("(")
        start, end = self.token.at, self.token.at
        while self.symbol() != ")":
            at = self.token.at
            if self.word() in _TIMES and self.word(1) == "time" and self.symbol(2) not in (",", ")", "<"):
                self.time(entry, at)
            elif self.phrase("primary", "key"):
                self.said_once(table, "key", Name("", at), self.listed(self.names()))
                if self.phrase("latest", "by"):
                    self.said_once(table, "latest_by", self.named("the name of a column"))
            elif self.phrase("watermark", "for"):
                self.watermark(entry, at)
            else:
                if "time" in entry or table:
                    raise self.fail("columns come first, then EVENT TIME and PRIMARY KEY")
                self.named("the name of a column")
                self.accept(":")
                self.type_words()
                end = self.behind
            if not self.accept(","):
                break
        self.need(")")
        if end > start:
            columns = self.plain_text(start, end)
            entry.put("schema", columns, self.place(start), self.place(start, end))

    def type_words(self) -> None:
        """Passes over the type of a column; what it is, the schema says."""
        opened = 0
        if self.token.kind != "word":
            raise self.wanted("a type, such as BIGINT")
        while not self.ended:
            mark = self.symbol()
            if opened == 0 and mark in (",", ")"):
                return
            opened += mark in ("(", "<")
            opened -= len(mark) if mark in (">", ">>", ">>>") else mark == ")"
            self.move()

    def time(self, entry: Placed, at: int) -> None:
        """`EVENT TIME column [WATERMARK '…'] [WITH (…)]`, or INGESTION TIME, PROCESSING TIME."""
        kind = _TIMES[self.need(*_TIMES)]
        self.need("time")
        options = Placed()
        if kind is None:
            column = self.named("the column that has the time")
            options.put("column", column.text, self.place(column.at))
        else:
            options.put("kind", kind, self.place(at))
        if self.accept("watermark"):
            length = self.text_of("a length of time")
            options.put("watermark", length.text, self.place(length.at), self.place(length.at + 1))
        if self.word() == "with" and self.symbol(1) == "(":
            self.need("with")
            given, _ = self.options()
            for key, value in given.items():
                options.put(key, value, given.lc.key(key), given.lc.value(key))
        self.said_once(entry, "time", Name("", at), options)

    def watermark(self, entry: Placed, at: int) -> None:
        """`WATERMARK FOR column AS column - INTERVAL …`, as other systems write it."""
        column = self.named("the column that has the time")
        options = Placed()
        options.put("column", column.text, self.place(column.at))
        self.need("as")
        if self.named("the same column").text.lower() != column.text.lower():
            raise self.fail("the watermark is behind the column it is for", column.at, f"write AS {column.text} - …")
        if self.accept("-"):
            length = self.value()
            options.put("watermark", length, self.place(column.at))
        self.said_once(entry, "time", Name("", at), options)

    def said_once(self, into: Placed, key: str, name: Name, value: Any = None) -> None:
        if key in into:
            raise self.fail(f"{key} is said twice", name.at, "remove one", "duplicate-name")
        into.put(key, name.text if value is None else value, self.place(name.at))

    def connector(self, kind: str, entry: Placed, owner: Name, table: Placed | None = None) -> None:
        """`WITH (connector = …, format = …, option = …)`: what is the entry's own, and what the connector's."""
        self.need("with")
        given, at = self.options()
        known: Mapping[str, Any] = SOURCES if kind == "source" else SINKS
        if "connector" not in given:
            hint = f"add connector = '…'; there are {', '.join(known)}"
            raise self.fail(f'{kind} "{owner.text}" names no connector', at, hint, "missing-option")
        connector = given.pop("connector")
        place = given.lc.value("connector")
        fields = known[connector].options_model.model_fields if connector in known else {}
        own = {name for key, f in fields.items() for name in (key, f.alias)}
        options = Placed()
        for key, value in given.items():
            where = given.lc.key(key), given.lc.value(key)
            common = key in COMMON[kind] and key not in own and key not in ("from", "schema", "time")
            if key == "table" and common and table is not None and isinstance(value, Placed):
                for inner, said in value.items():
                    table.put(inner, said, value.lc.key(inner), value.lc.value(inner))
            elif common:
                entry.put(key, value, *where)
            else:
                options.put(key, value, *where)
        self.format(entry, given)
        entry.put(str(connector), options, place, self.place(at))

    def format(self, entry: Placed, given: Placed) -> None:
        """`format = 'csv', format.header = true` is the format `{csv: {header: true}}`."""
        said = entry.get("format")
        if isinstance(said, Placed) and FORMAT in said:
            name = str(said.pop(FORMAT))
            made = Placed()
            made.put(name, said, given.lc.key("format"), given.lc.value("format"))
            entry.put("format", made, given.lc.key("format"), given.lc.value("format"))

    # -- views, sinks, functions

    def view(self) -> None:
        name = self.named("a name for the view")
        if self.symbol() == "(":
            raise self.fail("a view names its columns in SELECT", hint="leave the list out")
        self.need("as")
        chain = self.query(name.text)
        if not chain.steps:  # a view that changes nothing still has a name of its own
            chain.add(Pending("from", "union", Placed(), name.at, inputs=[chain.start]))
        self.close(chain, name)
        self.dead_letters()

    def close(self, chain: Chain, name: Name) -> Name:
        at = chain.start
        for number, step in enumerate(chain.steps, start=1):
            last = number == len(chain.steps)
            called = name if last else Name(self.free(f"{name.text}_{step.clause}"), step.at)
            entry = self.entry("steps", called)
            inputs = [i if i.text else at for i in step.inputs] or [at]
            entry.put("from", self.inputs(inputs), self.place(inputs[0].at))
            place = self.place(step.at)
            options = Placed()
            for key, value in step.options.items():
                own = key in COMMON["step"]
                (entry if own else options).put(key, value, step.options.lc.key(key), step.options.lc.value(key))
            entry.put(step.operator, options, place)
            self.claims += [Claim(called.text, n, time.text, self.place(time.at)) for n, time in step.times]
            self.names_of[id(step)] = called.text
            at = called
        return at

    def free(self, name: str) -> str:
        """The name, or with a number if another clause of the query has it."""
        taken = self.tree.get("steps", {})
        number, found = 2, name
        while found in taken:
            number, found = number + 1, f"{name}_{number}"
        return found

    def inputs(self, names: list[Name]) -> Any:
        if len(names) == 1:
            return names[0].text
        made = PlacedList()
        for name in names:
            made.add(name.text, self.place(name.at))
        return made

    def sink(self) -> None:
        name = self.named("a name for the sink")
        entry = Placed()
        inputs = []
        if self.accept("from"):
            inputs = self.ports()
        self.connector("sink", entry, name)
        made = self.entry("sinks", name)
        if inputs:
            made.put("from", self.inputs(inputs), self.place(inputs[0].at))
        for key, value in entry.items():
            made.put(key, value, entry.lc.key(key), entry.lc.value(key))

    def ports(self) -> list[Name]:
        found = [self.source()]
        while self.accept(","):
            found.append(self.source())
        return found

    def insert(self) -> None:
        """`INSERT INTO sink FROM view`, or a query, whose result is named after the sink."""
        if self.accept("overwrite"):
            raise self.fail("a stream is only added to a sink", hint="write INSERT INTO", code="unsupported")
        self.need("into")
        sink = self.named("a sink")
        self.touched.append(sink.text)
        if self.symbol() == "(":
            raise self.fail("the columns of a sink are those it is given", hint="name them in SELECT")
        if self.word() == "values":
            raise self.fail("rows are a source", hint="write CREATE STREAM … WITH (connector = 'values', rows = …)")
        if self.word() == "from" and not self.has_more_than_ports():
            self.need("from")
            self.inserts.append((sink, self.ports()))
            self.dead_letters()
            return
        name = f"{sink.text}_rows"
        chain = self.query(name)
        self.inserts.append((sink, [self.close(chain, Name(name, sink.at))]))
        self.dead_letters()

    def dead_letters(self) -> None:
        """`DEAD LETTERS TO sink` at the end of a statement: those of all that it makes."""
        at = self.token.at
        if not self.accept("dead"):
            return
        self.need("letters")
        self.need("to")
        sink = self.named("a sink")
        makers = [n for n in self.touched if n in self.tree.get("sources", {}) or n in self.tree.get("steps", {})]
        if not makers:
            hint = "route them where they arise: behind its CREATE STREAM or CREATE VIEW"
            raise self.fail("this statement makes nothing that could have dead letters", at, hint)
        self.touched += [sink.text, f"{sink.text}{_LETTERS}"]
        _, ports = self.letter_sinks.setdefault(sink.text, (sink, []))
        ports += [Name(f"{name}.{DEAD_LETTER}", sink.at) for name in makers]
        if self.word() == "dead":
            raise self.fail("DEAD LETTERS is said twice", self.token.at, "remove one", "duplicate-name")

    def together(self, sink: Name, ports: list[Name]) -> Name:
        """The dead letters of several parts as one stream."""
        name = Name(self.free(f"{sink.text}{_LETTERS}"), sink.at)
        step = self.entry("steps", name)
        step.put("from", self.inputs(ports), self.place(sink.at))
        step.put("union", Placed(), self.place(sink.at))
        return name

    def has_more_than_ports(self) -> bool:
        return any(
            t.text.lower() in ("union", "with") for t in self.tokens[self.next : self.next + 12] if t.text != ";"
        )

    def into_sink(self, sink: Name, inputs: list[Name]) -> None:
        sinks = self.tree.get("sinks", {})
        if sink.text not in sinks:
            hint = nearest(sink.text, sinks).replace("It takes", "There are") or "write CREATE SINK for it"
            message = f'there is no sink "{sink.text}"'
            self.problems.append(
                Problem(code="unknown-input", message=message, location=self.place(sink.at), hint=hint)
            )
        elif "from" in sinks[sink.text]:
            hint = "put them together with UNION ALL, or make a second sink"
            message = f'sink "{sink.text}" is given records twice'
            self.problems.append(
                Problem(code="duplicate-name", message=message, location=self.place(sink.at), hint=hint)
            )
        else:
            sinks[sink.text].put("from", self.inputs(inputs), self.place(inputs[0].at))

    def function(self) -> None:
        """`CREATE FUNCTION name AS PYTHON 'module:function' [RETURNS type]`."""
        name = self.named("a name for the function")
        returns = self.returned()
        self.need("as")
        self.need("python")
        reference = self.text_of("module:function")
        if reference.text.count(":") != 1 or not all(reference.text.split(":")):
            message = f"{reference.text!r} does not name a function"
            raise self.fail(message, reference.at, 'write "module:function"', "bad-function")
        returns = returns or self.returned()
        if name.text.lower() in known_functions():
            raise self.fail(
                f'"{name.text}" is a function of Spark already', name.at, "choose another name", "duplicate-name"
            )
        if name.text.lower() in self.functions:
            raise self.fail(f'function "{name.text}" is made twice', name.at, "remove one", "duplicate-name")
        self.functions[name.text.lower()] = (reference.text, returns)

    def returned(self) -> str | None:
        if not self.accept("returns"):
            return None
        if self.token.kind in ("string", "raw"):
            return self.text_of("a type").text
        try:
            return str(self.inside(ExpressionReader.type))
        except ExpressionSyntaxError as error:
            raise self.fail(error.message, error.at, error.hint, "bad-schema") from None

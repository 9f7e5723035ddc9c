"""Reads a query into a chain of steps: FROM, JOIN, LATERAL VIEW, WHERE, SELECT, DISTINCT, LIMIT, UNION ALL.

SELECT *, price * quantity AS total FROM orders        with
SELECT * EXCEPT (address) FROM orders                  drop
SELECT * RENAME (utilisateur AS user) FROM orders      rename
SELECT id, upper(user) AS user FROM orders             select
SELECT explode(tags) AS tag FROM orders                flat_map
SELECT *, explode(tags) AS tag FROM orders             explode
SELECT * FROM orders WHERE amount > 100                filter
SELECT DISTINCT ON (user) * FROM orders WITHIN '1 day' distinct
SELECT * FROM orders LIMIT 3 BY user                   limit
SELECT * FROM web UNION ALL SELECT * FROM shop         union
TRANSFORM orders USING split WITH (large = …)          any operator
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from headrace.catalogue import OPERATORS
from headrace.declare.placed import Placed
from headrace.declare.sql.steps import Chain, Pending, Relation
from headrace.declare.sql.words import Name, Words, Written
from headrace.expressions.functions import is_aggregate
from headrace.expressions.show import name as quoted
from headrace.expressions.tree import Call, Column, Node
from headrace.expressions.tree import Field as FieldOf

_EXPLODE = {"explode": False, "explode_outer": True}
NOT_ALIAS = frozenset(
    "from where group having order limit union with emit late dead join left right full inner cross asof lookup on "
    "using within prefix lateral as tolerance semi anti natural window qualify intersect except minus distinct by take "
    "select into for and or not in is between like when then else end".split()
)
"""Words behind an expression or a table that begin something else than its name."""
_NO_CLAUSE = {
    "order": ("a stream has no order to be put into", "leave ORDER BY out"),
    "offset": ("records of a stream cannot be skipped by number", "leave OFFSET out"),
    "intersect": ("INTERSECT is not available in a stream", "join the two"),
    "except": ("EXCEPT between queries is not available in a stream", "use * EXCEPT (columns), or a left join"),
    "minus": ("MINUS is not available in a stream", "use a left join"),
    "qualify": ("QUALIFY is not available in a stream", "use LIMIT n BY key"),
    "cluster": ("CLUSTER BY is not available in a stream", "leave it out"),
    "sort": ("a stream has no order to be put into", "leave SORT BY out"),
    "distribute": ("DISTRIBUTE BY is not available in a stream", "leave it out"),
    "tablesample": ("TABLESAMPLE is not available in a stream", "leave it out"),
}


@dataclass
class Item:
    """One entry of a SELECT list, with the name of the column it makes."""

    value: Written
    name: Name


@dataclass
class Selected:
    """A SELECT list."""

    at: int
    distinct: list[Name] | None = None
    star: bool = False
    left_out: list[Name] = field(default_factory=list)
    renamed: list[tuple[Name, Name]] = field(default_factory=list)
    items: list[Item] = field(default_factory=list)

    @property
    def names(self) -> list[str]:
        return [item.name.text for item in self.items]


def called(tree: Node) -> str:
    """The function a tree is a call of; empty if it is none."""
    return tree.function if isinstance(tree, Call) else ""


def aggregates(tree: Node) -> bool:
    """Whether a tree has a function over many rows in it."""
    return any(isinstance(node, Call) and is_aggregate(node.function) for node in tree.walk())


class Queries(Words):
    """What reads SELECT; the statements around it are in `read.py`, GROUP BY and JOIN in files of their own."""

    functions: dict[str, tuple[str, str | None]]
    """Python functions by name: what CREATE FUNCTION said."""
    scope: dict[str, Name]
    """Names that WITH gave to queries, and the steps they became."""
    selected: Selected | None = None

    # -- what the other files give

    def joins(self, chain: Chain) -> None:
        raise NotImplementedError

    def grouped(self, chain: Chain, selected: Selected) -> bool:
        raise NotImplementedError

    def emission(self, chain: Chain) -> None:
        raise NotImplementedError

    def close(self, chain: Chain, name: Name) -> Name:
        """Names the steps of a chain and gives what its result is read from."""
        raise NotImplementedError

    # -- a query

    def query(self, name: str) -> Chain:
        """A query up to the end of the statement or the parenthesis it stands in; `name` is what it will be called."""
        self.brackets += 1
        if self.brackets > 20:
            raise self.fail("queries are nested too deeply", hint="make views of them")
        outer = dict(self.scope)
        if self.word() == "with" and self.symbol(1) != "(":
            self.common(name)
        chain = self.united(name)
        self.scope = outer
        self.brackets -= 1
        return chain

    def common(self, name: str) -> None:
        """`WITH a AS (…), b AS (…)`: each becomes steps of its own."""
        self.need("with")
        while True:
            called_ = self.named("the name of a query")
            self.need("as")
            self.need("(")
            made = self.close(self.query(f"{name}_{called_.text}"), Name(f"{name}_{called_.text}", called_.at))
            self.need(")")
            self.scope[called_.text.lower()] = made
            if not self.accept(","):
                return

    def united(self, name: str) -> Chain:
        at = self.token.at
        first = self.single(name)
        others: list[Chain] = []
        while self.accept("union"):
            if not self.accept("all"):
                hint = "write UNION ALL, and SELECT DISTINCT around it if repeats must go"
                raise self.fail("a union of streams keeps all records", hint=hint)
            others.append(self.single(name))
        if others:
            parts = [self.close(c, Name(f"{name}_{n}", at)) for n, c in enumerate((first, *others), start=1)]
            first = Chain(parts[0], relations=[])
            first.add(Pending("union", "union", Placed(), at, inputs=parts))
        self.trailing(first)
        return first

    def single(self, name: str) -> Chain:
        if self.word() == "transform":
            return self.transform()
        if self.accept("from", "table"):
            port = self.source()
            return Chain(port, relations=[Relation(port.text)])
        if self.symbol() == "(":
            self.move()
            chain = self.query(name)
            self.need(")")
            return chain
        if self.word() != "select":
            raise self.wanted("SELECT, FROM or TRANSFORM")
        return self.select(name)

    def transform(self) -> Chain:
        """`TRANSFORM a, b USING operator WITH (…)`: any operator by its name."""
        at = self.token.at
        self.need("transform")
        inputs = [self.source()]
        while self.accept(","):
            inputs.append(self.source())
        self.need("using")
        operator = self.named("an operator")
        operator = Name(operator.text.lower(), operator.at)
        if operator.text not in OPERATORS:
            from headrace.errors import nearest

            hint = nearest(operator.text, OPERATORS).replace("It takes", "The operators are")
            raise self.fail(f'there is no operator "{operator.text}"', operator.at, hint, "unknown-operator")
        chain = Chain(inputs[0])
        chain.add(Pending("transform", operator.text, Placed(), at, inputs=inputs))
        return chain

    def trailing(self, chain: Chain) -> None:
        """`WITH (option = value, …)` behind a query: more options of its last step."""
        if self.word() == "with" and self.symbol(1) == "(":
            self.need("with")
            given, at = self.options()
            last = chain.steps[-1] if chain.steps else None
            if last is None:
                raise self.fail("there is no step here that takes options", at, "give them to the view that it reads")
            for key, value in given.items():
                if key in last.options:
                    raise self.fail(f'option "{key}" is given twice', at, "remove one", "duplicate-name")
                last.options.put(key, value, given.lc.key(key), given.lc.value(key))
        if self.word() in _NO_CLAUSE:
            raise self.fail(*self.refusal(), code="unsupported")
        if self.word() == "dead" and self.brackets > 1:
            hint = "it is for all that the statement makes; write it before the semicolon"
            raise self.fail("DEAD LETTERS stands at the end of a statement", hint=hint)

    def refusal(self) -> tuple[str, int, str]:
        message, hint = _NO_CLAUSE[self.word()]
        return message, self.token.at, hint

    # -- SELECT

    def select(self, name: str) -> Chain:
        chosen = self.list_of_items()
        self.need("from")
        chain = self.relation(name)
        self.joins(chain)
        while self.phrase("lateral", "view"):
            self.lateral(chain)
        for item in chosen.items:
            item.value = self.unqualified(item.value, chain)
        if self.accept("where"):
            self.filter(chain, self.unqualified(self.written(), chain), "where")
        if not self.grouped(chain, chosen):
            self.project(chain, chosen)
        self.emission(chain)
        if chosen.distinct is not None:
            self.distinct(chain, chosen)
        if self.word() in _NO_CLAUSE:
            raise self.fail(*self.refusal(), code="unsupported")
        if self.accept("limit"):
            self.limit(chain)
        return chain

    def list_of_items(self) -> Selected:
        chosen = Selected(self.token.at)
        self.need("select")
        if self.accept("distinct"):
            chosen.distinct = []
            if self.word() == "on" and self.symbol(1) == "(":
                self.need("on")
                chosen.distinct = self.names()
        elif self.word() == "all" and self.symbol(1) not in (",", "."):
            self.need("all")
        while True:
            self.item(chosen)
            if not self.accept(","):
                return chosen

    def item(self, chosen: Selected) -> None:
        qualified = self.symbol(1) == "." and self.symbol(2) == "*"
        if self.symbol() == "*" or qualified:
            if chosen.star or chosen.items:
                raise self.fail("* stands first in a SELECT list, and once", hint="write *, then what is added")
            self.next += 3 if qualified else 1
            chosen.star = True
            if self.word() == "except" and self.symbol(1) == "(":
                self.need("except")
                chosen.left_out = self.names()
            if self.word() == "rename" and self.symbol(1) == "(":
                self.need("rename")
                self.need("(")
                while True:
                    old = self.named("the name of a column")
                    self.need("as")
                    chosen.renamed.append((old, self.named("the new name")))
                    if self.need(",", ")") == ")":
                        break
            return
        value = self.written()
        name = self.alias("a name for the column") or _own_name(value)
        if name is None:
            raise self.fail("the column made here has no name", value.at, "write expression AS name", "bad-expression")
        if name.text.lower() in (n.lower() for n in chosen.names):
            raise self.fail(f'column "{name.text}" is made twice', name.at, "give one another name", "duplicate-name")
        chosen.items.append(Item(value, name))

    def alias(self, what: str) -> Name | None:
        if self.accept("as"):
            return self.named(what)
        plain = self.token.kind == "quoted" or (self.token.kind == "word" and self.word() not in NOT_ALIAS)
        return self.named(what) if plain else None

    def relation(self, name: str) -> Chain:
        """What stands in FROM: a stream, view or port, or a query in parentheses."""
        if self.symbol() == "(":
            at = self.move().at
            start = self.next
            self.skip_parenthesis()
            alias = self.alias("a name for the query") if not self.lookahead_clause() else None
            after, self.next = self.next, start
            called_ = f"{name}_{alias.text if alias else 'from'}"
            made = self.close(self.query(called_), Name(called_, at))
            self.need(")")
            self.next = after
            return Chain(made, relations=[Relation(alias.text if alias else called_)])
        port = self.source()
        alias = None if self.lookahead_clause() else self.alias("a name for it")
        return Chain(port, relations=[Relation(alias.text if alias else port.text.partition(".")[0])])

    def lookahead_clause(self) -> bool:
        return (self.word() in NOT_ALIAS and self.word() != "as") or self.word() in _NO_CLAUSE

    def skip_parenthesis(self) -> None:
        opened = 1
        while opened and self.token.kind != "end":
            opened += {"(": 1, ")": -1}.get(self.move().text, 0)

    def source(self) -> Name:
        """A port to read from, by its own name or by the one WITH gave it."""
        if self.token.kind == "string":
            raise self.wanted("the name of a stream or view", "names are not in quotes; use backticks if need be")
        port = self.port()
        found = self.scope.get(port.text.lower())
        return Name(found.text, port.at) if found else port

    def lateral(self, chain: Chain) -> None:
        outer = bool(self.accept("outer"))
        at = self.token.at
        value = self.unqualified(self.written(), chain)
        if called(value.tree) not in _EXPLODE or len(list(value.tree.children())) != 1:
            raise self.fail(
                "LATERAL VIEW takes explode(…)", at, "or any operator with TRANSFORM … USING", "unsupported"
            )
        if self.word() != "as" and not self.ended:
            self.named("a name for the table")
        self.need("as")
        column = self.named("a name for the column")
        self.explode(chain, value, column, outer or _EXPLODE[called(value.tree)], "lateral")

    # -- what a list of items becomes

    def project(self, chain: Chain, chosen: Selected) -> None:
        exploding = [i for i in chosen.items if called(i.value.tree) in _EXPLODE]
        others = [i for i in chosen.items if i not in exploding]
        if chosen.star:
            for item in exploding:
                self.explode(chain, item.value, item.name, _EXPLODE[called(item.value.tree)], "explode")
            if others:
                self.columns(chain, "with", others, "columns", chosen.at)
            if chosen.left_out:
                self.one(chain, "drop", "columns", self.listed(chosen.left_out), chosen.left_out[0].at)
            if chosen.renamed:
                self.rename(chain, chosen)
            return
        if len(chosen.items) == 1 and exploding and not _EXPLODE[called(exploding[0].value.tree)]:
            options = Placed()
            self.each(options, exploding[0].value, exploding[0].name)
            chain.add(Pending("explode", "flat_map", options, chosen.at))
            return
        for item in exploding:
            self.explode(chain, item.value, item.name, _EXPLODE[called(item.value.tree)], "explode")
            item.value = self.column(item.name)
        self.columns(chain, "select", chosen.items, "columns", chosen.at)

    def rename(self, chain: Chain, chosen: Selected) -> None:
        made = Placed()
        for old, new in chosen.renamed:
            made.put(old.text, new.text, self.place(old.at), self.place(new.at))
        self.one(chain, "rename", "columns", made, chosen.renamed[0][0].at)

    def one(self, chain: Chain, operator: str, option: str, value: Any, at: int) -> Pending:
        options = Placed()
        options.put(option, value, self.place(at))
        return chain.add(Pending(operator, operator, options, at))

    def columns(self, chain: Chain, operator: str, items: list[Item], option: str, at: int) -> Pending:
        """A step that makes columns."""
        return self.one(chain, operator, option, self.made(items), at)

    def made(self, items: list[Item]) -> Placed:
        """`{name: expression}` of items."""
        columns = Placed()
        for item in items:
            columns.put(item.name.text, self.computed(item.value), self.place(item.name.at), self.spot(item.value))
        return columns

    def spot(self, value: Written) -> Any:
        return self.place(value.at, value.end)

    def computed(self, value: Written) -> Any:
        """The value of a column: the text of an expression, or a Python function."""
        for node in value.tree.walk():
            if isinstance(node, Call) and node.function in self.functions:
                if node is not value.tree:
                    hint = "make a column of it in a view before"
                    raise self.fail("a Python function stands alone", value.at + node.at, hint, "bad-function")
                return self.python(node, value.at)
        return value.text

    def python(self, call: Call, at: int) -> Placed:
        reference, returns = self.functions[call.function]
        wanted = _parameters(reference)
        given = [a.name if isinstance(a, Column) else "" for a in call.args]
        if wanted is not None and given != wanted:
            message = f"function {call.function} takes the columns {', '.join(wanted)}"
            raise self.fail(message, at, "its parameters are columns by name; rename columns before", "bad-function")
        made = Placed()
        made.put("python", reference, self.place(at))
        if returns is not None:
            made.put("returns", returns, self.place(at))
        return made

    def column(self, name: Name) -> Written:
        return Written(Column(name=name.text), quoted(name.text), name.at, name.at + len(name.text))

    def explode(self, chain: Chain, value: Written, name: Name, outer: bool, clause: str) -> None:
        options = Placed()
        self.each(options, value, name)
        if outer:
            options.put("outer", True, self.place(value.at))
        chain.add(Pending(clause, "explode", options, value.at))

    def each(self, options: Placed, value: Written, name: Name) -> None:
        """What explode(…) explodes, as options."""
        inner = value.text[value.text.index("(") + 1 : value.text.rindex(")")]
        if len(list(value.tree.children())) != 1:
            raise self.fail("explode takes one array or map", value.at, code="bad-expression")
        start = value.at + value.text.index("(") + 1
        start += len(inner) - len(inner.lstrip())
        options.put("each", inner.strip(), self.place(value.at), self.place(start, value.end))
        options.put("as", name.text, self.place(name.at))

    def filter(self, chain: Chain, value: Written, clause: str) -> Pending:
        options = Placed()
        options.put("where", self.computed(value), self.place(value.at), self.spot(value))
        return chain.add(Pending(clause, "filter", options, value.at))

    def distinct(self, chain: Chain, chosen: Selected) -> None:
        options = Placed()
        if chosen.distinct:
            options.put("by", self.listed(chosen.distinct), self.place(chosen.distinct[0].at))
        if self.accept("within"):
            length = self.text_of("a length of time")
            options.put("within", length.text, self.place(length.at), self.place(length.at + 1))
        chain.add(Pending("distinct", "distinct", options, chosen.at))

    def limit(self, chain: Chain) -> None:
        at = self.token.at
        rows = self.value()
        if not self.accept("by"):
            hint = "write LIMIT 3 BY user for the first three of each; headrace sql shows the first few of a stream"
            raise self.fail("a stream has no end to be cut off; a limit is for each key", at, hint, "unsupported")
        names = [self.named("the name of a column")]
        while self.accept(","):
            names.append(self.named("the name of a column"))
        options = Placed()
        options.put("rows", rows, self.place(at))
        options.put("by", self.listed(names), self.place(names[0].at))
        chain.add(Pending("limit", "limit", options, at))

    # -- names of tables before columns

    def unqualified(self, value: Written, chain: Chain) -> Written:
        """An expression whose columns are named as in the records, without the table before them.

        Names that only lose their table keep their place; a name that gets a prefix moves what is behind it.
        """
        if not any(isinstance(n, FieldOf) and isinstance(n.of, Column) for n in value.tree.walk()):
            return value
        text, shift = value.text, 0
        inside = [t for t in self.tokens if value.at <= t.at < value.end]
        for before, token, dot, field_ in zip([None, *inside], inside, inside[1:], inside[2:], strict=False):
            qualifies = token.kind in ("word", "quoted") and dot.text == "." and (before is None or before.text != ".")
            found = chain.find(_bare(token.text)) if qualifies else None
            if found is None or field_.kind not in ("word", "quoted"):
                continue
            start, end = token.at - value.at + shift, field_.end - value.at + shift
            column = found.column(_bare(field_.text))
            shown = quoted(column) if column != _bare(field_.text) or field_.kind == "quoted" else field_.text
            shown = shown.rjust(end - start)
            text, shift = text[:start] + shown + text[end:], shift + len(shown) - (end - start)
        if text == value.text:
            return value
        return self.parsed(text, value.at, value.end)


def _bare(text: str) -> str:
    return text[1:-1].replace("``", "`") if text.startswith("`") else text


def _own_name(value: Written) -> Name | None:
    """What a column is called that is given no name."""
    if isinstance(value.tree, Column | FieldOf):
        return Name(value.tree.name, value.at)
    return None


def _parameters(reference: str) -> list[str] | None:
    """The names of a Python function's parameters; None if it cannot be loaded, which is told elsewhere."""
    import inspect

    from pydantic_core import PydanticCustomError

    from headrace.operators.functions import Function

    try:
        return list(inspect.signature(Function.parse({"python": reference}).callable).parameters)
    except (PydanticCustomError, ValueError, TypeError):
        return None

"""JOIN: within an interval of time, with a table, as of a moment, or in a database. Each becomes one step.

FROM orders LEFT JOIN payments ON orders.id = payments.order_id WITHIN '10 minutes' PREFIX 'payment_'
FROM orders o JOIN payments p ON o.id = p.order_id AND p.at BETWEEN o.at AND o.at + INTERVAL 10 MINUTES
FROM trades ASOF LEFT JOIN quotes USING (symbol) TOLERANCE '5 seconds'
FROM orders LEFT LOOKUP JOIN sqlite (path = 'shop.db', table = 'products') ON product_id = id TAKE (name STRING)
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from headrace.declare.placed import Placed, PlacedList
from headrace.declare.sql.queries import Queries
from headrace.declare.sql.steps import Chain, Pending, Relation
from headrace.declare.sql.words import Name, Written
from headrace.expressions.tree import Call, Column, Literal, Node
from headrace.expressions.tree import Field as FieldOf
from headrace.options import show_duration

_FLIPPED = {">=": "<=", "<=": ">="}


@dataclass(frozen=True)
class _Moment:
    """A time in a condition: which side's column, and how much is added to it."""

    side: int
    column: str
    plus: timedelta = timedelta(0)


@dataclass
class _Condition:
    """What ON says: pairs of equal columns, and how far the second's time may lie from the first's."""

    pairs: list[tuple[str, str]] = field(default_factory=list)
    least: timedelta | None = None
    most: timedelta | None = None
    times: dict[int, Name] = field(default_factory=dict)


class Joins(Queries):
    """Reads joins."""

    def joins(self, chain: Chain) -> None:
        while True:
            if self.symbol() == ",":
                raise self.fail("two tables in FROM need a JOIN with ON or USING", hint="write a JOIN b USING (id)")
            at = self.token.at
            if self.word() in ("cross", "natural"):
                raise self.fail(f"a {self.word().upper()} JOIN is not available in a stream", at, "join on columns")
            kind = self.join_kind()
            if kind is None:
                return
            self.join(chain, *kind, at)

    def join_kind(self) -> tuple[str, str] | None:
        """The operator and its kind; None if no JOIN comes."""
        start, as_of = self.next, bool(self.accept("asof"))
        kind = self.accept("inner", "left", "right", "full") or "inner"
        if self.word() in ("semi", "anti"):
            raise self.fail(
                f"a {self.word().upper()} JOIN is not available in a stream", hint="use an inner or left join"
            )
        self.accept("outer")
        as_of = as_of or bool(self.accept("asof"))
        lookup = bool(self.accept("lookup"))
        if self.accept("join"):
            return ("as_of" if as_of else "lookup" if lookup else "join"), kind
        if self.next != start:
            raise self.wanted("JOIN")
        return None

    def join(self, chain: Chain, operator: str, kind: str, at: int) -> None:
        options = Placed()
        if operator == "lookup":
            self.database(options)
            other, called = None, Name("", at)
        else:
            other = self.source()
            alias = None if self.lookahead_clause() else self.alias("a name for it")
            called = alias or Name(other.text.partition(".")[0], other.at)
        on_at = self.token.at
        condition = self.condition(chain, called, operator)
        options.put("on", self.pairs(condition, on_at), self.place(on_at))
        options.put("kind", kind, self.place(at))
        self.clauses(options, operator)
        if operator == "join" and (condition.least is not None or condition.most is not None):
            self.interval(options, condition, on_at)
        inputs = [Name("", at), other] if other is not None else []
        step = chain.add(Pending("join", operator, options, at, inputs=inputs))
        step.times = list(condition.times.items())
        prefix = str(options.get("prefix", ""))
        shared = {b.lower() for a, b in condition.pairs if a.lower() == b.lower()}
        chain.relations.append(Relation(called.text, lambda name: name if name.lower() in shared else prefix + name))

    def database(self, options: Placed) -> None:
        """`sqlite (path = …, table = …)` of a lookup."""
        name = self.named("a database, such as sqlite")
        if self.symbol() != "(":
            raise self.wanted('"("', "write sqlite (path = 'shop.db', table = 'products')")
        given, at = self.options()
        options.put(name.text, given, self.place(name.at), self.place(at))

    def clauses(self, options: Placed, operator: str) -> None:
        """WITHIN, TOLERANCE, PREFIX and TAKE, in any order."""
        while self.word() in ("within", "tolerance", "prefix", "take"):
            at, word = self.token.at, self.need("within", "tolerance", "prefix", "take")
            if word == "take":
                value: Any = self.column_list()
            elif word == "within" and operator == "join":
                value = self.within()
            else:
                value = self.text_of("text" if word == "prefix" else "a length of time").text
            if word in options:
                raise self.fail(f"{word.upper()} is said twice", at, "remove one", "duplicate-name")
            options.put(word, value, self.place(at))

    def column_list(self) -> str:
        start = self.token.at
        self.need("(")
        self.skip_parenthesis()
        text = self.plain_text(start, self.behind)
        return " ".join(text[1:-1].split()) if text.endswith(")") else text[1:]

    def within(self) -> Any:
        """`'10 minutes'`, or `'5 seconds' BEFORE AND '10 minutes' AFTER`."""
        first = self.text_of("a length of time")
        if self.word() not in ("before", "after"):
            return first.text
        made = Placed()
        while True:
            made.put(self.need("before", "after"), first.text, self.place(first.at), self.place(first.at + 1))
            if len(made) == 2 or not self.accept("and"):
                return made
            first = self.text_of("a length of time")

    # -- ON and USING

    def condition(self, chain: Chain, other: Name, operator: str) -> _Condition:
        found = _Condition()
        if self.accept("using"):
            found.pairs = [(n.text, n.text) for n in self.names()]
            return found
        if not self.accept("on"):
            raise self.wanted("ON or USING", "say which columns are equal: USING (id)")
        value = self.written()
        for part in _conjuncts(value.tree):
            self.part(found, part, value, chain, other, operator)
        if not found.pairs:
            raise self.fail("a join needs columns that are equal", value.at, "write a.id = b.id", "unsupported")
        return found

    def part(self, found: _Condition, tree: Node, value: Written, chain: Chain, other: Name, operator: str) -> None:
        """One of the conditions between AND."""
        at = value.at + tree.at
        if isinstance(tree, Call) and tree.function == "=" and len(tree.args) == 2:
            sides = [self.side(arg, chain, other, operator == "lookup", n) for n, arg in enumerate(tree.args)]
            if None not in sides and {s[0] for s in sides if s} == {0, 1}:
                first, second = sorted(s for s in sides if s)
                found.pairs.append((first[1], second[1]))
                return
        if isinstance(tree, Call) and operator != "lookup" and self.bound(found, tree, chain, other, at, operator):
            return
        hint = (
            "columns of the two sides that are equal, and in a join of streams bounds of time; the rest goes to WHERE"
        )
        raise self.fail("ON takes only a.x = b.y and bounds of time", at, hint, "unsupported")

    def side(self, tree: Node, chain: Chain, other: Name, bare: bool, number: int) -> tuple[int, str] | None:
        """Which side a column is of, 0 or 1, and what it is called there; `bare`: as they stand, without a table."""
        if isinstance(tree, FieldOf) and isinstance(tree.of, Column):
            relation = chain.find(tree.of.name)
            if relation is not None and tree.of.name.lower() != other.text.lower():
                return 0, relation.column(tree.name)
            return (1, tree.name) if tree.of.name.lower() == other.text.lower() else None
        return (number, tree.name) if bare and isinstance(tree, Column) else None

    def bound(self, found: _Condition, tree: Call, chain: Chain, other: Name, at: int, operator: str) -> bool:
        """Takes `a.t BETWEEN b.t - INTERVAL … AND b.t + INTERVAL …`, `a.t >= b.t`; False if it is nothing of these."""
        if tree.function == "between":
            of, low, high = (self.moment(a, chain, other) for a in tree.args)
            tests = [(of, ">=", low), (of, "<=", high)]
        elif tree.function in _FLIPPED and len(tree.args) == 2:
            tests = [(self.moment(tree.args[0], chain, other), tree.function, self.moment(tree.args[1], chain, other))]
        else:
            return False
        for left, sign, right in tests:
            if left is None or right is None or left.side == right.side:
                return False
            first, second = (left, right) if left.side == 0 else (right, left)
            found.times |= {0: Name(first.column, at), 1: Name(second.column, at)}
            if left.side == 0:
                sign = _FLIPPED[sign]
            distance = first.plus - second.plus
            if sign == ">=":
                found.least = distance
            else:
                found.most = distance
        if operator == "as_of" and (found.least is not None or found.most != timedelta(0)):
            hint = "write first.t >= second.t, and TOLERANCE for how old it may be"
            raise self.fail("an as-of join takes the last one at or before", at, hint, "unsupported")
        return True

    def moment(self, tree: Node, chain: Chain, other: Name) -> _Moment | None:
        if isinstance(tree, Call) and tree.function in ("+", "-") and len(tree.args) == 2:
            base, length = self.moment(tree.args[0], chain, other), tree.args[1]
            if base is not None and isinstance(length, Literal) and isinstance(length.value, timedelta):
                plus = length.value if tree.function == "+" else -length.value
                return _Moment(base.side, base.column, base.plus + plus)
            return None
        side = self.side(tree, chain, other, False, 0)
        return _Moment(*side) if side else None

    def pairs(self, condition: _Condition, at: int) -> Any:
        if all(a == b for a, b in condition.pairs):
            return self.listed([Name(a, at) for a, _ in condition.pairs])
        if len({a for a, _ in condition.pairs}) == len(condition.pairs):
            made = Placed()
            for a, b in condition.pairs:
                made.put(a, b, self.place(at))
            return made
        several = PlacedList()
        for a, b in condition.pairs:
            several.add([a, b], self.place(at))
        return several

    def interval(self, options: Placed, condition: _Condition, at: int) -> None:
        if "within" in options:
            raise self.fail("WITHIN says what ON says already", at, "remove one", "duplicate-name")
        if condition.least is None or condition.most is None:
            hint = "write b.t BETWEEN a.t AND a.t + INTERVAL 10 MINUTES"
            raise self.fail("a join of streams needs both bounds of time", at, hint, "unsupported")
        if condition.least > timedelta(0) or condition.most < timedelta(0):
            hint = "the interval must have the first one's own time in it"
            raise self.fail("the two times cannot be kept that far apart", at, hint, "unsupported")
        made = Placed()
        made.put("before", show_duration(-condition.least), self.place(at))
        made.put("after", show_duration(condition.most), self.place(at))
        options.put("within", made, self.place(at))


def _conjuncts(tree: Node) -> list[Node]:
    if isinstance(tree, Call) and tree.function == "and":
        return [part for arg in tree.args for part in _conjuncts(arg)]
    return [tree]

"""GROUP BY and what belongs to it: windows, HAVING, EMIT, LATE. They become an aggregate step.

SELECT window_start, window_end, tag, count(*) AS n
FROM tags
GROUP BY tag, tumble(at, '10 seconds')
EMIT CHANGES
LATE CORRECT FOR '1 hour'
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Any

from headrace.declare.placed import Placed
from headrace.declare.sql.queries import Item, Queries, Selected, aggregates
from headrace.declare.sql.steps import Chain, Pending
from headrace.declare.sql.words import Name, Written
from headrace.expressions.show import show
from headrace.expressions.tree import Column, Field, Literal, Node
from headrace.operators.windows import END, NUMBER, START

WINDOWS = {
    "tumble": ("tumbling",),
    "hop": ("hopping", "every"),
    "session": ("session", "at_most"),
    "slide": ("sliding",),
    "count_window": ("count", "each"),
    "window": ("hopping", "every"),
    "session_window": ("session",),
}
"""The window functions, and the options that their arguments behind the time are."""


@dataclass
class Key:
    """One entry of GROUP BY."""

    value: Written
    name: Name | None


@dataclass
class Grouping:
    """A whole GROUP BY."""

    at: int
    keys: list[Key] = field(default_factory=list)
    window: Placed | None = None
    window_at: int = 0
    time: Name | None = None


class Groups(Queries):
    """Reads groups."""

    def grouped(self, chain: Chain, selected: Selected) -> bool:
        """Reads GROUP BY, HAVING and when answers are given; whether the query aggregates at all."""
        grouping = Grouping(self.token.at)
        if self.phrase("group", "by"):
            self.keys(grouping, chain)
        elif not any(aggregates(item.value.tree) for item in selected.items):
            if self.word() == "having":
                raise self.fail("HAVING is about groups, and there are none", hint="write WHERE, or add GROUP BY")
            return False
        if selected.star:
            raise self.fail("* cannot stand for the columns of a group", selected.at, "name the keys and the answers")
        keys = self.named_keys(grouping, selected)
        shown = [self.as_result(item, keys) for item in selected.items]
        computed = [item for item, column in zip(selected.items, shown, strict=True) if column is None]
        if not computed:
            raise self.fail("nothing is computed for a group", selected.at, "write SELECT DISTINCT, or add count(*)")
        options = Placed()
        if keys:
            options.put("by", self.made(keys), self.place(grouping.at))
        if grouping.window is not None:
            options.put("window", grouping.window, self.place(grouping.window_at))
        options.put("compute", self.made(computed), self.place(selected.at))
        step = chain.add(Pending("group", "aggregate", options, grouping.at))
        if grouping.time is not None:
            step.times.append((0, grouping.time))
        if self.accept("having"):
            self.having(chain, computed)
        self.emission(chain)
        times = [START, END] if grouping.window is not None else []
        if "count" in (grouping.window or ()) and options.get("emit", "final") != "final":
            times.append(NUMBER)
        whole = [*times, *(k.name.text for k in keys), *(i.name.text for i in computed)]
        if [i.name.text for i in selected.items] != whole or any(c not in (None, n) for c, n in zip(shown, whole)):
            chosen = [
                Item(self.column(Name(c or i.name.text, i.value.at)), i.name) for i, c in zip(selected.items, shown)
            ]
            self.columns(chain, "select", chosen, "columns", selected.at)
        return True

    def keys(self, grouping: Grouping, chain: Chain) -> None:
        while True:
            if self.word() in WINDOWS and self.symbol(1) == "(":
                if grouping.window is not None:
                    raise self.fail("a query has one window", hint="window the result again in another view")
                grouping.window_at = self.token.at
                self.window(grouping, chain)
            elif self.word() in ("cube", "rollup", "grouping") or (self.word() == "all" and self.symbol(1) != "."):
                raise self.fail(f"GROUP BY {self.word().upper()} is not available in a stream", code="unsupported")
            else:
                value = self.unqualified(self.written(), chain)
                grouping.keys.append(Key(value, self.named("a name") if self.accept("as") else None))
            if not self.accept(","):
                return

    def window(self, grouping: Grouping, chain: Chain) -> None:
        """`tumble([time,] '10 seconds' [, option => value …])`."""
        function = self.move().text.lower()
        self.need("(")
        made = Placed()
        wanted = list(WINDOWS[function])
        first = True
        while not self.accept(")"):
            at = self.token.at
            if self.symbol(1) == "=>" or (self.symbol(1) == "=" and self.token.kind == "word"):
                name = self.named("the name of an option").text
                self.move()
                self.argument(made, name, at)
            elif first and self.token.kind in ("word", "quoted") and self.word() != "interval":
                value = self.unqualified(self.written(), chain)
                if not isinstance(value.tree, Column):
                    hint = "windows are over the event time of the stream; name its column or leave it out"
                    raise self.fail("a window takes the time as a column", at, hint)
                grouping.time = Name(value.tree.name, at)
            elif not wanted:
                raise self.fail(f"{function} takes no more than that", at, "other options go by name: zone => '…'")
            else:
                self.argument(made, wanted.pop(0), at)
            first = False
            if self.need(",", ")") == ")":
                break
        if function == "window" and "every" not in made and "hopping" in made:
            made = _renamed(made, {"hopping": "tumbling"})
        if not made:
            hint = "write count_window(10)" if function == "count_window" else f"write {function}(time, '10 seconds')"
            raise self.fail(f"{function} is not told its size", grouping.window_at, hint)
        grouping.window = made

    def argument(self, made: Placed, option: str, at: int) -> None:
        if option in made:
            raise self.fail(f'"{option}" is given twice', at, code="duplicate-name")
        value_at = self.token.at
        value = self.value()
        made.put(option, value, self.place(at), self.value_place(value, value_at))

    def named_keys(self, grouping: Grouping, selected: Selected) -> list[Item]:
        """The keys with their names: their own, that of the item that shows them, or the column's."""
        found: list[Item] = []
        for key in grouping.keys:
            value, name = key.value, key.name
            if isinstance(value.tree, Literal) and isinstance(value.tree.value, int):
                if not 1 <= value.tree.value <= len(selected.items):
                    raise self.fail(f"SELECT has no column {value.text}", value.at)
                item = selected.items[value.tree.value - 1]
                value, name = item.value, item.name
            same = next((i for i in selected.items if i.value.tree == value.tree), None)
            called = value.tree.name.lower() if isinstance(value.tree, Column) else None
            renamed = next((i for i in selected.items if i.name.text.lower() == called), None)
            if same is None and renamed is not None:  # GROUP BY the name SELECT gives to an expression
                value, name = renamed.value, renamed.name
            name = name or (same.name if same else None)
            if name is None and isinstance(value.tree, Column | Field):
                name = Name(value.tree.name, value.at)
            if name is None:
                hint = "write expression AS name, in SELECT or in GROUP BY"
                raise self.fail("what is grouped by here has no name", value.at, hint, "bad-expression")
            if aggregates(value.tree):
                raise self.fail("groups cannot be made by an aggregate", value.at, code="bad-expression")
            if name.text.lower() in (i.name.text.lower() for i in found):
                raise self.fail(f'column "{name.text}" is made twice', value.at, code="duplicate-name")
            found.append(Item(value, name))
        return found

    def as_result(self, item: Item, keys: list[Item]) -> str | None:
        """The column of the result an item shows: a key or a bound of the window; None if it is an answer."""
        tree = item.value.tree
        key = next((k for k in keys if k.value.tree == tree), None)
        if key is not None:
            return key.name.text
        if isinstance(tree, Field) and tree.of == Column(name="window") and tree.name.lower() in ("start", "end"):
            return {"start": START, "end": END}[tree.name.lower()]
        if isinstance(tree, Column):
            if tree.name.lower() == "window":
                hint = "write window_start, window_end"
                raise self.fail("a window is two columns here", item.value.at, hint, "unknown-column")
            if tree.name.lower() in (START, END, NUMBER):
                return tree.name.lower()
        return None

    def having(self, chain: Chain, computed: list[Item]) -> None:
        """A filter of the answers: an aggregate in it is one of those that SELECT names."""
        value = self.unqualified(self.written(), chain)
        if aggregates(value.tree):
            tree = _replaced(value.tree, {i.value.tree: i.name.text for i in computed})
            if aggregates(tree):
                hint = "compute it in SELECT too, with a name"
                raise self.fail("HAVING tests an aggregate that is not selected", value.at, hint, "bad-expression")
            value = Written(tree, show(tree), value.at, value.end)
        self.filter(chain, value, "having")

    # -- when answers are given, and what happens to late records

    def emission(self, chain: Chain) -> None:
        while self.word() in ("emit", "late"):
            at = self.token.at
            step = next((s for s in reversed(chain.steps) if s.operator == "aggregate"), None)
            if step is None:
                raise self.fail(f"{self.word().upper()} is about groups, and there are none", at, "add GROUP BY")
            if self.need("emit", "late") == "emit":
                self.emit(step, at)
            else:
                self.late(step, at)

    def emit(self, step: Pending, at: int) -> None:
        how = self.need("final", "changes", "every")
        value: Any = how
        if how == "every":
            length = self.text_of("a length of time")
            value = Placed()
            value.put("early", length.text, self.place(length.at), self.place(length.at + 1))
        self.once(step, "emit", value, at)

    def late(self, step: Pending, at: int) -> None:
        how = self.need("drop", "correct", "to")
        if how == "to":
            self.once(step, "late", "port", at)
            if not self.accept("port"):
                sink = self.named("a sink, or PORT")
                self.late_sinks.append((sink, step))
                self.touched.append(sink.text)
            return
        self.once(step, "late", how, at)
        if how == "correct" and self.accept("for"):
            length = self.text_of("a length of time")
            self.once(step, "allowance", length.text, length.at)

    late_sinks: list[tuple[Name, Pending]]
    """Sinks that take what is late, and the steps it comes from."""
    touched: list[str]
    """The parts that the statement being read says something about."""

    def once(self, step: Pending, option: str, value: Any, at: int) -> None:
        if option in step.options:
            raise self.fail(f"{option.upper()} is said twice", at, "remove one", "duplicate-name")
        step.options.put(option, value, self.place(at))


def _renamed(options: Placed, names: dict[str, str]) -> Placed:
    made = Placed()
    for key, value in options.items():
        made.put(names.get(key, key), value, options.lc.key(key), options.lc.value(key))
    return made


def _replaced(tree: Node, names: dict[Node, str]) -> Node:
    """A tree in which some subtrees are columns."""
    if tree in names:
        return Column(name=names[tree])
    changed = {f.name: _deep(getattr(tree, f.name), names) for f in fields(tree) if f.name != "at"}
    return replace(tree, **changed)


def _deep(value: Any, names: dict[Node, str]) -> Any:
    if isinstance(value, Node):
        return _replaced(value, names)
    return tuple(_deep(v, names) for v in value) if isinstance(value, tuple) else value

"""Streams of the Python front door: every method adds a step and gives the stream that leaves it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Concatenate, Literal, ParamSpec, TypeVar

from headrace.author.aggregator import Aggregator
from headrace.author.topology import Bolt
from headrace.catalogue import SINKS
from headrace.declare.parameters import Param
from headrace.errors import UsageError
from headrace.expressions.columns import Col
from headrace.expressions.expression import Expression
from headrace.operators.windows import Window
from headrace.options import Options
from headrace.processor import Processor

if TYPE_CHECKING:
    from headrace.declare.api import Flow

P = ParamSpec("P")
R = TypeVar("R")
Value = str | int | float | bool | Expression | Col | Callable[..., Any] | Mapping[str, str]
"""What a column can be made from: SQL text, a column expression, a Python function, or `{"python": …}`."""
Rules = Value | Sequence[Value | Mapping[str, Any]] | Mapping[str, Any]
"""Rules for records: conditions, mappings with a column and its checks, or `{"rules": […], "else": "drop"}`."""
Aggregated = Value | type[Aggregator]
"""What an answer can be made from: an aggregate expression, an `Aggregator` class, or a function of lists."""


class Stream:
    """Records that leave a source or step by one port.

    Every method adds a step and gives its stream. The first argument is the step's name: it keys the step's state, and
    other steps, ports and the run's progress are known by it.
    """

    def __init__(self, flow: Flow, step: str, port: str = "") -> None:
        self._flow = flow
        self._port = f"{step}.{port}" if port else step

    # -- columns

    def select(self, name: str, *columns: str | Mapping[str, Value], **named: Value) -> Stream:
        """Exactly these columns: names, `"expression AS name"`, or name=expression.

        >>> orders.select("slim", "id", "amount * 1.19 AS gross", user=fn.lower(col("customer")))
        Stream('slim')
        """
        return self._step(name, "select", {"columns": [*columns, *({k: v} for k, v in named.items())]})

    def with_(self, name: str, columns: Mapping[str, Value] | None = None, /, **named: Value) -> Stream:
        """More columns, or new values for some; all others stay.

        >>> orders.with_("taxed", gross="amount * 1.19", large=col("amount") > 100)
        Stream('taxed')
        """
        return self._step(name, "with", {"columns": dict(columns or {}) | named})

    def drop(self, name: str, *columns: str) -> Stream:
        """All but these columns.

        >>> orders.drop("short", "category")
        Stream('short')
        """
        return self._step(name, "drop", {"columns": list(columns)})

    def rename(self, name: str, columns: Mapping[str, str] | None = None, /, **named: str) -> Stream:
        """Other names, old=new; all other columns stay as they are.

        >>> orders.rename("named", customer="user")
        Stream('named')
        """
        return self._step(name, "rename", {"columns": dict(columns or {}) | named})

    # -- records

    def filter(self, name: str, where: Value) -> Stream:
        """Only the records for which the condition is true; not those for which it is null.

        >>> orders.filter("large", "amount > 100")
        Stream('large')
        """
        return self._step(name, "filter", {"where": where})

    def map(
        self,
        name: str,
        function: Callable[[dict[str, Any]], Mapping[str, Any] | None] | None = None,
        *,
        returns: str | None = None,
        **columns: Value,
    ) -> Stream:
        """One new record of each: by name=expression, or by a function of the record and its `returns` columns.

        >>> orders.map("short", id="id", user="lower(customer)")
        Stream('short')
        >>> orders.map("doubled", lambda order: {"twice": order["amount"] * 2}, returns="twice DOUBLE")
        Stream('doubled')
        """
        given = {"python": function, "returns": returns} if function is not None else {"columns": columns}
        return self._step(name, "map", given)

    def flat_map(
        self,
        name: str,
        function: Callable[[dict[str, Any]], Any] | None = None,
        *,
        each: str | Expression | Col | None = None,
        as_: str | None = None,
        returns: str | None = None,
    ) -> Stream:
        """Any number of new records of each: one per element of `each`, or by a function that gives several.

        >>> orders.flat_map("words", each="split(category, ' ')", as_="word")
        Stream('words')
        """
        return self._step(name, "flat_map", {"python": function, "each": each, "as": as_, "returns": returns})

    def map_batches(
        self,
        name: str,
        function: Callable[[Any], Any],
        *,
        returns: str,
        as_: Literal["arrow", "pandas"] | None = None,
    ) -> Stream:
        """New records of many at once, by a function of a `pyarrow.RecordBatch` or, if annotated so, a DataFrame.

        A record must not depend on what else is in its batch: how records are cut into batches is not promised.

        >>> import pandas as pd
        >>> def doubled(orders: pd.DataFrame) -> pd.DataFrame:
        ...     return orders.assign(twice=orders["amount"] * 2)
        >>> orders.map_batches("twice", doubled, returns="id BIGINT, twice DOUBLE")
        Stream('twice')
        """
        return self._step(name, "map_batches", {"python": function, "returns": returns, "as": as_})

    def explode(
        self, name: str, each: str | Expression | Col, *, as_: str | None = None, outer: bool = False
    ) -> Stream:
        """One record per element of an array, beside the record's own columns; `outer` keeps those without any.

        >>> orders.explode("parts", "split(category, ' ')", as_="part")
        Stream('parts')
        """
        return self._step(name, "explode", {"each": each, "as": as_, "outer": outer})

    def split(self, name: str, into: Mapping[str, Value] | None = None, /, **ports: Value) -> Split:
        """Each record by the first port whose condition it meets; `stream["port"]` reads from one.

        >>> orders.split("sizes", large="amount > 100", small="true").large
        Stream('sizes.large')
        """
        step = self._step(name, "split", {"into": dict(into or {}) | ports})
        return Split(self._flow, step._port)

    def distinct(self, name: str, *by: str, within: str | timedelta | None = None) -> Stream:
        """The first record of each key; with `within` a key is remembered only so long, by event time.

        >>> orders.distinct("once", "id", within="10 minutes")
        Stream('once')
        """
        return self._step(name, "distinct", {"by": list(by), "within": within})

    def limit(self, name: str, rows: int | Param, *, by: str | Sequence[str]) -> Stream:
        """The first `rows` records of each key.

        >>> orders.limit("first_three", 3, by="customer")
        Stream('first_three')
        """
        return self._step(name, "limit", {"rows": rows, "by": by})

    # -- keys, windows and state

    def key_by(self, *by: str) -> Keyed:
        """This stream by key: `orders.key_by("customer").aggregate("totals", total="sum(amount)")`.

        What follows is written as usual; it only need not say `by` again.
        """
        return Keyed(self, by)

    group_by = key_by

    def aggregate(
        self,
        name: str,
        *,
        by: str | Sequence[str] | Mapping[str, Value] = (),
        window: Window | Mapping[str, Any] | None = None,
        emit: str | Mapping[str, Any] | None = None,
        late: str | None = None,
        allowance: str | timedelta | None = None,
        compute: Mapping[str, Aggregated] | None = None,
        **named: Aggregated,
    ) -> Stream:
        """One row per key (and window): `n="count(*)"`, or `compute={"n": "count(*)"}`.

        In a window an answer may also be an `Aggregator` class of yours, or a function of lists named as columns.

        >>> orders.aggregate("per_minute", by="category", window=tumbling("1 minute"), n="count(*)", most="max(amount)")
        Stream('per_minute')
        """
        given = {"by": by or None, "window": window, "emit": emit, "late": late, "allowance": allowance}
        return self._step(name, "aggregate", given | {"compute": dict(compute or {}) | named})

    def port(self, name: str) -> Stream:
        """What leaves by another port of this step."""
        return Stream(self._flow, self._port.partition(".")[0], name)

    @property
    def late(self) -> Stream:
        """What leaves by the port `late` of this step, an aggregate with `late="port"`."""
        return Stream(self._flow, self._port.partition(".")[0], "late")

    def process(
        self,
        name: str,
        function: Callable[..., Any] | type[Processor],
        *,
        by: str | Sequence[str],
        state: str | None = None,
        returns: str | None = None,
        ttl: str | timedelta | None = None,
        order: str | None = None,
        bound: str | None = None,
        initial: Stream | None = None,
    ) -> Stream:
        """Each record with the state of its key: `f(record, state) -> (outputs, state)`, or a `Processor` class.

        `initial` is a table with the state to begin with.

        >>> def total(order, state):
        ...     sum = (state["sum"] if state else 0.0) + order["amount"]
        ...     return {"customer": order["customer"], "sum": sum}, {"sum": sum}
        >>> orders.process("totals", total, by="customer", state="sum DOUBLE", returns="customer STRING, sum DOUBLE")
        Stream('totals')
        """
        given = {"python": function, "by": by, "state": state, "returns": returns, "ttl": ttl, "order": order}
        others = () if initial is None else (initial,)
        return self._step(name, "process", {**given, "bound": bound}, *others)

    def bolt(
        self,
        name: str,
        function: type[Bolt],
        *,
        grouping: str | Mapping[str, Any] | Sequence[Any] = "shuffle",
        parallelism: int = 1,
        arguments: Mapping[str, Any] | None = None,
        bound: str | None = None,
    ) -> Stream:
        """Each record by a `Bolt` or `Task` class, in one of its tasks; a `Topology` wires several by name.

        >>> from headrace.operators.bolt import Counted
        >>> orders.rename("named", customer="user").bolt("n", Counted, grouping={"fields": "user"}, parallelism=4)
        Stream('n')
        """
        given = {"python": function, "grouping": grouping, "parallelism": parallelism, "arguments": arguments}
        return self._step(name, "bolt", {**given, "bound": bound})

    @property
    def dead_letter(self) -> Stream:
        """What leaves by the port `dead_letter` of this source or step: the records it could not take."""
        return Stream(self._flow, self._port.partition(".")[0], "dead_letter")

    def expect(self, *rules: Value | Mapping[str, Any], else_: str | None = None) -> Stream:
        """Rules for the records of this stream: conditions, or `{"column": …, "min": …}`; gives the stream itself.

        What breaks one becomes a dead letter, unless `else_` says "drop" or "stop".

        >>> orders.filter("checked", "id > 0").expect("amount > 0", else_="drop")
        Stream('checked')
        """
        self._flow._expect(self._port.partition(".")[0], given_only({"rules": list(rules), "else": else_}))
        return self

    # -- several streams

    def union(self, name: str, *others: Stream) -> Stream:
        """This stream and others with the same columns as one."""
        return self._flow.union(name, self, *others)

    def join(
        self,
        name: str,
        other: Stream,
        *,
        on: str | Sequence[str] | Mapping[str, str],
        within: str | timedelta | Mapping[str, Any] | None = None,
        kind: str = "inner",
        prefix: str | None = None,
    ) -> Stream:
        """This stream's records beside those of another, or of a table, where the columns `on` are equal.

        Two streams are joined `within` a time of each other: `"5 minutes"` either way, or
        `{"before": …, "after": …}`.
        """
        given = {"on": on, "within": within, "kind": kind, "prefix": prefix}
        return self._step(name, "join", given, other)

    def as_of(
        self,
        name: str,
        other: Stream,
        *,
        on: str | Sequence[str] | Mapping[str, str],
        tolerance: str | timedelta | None = None,
        kind: str = "left",
        prefix: str | None = None,
    ) -> Stream:
        """Beside each record the other stream's last one at or before it, where the columns `on` are equal."""
        return self._step(name, "as_of", {"on": on, "tolerance": tolerance, "kind": kind, "prefix": prefix}, other)

    def lookup(
        self,
        name: str,
        *,
        on: str | Sequence[str] | Mapping[str, str],
        take: str,
        sqlite: Mapping[str, Any] | None = None,
        postgresql: Mapping[str, Any] | None = None,
        kind: str = "left",
        prefix: str | None = None,
        cache: Mapping[str, Any] | None = None,
    ) -> Stream:
        """More columns: those of the row of a database table whose key equals columns of the record.

        >>> orders.lookup("named", on="customer", take="name STRING", sqlite={"path": "shop.db", "table": "people"})
        Stream('named')
        """
        given = {"sqlite": sqlite, "postgresql": postgresql, "on": on, "take": take, "prefix": prefix, "kind": kind}
        return self._step(name, "lookup", given | {"cache": cache})

    def through(self, function: Callable[Concatenate[Stream, P], R], name: str, *args: P.args, **kwargs: P.kwargs) -> R:
        """A sub-flow: what `function(stream, …)` gives. Its steps are named `<name>_<step>`, so it can be used twice.

        >>> def clean(stream, least):
        ...     return stream.filter("known", "customer IS NOT NULL").filter("large", f"amount > {least}")
        >>> orders.through(clean, "shop", 10), orders.through(clean, "web", least=20)
        (Stream('shop_large'), Stream('web_large'))
        """
        with self._flow._named(name):
            return function(self, *args, **kwargs)

    def preview(self, rows: int = 10, **parameters: Any) -> Any:
        """The first records of this stream as a table, computed here and now on a local Spark.

        Sources are read as a batch: values, files and generators as far as they go, of a topic the newest records. The
        other arguments are values for the flow's parameters.
        """
        return self._flow._runner().preview(self._flow, self._port, rows, parameters)

    # -- the end

    def sink(
        self,
        name: str,
        connector: str | Options,
        *,
        format: str | Mapping[str, Any] | None = None,
        delivery: str | None = None,
        goal: str | Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        """Records to the outside: a connector by name with its options, or by its options model.

        >>> orders.sink("screen", "console")
        """
        entry = {"from": self._port} | connector_entry(connector, options, SINKS)
        self._flow._note("sink", name, entry | given_only({"format": format, "delivery": delivery, "goal": goal}))

    def _step(self, name: str, operator: str, options: Mapping[str, Any], *others: Stream) -> Stream:
        inputs = [self._port, *(other._port for other in others)] if others else self._port
        noted = self._flow._note("step", name, {"from": inputs, operator: given_only(options)})
        return Stream(self._flow, noted)

    def __repr__(self) -> str:
        return f"Stream({self._port!r})"


class Split:
    """The ports of a split; `sizes["large"]` or `sizes.large` is the stream that leaves by one."""

    def __init__(self, flow: Flow, step: str) -> None:
        self._flow, self._name = flow, step

    def __getitem__(self, port: str) -> Stream:
        return Stream(self._flow, self._name, port)

    def __getattr__(self, port: str) -> Stream:
        if port.startswith("_"):
            raise AttributeError(port)
        return self[port]

    def expect(self, *rules: Value | Mapping[str, Any], else_: str | None = None) -> Split:
        """Rules for the records that leave by any port, as `Stream.expect` has them; gives the split itself."""
        Stream(self._flow, self._name).expect(*rules, else_=else_)
        return self


class Keyed:
    """A stream by key: the steps that go by a key, without naming it again.

    >>> by_user = orders.key_by("customer")
    >>> by_user.aggregate("totals", total="sum(amount)"), by_user.limit("first", 1)
    (Stream('totals'), Stream('first'))
    """

    def __init__(self, stream: Stream, by: tuple[str, ...]) -> None:
        self._stream, self._by = stream, by
        self._window: Window | Mapping[str, Any] | None = None

    def window(self, window: Window | Mapping[str, Any]) -> Keyed:
        """The same in windows: `by_user.window(tumbling("1 minute")).aggregate("n", n="count(*)")`."""
        made = Keyed(self._stream, self._by)
        made._window = window
        return made

    def aggregate(
        self,
        name: str,
        *,
        emit: str | Mapping[str, Any] | None = None,
        late: str | None = None,
        allowance: str | timedelta | None = None,
        compute: Mapping[str, Aggregated] | None = None,
        **named: Aggregated,
    ) -> Stream:
        """One row per key, and per window if there is one; see `Stream.aggregate`."""
        return self._stream.aggregate(
            name,
            by=list(self._by),
            window=self._window,
            emit=emit,
            late=late,
            allowance=allowance,
            compute={**(compute or {}), **named},
        )

    agg = aggregate

    def process(
        self,
        name: str,
        function: Callable[..., Any] | type[Processor],
        *,
        state: str | None = None,
        returns: str | None = None,
        ttl: str | timedelta | None = None,
        order: str | None = None,
        bound: str | None = None,
        initial: Stream | None = None,
    ) -> Stream:
        """Each record with the state of its key; see `Stream.process`."""
        self._no_window("process")
        return self._stream.process(
            name,
            function,
            by=list(self._by),
            state=state,
            returns=returns,
            ttl=ttl,
            order=order,
            bound=bound,
            initial=initial,
        )

    def distinct(self, name: str, *, within: str | timedelta | None = None) -> Stream:
        """The first record of each key; see `Stream.distinct`."""
        self._no_window("distinct")
        return self._stream.distinct(name, *self._by, within=within)

    def limit(self, name: str, rows: int | Param) -> Stream:
        """The first `rows` records of each key."""
        self._no_window("limit")
        return self._stream.limit(name, rows, by=list(self._by))

    def _no_window(self, what: str) -> None:
        if self._window is not None:
            raise UsageError(f"{what} does not go by windows", hint="put it before .window(…), or use aggregate")

    def __repr__(self) -> str:
        return f"Keyed({self._stream._port!r}, by {', '.join(self._by)})"


def example_names() -> dict[str, Any]:
    """What the examples in these docstrings speak of."""
    from headrace.declare.api import Flow
    from headrace.expressions.columns import col, fn
    from headrace.operators.windows import tumbling

    orders = Flow("shop").source("orders", "generator", kind="orders", limit=10)
    return {"orders": orders, "col": col, "fn": fn, "tumbling": tumbling}


def given_only(options: Mapping[str, Any]) -> dict[str, Any]:
    """Only what the author said."""
    return {k: v for k, v in options.items() if v is not None}


def connector_entry(connector: str | Options, options: Mapping[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
    """A connector and its options as an entry has them."""
    if isinstance(connector, str):
        return {connector: dict(options)}
    name = next((n for n, c in known.items() if isinstance(connector, c.options_model)), None)
    if name is None or options:
        raise UsageError(f"{type(connector).__name__} is not the options of a connector that can stand here")
    return {name: connector}

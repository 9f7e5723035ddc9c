"""What type an expression has, and everything that is wrong with it; without Spark.

The answers are those of Spark's own analysis in ANSI mode: a test compares both over a corpus.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from headrace.errors import nearest
from headrace.expressions.coerce import castable, common, has_unknown, implicit
from headrace.expressions.expression import Expression
from headrace.expressions.functions import ELSEWHERE, UNREPEATABLE, Signature, functions, is_aggregate
from headrace.expressions.literals import INTERVAL_DAY
from headrace.expressions.match import Binding
from headrace.expressions.rules import RULES, Rule, arithmetic, bitwise, compared, joined, truth
from headrace.expressions.tree import Call, Case, Cast, Column, Field, Item, Lambda, Literal, Named, Node, Star
from headrace.model import Schema
from headrace.model.types import (
    BOOLEAN,
    DAY_INTERVAL,
    STRING,
    UNKNOWN,
    VOID,
    Array,
    DataType,
    Map,
    Struct,
    is_integer,
)

__all__ = ["UNKNOWN", "Say", "type_of"]


class Say(Protocol):
    """Told of every problem as it is found."""

    def __call__(self, code: str, message: str, *, hint: str = "", at: int = 0) -> None: ...


OPERATORS: dict[str, Rule] = {
    **{operator: arithmetic(operator) for operator in ("+", "-", "*", "/", "%", "div")},
    **dict.fromkeys(("=", "<>", "<", "<=", ">", ">=", "<=>"), compared),
    **dict.fromkeys(("and", "or"), truth),
    **dict.fromkeys(("&", "|", "^"), bitwise),
    "||": joined,
    "in": compared,
    "between": compared,
}
_SHIFTS = {"<<": "shiftleft", ">>": "shiftright", ">>>": "shiftrightunsigned"}


def type_of(
    e: Expression,
    schema: Schema,
    say: Say,
    *,
    aggregate: bool = False,
    grouped: Iterable[str] = frozenset(),
) -> DataType:
    """The type of an expression over a schema; UNKNOWN where a problem was said.

    With `aggregate` the expression may use aggregate functions, and reads other columns only if they are `grouped`.
    """
    typer = Typer(schema, say, aggregate, frozenset(n.lower() for n in grouped))
    found = typer.type(e.tree)
    if isinstance(e.tree, Lambda | Star | Named):
        say("type-mismatch", "this is not a value", at=e.tree.at)
        return UNKNOWN
    return DAY_INTERVAL if found == INTERVAL_DAY else found


class Typer:
    """Types one expression; `scope` holds the parameters of the lambdas around a node."""

    def __init__(self, schema: Schema, say: Say, aggregate: bool, grouped: frozenset[str]) -> None:
        self.schema, self.say, self.aggregate, self.grouped = schema, say, aggregate, grouped
        self.scope: dict[str, DataType] = {}
        self.inside = ""

    def wrong(self, node: Node, message: str, hint: str = "", code: str = "type-mismatch") -> DataType:
        self.say(code, message, hint=hint, at=node.at)
        return UNKNOWN

    def type(self, node: Node) -> DataType:
        match node:
            case Literal():
                return node.type
            case Column():
                return self.column(node)
            case Named():
                return self.type(node.of)
            case Field():
                return self.field(node, self.type(node.of), node.name)
            case Item():
                return self.item(node)
            case Cast():
                return self.cast(node)
            case Case():
                return self.case(node)
            case Call():
                return self.call(node)
            case Lambda():
                return self.wrong(node, "a lambda stands only in the arguments of a function that takes one")
            case Star():
                return self.wrong(node, '"*" stands only in count(*)')
        raise TypeError(type(node).__name__)

    # -- what is read

    def column(self, node: Column) -> DataType:
        lower = node.name.lower()
        if lower in self.scope:
            return self.scope[lower]
        found = self.schema.find(node.name)
        if found is None:
            if lower in UNREPEATABLE:
                return self.unrepeatable(node, lower)
            return self.wrong(
                node,
                f'there is no column "{node.name}"',
                nearest(node.name, self.schema.names).replace("It takes", "There are"),
                "unknown-column",
            )
        if self.aggregate and not self.inside and lower not in self.grouped:
            hint = f'put "{found.name}" in an aggregate such as max, or group by it'
            return self.wrong(node, f'column "{found.name}" is neither grouped nor aggregated', hint, "not-grouped")
        return found.type

    def unrepeatable(self, node: Node, name: str) -> DataType:
        hint = (
            "use the event-time column, or the time a record came in"
            if "clock" in UNREPEATABLE[name]
            else ("use a hash of a key column, such as xxhash64(id)")
        )
        message = f"{name} depends on {UNREPEATABLE[name]}, so a replay would give another answer"
        return self.wrong(node, message, hint, "unsupported")

    def field(self, node: Node, of: DataType, name: str) -> DataType:
        match of:
            case Struct():
                found = of.get(name)
                if found is not None:
                    return found
                names = nearest(name, [f.name for f in of.fields]).replace("It takes", "It has")
                return self.wrong(node, f'there is no field "{name}" in {of}', names, "unknown-column")
            case Array(item=Struct()):
                return Array(self.field(node, of.item, name))
            case Map():
                if implicit(STRING, of.key) is None:
                    return self.wrong(node, f"the keys of {of} are not names")
                return of.value
        return UNKNOWN if of == UNKNOWN else self.wrong(node, f'{of} has no field "{name}"')

    def item(self, node: Item) -> DataType:
        of, key = self.type(node.of), self.type(node.key)
        if UNKNOWN in (of, key):
            return of.item if isinstance(of, Array) else of.value if isinstance(of, Map) else UNKNOWN
        named = isinstance(node.key, Literal) and isinstance(node.key.value, str)
        if named and (isinstance(of, Struct) or (isinstance(of, Array) and isinstance(of.item, Struct))):
            assert isinstance(node.key, Literal)
            return self.field(node, of, node.key.value)
        match of:
            case Array():
                if is_integer(key) or key == VOID:
                    return of.item
                return self.wrong(node.key, f"an array is read by a whole number, not {key}")
            case Map():
                if implicit(key, of.key) is None and common(key, of.key) is None:
                    return self.wrong(node.key, f"the keys of {of} are {of.key}, not {key}")
                return of.value
        return self.wrong(node, f"{of} has no items", "only arrays, maps and structs have")

    # -- what is made

    def cast(self, node: Cast) -> DataType:
        given = self.type(node.of)
        if not castable(given, node.type):
            return self.wrong(node, f"{given} cannot be cast to {node.type}")
        return node.type

    def case(self, node: Case) -> DataType:
        for test, _ in node.whens:
            kind = self.type(test)
            if kind not in (BOOLEAN, UNKNOWN):
                self.wrong(test, f"a condition is boolean, not {kind}")
        branches = [then for _, then in node.whens] + ([node.otherwise] if node.otherwise is not None else [])
        met: DataType = VOID
        for branch in branches:
            kind = self.type(branch)
            both = common(met, kind)
            if both is None:
                return self.wrong(branch, f"the branches have no common type: {met} and {kind}")
            met = both
        return met

    def call(self, node: Call) -> DataType:
        name = node.function
        if name in UNREPEATABLE:
            return self.unrepeatable(node, name)
        if name in ELSEWHERE:
            return self.wrong(node, f"{name} is not available in an expression", ELSEWHERE[name], "unsupported")
        if is_aggregate(name):
            return self.aggregated(node)
        if node.distinct or node.where is not None:
            word = "DISTINCT" if node.distinct else "FILTER"
            return self.wrong(node, f"{name} is not an aggregate and does not take {word}")
        return self.applied(node)

    def aggregated(self, node: Call) -> DataType:
        if not self.aggregate:
            hint = "use an aggregate step"
            return self.wrong(
                node, f"{node.function} goes over many rows, and stands only in an aggregate", hint, "not-grouped"
            )
        if self.inside:
            return self.wrong(
                node, f"{node.function} stands inside {self.inside}", "aggregate in two steps", "not-grouped"
            )
        self.inside = node.function
        try:
            if node.where is not None:
                kind = self.type(node.where)
                if kind not in (BOOLEAN, VOID, UNKNOWN):
                    self.wrong(node.where, f"a condition is boolean, not {kind}")
            if node.function == "count" and any(isinstance(a, Star) for a in node.args):
                return functions_result("bigint")
            return self.applied(node)
        finally:
            self.inside = ""

    def applied(self, node: Call) -> DataType:
        name, count = node.function, len(node.args)
        rule = OPERATORS.get(name)
        if rule is not None and not (count == 1 and name in ("+", "-")):
            return self.ruled(node, rule, [self.type(a) for a in node.args])
        if name in ("+", "-", "~", "not"):
            return self.unary(node)
        known = functions().get(_SHIFTS.get(name, name))
        if known is None:
            for argument in node.args:
                if not isinstance(argument, Lambda):
                    self.type(argument)
            return self.wrong(node, f'there is no function "{name}"', closest(name), "unknown-function")
        return self.matched(node, known)

    def ruled(self, node: Call, rule: Rule, types: Sequence[DataType]) -> DataType:
        if UNKNOWN in types and rule not in (compared, truth):
            return UNKNOWN
        answer = rule(types, node.args)
        return self.wrong(node, answer) if isinstance(answer, str) else answer

    def unary(self, node: Call) -> DataType:
        kind = self.type(node.args[0])
        if kind == UNKNOWN:
            return BOOLEAN if node.function == "not" else UNKNOWN
        if node.function == "not":
            fits = implicit(kind, BOOLEAN) is not None
            return BOOLEAN if fits else self.wrong(node, f"NOT takes boolean, not {kind}")
        wanted = "integral" if node.function == "~" else "numeric|interval"
        taken = Binding().take(wanted, kind)
        if taken is None:
            return self.wrong(node, f"{node.function} does not go with {kind}")
        return taken

    # -- functions by their signatures

    def matched(self, node: Call, known: tuple[Signature, ...]) -> DataType:
        count = len(node.args)
        fitting = [s for s in known if s.least <= count and (s.most is None or count <= s.most)]
        if not fitting:
            forms = " or ".join(str(s) for s in known)
            return self.wrong(node, f"{node.function} is given {_counted(count)}", f"it is called {forms}")
        types: list[DataType | None] = [None if isinstance(a, Lambda) else self.type(a) for a in node.args]
        shaped = [s for s in fitting if _shape_fits(s, node.args)] or fitting
        first: tuple[Node, str] | None = None
        for signature in shaped:
            answer = self.tried(node, signature, types)
            if isinstance(answer, DataType):
                return answer
            first = first or answer
        assert first is not None
        return self.wrong(first[0], first[1], f"it is called {' or '.join(str(s) for s in known)}")

    def tried(self, node: Call, signature: Signature, types: list[DataType | None]) -> DataType | tuple[Node, str]:
        """The result of one way to call a function, or the argument that does not fit and why."""
        binding, taken = Binding(), list[DataType]()
        unknown = False
        for i, (argument, kind) in enumerate(zip(node.args, types, strict=True)):
            wanted = signature.argument(i)
            if kind is None:
                assert isinstance(argument, Lambda)
                if "->" not in wanted:
                    return argument, f"{node.function} takes {wanted} here, not a lambda"
                answer = self.lambda_(argument, wanted, binding)
                if isinstance(answer, str):
                    return argument, answer
                taken.append(UNKNOWN)
                continue
            if "->" in wanted:
                return argument, f"{node.function} takes a lambda here, not {kind}"
            unknown = unknown or has_unknown(kind)
            fit = binding.take(wanted, kind)
            if fit is None:
                return argument, f"{node.function} takes {binding.named(wanted)}, not {kind}"
            taken.append(fit)
        if signature.result.startswith("@"):
            if unknown and UNKNOWN in taken:
                return UNKNOWN
            found = RULES[signature.result[1:]](taken, node.args)
            return (node, found) if isinstance(found, str) else found
        if signature.result.startswith("$"):
            return taken[int(signature.result[1:]) - 1]
        return binding.result(signature.result)

    def lambda_(self, node: Lambda, wanted: str, binding: Binding) -> str | None:
        """Types the body of a lambda and binds what it gives; the text of what is wrong, or None."""
        parameters, _, result = wanted.partition("->")
        kinds = binding.parameters(parameters)
        if len(kinds) != len(node.parameters):
            return f"the lambda takes {_counted(len(kinds), 'parameter')}, not {len(node.parameters)}"
        outer = self.scope
        self.scope = {**outer, **{p.lower(): k for p, k in zip(node.parameters, kinds, strict=True)}}
        try:
            given = self.type(node.body)
        finally:
            self.scope = outer
        if result in binding.bound and result == "A":
            held = binding.bound[result]
            if UNKNOWN in (held, given) or held == given or given == VOID:
                return None
            return f"the lambda gives {given}, but starts from {held}"
        return (
            None if binding.take(result, given) is not None else f"the lambda gives {given}, where {result} is wanted"
        )


def functions_result(name: str) -> DataType:
    return Binding().result(name)


def _shape_fits(signature: Signature, args: Sequence[Node]) -> bool:
    """True if lambdas stand where lambdas are wanted, with as many parameters."""
    for i, argument in enumerate(args):
        wanted = signature.argument(i)
        if isinstance(argument, Lambda) != ("->" in wanted):
            return False
        if isinstance(argument, Lambda) and len(argument.parameters) != wanted.partition("->")[0].count(",") + 1:
            return False
    return True


def _counted(count: int, noun: str = "argument") -> str:
    return f"{count or 'no'} {noun}{'' if count == 1 else 's'}"


def closest(name: str) -> str:
    """A hint with the functions whose names are near."""
    from difflib import get_close_matches

    near = get_close_matches(name, functions(), n=3, cutoff=0.6)
    return f"did you mean {' or '.join(near)}?" if near else "the functions are those of Spark SQL"

"""Spark SQL text -> the tree, by Spark's own grammar of expressions.

Forms that mean the same become one: `!=` is `<>`, `x IS NULL` is `isnull(x)`, `int(x)` is a cast,
`EXTRACT(year FROM t)` is `date_part('year', t)`. Weakest first, operators bind as Spark's do:

    OR · AND · NOT · (BETWEEN IN LIKE IS) · comparison · | · ^ · & · shift · (+ - ||) · (* / % DIV) · sign
"""

from __future__ import annotations

from collections.abc import Callable

from headrace.expressions.forms import UNIT_FORMS, Forms, unit_or_quarter
from headrace.expressions.lex import ExpressionSyntaxError, Token
from headrace.expressions.precedence import BINARY_LEVELS, COMPARE, NOT, OR, PREDICATE, SIGN
from headrace.expressions.tree import Call, Case, Cast, Column, Field, Item, Lambda, Literal, Named, Node, Star
from headrace.model.types import BOOLEAN, STRING, VOID, parse_type

DEEPEST = 128
"""Levels a tree may have: enough for people, and safe for code that walks it by recursion."""

_SAME = {"==": "=", "!=": "<>"}
_PREDICATES = ("between", "in", "like", "ilike", "rlike", "regexp", "is")
_NEVER_COLUMN = frozenset(
    "and or not in is like ilike rlike regexp between case when then else end div distinct from as escape select "
    "where having group order union join limit with values over".split()
)
CASTS = {
    name: parse_type(name)
    for name in "boolean tinyint smallint int bigint float double decimal date timestamp binary string".split()
}
_CLAUSES = {
    "over": ("window functions with OVER are not available in a stream", "use an aggregate step with a window"),
    "within": ("WITHIN GROUP is not read here", "use percentile(x, 0.5), or array_sort(collect_list(x))"),
}
_STATEMENTS = ("select", "insert", "update", "delete", "create", "drop", "with", "values", "from")


def parse(text: str) -> Node:
    """The tree of an expression; raises ExpressionSyntaxError with the place of the trouble."""
    reader = ExpressionReader(text)
    try:
        tree = reader.whole()
    except RecursionError:
        raise ExpressionSyntaxError("the expression is nested too deeply", 0, "split it over two steps") from None
    if depth(tree) > DEEPEST:
        raise ExpressionSyntaxError(
            f"the expression is nested more than {DEEPEST} levels deep", 0, "split it over two steps, or use IN"
        )
    return tree


def depth(tree: Node) -> int:
    """How many levels a tree has; without recursion, so that it can be asked of any tree."""
    deepest, todo = 0, [(tree, 1)]
    while todo:
        node, level = todo.pop()
        deepest = max(deepest, level)
        todo += [(child, level + 1) for child in node.children()]
    return deepest


class ExpressionReader(Forms):
    """Reads one expression by precedence climbing; of a longer text, cut already, those that are asked for."""

    def __init__(self, text: str, cut: list[Token] | None = None) -> None:
        super().__init__(text, cut)
        self.level, self.in_call = 0, False

    # -- expressions

    def whole(self) -> Node:
        if self.token.kind == "end":
            raise ExpressionSyntaxError("the expression is empty", 0)
        if self.word() in _STATEMENTS and self.after().kind != "end" and self.symbol(1) in ("", "*", "("):
            hint = "write what comes after SELECT alone, or SQL in a .sql flow"
            raise ExpressionSyntaxError(f"an expression is wanted, not a {self.word().upper()} statement", 0, hint)
        tree = self.expression()
        if self.token.kind != "end":
            raise self.unexpected()
        return tree

    def unexpected(self) -> ExpressionSyntaxError:
        at, word = self.token.at, self.word()
        if self.symbol() == ";":
            return ExpressionSyntaxError("an expression is one, and has no semicolon", at, 'remove the ";"')
        if word == "as":
            return ExpressionSyntaxError("an expression has no name of its own", at, "write `name: expression`")
        if word in _CLAUSES:
            return ExpressionSyntaxError(_CLAUSES[word][0], at, _CLAUSES[word][1])
        if self.symbol() == "&&":
            return ExpressionSyntaxError('unexpected "&&"', at, "write AND")
        if self.symbol() == ":":
            return ExpressionSyntaxError('unexpected ":"', at, "write get_json_object(x, '$.name') or variant_get")
        return ExpressionSyntaxError(f"unexpected {self.found()}", at)

    def expression(self, least: int = OR) -> Node:
        """An expression whose operators all bind at least as tightly as `least`."""
        self.level += 1
        if self.level > 2 * DEEPEST:
            raise ExpressionSyntaxError("the expression is nested too deeply", self.token.at, "split it over two steps")
        at = self.token.at
        if (self.word() == "not" or self.symbol() == "!") and not (self.word() and self.symbol(1) == "."):
            if least > NOT:
                raise ExpressionSyntaxError(
                    f"unexpected {self.found()}", at, "put NOT and what it denies in parentheses"
                )
            self.move()
            left: Node = Call(function="not", args=(self.expression(NOT),), at=at)
            have = NOT
        else:
            left, have = self.signed(), SIGN
        while True:
            operator = _SAME.get(self.symbol(), self.word() or self.symbol())
            level = BINARY_LEVELS.get(operator, 0)
            if level and least <= level <= have:
                self.move()
                left = Call(function=operator, args=(left, self.expression(level + 1)), at=left.at)
                have = level
                continue
            negated = operator in ("not", "!") and self.word(1) in _PREDICATES
            if (negated or operator in _PREDICATES) and least <= PREDICATE < have:
                if negated:
                    self.move()
                found = self.predicate(left)
                left = Call(function="not", args=(found,), at=left.at) if negated else found
                have = NOT if negated else PREDICATE
                continue
            self.level -= 1
            return left

    def predicate(self, left: Node) -> Node:
        operator, at = self.move().text.lower(), left.at
        if operator == "between":
            low = self.expression(COMPARE)
            self.expect("and")
            return Call(function="between", args=(left, low, self.expression(COMPARE)), at=at)
        if operator == "in":
            self.expect("(")
            self.refuse_query()
            if self.symbol() == ")":
                raise ExpressionSyntaxError("the list of IN is empty", self.token.at)
            return Call(function="in", args=(left, *self.list_until(")")), at=at)
        if operator == "is":
            return self.is_what(left)
        if operator in ("rlike", "regexp"):
            return Call(function="rlike", args=(left, self.expression(COMPARE)), at=at)
        if self.word() in ("any", "some", "all") and self.symbol(1) == "(":
            joined = "and" if self.move().text.lower() == "all" else "or"
            self.expect("(")
            tests: list[Node] = [Call(function=operator, args=(left, p), at=at) for p in self.list_until(")")]
            if not tests:
                raise ExpressionSyntaxError("the list of patterns is empty", self.token.at)
            tree = tests[0]
            for test in tests[1:]:
                tree = Call(function=joined, args=(tree, test), at=at)
            return tree
        pattern = self.expression(COMPARE)
        if self.accept("escape"):
            token = self.token
            escape = self.primary()
            if not (isinstance(escape, Literal) and isinstance(escape.value, str) and len(escape.value) == 1):
                raise ExpressionSyntaxError("ESCAPE takes one character in quotes", token.at)
            return Call(function=operator, args=(left, pattern, escape), at=at)
        return Call(function=operator, args=(left, pattern), at=at)

    def is_what(self, left: Node) -> Node:
        at, negated = left.at, bool(self.accept("not"))
        what = self.expect("null", "true", "false", "unknown", "distinct")
        if what in ("null", "unknown"):
            return Call(function="isnotnull" if negated else "isnull", args=(left,), at=at)
        if what == "distinct":
            self.expect("from")
            other, negated = self.expression(COMPARE), not negated
        else:
            other = Literal(value=what == "true", type=BOOLEAN, at=at)
        same = Call(function="<=>", args=(left, other), at=at)
        return Call(function="not", args=(same,), at=at) if negated else same

    def signed(self) -> Node:
        token, sign = self.token, self.symbol()
        if sign not in ("-", "+", "~"):
            return self.postfix(self.primary())
        self.move()
        if sign == "-" and self.token.kind == "number":
            return self.postfix(self.number(self.move(), token.at, "-"))
        self.level += 1
        if self.level > 2 * DEEPEST:
            raise ExpressionSyntaxError("the expression is nested too deeply", self.token.at)
        inner = self.signed()
        self.level -= 1
        return Call(function=sign, args=(inner,), at=token.at)

    def postfix(self, left: Node) -> Node:
        while True:
            if self.symbol() == ".":
                self.move()
                left = Field(of=left, name=self.name(), at=left.at)
                if self.symbol() == "(":
                    raise ExpressionSyntaxError("a function has no prefix here", left.at, "write f(x), not x.f()")
            elif self.symbol() == "[":
                self.move()
                key = self.expression()
                self.expect("]")
                left = Item(of=left, key=key, at=left.at)
            elif self.symbol() == "::":
                self.move()
                left = Cast(of=left, type=self.type(), at=left.at)
            else:
                return left

    def refuse_query(self) -> None:
        queried = self.word() in ("select", "with", "from") and self.after().kind != "end"
        if queried and self.symbol(1) not in (",", ")", "."):
            hint = "join the two streams, or write the values out"
            raise ExpressionSyntaxError("a query inside an expression is not available", self.token.at, hint)

    # -- what an expression is made of

    def primary(self) -> Node:
        token = self.token
        match token.kind:
            case "number":
                return self.number(self.move(), token.at)
            case "string" | "raw":
                return Literal(value=self.string(), type=STRING, at=token.at)
            case "hex":
                return self.bytes(self.move())
            case "quoted":
                self.move()
                if self.symbol() == "->":
                    return self.function_of((self.unquoted(token),), token.at)
                return Column(name=self.unquoted(token), at=token.at)
            case "word":
                return self.worded()
        if token.text == "(":
            return self.parenthesis()
        if token.text == "*":
            raise ExpressionSyntaxError('"*" stands only in count(*)', token.at, "name the columns")
        if token.kind != "end" and token.text in "?:@${":
            raise ExpressionSyntaxError(f"unexpected {self.found()}", token.at, "an expression has no parameters")
        raise ExpressionSyntaxError(f"expected a value, found {self.found()}", token.at)

    def parenthesis(self) -> Node:
        at = self.move().at
        self.refuse_query()
        if self.parameters_ahead():
            names = [self.name()]
            while self.accept(","):
                names.append(self.name())
            self.expect(")")
            return self.function_of(tuple(names), at)
        inner = self.expression()
        if self.symbol() == ",":
            raise ExpressionSyntaxError("a list in parentheses is not a value", self.token.at, "write struct(a, b)")
        self.expect(")")
        return inner

    def call_starts_lambda(self) -> bool:
        """True if the argument that comes is `x -> …` or `(x, y) -> …`."""
        if self.symbol() == "(":
            self.next += 1
            ahead = self.parameters_ahead()
            self.next -= 1
            return ahead
        return self.symbol(1) == "->"

    def parameters_ahead(self) -> bool:
        i = self.next
        while i + 1 < len(self.tokens) and self.tokens[i].kind in ("word", "quoted") and self.tokens[i + 1].text == ",":
            i += 2
        closed = i + 2 < len(self.tokens) and self.tokens[i].kind in ("word", "quoted")
        return closed and self.tokens[i + 1].text == ")" and self.tokens[i + 2].text == "->"

    def function_of(self, names: tuple[str, ...], at: int) -> Node:
        if not self.in_call:
            raise ExpressionSyntaxError('"->" stands only in the arguments of a function', self.token.at)
        self.in_call = False
        self.expect("->")
        if len({n.lower() for n in names}) < len(names):
            raise ExpressionSyntaxError("two parameters have the same name", at)
        return Lambda(parameters=names, body=self.expression(), at=at)

    def worded(self) -> Node:
        token, word, follow = self.token, self.word(), self.after()
        if word in ("null", "true", "false") and follow.text not in ("(", "."):
            self.move()
            kind = VOID if word == "null" else BOOLEAN
            return Literal(value=None if word == "null" else word == "true", type=kind, at=token.at)
        if word == "case" and follow.text not in (".", ",", ")"):
            return self.case()
        if word in ("date", "timestamp", "timestamp_ntz", "timestamp_ltz") and follow.kind in ("string", "raw"):
            self.move()
            return self.time(word, token.at)
        if word == "interval" and (follow.kind in ("string", "number") or follow.text in ("-", "+")):
            return self.interval()
        if follow.text == "(" and follow.kind == "symbol" and word not in ("and", "or", "in", "when", "then", "else"):
            return self.call()
        if word in _NEVER_COLUMN:
            hint = f"put it in backticks if it is a column: `{token.text}`"
            raise ExpressionSyntaxError(f"expected a value, found {self.found()}", token.at, hint)
        if word[0].isdigit():
            hint = f"put it in backticks if it is a column: `{token.text}`"
            raise ExpressionSyntaxError(f"{self.found()} is neither a number nor a name", token.at, hint)
        self.move()
        if self.symbol() == "->":
            return self.function_of((token.text,), token.at)
        return Column(name=token.text, at=token.at)

    def case(self) -> Node:
        at = self.move().at
        subject = None if self.word() == "when" else self.expression()
        whens: list[tuple[Node, Node]] = []
        while self.accept("when"):
            test = self.expression()
            self.expect("then")
            whens.append(
                (test if subject is None else Call(function="=", args=(subject, test), at=test.at), self.expression())
            )
        if not whens:
            raise ExpressionSyntaxError(f"expected WHEN, found {self.found()}", self.token.at)
        otherwise = self.expression() if self.accept("else") else None
        self.expect("end")
        return Case(whens=tuple(whens), otherwise=otherwise, at=at)

    # -- calls

    def call(self) -> Node:
        token = self.move()
        name, at = token.text.lower(), token.at
        self.expect("(")
        special = self.special(name, at)
        if special is not None:
            return special
        self.refuse_query()
        distinct = self.word() == "distinct" and self.symbol(1) not in (",", ")", ".") and bool(self.accept("distinct"))
        args = self.arguments(name)
        ignoring = self.nulls()
        if ignoring is None and self.word() in ("ignore", "respect") and self.word(1) == "nulls":
            ignoring = self.nulls()
        if ignoring:
            if name not in ("first", "last", "first_value", "last_value", "any_value") or len(args) != 1:
                raise ExpressionSyntaxError(f"{name} does not take IGNORE NULLS", at)
            args = (*args, Literal(value=True, type=BOOLEAN, at=at))
        return self.finished(name, args, distinct, at)

    def nulls(self) -> bool | None:
        """`IGNORE NULLS` (true) or `RESPECT NULLS` (false), if it is there."""
        if self.word() in ("ignore", "respect") and self.word(1) == "nulls":
            ignoring = self.move().text.lower() == "ignore"
            self.move()
            return ignoring
        return None

    def arguments(self, name: str) -> tuple[Node, ...]:
        """The arguments up to and with the closing parenthesis."""
        if self.symbol() == "*" and self.symbol(1) == ")":
            if name != "count":
                raise ExpressionSyntaxError('"*" stands only in count(*)', self.token.at, "name the columns")
            at = self.move().at
            self.move()
            return (Star(at=at),)
        args: list[Node] = []
        if self.accept(")"):
            return ()
        while True:
            if self.symbol(1) == "=>":
                raise ExpressionSyntaxError("arguments are given by position here", self.token.at, "leave the name out")
            self.in_call = self.call_starts_lambda()
            arg = self.expression()
            if self.word() == "as" and name == "struct":
                self.move()
                arg = Named(name=self.name(), of=arg, at=arg.at)
            if self.word() in ("ignore", "respect") and self.word(1) == "nulls" and len(args) == 0:
                inside = self.nulls()
                self.expect(")")
                return (arg, Literal(value=True, type=BOOLEAN, at=arg.at)) if inside else (arg,)
            args.append(arg)
            if self.word() == "order":
                raise ExpressionSyntaxError("ORDER BY inside a call is not read here", self.token.at)
            if self.expect(",", ")") == ")":
                return tuple(args)

    def finished(self, name: str, args: tuple[Node, ...], distinct: bool, at: int) -> Node:
        where = None
        if self.word() == "filter" and self.symbol(1) == "(" and self.word(2) == "where":
            self.move(), self.move(), self.move()
            where = self.expression()
            self.expect(")")
        if (self.word() in _CLAUSES and self.symbol(1) == "(") or (self.word() in _CLAUSES and self.word(1) == "group"):
            raise self.unexpected()
        if name in CASTS and len(args) == 1 and not distinct and where is None:
            return Cast(of=args[0], type=CASTS[name], at=at)
        return Call(function=name, args=args, distinct=distinct, where=where, at=at)

    def special(self, name: str, at: int) -> Node | None:
        """Calls with words between their arguments; None if this is not one of them."""
        if name in ("cast", "try_cast"):
            return self.cast(name == "try_cast", at)
        if name in UNIT_FORMS and self.word() and self.symbol(1) == "," and unit_or_quarter(self.word()):
            return self.unit_call(name, at)
        reader = _SPECIAL.get(name)
        return reader(self, name, at) if reader else None


_SPECIAL: dict[str, Callable[[ExpressionReader, str, int], Node | None]] = {
    "extract": ExpressionReader.extract,
    "trim": ExpressionReader.trim,
    "substring": ExpressionReader.substring,
    "substr": ExpressionReader.substring,
    "position": ExpressionReader.position,
    "overlay": ExpressionReader.overlay,
}

"""How tightly operators bind, weakest first, and the words that are not names; for reading and for showing."""

from __future__ import annotations

OR, AND, NOT, PREDICATE, COMPARE = 1, 2, 3, 4, 5
SIGN, PRIMARY = 12, 13
BINARY_LEVELS = {
    **{"or": OR, "and": AND},
    **dict.fromkeys(("=", "<>", "<", "<=", ">", ">=", "<=>"), COMPARE),
    **{"|": 6, "^": 7, "&": 8},
    **dict.fromkeys(("<<", ">>", ">>>"), 9),
    **dict.fromkeys(("+", "-", "||"), 10),
    **dict.fromkeys(("*", "/", "%", "div"), 11),
}

RESERVED = frozenset(
    "and or not in is like ilike rlike regexp between case when then else end null true false div distinct from as "
    "escape select where interval exists any some all cast try_cast extract having group order by union join on "
    "using over filter ignore respect nulls within lateral cross inner left right full anti semi natural minus except "
    "intersect limit with values table current_date current_timestamp current_time user session_user".split()
)
"""Words that must be in backticks to be a column, so that Spark cannot take them for anything else."""

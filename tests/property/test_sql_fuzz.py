"""Whatever is written as SQL, reading it gives problems, never a crash; laid out, it says the same words."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.check import check
from headrace.declare.resolve import resolve
from headrace.declare.sql.read import read, reader_of
from headrace.declare.sql.write import tidy, write
from tests.flows import all_flows

WORDS = [
    *(
        "SET flow state spark.x CREATE STREAM TABLE VIEW SINK FUNCTION FLOW INSERT INTO SELECT DISTINCT ON "
        "FROM WHERE GROUP BY HAVING EMIT FINAL CHANGES EVERY LATE DEAD LETTERS TO PORT CORRECT FOR JOIN LEFT FULL ASOF "
        "LOOKUP USING WITHIN BEFORE AND AFTER PREFIX TOLERANCE TAKE LATERAL VIEW OUTER explode EXCEPT RENAME "
        "LIMIT UNION ALL TRANSFORM WITH AS PYTHON RETURNS EVENT TIME WATERMARK PRIMARY KEY LATEST REFRESH "
        "tumble hop session slide count_window window INTERVAL BETWEEN OR NOT NULL CASE WHEN END orders v s a "
        "b id amount at count sum connector format kafka json console aggregate filter split ( ) [ ] { } , ; "
        ". * = => : + - / < > >= <> 1 0 3.5 1e9 'x' '10_seconds' 'm:f' `q` `` '' -- /* */ BIGINT "
        "ARRAY<STRING> STRUCT< "
    ).split(),
    "\n",
]
STATEMENTS = [
    line + ";" for flow in all_flows().values() for line in write(flow).replace("\n", " ").split(";") if line.strip()
]


def read_and_check(text: str) -> None:
    draft = read(text, "x.sql", "x")
    for problem in check(resolve(draft)).problems:
        assert str(problem)
        assert problem.location.line >= 0
    if not draft.problems:
        laid = tidy(text)
        assert tidy(laid) == laid
        assert words(laid) == words(text)


def words(text: str) -> list[str]:
    reader, _ = reader_of(text, "")
    return [t.text.lower() for t in reader.tokens if t.text not in ("", ";")]


@settings(max_examples=150)
@given(st.lists(st.sampled_from(WORDS), max_size=40))
def test_any_words_give_only_problems(chosen: list[str]) -> None:
    read_and_check(" ".join(chosen))


@settings(max_examples=100)
@given(st.text(alphabet="SELECT FROMcreateviw()[]{}<>,;.*='\"`-/\\\n\t \x00é0123456789:$@", max_size=150))
def test_any_text_gives_only_problems(text: str) -> None:
    read_and_check(text)


@settings(max_examples=250)
@given(
    st.sampled_from(STATEMENTS),
    st.integers(0, 400),
    st.integers(0, 12),
    st.one_of(st.sampled_from(WORDS), st.text(max_size=3)),
)
def test_a_statement_with_a_piece_changed_gives_only_problems(text: str, at: int, length: int, instead: str) -> None:
    at %= len(text)
    read_and_check(text[:at] + instead + text[at + length :])


def test_deep_nesting_is_a_problem() -> None:
    for inner in ("(" * 3000, "SELECT * FROM (" * 2000, "[" * 3000, "{a: " * 3000, "CASE WHEN " * 2000):
        read_and_check(f"CREATE VIEW v AS SELECT {inner}")
        read_and_check(f"CREATE VIEW v AS {inner}")
        read_and_check(f"CREATE SINK s WITH (a = {inner}")
    read_and_check("CREATE STREAM s (a " + "ARRAY<" * 3000 + ") WITH (connector = 'rate')")

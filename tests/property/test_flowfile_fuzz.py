"""Whatever an author may write, reading it gives problems, never a crash."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.check import check
from headrace.declare import flowfile
from headrace.declare.resolve import resolve

WORDS = st.sampled_from(
    "flow sources steps sinks from kafka filter with aggregate select union split files sqlite console values rows "
    "format schema time window tumbling hopping every compute by emit topic a b c id amount key path table json "
    "generator kind orders 10 seconds delivery exactly-once spark map python returns each as explode".split()
)
SCALARS = st.one_of(
    WORDS,
    st.text(max_size=20),
    st.integers(),
    st.floats(),
    st.booleans(),
    st.none(),
    st.sampled_from(["count(*)", "a + b", "sum(amount", "id BIGINT, amount DOUBLE", "1 second", "os:system", "'"]),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.one_of(WORDS, st.text(max_size=5)), inner, max_size=4)
    ),
    max_leaves=25,
)
ENTRIES = st.dictionaries(st.one_of(WORDS, st.text(max_size=5)), VALUES, max_size=4)
FLOWS = st.fixed_dictionaries(
    {"flow": st.one_of(WORDS, SCALARS)},
    optional={
        "sources": st.one_of(ENTRIES, VALUES),
        "steps": st.one_of(ENTRIES, VALUES),
        "sinks": st.one_of(ENTRIES, VALUES),
        "spark": VALUES,
        "description": VALUES,
    },
)


def read_and_check(text: str) -> None:
    for problem in check(resolve(flowfile.read(text, "flow.yaml"))).problems:
        assert str(problem)
        assert problem.as_dict()["code"]


@settings(max_examples=150)
@given(FLOWS)
def test_a_file_with_the_shape_of_a_flow_gives_only_problems(flow: dict[str, object]) -> None:
    import io

    from ruamel.yaml import YAML

    out = io.StringIO()
    YAML(typ="safe").dump(flow, out)
    read_and_check(out.getvalue())


@settings(max_examples=200)
@given(st.text(alphabet="flowsurces:teink {}[]\n-'\"#&*!|>%@,0123 \t\x00\x85é", max_size=200))
def test_any_text_gives_only_problems(text: str) -> None:
    read_and_check(text)


@settings(max_examples=30)
@given(
    st.lists(st.sampled_from(["ARRAY<", "MAP<INT, ", "STRUCT<a: ", "DECIMAL(", "9" * 50, ">", "INT", ","])),
    st.integers(1, 300),
)
def test_any_schema_gives_only_problems(pieces: list[str], times: int) -> None:
    schema = ("a " + "".join(pieces) * times)[:10_000]
    read_and_check(f"flow: x\nsources:\n  s: {{values: {{rows: []}}, schema: '{schema}'}}\n")


def test_deep_nesting_and_alias_bombs_are_problems() -> None:
    read_and_check("flow: " + "[" * 5000)
    read_and_check("flow: x\nsources: " + "{a: " * 3000)
    bomb = "a: &a [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
        f"{b}: &{b} [{','.join([f'*{a}'] * 10)}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)
    )
    read_and_check("flow: x\nsources:\n  s:\n    values: *i\n" + bomb)
    read_and_check(bomb + "flow: x\nsources:\n  s:\n    values: *i\n")

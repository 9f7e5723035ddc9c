"""A compiled Python function gives what CPython gives."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.expressions.evaluate import EvaluationError, evaluate
from headrace.expressions.expression import Expression
from headrace.expressions.pyfunction import from_python
from tests.expressions_in_python import COMPILED, SCHEMA, called

VALUES: dict[str, st.SearchStrategy[Any]] = {
    "a": st.none() | st.integers(-50, 50) | st.integers(-(2**31), 2**31),
    "b": st.none() | st.integers(-4, 4),
    "x": st.none() | st.floats(width=64),
    "y": st.none() | st.floats(-10, 10),
    "s": st.none() | st.text("abéß ?x", max_size=6),
    "t": st.none() | st.text("ab ", max_size=2),
    "p": st.none() | st.booleans(),
    "d": st.none() | st.dates(),
}


def outcome(give: Any) -> object:
    """The value, or that there is none because of an error; NaN is made comparable."""
    try:
        value = give()
    except (EvaluationError, ArithmeticError, ValueError):
        return "fails"
    return "nan" if isinstance(value, float) and math.isnan(value) else value


@pytest.mark.parametrize("function", COMPILED, ids=lambda f: f.__name__)
@settings(max_examples=60)
@given(record=st.fixed_dictionaries(VALUES))
def test_a_compiled_function_equals_cpython(function: Any, record: dict[str, Any]) -> None:
    compiled = from_python(function)
    assert isinstance(compiled, Expression), compiled
    ours = outcome(lambda: evaluate(compiled, record, SCHEMA))
    theirs = outcome(lambda: called(function, record))
    assert ours == theirs
    assert type(ours) is type(theirs)

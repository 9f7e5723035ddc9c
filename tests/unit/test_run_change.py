from __future__ import annotations

from copy import deepcopy
from typing import Any

from pydantic import SecretStr

from headrace.options import Options
from headrace.run.change import compare, digest

BEFORE: dict[str, Any] = {
    "per_tag": {"sources": {"tweets": "kafka"}, "stateful": {"per_tag": "h1"}, "changes": "append"},
    "tweets": {"sources": {"tweets": "kafka"}, "stateful": {}, "changes": "append"},
}


def after(**changes: Any) -> dict[str, Any]:
    changed = deepcopy(BEFORE)
    changed["per_tag"] |= changes
    return changed


def test_the_same_flow_keeps_everything() -> None:
    verdict = compare(BEFORE, after())

    assert verdict.in_the_way == ()
    assert 'query "per_tag" goes on where it was; the state of "per_tag" is kept' in verdict.kept
    assert 'query "tweets" goes on where it was' in verdict.kept


def test_a_stateful_step_that_means_something_else_is_in_the_way() -> None:
    verdict = compare(BEFORE, after(stateful={"per_tag": "h2"}))

    assert verdict.in_the_way == ('step "per_tag" means something else than when its state was made',)


def test_a_renamed_stateful_step_is_never_a_silent_reset() -> None:
    (text, other) = compare(BEFORE, after(stateful={"renamed": "h1"})).in_the_way

    assert 'step "per_tag" of query "per_tag" is gone' in text
    assert 'step "renamed" is new' in other


def test_other_sources_are_in_the_way() -> None:
    (text,) = compare(BEFORE, after(sources={"tweets": "files"})).in_the_way

    assert "tweets (kafka)" in text
    assert "tweets (files)" in text


def test_queries_may_come_and_those_without_state_may_go() -> None:
    without = {"per_tag": BEFORE["per_tag"], "new": BEFORE["tweets"]}

    verdict = compare(BEFORE, without)

    assert verdict.in_the_way == ()
    assert 'query "new" is new and begins at the beginning' in verdict.kept
    assert 'query "tweets" is gone; it held no state' in verdict.kept


def test_a_query_that_goes_with_its_state_is_in_the_way() -> None:
    (text,) = compare(BEFORE, {"tweets": BEFORE["tweets"]}).in_the_way

    assert 'with it the state of "per_tag"' in text


class Window(Options):
    by: tuple[str, ...]
    size: int = 10
    password: SecretStr | None = None


def test_the_digest_is_of_what_a_value_means() -> None:
    assert digest(Window(by=("a",))) == digest(Window(by=("a",), size=10))
    assert digest(Window(by=("a",))) != digest(Window(by=("b",)))
    assert digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})
    assert digest({"x", "y", "z"}) == digest({"z", "x", "y"})


def test_a_rotated_password_is_not_another_meaning() -> None:
    assert digest(Window(by=(), password=SecretStr("a"))) == digest(Window(by=(), password=SecretStr("b")))

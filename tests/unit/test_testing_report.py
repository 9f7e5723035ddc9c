"""How cases went, for people and for machines; without Spark, as far as that goes."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as Xml

import pytest

from headrace.errors import UsageError
from headrace.testing.report import run_and_report

FLOW = """\
flow: orders
sources:
  orders:
    kafka: {topic: orders}
    format: json
    schema: id BIGINT, amount DOUBLE
sinks:
  screen:
    from: orders
    console: {}
"""


@pytest.fixture
def flow(tmp_path: Path) -> Path:
    file = tmp_path / "orders.yaml"
    file.write_text(FLOW)
    return file


def cases(flow: Path, text: str) -> Path:
    file = flow.with_name("orders.cases.yaml")
    file.write_text(text)
    return file


def test_what_cannot_be_run_is_a_failure_in_words_in_json_and_in_junit(
    flow: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cases(flow, "cases: [{name: a, given: {ordres: []}, expect: {}}]")

    assert run_and_report(tmp_path) == 1
    assert "FAIL" in capsys.readouterr().out
    assert run_and_report(flow, as_json=True, junit=tmp_path / "report.xml") == 1
    (outcome,) = json.loads(capsys.readouterr().out)
    assert outcome["passed"] is False
    assert 'no source "ordres"' in outcome["lines"][0]
    suite = Xml.parse(tmp_path / "report.xml").getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("1", "1")


def test_nothing_to_test_is_misuse_not_success(flow: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no cases"):
        run_and_report(tmp_path)
    with pytest.raises(UsageError, match="there is no"):
        run_and_report(tmp_path / "elsewhere")
    cases(flow, "cases: [{name: a, given: {orders: []}, expect: {}}]")
    with pytest.raises(UsageError, match='has "typo" in its name'):
        run_and_report(tmp_path, only="typo")

"""`headrace test` over everything a newcomer finds: the examples, a new project; and what it says when a case fails."""

from __future__ import annotations

import shutil
from pathlib import Path
from xml.etree import ElementTree as Xml

import pytest

from headrace.check import load
from tests.commands import Place

EXAMPLES = Path(__file__).parents[2] / "examples"
KEPT = {
    "drivers-hours/flow.yaml": 5,
    "hashtag-velocity/flow.sql": 1,
    "tweets-last-ten-seconds/in_python.py": 4,
    "web-sessions/flow.yaml": 3,
    "word-count/from-file.sql": 4,
    "word-count/from_topic.py": 4,
    "word-count/samza_style.py": 4,
    "word-count/storm_style.py": 4,
}
"""One form of each example, and how many cases are beside it."""
WRONG = """\
flow: wrong
sources:
  orders:
    values: {rows: []}
    schema: id BIGINT, customer STRING, amount DECIMAL(10,2)
steps:
  known:
    from: orders
    with:
      initial: {python: "initials:initial", returns: STRING}
sinks:
  screen:
    from: known
    console: {}
"""
INITIALS = """\
def initial(customer):
    return customer[0].upper()
"""
CASES = """\
cases:
  - name: differs
    given:
      orders:
        - {id: 1, customer: ann, amount: 2.50}
        - {id: 2, customer: bob, amount: 3}
    expect:
      screen:
        - {id: 1, initial: A}
        - {id: 2, initial: C}
  - name: raises
    given:
      orders: [{id: 7, customer: "", amount: 1}]
    expect:
      screen: []
"""


def keep_one_of_each(examples: Path) -> None:
    """Takes away every other form of a flow that is kept: it is the same flow, so the same would be run again."""
    kept = [load(examples / name) for name in KEPT]
    for file in examples.glob("*/*"):
        is_flow = file.suffix in (".py", ".sql", ".yaml") and not file.name.endswith(".cases.yaml")
        if is_flow and str(file.relative_to(examples)) not in KEPT:
            assert load(file) in kept, file
            file.unlink()


@pytest.mark.slow
def test_every_case_beside_an_example_passes_and_one_that_does_not_is_shown_as_a_table(place: Place) -> None:
    shutil.copytree(EXAMPLES, place.root / "examples")
    place.run("new", "shop")
    assert place.run("check", "examples", "shop").err.endswith("21 flows: no problems, 8 to know about\n")
    keep_one_of_each(place.root / "examples")
    files = {"wrong.yaml": WRONG, "initials.py": INITIALS, "wrong.cases.yaml": CASES}
    (place.root / "wrong").mkdir()
    for name, text in files.items():
        (place.root / "wrong" / name).write_text(text)

    said = place.run("test", "--junit", "report.xml", code=1)

    lines = said.out.splitlines()
    failed = [line for line in lines if line.startswith("FAIL")]
    passed = [line for line in lines if line.startswith("pass")]
    assert [line.split(" (")[0] for line in failed] == [
        "FAIL  wrong/wrong.yaml: differs",
        "FAIL  wrong/wrong.yaml: raises",
    ]
    assert {line.split()[1].rstrip(":") for line in passed} == {
        *(f"examples/{name}" for name in KEPT),
        "shop/flows/revenue.yaml",
    }
    assert len(passed) == sum(KEPT.values()) + 3
    assert lines[-1].startswith(f"{len(passed)} passed, 2 failed in ")
    table = lines[lines.index(failed[0]) + 1 : lines.index(failed[1])]
    assert [line.strip() for line in table] == [
        "sink screen:",
        "id initial",
        "+ 2  B",
        "- 2  C",
        "(1 expected but missing, 1 not expected)",
    ]
    error = "\n".join(lines[lines.index(failed[1]) :])
    assert (
        f'{place.root / "wrong" / "initials.py"}:2: step "known": function "initials:initial" raised IndexError'
        in error
    )
    assert '"customer":""' in error

    suite = Xml.parse(place.root / "report.xml").getroot()
    assert (suite.get("tests"), suite.get("failures")) == (str(len(passed) + 2), "2")
    found = {case.get("name"): case.find("failure") for case in suite if case.find("failure") is not None}
    assert set(found) == {"differs", "raises"}

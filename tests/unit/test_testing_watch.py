"""What is run again after a change, and what counts as one; without Spark."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headrace.testing.watch import changed_between, concerned, folder_of, look

FLOW = "flow: {name}\nsources: {{s: {{generator: {{kind: orders}}}}}}\nsinks: {{out: {{from: s, console: {{}}}}}}\n"


@pytest.fixture
def flows(tmp_path: Path) -> Path:
    folder = tmp_path / "flows"
    folder.mkdir()
    for name in ("one", "two"):
        (folder / f"{name}.yaml").write_text(FLOW.format(name=name))
        (folder / f"{name}.cases.yaml").write_text("cases: []\n")
    (folder / "three.py").write_text("from headrace import Flow\nflow = Flow('three')\n")
    (folder / "three.cases.yaml").write_text("cases: []\n")
    return folder


@pytest.mark.parametrize(
    ("changed", "again"),
    [
        (["one.yaml"], ["one.yaml"]),
        (["one.cases.yaml", "one.yaml"], ["one.yaml"]),
        (["one.cases.yaml", "two.cases.yaml"], ["one.yaml", "two.yaml"]),
        (["three.cases.yaml"], ["three.py"]),
        (["three.py"], ["."]),
        (["functions.py"], ["."]),
        (["one.yaml", "input.jsonl"], ["."]),
    ],
)
def test_a_change_concerns_the_flow_that_has_changed_or_all(flows: Path, changed: list[str], again: list[str]) -> None:
    assert concerned(flows, {flows / name for name in changed}) == [flows / name for name in again]


def test_where_the_cases_have_gone_all_is_looked_at(flows: Path) -> None:
    for file in flows.glob("*.cases.yaml"):
        file.unlink()
    assert concerned(flows, {flows / "one.cases.yaml"}) == [flows]


def test_new_gone_and_other_files_are_changes_and_what_no_case_reads_is_none(flows: Path) -> None:
    before = look(flows)
    (flows / "input.csv").write_text("id\n")
    (flows / "two.yaml").unlink()
    at = (flows / "one.yaml").stat()
    os.utime(flows / "one.yaml", ns=(at.st_atime_ns, at.st_mtime_ns + 1))
    for name in (
        "revenue.db",
        ".hidden.yaml~",
        "__pycache__/functions.py",
        ".headrace/flow.yaml",
        "node_modules/a.json",
    ):
        (flows / name).parent.mkdir(exist_ok=True)
        (flows / name).write_text("")
    assert changed_between(before, look(flows)) == {flows / name for name in ("input.csv", "two.yaml", "one.yaml")}


def test_a_whole_project_is_watched_and_nothing_beside_it(
    flows: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "headrace.toml").touch()
    monkeypatch.chdir(flows)
    assert folder_of(Path("one.yaml")) == folder_of(flows) == tmp_path
    (elsewhere := tmp_path.parent / f"{tmp_path.name}-beside").mkdir()
    assert folder_of(elsewhere) == elsewhere

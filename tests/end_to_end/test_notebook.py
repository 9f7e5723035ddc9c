"""A flow that only exists in a running Python, as in a notebook: run as a real run, with its own functions."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.commands import Place

SCRIPT = """\
from headrace import Flow

more = 40
flow = Flow("noted")
least = flow.param("least", int, default=2)
ones = flow.source("ones", "values", rows=[[1], [2], [3]], schema="a INT")
large = ones.filter("large", f"a >= {least}")
added = large.map("added", lambda r: {"b": r["a"] + more}, returns="b INT")
added.sink("archive", "files", path="out", format="json")
run = flow.run(least=3)
print(run)
print("RESUME" if run.status()["resume"] else "NO RESUME")
assert "finished" in run._repr_html_()
"""


@pytest.mark.slow
def test_a_flow_without_a_file_runs_with_its_functions_and_the_command_line_sees_it(place: Place) -> None:
    (place.root / "headrace.toml").touch()
    said = subprocess.run(
        [sys.executable, "-"],
        input=SCRIPT,
        cwd=place.root,
        env={**os.environ, **place.environment, place.mark: "1"},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )

    assert said.returncode == 0, said.stderr + place.logs()
    assert "Run('noted', finished" in said.stdout
    rows = [line for file in Path(place.root / "out").glob("part-*.json") for line in file.read_text().splitlines()]
    assert rows == ['{"b":43}']
    assert "finished" in place.run("status", "noted").out

"""`headrace test --watch`: an answer after each change, and one Java for all of them."""

from __future__ import annotations

import signal
import threading

import psutil

from tests.commands import Place
from tests.waiting import eventually

FLOW = """\
flow: doubled
sources:
  numbers:
    files: {path: in}
    format: json
    schema: n BIGINT
steps:
  twice: {from: numbers, select: [{twice: {python: "shared.functions:twice"}}]}
sinks:
  out: {from: twice, console: {}}
"""
CASES = "cases: [{{name: one, given: {{numbers: [{{n: 3}}]}}, expect: {{out: [{{twice: {}}}]}}}}]\n"
FUNCTION = """\
from numbers_of_ours.factor import times

def twice(n: int) -> int:
    return times(n)
"""
ELSEWHERE = "FACTOR = {}\n\ndef times(n: int) -> int:\n    return FACTOR * int(str(n))\n"
"""In a folder of its own, so that Spark's workers import it, and must forget it."""


def test_cases_are_run_again_after_each_change_on_the_same_java(place: Place) -> None:
    (place.root / "headrace.toml").touch()
    (flow := place.root / "flows" / "doubled.yaml").parent.mkdir()
    flow.write_text(FLOW)
    (cases := flow.with_name("doubled.cases.yaml")).write_text(CASES.format(6))
    (function := place.root / "shared" / "functions.py").parent.mkdir()
    function.write_text(FUNCTION)
    (module := place.root / "numbers_of_ours" / "factor.py").parent.mkdir()
    module.write_text(ELSEWHERE.format(2))
    child = place.start("test", "--watch", "flows")
    lines: list[str] = []
    assert child.stdout is not None
    reader = threading.Thread(target=lambda: lines.extend(iter(child.stdout.readline, "")), daemon=True)  # type: ignore[union-attr]
    reader.start()

    def says(end: str) -> set[int]:
        """Waits until a round has ended so; the Java below it."""
        eventually(lambda: lines and lines[-1].startswith(end), 180, diagnose=lambda: f"{child.poll()} {lines}")
        lines.clear()
        return {below.pid for below in psutil.Process(child.pid).children(recursive=True) if below.name() == "java"}

    javas = says("1 passed, 0 failed")
    assert len(javas) == 1, javas
    cases.write_text(CASES.format(999))
    assert says("0 passed, 1 failed") == javas
    module.write_text(ELSEWHERE.format(333))
    assert says("1 passed, 0 failed") == javas, "the new function is what is called, in Spark's workers too"
    child.send_signal(signal.SIGINT)
    assert child.wait(60) == 0
    reader.join(60)

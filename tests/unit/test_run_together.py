"""Flows started together: their order, against real processes that stand in for supervisors and end as told."""

from __future__ import annotations

import io
import json
import os
import signal
import sys
import threading
from pathlib import Path

import pytest

from headrace.check import load
from headrace.errors import FlowError, UsageError
from headrace.model import Flow
from headrace.project import Project
from headrace.run import control
from headrace.run.board import Board
from headrace.run.chain import Topic, chain
from headrace.run.home import Asked
from headrace.run.together import Member, Together, prepare_all
from tests.waiting import eventually

FLOW = """\
flow: {name}
sources: {{a: {{kafka: {{topic: {reads}}}, format: text}}}}
sinks: {{b: {{from: a, kafka: {{topic: {writes}{more}}}, format: text}}}}
"""


def write(folder: Path, name: str, reads: str, writes: str, more: str = "") -> Path:
    file = folder / f"{name}.yaml"
    file.write_text(FLOW.format(name=name, reads=reads, writes=writes, more=more), encoding="utf-8")
    return file


def flows(folder: Path, *given: tuple[str, str, str]) -> list[Flow]:
    return [load(write(folder, *one)) for one in given]


def test_what_writes_a_topic_is_started_before_what_reads_it(tmp_path: Path) -> None:
    found = chain(flows(tmp_path, ("last", "c", "d"), ("first", "a", "b"), ("middle", "b", "c"), ("apart", "x", "y")))

    assert found.order == ("first", "middle", "last", "apart")
    assert found.after["last"] == {"middle"}
    assert found.between == {Topic("b"): None, Topic("c"): None}, "a and d have one end elsewhere"
    assert not found.circle


def test_a_circle_is_found_and_another_cluster_is_another_topic(tmp_path: Path) -> None:
    found = chain(flows(tmp_path, ("there", "a", "b"), ("back", "b", "a"), ("behind", "a", "z")))
    write(tmp_path, "far", "q", "b", ", bootstrap: 'other:9092', partitions: 3")
    write(tmp_path, "near", "b", "p")

    assert found.order == ("there", "back", "behind")
    assert found.circle == ("there", "back")
    assert chain([load(tmp_path / "far.yaml"), load(tmp_path / "near.yaml")]).between == {}
    with pytest.raises(UsageError, match='two of the flows are named "near"'):
        chain([load(tmp_path / "near.yaml")] * 2)


def test_all_problems_of_all_flows_are_told_and_nothing_stays_taken(tmp_path: Path) -> None:
    good = write(tmp_path, "good", "a", "b")
    bad, worse = (write(tmp_path, name, "a", "b", f", {word}: 1") for name, word in (("bad", "kei"), ("worse", "kye")))
    project = Project(root=tmp_path)

    with pytest.raises(FlowError) as raised:
        prepare_all(project, [good, bad, worse], Asked())
    with pytest.raises(UsageError, match='none of the flows has a parameter "limit"'):
        prepare_all(project, [good], Asked(parameters={"limit": "1"}))

    assert [p.location.file for p in raised.value.problems] == [str(bad), str(worse)]
    for ready in prepare_all(project, [good], Asked()):
        ready.lock.close()


SUPERVISOR = """
import os, signal, sys, threading, time
from pathlib import Path
from headrace.observe import events
from headrace.run.home import Home
home = Home(Path(sys.argv[1]))
order = home.path.parents[2] / "order"
def note(what):
    with order.open("a") as file:
        file.write(f"{home.name} {what}\\n")
stopped = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: stopped.set())
def wait():
    while os.read(0, 100):
        pass
    stopped.set()
threading.Thread(target=wait, daemon=True).start()
note("starts")
events.append(home.events, "started", mode="micro-batch", queries=["a"])
home.update(lambda r: r.at("running"))
print("a row", flush=True)
"""


def together(folder: Path, script: str, *, ends: bool = False, as_json: bool = False) -> tuple[Together, io.StringIO]:
    files = [write(folder, *one) for one in (("second", "b", "c"), ("first", "a", "b"), ("apart", "x", "y"))]
    ready = {one.home.name: one for one in prepare_all(Project(root=folder), files, Asked())}
    chained = chain([one.plan.flow for one in ready.values()])
    (folder / "supervisor.py").write_text(SUPERVISOR + script, encoding="utf-8")
    said = io.StringIO()
    members = [Member(ready[name], chained.after[name]) for name in chained.order]
    board = Board(as_json=as_json, out=said, err=said)
    return Together(members, board, ends, command=(sys.executable, str(folder / "supervisor.py"))), said


def test_they_start_in_order_run_at_the_same_time_and_one_signal_stops_all(tmp_path: Path) -> None:
    script = 'stopped.wait()\nnote("stops")\nhome.update(lambda r: r.at("stopped"))\n'
    all_of_them, said = together(tmp_path, script, as_json=True)

    def stop() -> None:
        eventually(lambda: len((tmp_path / "order").read_text().splitlines()) == 3, 60)
        os.kill(os.getpid(), signal.SIGINT)

    stopping = threading.Thread(target=stop)
    (tmp_path / "order").touch()
    stopping.start()
    code = all_of_them.run()
    stopping.join()

    lines = (tmp_path / "order").read_text().splitlines()
    shown = [json.loads(line) for line in said.getvalue().splitlines() if line.startswith("{")]
    assert code == 0
    assert lines[:3] == ["first starts", "second starts", "apart starts"]
    assert sorted(lines[3:]) == ["apart stops", "first stops", "second stops"]
    assert {(e["run"], e["event"]) for e in shown} == {(name, "started") for name in ("first", "second", "apart")}
    assert "first | a row" in said.getvalue()
    assert [m.status for m in all_of_them.members] == ["stopped"] * 3
    assert control.find_all(Project(root=tmp_path), str(tmp_path)) == [], "none of them runs any more"


def test_to_their_end_each_waits_for_what_it_reads_and_not_for_a_failure(tmp_path: Path) -> None:
    script = (
        "time.sleep(0.2)\nnote('ends')\n"
        "home.update(lambda r: r.at('failed' if home.name == 'first' else 'finished'))\n"
        "sys.exit(3 if home.name == 'first' and os.environ.get('FAIL') else 0)\n"
    )
    good, _ = together(tmp_path, script, ends=True)

    assert good.run() == 0
    lines = (tmp_path / "order").read_text().splitlines()
    assert lines.index("first ends") < lines.index("second starts")

    (tmp_path / "order").unlink()
    os.environ["FAIL"] = "1"
    try:
        bad, said = together(tmp_path, script, ends=True)
        assert bad.run() == 3
    finally:
        del os.environ["FAIL"]
    assert "second starts" not in (tmp_path / "order").read_text()
    assert "apart ends" in (tmp_path / "order").read_text(), "what does not wait for it goes on"
    assert 'second is not started: "first", which it reads from, has failed' in said.getvalue()


def test_on_a_terminal_each_has_a_line_that_is_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    from headrace.observe.progress import Totals

    monkeypatch.setattr("headrace.run.board.REDRAW", 0.0)
    screen = io.StringIO()
    board = Board(err=screen, live=True)

    board.tick({"first": ("running", Totals(rows_in=3, batches=1)), "second": ("waiting", Totals())})
    board.note("said")
    board.close()

    assert screen.getvalue().startswith("first   running      in 3 · 0/s · 1 batch\nsecond  waiting")
    assert "\x1b[1A\x1b[2Ksaid\n" in screen.getvalue()
    assert screen.getvalue().endswith("\x1b[1A\x1b[2K")

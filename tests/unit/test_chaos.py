from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import time
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.check import load
from headrace.cli.chaos import told
from headrace.connectors.arrow import fit_row
from headrace.errors import UsageError
from headrace.model import Schema, Source
from headrace.observe import events
from headrace.project import Project
from headrace.run.journal import Entry
from headrace.run.verify import spans_of, under_way
from headrace.testing.chaos import faults
from headrace.testing.chaos.clock import build as build_clock
from headrace.testing.chaos.feed import made_up, records_for
from headrace.testing.chaos.run import Asked, Outcome, _Trial, counted
from headrace.testing.chaos.scratch import DATABASE, move

FLOW = """
flow: shop
sources:
  orders:
    kafka: {topic: orders, bootstrap: "prod:9092"}
    format: json
    schema: id BIGINT, user STRING, amount DECIMAL(10,2), at TIMESTAMP, tags ARRAY<STRING>
  more:
    files: {path: /data/in, after: delete}
    format: json
    schema: id BIGINT, user STRING, amount DECIMAL(10,2), at TIMESTAMP, tags ARRAY<STRING>
steps:
  all:
    from: [orders, more]
    union: {}
sinks:
  store:
    from: all
    postgresql: {url: "${env:PRODUCTION}", table: orders, namespace: live}
  copy:
    from: all
    kafka: {topic: copies, bootstrap: "prod:9092"}
    format: json
  archive:
    from: all
    files: /data/out
    format: json
  lake:
    from: all
    delta: {path: "s3://data/live", storage: {AWS_SECRET_ACCESS_KEY: "${env:PRODUCTION}"}}
"""


@pytest.fixture
def flow_file(tmp_path: Path) -> Path:
    (tmp_path / "user").mkdir()
    (tmp_path / "user" / "headrace.toml").write_text('[kafka]\nbootstrap = "prod:9092"\n')
    (tmp_path / "user" / "shop.yaml").write_text(FLOW)
    return tmp_path / "user" / "shop.yaml"


def test_nothing_of_the_users_is_left_in_a_moved_flow(
    flow_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(DATABASE, "postgresql://here")
    moved = move(flow_file, tmp_path / "scratch", namespace="ours")

    text = moved.file.read_text()
    for theirs in ("prod", "/data", "PRODUCTION", "live", "delete"):
        assert theirs not in text
    assert "prod" not in (tmp_path / "scratch" / "headrace.toml").read_text()
    assert f"${{env:{DATABASE}}}" in text
    assert load(moved.file)["store"].options.namespace == "ours"  # type: ignore[union-attr]
    assert moved.inbox(moved.streams[1]).is_relative_to(tmp_path / "scratch")
    assert faults.possible((moved,), cluster=True, clock=True) == [
        "driver",
        "full-disk",
        "clock",
        "executor",
        "broker",
        "pause",
        "slow-sink",
    ]


def test_a_flow_into_a_database_needs_one_that_may_be_written_to(
    flow_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(DATABASE, raising=False)
    with pytest.raises(UsageError, match="needs a PostgreSQL that may be written to"):
        move(flow_file, tmp_path / "scratch", namespace="ours")


def test_records_are_those_of_the_cases_or_made_up_to_fit(
    flow_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(DATABASE, "postgresql://here")
    moved = move(flow_file, tmp_path / "scratch", namespace="ours")
    source = moved.streams[0]
    assert records_for(moved, source, flow_file, None) is None
    cases = "cases: [{name: one, given: {orders: [{id: 7}], more: []}, expect: {}}]"
    flow_file.with_name("shop.cases.yaml").write_text(cases)
    assert records_for(moved, source, flow_file, None) == [(None, b'{"id": 7}')]

    draw = random.Random(1)
    rows = [json.loads(made_up(source, n, draw)) for n in range(50)]
    assert isinstance(source.schema, Schema)
    assert [fit_row(row, source.schema)["id"] for row in rows] == list(range(50))
    bare = Source(name="bare", connector="kafka", options=source.options, format="text")
    with pytest.raises(UsageError, match="only JSON ones can be made up"):
        made_up(bare, 0, draw)


def test_an_outcome_is_good_only_if_all_that_can_be_compared_was_and_nothing_differs() -> None:
    recovery = {"driver": (3.0, 9.0), "clock": (4.0,)}
    said = {"fed": 10, "recovery": recovery, "restarts": 2, "faults": {"driver": 2, "clock": 1}}
    other = {"why": "", "allowed": "", "comparable": True}
    equal = {"sink": "out", "verdict": "equal", **other, "allowed": "2 repeated, as at-least-once allows"}
    wrong = {"sink": "out", "verdict": "differs", **other}
    missed = {"sink": "too", "verdict": "not compared", **other, "why": "no batch is done yet"}
    never = {"sink": "shown", "verdict": "not compared", **other, "why": "a console", "comparable": False}

    def outcome(*sinks: dict[str, object], read: int = 10) -> Outcome:
        return Outcome(flow="a", lost=0, duplicated=0, sinks=sinks, read=read, **said)  # type: ignore[arg-type]

    found = [outcome(equal, never), outcome(wrong), outcome(equal, missed), outcome(never), outcome()]
    assert [o.good for o in found] == [True, False, False, False, False]
    assert not outcome(equal, read=9).good, "one was never read"
    good = found[0].as_dict()
    assert (good["kills"], good["recovery_p50"], good["recovery_max"]) == (2, 4.0, 9.0)
    lines = told(found)
    assert lines[1].split() == ["a", "2", "1", "2", "10", "10", "0", "0", "4.0", "s", "9.0", "s", "good"]
    assert [line.split("s  ")[-1] for line in lines[2:6]] == ["differs", *["not all compared"] * 3]
    assert "a: sink out: equal: 2 repeated, as at-least-once allows" in lines
    assert ["a", "clock", "1", "4.0", "s", "4.0", "s"] in [line.split() for line in lines]
    assert ["a", "driver", "2", "6.0", "s", "9.0", "s"] in [line.split() for line in lines]


def test_batches_without_late_records_are_read_together() -> None:
    entries = {n: Entry(n, mark, 0, (("in", 0, str(n)),)) for n, mark in enumerate((0, 10, 20, 30, 30))}

    assert spans_of(entries, 0, 4, {1: 0, 2: 3, 3: 0}) == [(0, 1, None), (2, 2, 10_000), (3, 3, None), (4, 4, 30_000)]
    assert spans_of(entries, 0, 1, {}) == [(0, 1, None)]  # there was no watermark before batch 1


def test_in_real_time_the_batch_under_way_may_have_read_all_there_is() -> None:
    done = Entry(7, 30, 99, (("in", 0, '{"clicks":{"0":12,"1":9}}'), ("new", 1, None)))

    assert under_way(done) == Entry(8, 30, 99, (("in", 0, '{"clicks": {"0": -1, "1": -1}}'), ("new", 1, None)))


@pytest.mark.parametrize(
    ("kinds", "kills", "found", "others"),
    [
        (["driver", "broker", "slow-sink", "pause"], 5, [5, 5], 2),
        (["driver", "broker", "slow-sink", "pause"], 50, [50, 50], 25),
        (["executor"], 3, [3, 3], 0),
        (["slow-sink"], 3, [0, 3], 0),  # what cannot be done to a flow is not waited for; no kill is asked for
    ],
)
def test_every_flow_has_as_many_kills_as_were_asked_for_and_the_other_faults_in_between(
    kinds: list[str], kills: int, found: list[int], others: int
) -> None:
    flows = [SimpleNamespace(name=name, sinks=[SimpleNamespace(connector=name)]) for name in ("kafka", "sqlite")]
    moved: Any = [SimpleNamespace(flow=flow) for flow in flows]
    trial = _Trial(moved, {}, Asked(kills=kills, seconds=0, seed=3), Project(root=Path()), print, None)
    given = []
    for kind in trial._order(kinds):
        given.append(kind)
        for one in moved:
            trial.done[one.flow.name][kind] += faults.fits(kind, one)

    assert [sum(done[kind] for kind in counted(kinds)) for done in trial.done.values()] == found
    assert len([kind for kind in given if kind not in counted(kinds)]) == others
    again = _Trial(moved, {}, Asked(kills=kills, seconds=0, seed=3), Project(root=Path()), print, None)
    assert list(islice(again._order(kinds), len(given))) == given, "a seed gives the same faults"


def test_a_fault_that_never_strikes_ends_the_trial() -> None:
    moved: Any = [SimpleNamespace(flow=SimpleNamespace(name="f", sinks=[]))]
    trial = _Trial(moved, {}, Asked(kills=4, seconds=0), Project(root=Path()), print, None)

    assert len(list(trial._order(["executor"]))) == 8


def test_a_flow_has_recovered_once_each_of_its_queries_has_committed_another_batch(tmp_path: Path) -> None:
    two = FLOW[: FLOW.index("steps:")] + "sinks: {a: {from: orders, console: {}}, b: {from: more, console: {}}}\n"
    (tmp_path / "two.yaml").write_text(two)
    moved = move(tmp_path / "two.yaml", tmp_path / "scratch", namespace="ours")
    moved.home.make()
    ended: Any = SimpleNamespace(poll=lambda: 0)
    (moved.project.root / "shop.log").write_text("its last words")
    trial = _Trial([moved], {"shop": ended}, Asked(kills=1, seconds=0), moved.project, print, None)
    before = {name: events.append(moved.home.events, "progress", query=name, batch=0) for name in ("orders", "more")}
    events.append(moved.home.events, "progress", query="orders", batch=1)

    assert trial._batches_after(moved, before) is None
    assert trial.stuck == {"shop": "no batch of more was committed any more: its last words"}
    events.append(moved.home.events, "progress", query="more", batch=1)
    assert trial._batches_after(moved, before) is not None


@pytest.mark.skipif(not shutil.which("cc"), reason="no C compiler")
def test_the_clock_of_a_process_is_moved_while_it_runs_and_waits_are_not(tmp_path: Path) -> None:
    clock = build_clock(tmp_path)
    assert clock is not None
    code = "import sys, time, threading\nfor _ in sys.stdin:\n  threading.Event().wait(0.01)\n  print(time.time())"
    with subprocess.Popen(
        [sys.executable, "-uc", code],
        env={**os.environ, **clock.environment()},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None

        def asked() -> float:
            child.stdin.write("\n")
            child.stdin.flush()
            return float(child.stdout.readline()) - time.time()

        for seconds in (0, 1800, -1800):
            clock.move(seconds)
            assert abs(asked() - seconds) < 60
        child.stdin.close()

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from headrace.errors import UsageError
from headrace.run.home import Asked, Home, Record, home_of
from headrace.run.index import Index, Row
from headrace.run.process import Process, identify


def record(**changes: object) -> Record:
    return replace(Record(name="shop", file="/p/shop.yaml", root="/p", hash="h", mode="micro-batch"), **changes)  # type: ignore[arg-type]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = home_of(tmp_path, "shop")
    home.make()
    return home


def test_a_record_survives_writing_and_reading(home: Home) -> None:
    me = identify(os.getpid())
    written = record(asked=Asked(until_done=True, restarts=2), supervisor=me, driver=Process(1, "x"), drained=True)

    home.write(written)

    assert home.read() == written


def test_a_record_of_a_later_version_can_be_read(home: Home) -> None:
    home.record_file.write_text(record().render().replace('"name"', '"invented": 1, "name"'))

    assert home.read().name == "shop"


def test_a_broken_record_is_said_in_words(home: Home) -> None:
    home.record_file.write_text("{")

    with pytest.raises(UsageError, match="cannot be read"):
        home.read()


def test_a_status_whose_keeper_is_gone_is_shown_as_died() -> None:
    assert record(status="running", supervisor=identify(os.getpid())).shown_status == "running"
    assert record(status="running", supervisor=Process(os.getpid(), "another birth")).shown_status == "died"
    assert record(status="stopped").shown_status == "stopped"


HOLD = """
import sys
from pathlib import Path
from headrace.run.home import Home
lock = Home(Path(sys.argv[1])).lock()
print("held", flush=True)
sys.stdin.read()
"""


def test_a_run_is_taken_once_and_free_again_however_its_holder_ends(home: Home) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(home.path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    home.write(record(status="running", supervisor=identify(holder.pid)))

    with pytest.raises(UsageError) as refusal:
        home.lock()
    assert f"process {holder.pid}" in refusal.value.message
    assert refusal.value.hint == "headrace stop shop"

    holder.kill()
    holder.communicate()
    home.lock().close()


def test_two_flows_of_a_project_do_not_hinder_each_other(tmp_path: Path) -> None:
    with home_of(tmp_path, "shop").lock(), home_of(tmp_path, "bank").lock():
        pass


def test_setting_a_home_aside_deletes_nothing_and_keeps_the_lock(home: Home) -> None:
    home.write(record())
    (home.checkpoint("q")).mkdir()
    with home.lock():
        first = home.set_aside()
        home.make()
        home.write(record())
        second = home.set_aside()

    assert first != second
    assert (first / "checkpoints" / "q").is_dir()
    assert (second / "run.json").is_file()
    assert not home.exists
    assert [p.name for p in home.path.iterdir()] == ["lock"]


def test_a_process_is_known_by_its_birth() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, start_new_session=True)
    known = identify(child.pid)
    assert known.alive
    Process(child.pid, "another").end_group()
    assert known.alive, "a process of the same number but another birth must be left alone"

    known.end_group()
    child.communicate()

    assert not known.alive
    assert known.wait(0)


def test_what_is_left_of_a_killed_leader_is_ended_with_its_group() -> None:
    script = "import subprocess, sys; c = subprocess.Popen(['sleep', '60']); print(c.pid, flush=True); sys.stdin.read()"
    leader = subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    )
    known = identify(leader.pid)
    assert leader.stdout is not None
    left = identify(int(leader.stdout.readline()))
    leader.kill()
    leader.wait()
    assert left.alive

    known.end_group()

    assert left.wait(10)
    leader.communicate()


def test_the_index_has_one_row_per_run(tmp_path: Path) -> None:
    index = Index(tmp_path)
    assert index.rows() == []
    row = Row(name="shop", status="running", since="2026", file="f", mode="batch", pid=1, born="b")
    index.put(row)
    index.put(replace(row, status="stopped"))
    index.put(replace(row, name="bank"))
    index.progress("shop", {"in": 3})

    assert [(r.name, r.status, r.progress) for r in index.rows()] == [
        ("bank", "running", {}),
        ("shop", "stopped", {"in": 3}),
    ]

"""The supervisor against real child processes that stand in for a driver: they write events and end as told."""

from __future__ import annotations

import io
import json
import resource
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.errors import UsageError
from headrace.observe import events
from headrace.project import Project
from headrace.run import control, supervisor
from headrace.run.home import Asked, Home, Record, home_of
from headrace.run.index import Index
from headrace.run.supervisor import Supervisor
from headrace.run.view import View
from tests.waiting import eventually

PREFIX = """
import os, signal, sys, time
from pathlib import Path
from headrace.observe import events
from headrace.run.home import Home
home = Home(Path(sys.argv[1]))
attempt = home.path / "attempts"
number = len(attempt.read_text()) if attempt.exists() else 0
with attempt.open("a") as noted:  # one that is killed here must not leave less than there was
    noted.write("x")
def say(event, **fields):
    events.append(home.events, event, **fields)
def progress(batch):
    say("progress", query="q", batch=batch, **{"in": 10}, out=1, seconds=0.1)
"""

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = home_of(tmp_path / ".headrace", "shop")
    home.make()
    home.write(Record(name="shop", file="shop.yaml", root=str(tmp_path), hash="h", mode="micro-batch"))
    return home


@pytest.fixture
def run(home: Home, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setattr(supervisor, "backoff", lambda failures: 0.01)

    def run(
        driver: str,
        *,
        restarts: int = 5,
        outage: float = 0.0,
        spare: bool = False,
        as_json: bool = False,
        wall: Callable[[], float] = time.time,
    ) -> tuple[int, str, str]:
        script = home.path / "driver.py"
        script.write_text(PREFIX + textwrap.dedent(driver))
        home.update(lambda r: Record(**{**vars(r), "asked": Asked(restarts=restarts, outage=outage, spare=spare)}))
        out, err = io.StringIO(), io.StringIO()
        view = View(as_json=as_json, out=out, err=err, live=False)
        with home.lock() as lock:
            index = Index(home.path.parent.parent)
            command = (sys.executable, str(script))
            code = Supervisor(home, lock, view, index, command=command, wall=wall).run()
        return code, out.getvalue(), err.getvalue()

    return run


def kinds(home: Home) -> list[str]:
    return [e["event"] for e in events.read(home.events)]


def test_a_run_that_finishes_is_noted_in_home_and_index(home: Home, run: Run) -> None:
    code, out, err = run("""
        say("started"); progress(0); progress(1); print("a row for the user"); say("finished")
    """)

    assert code == 0
    assert out == "a row for the user\n"
    assert "finished · in 20 · out 2 · 2 batches" in err
    assert home.read().status == "finished"
    (row,) = control.runs(Project(root=home.path.parent.parent.parent))
    assert (row.status, row.progress["in"]) == ("finished", 20)


def test_a_killed_driver_is_started_again_and_its_repeated_batch_counts_once(home: Home, run: Run) -> None:
    code, _, err = run("""
        say("started"); progress(0)
        if number == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        progress(0); progress(1); say("finished")
    """)

    assert code == 0
    assert "the driver was killed by signal 9" in err
    assert "in 20 · out 2 · 2 batches" in err
    assert home.read().restarts == 1
    recovered = events.last(home.events, "restarted")
    assert recovered is not None
    assert recovered["seconds"] > 0


def test_a_driver_begins_anew_whose_clock_was_set_back_but_not_forward(home: Home, run: Run) -> None:
    def wall() -> float:  # forward with the first batch, back with the second
        batches = sum(e["event"] == "progress" for e in events.read(home.events))
        return time.time() + (0.0, 3600.0, -1800.0)[min(batches, 2)]

    driver = """
        say("started"); progress(0)
        if number == 0:
            time.sleep(0.5); progress(1); time.sleep(60)
        say("finished")
    """
    code, _, err = run(driver, wall=wall)

    assert code == 0
    assert "the clock was set back by 5,400 s, for which the driver would wait" in err
    assert len((home.path / "attempts").read_text()) == 2


KEEPER = """
import sys
from pathlib import Path
from headrace.run.home import Home
from headrace.run.index import Index
from headrace.run.supervisor import Supervisor
from headrace.run.view import View
home = Home(Path(sys.argv[1]))
with home.lock() as lock:
    index, command = Index(home.path.parent.parent), (sys.executable, str(home.path / "driver.py"))
    sys.exit(Supervisor(home, lock, View(quiet=True), index, command=command).run())
"""


def test_a_supervisor_waits_while_the_disk_is_full_and_goes_on_when_there_is_room(home: Home) -> None:
    up, die = home.path / "up", home.path / "die"
    driver = f"""
        say("started"); progress(0)
        if number == 0:
            Path({str(up)!r}).touch()
            while not Path({str(die)!r}).exists():
                time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGKILL)
        say("finished")
    """
    (home.path / "driver.py").write_text(PREFIX + textwrap.dedent(driver))
    with subprocess.Popen([sys.executable, "-c", KEEPER, str(home.path)], stderr=subprocess.PIPE, text=True) as keeper:
        assert keeper.stderr is not None
        eventually(up.exists, 30)
        whole = resource.prlimit(keeper.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(keeper.pid, resource.RLIMIT_FSIZE, (0, whole[1]))
        die.touch()
        assert "no room to write in" in keeper.stderr.readline()
        assert "waiting until there is some" in keeper.stderr.readline()
        assert keeper.poll() is None
        resource.prlimit(keeper.pid, resource.RLIMIT_FSIZE, whole)
        assert "there is room again" in keeper.stderr.readline()
        assert keeper.wait(60) == 0
    assert kinds(home)[:5] == ["starting", "started", "progress", "retrying", "starting"]
    assert sorted(kinds(home)[5:]) == ["finished", "progress", "recovered", "restarted", "started"]
    assert home.read().status == "finished"


SPARED = """
    mine = home.path / f"spare-{number}"
    if sys.argv[2:] == ["spare"]:
        mine.touch()
        OR_DIE
        if not sys.stdin.readline():
            sys.exit()
    say("started", pid=os.getpid()); PROGRESS
    while number == 0 and not (home.path / "spare-1").exists():
        time.sleep(0.01)
    if number == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    say("finished")
"""


@pytest.mark.parametrize("committed", [True, False])
def test_a_spare_waits_for_its_turn_and_nothing_is_left_of_the_one_behind_it(
    home: Home, run: Run, committed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "SPARE_AFTER", 600.0 if committed else 0.0)
    code, _, _ = run(SPARED.replace("OR_DIE", "").replace("PROGRESS", "progress(number)" * committed), spare=True)

    assert code == 0
    assert home.read().restarts == 1
    assert len((home.path / "attempts").read_text()) in (2, 3)  # a third may have begun to wait when all was done
    last = [e for e in events.read(home.events) if e["event"] == "started"][-1]
    driver = home.read().driver
    assert driver is not None
    assert driver.pid == last["pid"]


def test_a_spare_that_died_is_not_waited_for(home: Home, run: Run) -> None:
    code, _, _ = run(SPARED.replace("OR_DIE", "sys.exit(1)").replace("PROGRESS", "progress(number)"), spare=True)

    assert code == 0
    assert home.read().restarts == 1
    assert kinds(home).count("started") == 2


def test_the_wait_grows_only_as_long_as_nothing_is_done_between_two_failures(
    home: Home, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "backoff", lambda failures: failures / 100)
    code, _, _ = run("""
        say("started")
        if number == 2:
            progress(0)
        if number < 4:
            os.kill(os.getpid(), signal.SIGKILL)
        progress(1); say("finished")
    """)

    assert code == 0
    assert [e["seconds"] for e in events.read(home.events) if e["event"] == "retrying"] == [0.01, 0.02, 0.01, 0.02]


def test_it_gives_up_after_so_many_failures_and_says_why(home: Home, run: Run) -> None:
    code, _, err = run(
        """
        say("failed", kind="endpoint", message="could not reach the broker", hint="start it", retry=True)
        sys.exit(3)
        """,
        restarts=2,
        outage=600.0,  # not for one that was never there
    )

    assert code == 3
    assert (home.path / "attempts").read_text() == "xxx"
    assert err.rstrip().endswith("hint: start it")
    assert "gave up: 3 failures within 10 minutes" in err
    assert "error: could not reach the broker" in err
    assert str(home.log) in err
    assert home.read().status == "failed"
    assert kinds(home)[-1] == "gave-up"


def test_an_outage_is_ridden_out_and_what_it_took_is_told(home: Home, run: Run) -> None:
    home.journal("q").parent.mkdir(parents=True)
    home.journal("q").touch()
    code, _, err = run(
        """
        if number < 4:
            say("failed", kind="endpoint", message="could not reach the broker", retry=True)
            sys.exit(3)
        say("started", replaying={"q": 7}); progress(7); say("finished")
        """,
        restarts=2,
        outage=600.0,
    )

    assert code == 0, err
    assert "asking again every few seconds, for 600 s at most" in err
    assert err.count("could not reach the broker") == 1
    assert 'batch 7 of "q" is replayed' in err
    found = {e["event"]: e for e in events.read(home.events)}
    assert found["restarted"]["replaying"] == {"q": 7}
    assert found["recovered"]["batch"] == 7
    assert found["recovered"]["seconds"] >= found["restarted"]["seconds"]
    assert control.status(home)["last_recovery"]["batch"] == 7


def test_a_mistake_of_the_authors_is_not_tried_again(home: Home, run: Run) -> None:
    code, _, err = run("""
        say("failed", kind="data", message="clean.py:3: bad", record="{}", retry=False)
        sys.exit(1)
    """)

    assert code == 1
    assert (home.path / "attempts").read_text() == "x"
    assert "error: clean.py:3: bad" in err
    assert (home.read().failure or {})["record"] == "{}"


def test_events_go_to_standard_output_as_json_and_rows_do_not_mix_with_them(home: Home, run: Run) -> None:
    code, out, err = run("say('started'); print('row'); progress(0); say('finished')", as_json=True)

    assert code == 0
    assert [json.loads(line)["event"] for line in out.splitlines()] == ["starting", "started", "progress", "finished"]
    assert err == "row\n"


SUPERVISE = """
import sys
from pathlib import Path
from headrace.run.home import Home
from headrace.run.index import Index
from headrace.run.supervisor import Supervisor
from headrace.run.view import View
home = Home(Path(sys.argv[1]))
command = (sys.executable, str(home.path / "driver.py"))
with home.lock() as lock:
    sys.exit(Supervisor(home, lock, View(), Index(home.path.parent.parent), command=command).run())
"""

LASTING = """
stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append("term"))
say("started"); progress(0)
while not stop:
    time.sleep(0.01)
say("stopped", why="asked", resume={"q": {"batch": 0, "offsets": [{"t": {"0": 10}}]}})
"""

STUBBORN = """
signal.signal(signal.SIGTERM, signal.SIG_IGN)
say("started")
while True:
    time.sleep(0.01)
"""


def start(home: Home, driver: str) -> subprocess.Popen[str]:
    (home.path / "driver.py").write_text(PREFIX + driver)
    child = subprocess.Popen(
        [sys.executable, "-c", SUPERVISE, str(home.path)], stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    eventually(lambda: home.read().status == "running")
    return child


def test_an_interrupt_stops_cleanly_and_says_where_it_will_resume(home: Home) -> None:
    child = start(home, LASTING)
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=30)

    assert child.returncode == 0
    assert 'q will resume after batch 0, at {"t":{"0":10}}' in err
    assert home.read().status == "stopped"


def test_stop_waits_until_everything_is_gone(home: Home) -> None:
    child = start(home, LASTING)
    driver = home.read().driver
    assert driver is not None

    with pytest.raises(UsageError, match="running already"):
        home.lock()
    assert control.stop(home)

    assert not driver.alive
    assert control.stop(home) is False
    child.communicate(timeout=30)
    home.lock().close()


def test_a_second_interrupt_does_not_wait(home: Home) -> None:
    child = start(home, STUBBORN)
    driver = home.read().driver
    assert driver is not None
    child.send_signal(signal.SIGINT)
    assert child.stderr is not None
    while "stopping" not in child.stderr.readline():
        pass
    child.send_signal(signal.SIGINT)
    child.communicate(timeout=30)

    assert not driver.alive
    assert home.read().status == "stopped"


def test_a_killed_supervisor_leaves_the_run_taken_until_its_driver_is_gone(home: Home) -> None:
    child = start(home, STUBBORN)
    driver = home.read().driver
    assert driver is not None
    child.kill()
    child.communicate()

    assert home.read().shown_status == "died"
    with pytest.raises(UsageError, match=str(driver.pid)):
        home.lock()
    driver.end_group()
    assert driver.wait(10)
    eventually(lambda: _free(home))


def _free(home: Home) -> bool:
    try:
        home.lock().close()
    except UsageError:
        return False
    return True


def test_find_knows_a_run_by_name_and_by_file_and_suggests_the_nearest(home: Home, run: Run) -> None:
    run("say('finished')")
    project = Project(root=home.path.parent.parent.parent)

    assert control.find(project, "shop").path == home.path
    with pytest.raises(UsageError) as refusal:
        control.find(project, "shpo")
    assert 'did you mean "shop"?' in refusal.value.hint
    found = control.status(home)
    assert found["status"] == "finished"
    assert found["pid"] is None
    assert json.dumps(found)

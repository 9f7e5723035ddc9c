"""What the local broker is made of, without starting it: Java, jars, processes, ports, positions, settings."""

from __future__ import annotations

import multiprocessing
import os
import socket
import sys
from hashlib import sha256
from pathlib import Path

import pytest

from headrace.errors import EndpointError, UsageError
from headrace.log import broker, jars, state
from headrace.log.folders import cache_home, locked
from headrace.log.java import Java, _wrap, find_java, parse_version
from headrace.log.position import Position, parse_position
from headrace.log.processes import Process, spawn, start_time, stop_all
from headrace.log.state import BrokerInfo, Node
from headrace.log.topics import Keeping
from headrace.project import Project
from tests.waiting import eventually


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "headrace"


def make_java(home: Path, version: str) -> Path:
    (home / "bin").mkdir(parents=True)
    program = home / "bin" / "java"
    program.write_text('#!/bin/sh\nfor word in "$@"; do echo "<$word>"; done\n', encoding="ascii")
    program.chmod(0o755)
    (home / "release").write_text(f'JAVA_VERSION="{version}"\n', encoding="ascii")
    return home


# --- Java


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ('JAVA_VERSION="25"', 25),
        ('openjdk version "21.0.4" 2024', 21),
        ('java version "1.8.0_1"', 8),
        ("nothing", None),
    ],
)
def test_versions_old_and_new_are_read(text: str, version: int | None) -> None:
    assert parse_version(text) == version


def test_a_chosen_java_is_used_or_refused(tmp_path: Path) -> None:
    good = make_java(tmp_path / "new", "21.0.1")
    assert find_java(str(good)) == Java(good, 21)
    with pytest.raises(UsageError, match="version 11, which is too old"):
        find_java(str(make_java(tmp_path / "old", "11.0.2")))
    with pytest.raises(UsageError, match="there is no Java"):
        find_java(str(tmp_path / "none"))


def test_java_home_comes_first_unless_it_is_too_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    on_path = make_java(tmp_path / "path", "17.0.1")
    monkeypatch.setenv("PATH", str(on_path / "bin"))
    monkeypatch.setenv("JAVA_HOME", str(make_java(tmp_path / "home", "18")))
    assert find_java().home == tmp_path / "home"
    monkeypatch.setenv("JAVA_HOME", str(make_java(tmp_path / "older", "1.8.0_1")))
    assert find_java().home == on_path


def test_the_wrapper_leaves_out_the_flag_and_nothing_else(tmp_path: Path) -> None:
    import subprocess

    wrapped = _wrap(make_java(tmp_path / "a folder", "25"))
    given = ["-Dx=a b", "--add-modules=jdk.incubator.vector", "", "$HOME", "--add-modules=other"]
    said = subprocess.run([wrapped / "bin" / "java", *given], capture_output=True, text=True, check=True).stdout
    assert said.splitlines() == ["<-Dx=a b>", "<>", "<$HOME>", "<--add-modules=other>"]
    assert wrapped.is_relative_to(cache_home())


# --- jars


def test_the_lock_names_every_jar_once_with_a_checksum() -> None:
    spark, of_broker = jars.checksums("spark"), jars.checksums("broker")
    assert len(spark) == 4
    assert {"kafka_2.13-4.3.1.jar", "log4j-slf4j-impl-2.25.1.jar"} <= set(of_broker)
    assert all(len(digest) == 64 for digest in (*spark.values(), *of_broker.values()))


def test_jars_that_are_there_need_no_java(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = jars.jar_folder("spark")
    folder.mkdir(parents=True)
    for name in jars.checksums("spark"):
        (folder / name).write_bytes(b"jar")
    (folder / ".verified").write_text(jars._stamp(folder, jars.checksums("spark")), encoding="ascii")
    monkeypatch.setattr(jars, "find_java", lambda: pytest.fail("Java was looked for"))
    assert [p.name for p in jars.ensure("spark")] == list(jars.checksums("spark"))


def test_a_jar_with_another_checksum_is_named(tmp_path: Path) -> None:
    (tmp_path / "good.jar").write_bytes(b"good")
    (tmp_path / "bad.jar").write_bytes(b"changed")
    digests = {name: sha256(b"good").hexdigest() for name in ("good.jar", "bad.jar")}
    with pytest.raises(EndpointError, match=r"bad\.jar"):
        jars.verify(tmp_path, digests)
    with pytest.raises(EndpointError, match=r"gone\.jar"):
        jars.verify(tmp_path, {"gone.jar": ""})


def test_what_cannot_be_fetched_is_an_error_and_leaves_nothing(tmp_path: Path, own_cache: Path) -> None:
    home = make_java(tmp_path / "java", "17")
    (home / "bin" / "java").write_text("#!/bin/sh\necho 'Host central not found.'\nexit 1\n", encoding="ascii")
    said: list[str] = []
    with pytest.raises(EndpointError, match="could not fetch the jars for the spark") as caught:
        jars.ensure("spark", said.append, Java(home, 17))
    assert caught.value.detail == "Host central not found."
    assert said == ["jars 0/4 (spark), looking them up"]
    assert not jars.jar_folder("spark").exists()
    assert (own_cache / "ivy-spark.log").read_text(encoding="utf-8") == "Host central not found.\n"


def hold(path: Path, has: multiprocessing.synchronize.Event, may_end: multiprocessing.synchronize.Event) -> None:
    with locked(path):
        has.set()
        may_end.wait(30)


def test_a_lock_is_seen_by_other_processes_and_goes_with_them(tmp_path: Path) -> None:
    import fcntl

    spawned = multiprocessing.get_context("spawn")
    has, may_end = spawned.Event(), spawned.Event()
    other = spawned.Process(target=hold, args=(tmp_path / "lock", has, may_end))
    other.start()
    assert has.wait(30)
    with (tmp_path / "lock").open("a") as mine, pytest.raises(BlockingIOError):
        fcntl.flock(mine, fcntl.LOCK_EX | fcntl.LOCK_NB)
    other.kill()
    other.join(30)
    with locked(tmp_path / "lock"):
        pass


# --- processes


def test_a_process_is_stopped_and_known_to_be_gone(tmp_path: Path) -> None:
    process = spawn([sys.executable, "-c", "import time; time.sleep(60)"], output=tmp_path / "log")
    assert process.alive()
    assert stop_all([process], 10) == []
    assert not process.alive()


def test_one_that_does_not_listen_is_killed(tmp_path: Path) -> None:
    stubborn = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"
    )
    process = spawn([sys.executable, "-c", stubborn], output=tmp_path / "log")
    eventually(lambda: "up" in (tmp_path / "log").read_text(encoding="ascii"))
    assert stop_all([process], 0.2) == [process]
    assert not process.alive()


def test_a_number_that_was_given_to_another_process_is_left_alone() -> None:
    mine = Process(os.getpid(), "another time")
    assert not mine.alive()
    assert stop_all([mine], 0) == []
    assert start_time(os.getpid()) is not None


def test_a_process_that_never_was_is_not_alive() -> None:
    assert start_time(2**22 + 1) is None


# --- the broker's plan


def plan(folder: Path, known: BrokerInfo | None = None, **wanted: int) -> BrokerInfo:
    return broker._plan(known, folder, wanted.get("brokers"), wanted.get("port"), wanted.get("replication"))


def test_a_new_cluster_has_free_ports_of_its_own(tmp_path: Path) -> None:
    info = plan(tmp_path, brokers=3)
    ports = [p for n in info.nodes for p in (n.port, n.controller_port)]
    assert len(set(ports)) == 6
    assert info.replication == 3
    assert plan(tmp_path).replication == 1


def test_ports_stay_unless_another_program_has_taken_one(tmp_path: Path) -> None:
    first = plan(tmp_path)
    assert plan(tmp_path, first).nodes == first.nodes
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", first.nodes[0].port))
        taken.listen()
        assert plan(tmp_path, first).nodes[0].port != first.nodes[0].port
        with pytest.raises(UsageError, match="is taken by another program"):
            plan(tmp_path, port=first.nodes[0].port)


def test_what_cannot_be_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot become 3"):
        plan(tmp_path, plan(tmp_path), brokers=3)
    with pytest.raises(UsageError, match="2 copies need 2 brokers"):
        plan(tmp_path, replication=2)
    with pytest.raises(UsageError, match="not to be had"):
        plan(tmp_path, brokers=99)


def test_data_is_found_again_when_the_state_is_lost(tmp_path: Path) -> None:
    for node in (1, 2, 3):
        (tmp_path / f"node-{node}" / "data").mkdir(parents=True)
        (tmp_path / f"node-{node}" / "data" / "meta.properties").touch()
    assert len(plan(tmp_path).nodes) == 3


def test_settings_of_a_node_keep_to_this_machine_and_need_a_majority(tmp_path: Path) -> None:
    text = broker.server_properties(plan(tmp_path, brokers=3), Node(id=2, port=1, controller_port=2))
    settings = dict(line.split("=", 1) for line in text.splitlines())
    assert settings["listeners"] == "PLAINTEXT://127.0.0.1:1,CONTROLLER://127.0.0.1:2"
    assert settings["min.insync.replicas"] == "2"
    assert settings["default.replication.factor"] == "3"
    assert settings["controller.quorum.voters"].count("@127.0.0.1:") == 3


def test_state_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    project = Project(root=tmp_path)
    nodes = (Node(id=1, port=1, controller_port=2, process=Process(3, "4")), Node(id=2, port=5, controller_port=6))
    info = BrokerInfo(folder=state.broker_folder(project.home), replication=2, nodes=nodes)
    state.write(info)
    assert state.read(project.home) == info
    assert broker.status(project) == info
    assert not info.running


def test_stopping_what_never_ran_does_nothing(tmp_path: Path) -> None:
    assert broker.stop(Project(root=tmp_path)) is None
    assert not (tmp_path / ".headrace").exists()


# --- positions and retention


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("beginning", Position("beginning")),
        ("Latest", Position("end")),
        ("0", Position("offset", 0)),
        ("1970-01-02", Position("time", 86_400_000)),
        ("1970-01-01T01:00:00+01:00", Position("time", 0)),
        ("2 min ago", Position("time", 880_000)),
    ],
)
def test_a_place_in_a_topic_is_read(text: str, position: Position) -> None:
    assert parse_position(text, now_ms=1_000_000) == position


@pytest.mark.parametrize("text", ["", "yesterday", "-5", "5 parsecs ago", "²"])
def test_what_is_no_place_is_misuse(text: str) -> None:
    with pytest.raises(UsageError, match="not a place in a topic"):
        parse_position(text)


def test_retention_in_kafkas_words() -> None:
    from datetime import timedelta

    assert Keeping().config() == {}
    assert Keeping(retention=timedelta(0)).config() == {"retention.ms": "-1"}
    assert Keeping(compact=True).config() == {"cleanup.policy": "compact"}
    assert Keeping(compact=True, retention_size=5).config() == {
        "retention.bytes": "5",
        "cleanup.policy": "compact,delete",
    }
    assert Keeping(compact=True, retention_size=0).config()["cleanup.policy"] == "compact,delete"
    assert Keeping(settings={"retention.ms": "1"}, retention=timedelta(1)).config() == {"retention.ms": "1"}

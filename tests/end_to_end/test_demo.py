"""`headrace demo`: rows on the screen, and nothing left of it, however it ends."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.log.folders import cache_home
from tests.commands import Place
from tests.waiting import eventually


@pytest.mark.slow
def test_the_demo_shows_rates_of_several_tags_and_ends_by_itself(place: Place) -> None:
    said = place.run("demo", "--seconds", "3")

    rows = re.findall(r"^#(\w+) +([\d.]+)/s (→|▲ \+[\d.]+|▼ -[\d.]+) +[▁▂▃▄▅▆▇█ ]+$", said.out, re.MULTILINE)
    assert len({tag for tag, _, _ in rows}) >= 5, said.out
    assert any(float(rate) > 0 for _, rate, _ in rows)
    assert "200 tweets a second go to its topic" in said.err
    assert said.err.rstrip().endswith("the counts are in .headrace/demo/velocity.db")
    eventually(lambda: not place.processes(), 20, diagnose=lambda: "\n".join(place.processes()))


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_a_demo_that_is_interrupted_while_it_starts_leaves_nothing_behind(place: Place, ending: signal.Signals) -> None:
    place.environment = {"HEADRACE_HOME": str(place.root / "mine"), "HEADRACE_KAFKA_BOOTSTRAP": "127.0.0.1:1"}
    child = place.start("demo")
    home = place.root / ".headrace" / "demo" / ".headrace"
    if ending is signal.SIGINT:  # the flow's driver is on its way
        eventually((home / "runs" / "hashtag-velocity" / "events.jsonl").exists, 90)
    else:  # Kafka is
        eventually((home / "broker").exists, 90)

    child.send_signal(ending)
    said = place.ended(child, seconds=60)

    assert "stopping …" in said.err
    eventually(lambda: not place.processes(), 20, diagnose=lambda: "\n".join(place.processes()))
    assert not (home / "broker").exists()
    assert not (place.root / "mine").exists(), "whatever the environment says, the demo lives in its own folder"


def test_an_interrupt_while_java_is_prepared_leaves_no_java_behind(tmp_path: Path) -> None:
    cache = tmp_path / "cache" / "headrace"
    cache.mkdir(parents=True)
    (cache / "jars").symlink_to(cache_home() / "jars")
    child = subprocess.Popen(
        [sys.executable, "-m", "headrace.run.classes"],
        env={**os.environ, "XDG_CACHE_HOME": str(cache.parent)},
        stderr=subprocess.DEVNULL,
    )

    def javas() -> str:
        named = ["pgrep", "-f", f"ArchiveClassesAtExit={cache}"]
        return subprocess.run(named, capture_output=True, text=True, check=False).stdout

    eventually(javas, 90)
    child.send_signal(signal.SIGINT)
    child.wait(30)

    eventually(lambda: not javas(), 5, diagnose=javas)
    assert not list((cache / "classes").glob("*.[0-9]*")), "nor half an archive"


def test_the_demo_does_not_empty_a_folder_that_is_not_its_own(place: Place) -> None:
    kept = place.root / "shop" / "flow.yaml"
    kept.parent.mkdir()
    kept.write_text("flow: mine")

    said = place.run("demo", "--folder", "shop", code=2)

    assert "is not empty, and no demo was there" in said.err
    assert kept.read_text() == "flow: mine"

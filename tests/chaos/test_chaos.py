"""Kills and other faults while records come in: nothing lost, nothing twice.

The short form is one flow in micro-batches with three queries, one of each kind (nothing remembered, windows, keyed
state), and one with three in real-time mode, which may repeat rows, each killed three times. `make chaos` runs four
flows side by side, each with a driver of its own, kills fifty times, and executors of a cluster besides; of those the
short form is `test_cluster.py`.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from headrace.check import load
from headrace.cli.chaos import told
from headrace.declare.write import write
from headrace.testing.chaos.faults import KILLS as KINDS_OF_KILLS
from headrace.testing.chaos.run import Asked, chaos

FLOWS = Path(__file__).parent / "flows"
SHORT = 3
KILLS = int(os.environ.get("HEADRACE_CHAOS_KILLS", SHORT))


@pytest.mark.timeout(900 + KILLS * 120)
def test_nothing_is_lost_and_nothing_doubled_whatever_dies(
    postgresql: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", postgresql)
    folder = shutil.copytree(FLOWS, tmp_path / "flows")
    files = [folder / f"{name}.yaml" for name in ("kept", "windows", "keyed")]
    if KILLS <= SHORT:
        files = [as_one(files, folder / "all.yaml")]
    files.append(folder / "quick.yaml")

    found = chaos(files, Asked(kills=KILLS, seconds=0, seed=KILLS, database=postgresql), print)

    print("\n".join(told(found)))
    assert [o.as_dict() for o in found if not o.good] == []
    assert all(o.fed == o.read > 0 for o in found)
    assert all(o.kills >= KILLS for o in found)
    assert all({kind: len(s) for kind, s in o.recovery.items()} == o.faults for o in found)
    assert all(o.faults["driver"] >= KILLS // 2 and o.faults["broker"] >= KILLS // 2 for o in found)
    assert any(set(o.faults) - KINDS_OF_KILLS for o in found), "other faults come in between"


def as_one(files: list[Path], target: Path) -> Path:
    """One flow with the parts of several, which have different names."""
    flows = [load(file) for file in files]
    one = replace(
        flows[0],
        name=target.stem,
        sources=tuple(part for flow in flows for part in flow.sources),
        steps=tuple(part for flow in flows for part in flow.steps),
        sinks=tuple(part for flow in flows for part in flow.sinks),
    )
    target.write_text(write(one), encoding="utf-8")
    return target


@pytest.mark.timeout(900 + KILLS * 60)
@pytest.mark.skipif(KILLS <= SHORT, reason="a cluster is for `make chaos`")
def test_nothing_is_lost_and_nothing_doubled_though_executors_are_killed() -> None:
    kills = KILLS // 5

    [found] = chaos([FLOWS / "kept.yaml"], Asked(kills=kills, seconds=0, faults=("executor",), workers=2), print)

    print("\n".join(told([found])))
    assert found.good, found.as_dict()
    assert found.faults == {"executor": kills}
    assert found.fed == found.read > 0

"""Three flows side by side each killed five times: nothing lost, nothing twice.

`make chaos` kills fifty times, and executors of a cluster besides; of those the short form is `test_cluster.py`.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headrace.cli.chaos import told
from headrace.testing.chaos.faults import KILLS as KINDS_OF_KILLS
from headrace.testing.chaos.run import Asked, chaos

FLOWS = Path(__file__).parent / "flows"
SHORT = 5
KILLS = int(os.environ.get("HEADRACE_CHAOS_KILLS", SHORT))


@pytest.mark.timeout(900 + KILLS * 120)
def test_nothing_is_lost_and_nothing_doubled_whatever_dies(postgresql: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", postgresql)
    files = [FLOWS / f"{name}.yaml" for name in ("kept", "windows", "keyed")]

    found = chaos(files, Asked(kills=KILLS, seconds=0, seed=KILLS, database=postgresql), print)

    print("\n".join(told(found)))
    assert [o.as_dict() for o in found if not o.good] == []
    assert all(o.fed == o.read > 0 for o in found)
    assert all(o.kills >= KILLS for o in found)
    assert all({kind: len(s) for kind, s in o.recovery.items()} == o.faults for o in found)
    assert all(o.faults["driver"] >= KILLS // 2 and o.faults["broker"] >= KILLS // 2 for o in found)
    assert any(set(o.faults) - KINDS_OF_KILLS for o in found), "other faults come in between"


@pytest.mark.timeout(900 + KILLS * 60)
@pytest.mark.skipif(KILLS <= SHORT, reason="a cluster is for `make chaos`")
def test_nothing_is_lost_and_nothing_doubled_though_executors_are_killed() -> None:
    kills = KILLS // 5

    [found] = chaos([FLOWS / "kept.yaml"], Asked(kills=kills, seconds=0, faults=("executor",), workers=2), print)

    print("\n".join(told([found])))
    assert found.good, found.as_dict()
    assert found.faults == {"executor": kills}
    assert found.fed == found.read > 0

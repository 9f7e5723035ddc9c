"""Three flows side by side under faults: nothing lost, nothing twice. `make chaos` does the same with fifty each."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headrace.cli.chaos import told
from headrace.testing.chaos.run import Asked, chaos

FLOWS = Path(__file__).parent / "flows"
KILLS = int(os.environ.get("HEADRACE_CHAOS_KILLS", "5"))


@pytest.mark.timeout(900 + KILLS * 120)
def test_nothing_is_lost_and_nothing_doubled_whatever_dies(postgresql: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", postgresql)
    files = [FLOWS / f"{name}.yaml" for name in ("kept", "windows", "keyed")]

    found = chaos(files, Asked(kills=KILLS, seconds=0, seed=KILLS, database=postgresql), print)

    print("\n".join(told(found)))
    assert [o.as_dict() for o in found if not o.good] == []
    assert all(o.fed == o.read > 0 for o in found)
    assert all(sum(o.faults.values()) >= KILLS for o in found)
    assert all(len(o.recovery) == sum(o.faults.values()) for o in found)
    assert {kind for o in found for kind in o.faults} >= {"driver", "broker"}

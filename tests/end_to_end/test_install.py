"""What `pip install .` puts there is enough: the commands work from the wheel alone, not from this checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_wheel_has_everything_the_commands_need(tmp_path: Path) -> None:
    building = [sys.executable, "-m", "pip", "wheel", "-q", "--disable-pip-version-check", "--no-deps"]
    subprocess.run(
        [*building, "--no-build-isolation", "-w", str(tmp_path), str(ROOT)],
        check=True,
        capture_output=True,
        timeout=300,
    )
    (wheel,) = tmp_path.glob("headrace-*.whl")
    installed = tmp_path / "installed"
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(installed)

    def python(*arguments: str) -> str:
        # Put before the environment's own, which is this checkout; everything else it needs is there.
        environment = {**os.environ, "PYTHONPATH": str(installed)}
        done = subprocess.run(
            [sys.executable, *arguments], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    def headrace(*arguments: str) -> str:
        return python("-m", "headrace", *arguments)

    assert str(installed) in python("-c", "import headrace; print(headrace.__file__)")
    headrace("new", "shop")
    assert "no problems" in headrace("check", "shop/flows")
    assert "exactly-once" in headrace("explain", "shop/flows/revenue.yaml")
    assert "topic" in headrace("describe", "source", "kafka")
    # The jars are pinned in files of the package, and our own one is in it.
    python("-m", "headrace.log.jars")
    assert (installed / "headrace" / "run" / "java" / "headrace.jar").is_file()

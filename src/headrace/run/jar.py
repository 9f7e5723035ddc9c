"""The jar of our own Java classes, for the driver's class path; `python -m tools.jar` builds it from the sources."""

from __future__ import annotations

from pathlib import Path

SOURCES = Path(__file__).with_name("java")
JAR = SOURCES / "headrace.jar"

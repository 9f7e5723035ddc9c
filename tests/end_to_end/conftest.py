"""A folder of its own for each test, in which `headrace` is run as real processes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.commands import Place, place_of_work

WITHIN = 600
"""Seconds for one test: several starts of Spark, on a machine that does other things too."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.timeout(WITHIN))


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """Where a test works; two cores are what it may use."""
    with place_of_work(tmp_path / "work", {"HEADRACE_SPARK_MASTER": "local[2]"}) as place:
        yield place

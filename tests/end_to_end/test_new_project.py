"""The first hour: `headrace new`, then what the project's README says."""

from __future__ import annotations

import json
import re
import sqlite3
from contextlib import closing
from datetime import datetime
from decimal import Decimal
from pathlib import Path

import pytest

from headrace.connectors.generators import make
from tests.commands import Place
from tests.waiting import eventually


def expected() -> dict[tuple[str, str], tuple[int, Decimal]]:
    """Orders and revenue of each window and category, worked out over the same records in plain Python."""
    found: dict[tuple[str, str], tuple[int, Decimal]] = {}
    for index in range(3000):
        order = make("orders").record(0, index, rate=50.0)
        at: datetime = order["at"]
        window = at.replace(second=at.second // 10 * 10, microsecond=0)
        key = (f"{window:%Y-%m-%dT%H:%M:%S}", order["category"])
        orders, revenue = found.get(key, (0, Decimal(0)))
        found[key] = (orders + 1, revenue + order["amount"])
    return found


def revenue(folder: Path) -> dict[tuple[str, str], tuple[int, Decimal]]:
    with closing(sqlite3.connect(folder / "revenue.db")) as database:
        rows = database.execute("SELECT window_start, category, orders, revenue FROM revenue").fetchall()
    found = {
        (row[0].replace(" ", "T")[:19], row[1]): (row[2], Decimal(str(row[3])).quantize(Decimal("0.01")))
        for row in rows
    }
    assert len(found) == len(rows)
    return found


@pytest.mark.slow
def test_a_new_project_does_what_its_readme_says(place: Place) -> None:
    said = place.run("new", "shop")
    assert said.out.strip() == "cd shop && headrace test && headrace run flows/revenue.yaml --until-done"
    assert place.run("new", "shop", code=2).err.startswith("shop is not empty")
    shop = place.root / "shop"
    readme = (shop / "README.md").read_text()
    assert "$ headrace run flows/revenue.yaml --until-done       # all 3,000 orders, then end" in readme
    assert "nothing has run here yet" in place.run("list", within="shop").err
    assert "table" in place.run("explain", "flows/revenue.yaml", within="shop").out
    place.run("check", "flows", within="shop")

    said = place.run("run", "flows/revenue.yaml", "--until-done", within="shop")

    assert revenue(shop) == expected()
    assert f"finished · in 3,000 · out {len(expected())}" in said.err
    assert "books" in said.out, "the console sink's rows are answers"
    assert not re.search(r"WARN|INFO|java[.]|Exception", said.out + said.err)

    (run,) = json.loads(place.run("list", "--json", within="shop").out)
    assert (run["name"], run["status"], run["progress"]["in"]) == ("revenue", "finished", 3000)
    assert re.search(r"revenue +finished .* 3,000 ", place.run("list", within="shop").out)
    status = place.run("status", "revenue", within="shop").out
    assert re.search(r"status +finished since", status)
    assert re.search(r"progress +in 3,000, out ", status)
    assert re.search(r"ledger orders +read 3,000, emitted 3,000", status)
    assert (
        place.run("logs", "revenue", "--events", within="shop").out.splitlines()[-1].startswith('{"event":"finished"')
    )
    assert place.run("logs", "revenue", "-n", "1", within="shop").out.count("\n") == 1
    assert 'there is no run "revenu"' in place.run("status", "revenu", within="shop", code=2).err

    refused = place.run("run", "flows/revenue.yaml", within="shop", code=2)
    assert "--fresh" in refused.err

    said = place.run("run", "flows/revenue.yaml", "--fresh", "--mode", "batch", within="shop")
    assert "the old home is now" in said.err
    assert revenue(shop) == expected(), "the batch answer is the same, and replaces the rows"
    assert "finished" in said.err
    eventually(lambda: not place.processes(), 20, diagnose=lambda: "\n".join(place.processes()))

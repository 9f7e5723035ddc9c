"""The commands about the log, as a user types them, against a real Kafka."""

from __future__ import annotations

import json
import os
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from headrace.cli.log import COMMANDS
from headrace.errors import DataError

_numbers = count()


class Shell:
    """Runs commands against one broker."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def __call__(self, *words: str, given: str | bytes | None = None) -> str:
        command = next(c for c in COMMANDS if c.name == words[0])
        arguments = [*words[1:], "--bootstrap", self.bootstrap]
        result = CliRunner().invoke(command, arguments, input=given, catch_exceptions=False)
        assert result.exit_code == 0, result.output
        return result.stdout

    def json(self, *words: str, given: str | bytes | None = None) -> Any:
        return json.loads(self(*words, "--json", given=given))


@pytest.fixture
def shell(broker: str) -> Shell:
    return Shell(broker)


@pytest.fixture
def topic(shell: Shell) -> str:
    name = f"typed-{os.getpid()}-{next(_numbers)}"
    shell("topic", "create", name, "--partitions", "2", "--retention", "7 days")
    return name


def test_topics_by_hand(shell: Shell, topic: str) -> None:
    assert shell.json("topic", "describe", topic)["settings"]["retention.ms"] == "604800000"
    changed = shell.json(
        "topic", "alter", topic, "--partitions", "3", "--retention", "forever", "--set", "segment.ms=60000"
    )
    assert len(changed["partitions"]) == 3
    assert (changed["settings"]["retention.ms"], changed["settings"]["segment.ms"]) == ("-1", "60000")
    assert [t["partitions"] for t in shell.json("topic", "list") if t["name"] == topic] == [3]
    assert shell("topic", "list").splitlines()[0].split() == ["topic", "partitions", "copies", "records"]
    assert shell.json("topic", "delete", topic, "--yes") == {"deleted": [topic]}


def test_a_csv_file_becomes_json_records_by_key(shell: Shell, topic: str, tmp_path: Path) -> None:
    file = tmp_path / "orders.csv"
    file.write_text("user,amount\nann,3\nbob,4\nann,5\n", encoding="utf-8")
    assert shell.json("produce", topic, str(file), "--key-column", "user")["records"] == 3
    lines = [json.loads(line) for line in shell("consume", topic, "--until-end", "--json").splitlines()]
    assert sorted((r["key"], r["value"]["amount"]) for r in lines) == [("ann", "3"), ("ann", "5"), ("bob", "4")]
    assert len({r["partition"] for r in lines if r["key"] == "ann"}) == 1


def test_lines_come_back_as_they_were_typed(shell: Shell, topic: str) -> None:
    shell("produce", topic, "--key", "same", given="one\ntwo\nthree\n")
    assert shell("consume", topic, "--until-end") == "one\ntwo\nthree\n"
    assert shell("consume", topic, "--until-end", "--max", "2") == "one\ntwo\n"
    assert shell("consume", topic, "--until-end", "--format", "json") == '"one"\n"two"\n"three"\n'


def test_a_bad_line_is_told_and_what_came_before_it_is_written(shell: Shell, topic: str) -> None:
    with pytest.raises(DataError, match="stdin:2: the line is not JSON"):
        shell("produce", topic, "--format", "json", given='{"a":1}\nnonsense\n{"a":2}\n')
    assert shell("consume", topic, "--until-end") == '{"a":1}\n'


def test_a_group_by_hand(shell: Shell, topic: str) -> None:
    group = f"{topic}-g"
    shell("produce", topic, "--round-robin", given="1\n2\n3\n4\n")
    assert sorted(shell("consume", topic, "--group", group, "--until-end").split()) == ["1", "2", "3", "4"]
    assert {"name": group, "state": "empty"} in shell.json("group", "list")
    assert shell.json("group", "describe", group)["lag"] == 0
    moved = shell.json("group", "reset", group, "--topic", topic, "--to", "beginning")
    assert [m["after"] for m in moved["moves"]] == [0, 0]
    assert shell.json("group", "describe", group)["lag"] == 4
    assert "lag 4" in shell("group", "describe", group)


def test_a_compacted_topic_asks_for_keys(shell: Shell, topic: str) -> None:
    from headrace.errors import UsageError

    shell("topic", "alter", topic, "--compact")
    with pytest.raises(UsageError) as caught:
        shell("produce", topic, given="no key\n")
    assert "--key-column" in caught.value.hint
    assert shell.json("produce", topic, "--key-separator", "=", "--null", "NULL", given="a=1\na=NULL\n")["records"] == 2
    last = json.loads(shell("consume", topic, "--until-end", "--json").splitlines()[-1])
    assert (last["key"], last["value"]) == ("a", None)

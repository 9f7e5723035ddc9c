"""The commands about the log: their help, and what they load."""

from __future__ import annotations

import subprocess
import sys

import pytest
from click.testing import CliRunner

from headrace.cli.log import COMMANDS
from headrace.errors import HeadraceError


def test_loading_the_commands_loads_no_client() -> None:
    heavy = "('confluent_kafka', 'pyspark', 'rich', 'pydantic')"
    code = f"import sys, headrace.cli.log; print([m for m in {heavy} if m in sys.modules])"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said.strip() == "[]"


@pytest.mark.parametrize(
    ("arguments", "code", "what"),
    [
        ("topic create t --bootstrap x:1 --retention 5x", 2, "not a length of time"),
        ("topic create t --bootstrap x:1 --set retention", 2, "not a setting with its value"),
        ("topic alter t --bootstrap x:1", 2, "nothing to change"),
        ("group reset g --topic t --to whenever --bootstrap x:1", 2, "not a place in a topic"),
        ("produce t nowhere.csv --bootstrap x:1", 2, "cannot be read"),
        ("produce t --key a --key-separator : --bootstrap x:1", 2, "one key"),
        ("topic list", 3, "no Kafka is known"),
        ("broker start --brokers 77", 2, "not to be had"),
    ],
)
def test_misuse_is_told_before_anything_is_touched(
    arguments: str, code: int, what: str, tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(str(tmp_path))
    monkeypatch.delenv("HEADRACE_KAFKA_BOOTSTRAP", raising=False)
    monkeypatch.delenv("HEADRACE_HOME", raising=False)
    words = arguments.split()
    command = next(c for c in COMMANDS if c.name == words[0])
    result = CliRunner().invoke(command, words[1:])
    if isinstance(result.exception, HeadraceError):
        assert (result.exception.exit_code, what in str(result.exception)) == (code, True)
    else:
        assert (result.exit_code, what in result.output) == (code, True)


def test_status_and_stop_of_what_never_ran(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(str(tmp_path))
    monkeypatch.delenv("HEADRACE_HOME", raising=False)
    broker = next(c for c in COMMANDS if c.name == "broker")
    assert "never started here" in CliRunner().invoke(broker, ["status"]).output
    assert "did not run" in CliRunner().invoke(broker, ["stop"]).output

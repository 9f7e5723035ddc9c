"""The prompt of `headrace sql`: what is typed is kept, told and saved; on a terminal, with history and completion."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from headrace.cli.sql import _script, sql
from headrace.declare.load import declare
from headrace.errors import FlowError, UsageError
from headrace.run.workbench import limited, statements_in

STREAM = "CREATE STREAM orders WITH (connector = 'generator', kind = 'orders', limit = 10)"
VIEW = "CREATE VIEW large AS SELECT id, amount FROM orders WHERE amount > 100"


def said(*commands: str, code: int = 0) -> str:
    arguments = [word for command in commands for word in ("-c", command)]
    result = CliRunner().invoke(sql, arguments, catch_exceptions=False)
    assert result.exit_code == code
    return result.stdout


def test_streams_and_columns_are_told() -> None:
    told = said(STREAM, VIEW, "SHOW STREAMS", "DESCRIBE large")
    assert [line.split() for line in told.splitlines()] == [
        ["name", "kind"],
        ["orders", "source", "generator"],
        ["large_where", "step", "filter"],
        ["large", "step", "select"],
        ["column", "type"],
        ["id", "bigint"],
        ["amount", "decimal(12,2)"],
    ]


def test_what_was_typed_is_saved_as_a_flow(tmp_path: Path) -> None:
    file = tmp_path / "typed.sql"
    said(STREAM, VIEW, "CREATE SINK s WITH (connector = 'console')", "INSERT INTO s FROM large", f".save {file}")
    assert [part.name for part in declare(file).flow] == ["orders", "large_where", "large", "s"]
    assert said(f".open {file}", ".show") == file.read_text()
    assert said(f".open {file}", ".check") == ""


def test_a_definition_that_is_wrong_is_refused_and_not_kept() -> None:
    with pytest.raises(FlowError) as raised:
        said(STREAM, "CREATE VIEW v AS SELECT nope FROM orders")
    assert [p.code for p in raised.value.problems] == ["unknown-column"]
    with pytest.raises(UsageError):
        said("DESCRIBE nothing")
    with pytest.raises(UsageError):
        said(".nothing")


def test_a_query_that_is_wrong_is_told_at_its_own_place() -> None:
    with pytest.raises(FlowError) as raised:
        said(STREAM, "SELECT id,\n  nope FROM orders LIMIT 3")
    assert [(p.code, p.location.line, p.location.column) for p in raised.value.problems] == [("unknown-column", 2, 3)]


def test_a_limit_at_the_end_is_the_prompts_and_one_by_key_the_querys() -> None:
    assert limited("SELECT * FROM a LIMIT 3;") == ("SELECT * FROM a", 3)
    assert limited("SELECT * FROM a LIMIT 3 BY user") == ("SELECT * FROM a LIMIT 3 BY user", None)
    assert limited("SELECT * FROM a") == ("SELECT * FROM a", None)


def test_a_script_is_cut_into_commands() -> None:
    assert list(_script(".open x.sql\nSELECT 1\nFROM a;\n.quit\nSELECT 2")) == [
        ".open x.sql",
        "SELECT 1\nFROM a;\n",
        ".quit",
        "SELECT 2",
    ]
    assert statements_in("a; -- x; y\n b ';' ; ; c") == ["a", "-- x; y\n b ';'", "c"]


class Terminal:
    """`headrace sql` on a terminal of its own."""

    def __init__(self, folder: Path) -> None:
        self.master, slave = pty.openpty()
        environment = {**os.environ, "TERM": "dumb", "HEADRACE_HOME": str(folder / "home")}
        command = [sys.executable, "-m", "headrace.cli.main", "sql"]
        self.process = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, cwd=folder, env=environment)
        os.close(slave)
        self.heard = ""

    def until(self, text: str, seconds: float = 60) -> None:
        deadline = time.monotonic() + seconds
        while text not in self.heard:
            assert time.monotonic() < deadline, self.heard
            if select.select([self.master], [], [], 0.2)[0]:
                self.heard += os.read(self.master, 4096).decode(errors="replace")

    def type(self, text: str) -> None:
        self.heard = ""
        os.write(self.master, text.encode())


@pytest.mark.timeout(180)
def test_on_a_terminal_lines_go_on_words_are_completed_and_history_is_kept(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    try:
        terminal.until("headrace> ")
        terminal.type(STREAM.replace(" WITH", "\nWITH") + ";\n")
        terminal.until("ok")
        terminal.until("headrace> ")
        terminal.type("DESCRIBE ord\t;\n")
        terminal.until("customer")
        terminal.until("headrace> ")
        terminal.type("CREATE VIEW v AS SELECT nope FROM orders;\n")
        terminal.until("unknown-column")
        terminal.until("headrace> ")
        terminal.type("\x04")
        assert terminal.process.wait(60) == 0
    finally:
        terminal.process.kill()
        terminal.process.wait()
        os.close(terminal.master)
    assert "DESCRIBE orders" in (tmp_path / "home" / "sql_history").read_text()

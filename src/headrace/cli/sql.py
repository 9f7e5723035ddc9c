"""sql: a prompt for streams; the same commands from `-c` or a script."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headrace.errors import FlowError, HeadraceError, UsageError

if TYPE_CHECKING:
    from headrace.run.workbench import Workbench

_HELP = """\
CREATE …, SET …, INSERT …   kept as part of the flow being typed
SELECT … [LIMIT n]          the rows of a stream as they come, until n or Ctrl-C
SHOW STREAMS                what there is;  DESCRIBE name  its columns
.sample TOPIC [n]           records of a topic as they are
.show  .check               what was typed, as a file;  what is still wrong with it
.open FILE  .save FILE      read definitions from a file;  write them to one
.run FILE                   save, and start it as a flow in the background
.quit                       or Ctrl-D"""


@click.command()
@click.option("-c", "--command", "commands", multiple=True, help="Do this and end; may be given several times.")
@click.option("--file", type=click.Path(path_type=Path), help="Definitions to begin with, a .sql flow.")
@click.option("--until-done", is_flag=True, help="Queries take all there is now, close the last windows, and end.")
@click.option("--bootstrap", metavar="HOST:PORT", help="The Kafka to use; the project's unless told.")
@click.option("--json", "as_json", is_flag=True, help="Rows as JSON, one a line.")
def sql(commands: tuple[str, ...], file: Path | None, until_done: bool, bootstrap: str | None, as_json: bool) -> None:
    """Ask streams in SQL, at a prompt or from a script.

    Without -c it reads standard input: a prompt with history and completion on a terminal, else a script.

    \b
    Examples:
      headrace sql --file flows/orders.sql
      headrace sql -c "CREATE STREAM t WITH (connector = 'rate')" -c "SELECT * FROM t LIMIT 3"
    """
    shell = Shell(_workbench(bootstrap), bootstrap=bootstrap, until_done=until_done, as_json=as_json)
    if file is not None:
        shell.open(str(file))
    if commands:
        for command in commands:
            shell.obey(command)
        return
    if sys.stdin.isatty():
        _prompt(shell)
        return
    for command in _script(sys.stdin.read()):
        shell.obey(command)


def _workbench(bootstrap: str | None) -> Workbench:
    from functools import cache

    from headrace.run.workbench import Workbench

    @cache
    def session() -> Any:
        from headrace.run.inline import local_session

        click.echo("starting Spark …", err=True)
        return local_session()

    def kafka() -> dict[str, str]:
        from headrace.cli.answers import client_of

        try:
            return dict(client_of(bootstrap))
        except HeadraceError:  # a query that reads no topic needs none; one that does says so itself
            return {}

    return Workbench(session=session, kafka=kafka)


def _script(text: str) -> Iterator[str]:
    """The commands of a script: lines that begin with a dot, and statements."""
    waiting = ""
    for line in text.splitlines(keepends=True):
        if not waiting.strip() and line.startswith("."):
            yield line.strip()
            continue
        waiting += line
        if line.rstrip().endswith(";"):
            yield waiting
            waiting = ""
    if waiting.strip():
        yield waiting


class Shell:
    """Obeys one command after the other, and prints the answers."""

    def __init__(self, bench: Workbench, *, bootstrap: str | None, until_done: bool, as_json: bool) -> None:
        self.bench, self.bootstrap, self.until_done, self.as_json = bench, bootstrap, until_done, as_json
        self.dots: dict[str, Callable[[str], None]] = {
            ".help": lambda _: click.echo(_HELP),
            ".show": lambda _: click.echo(self.bench.text, nl=False),
            ".check": self.check,
            ".open": self.open,
            ".save": self.save,
            ".run": self.run,
            ".sample": self.sample,
            ".streams": self.streams,
        }

    def obey(self, command: str) -> None:
        """One command, or several statements with semicolons between them."""
        from headrace.run.workbench import statements_in

        if command.lstrip().startswith("."):
            word, _, rest = command.strip().partition(" ")
            if word not in self.dots:
                from headrace.errors import nearest

                raise UsageError(f'there is no command "{word}"', hint=nearest(word, self.dots))
            self.dots[word](rest.strip())
            return
        for statement in statements_in(command):
            words = statement.rstrip(";").split()
            first = words[0].lower()
            if first in ("select", "with", "from", "transform", "("):
                self.ask(statement)
            elif first == "show":
                self.streams("")
            elif first in ("describe", "desc") and len(words) > 1:
                self.describe(words[-1].strip("`"))
            else:
                self.bench.define(statement)
                click.echo("ok", err=True)

    def ask(self, query: str) -> None:
        import threading

        stop = threading.Event()
        names: list[str] = []
        count = 0
        try:
            for rows in self.bench.ask(query, until_done=self.until_done, stop=stop):
                names = names or list(rows[0])
                count += len(rows)
                self.rows(names, rows)
        except KeyboardInterrupt:
            stop.set()
        click.echo(f"{count} row{'' if count == 1 else 's'}", err=True)

    def rows(self, names: list[str], rows: list[dict[str, Any]]) -> None:
        from headrace.connectors.console import plain, table

        if self.as_json:
            for row in rows:
                click.echo(json.dumps({name: plain(row[name]) for name in names}, ensure_ascii=False))
        else:
            click.echo("\n".join(table(names, ([row[n] for n in names] for row in rows))))

    def describe(self, name: str) -> None:
        from headrace.cli.answers import table

        schema = self.bench.describe(name)
        if self.as_json:
            click.echo(json.dumps([{"column": f.name, "type": str(f.type)} for f in schema]))
            return
        rows = [(f.name, str(f.type), "event time" if f.name == schema.event_time else "") for f in schema]
        click.echo(table(("column", "type", ""), rows))

    def streams(self, _: str) -> None:
        from headrace.cli.answers import table
        from headrace.model import Step

        parts = [
            (p.name, type(p).__name__.lower(), p.operator if isinstance(p, Step) else p.connector)
            for p in self.bench.flow
        ]
        if self.as_json:
            click.echo(json.dumps([{"name": n, "kind": k, "what": w} for n, k, w in parts]))
        else:
            click.echo(table(("name", "kind", ""), parts))

    def check(self, _: str) -> None:
        problems = self.bench.report().problems
        for problem in problems:
            click.echo(str(problem))
        click.echo(f"{len(problems) or 'no'} problem{'' if len(problems) == 1 else 's'}", err=True)

    def open(self, file: str) -> None:
        from headrace.run.workbench import statements_in

        try:
            text = Path(file).read_text(encoding="utf-8-sig")
        except OSError as error:
            raise UsageError(f'the file "{file}" cannot be read: {error.strerror}') from None
        for statement in statements_in(text):
            self.bench.define(statement)

    def save(self, file: str) -> None:
        if not file.endswith(".sql"):
            raise UsageError("what was typed is saved as SQL", hint="name a file that ends in .sql")
        Path(file).write_text(self.bench.text, encoding="utf-8")
        click.echo(f"wrote {file}", err=True)

    def run(self, file: str) -> None:
        import subprocess

        problems = self.bench.report().errors
        if problems:
            raise FlowError(*problems)
        self.save(file)
        command = [sys.executable, "-m", "headrace", "run", file, "--detach"]
        command += ["--bootstrap", self.bootstrap] if self.bootstrap else []
        done = subprocess.run(command, check=False)
        if done.returncode:
            raise UsageError(f"{file} was not started", hint="the reason is above")

    def sample(self, said: str) -> None:
        from headrace.cli.answers import client_of
        from headrace.log.consume import consume

        topic, _, count = said.partition(" ")
        if not topic or (count and not count.isdigit()):
            raise UsageError("a sample is of a topic", hint=".sample orders 5")
        for record in consume(client_of(self.bootstrap), topic, maximum=int(count or 5), until_end=True):
            value = record.value.decode("utf-8", errors="replace") if record.value is not None else "∅"
            click.echo(f"{record.partition}:{record.offset}  {value}")

    def words(self) -> list[str]:
        """What can be completed: commands, keywords, streams, their columns, functions."""
        from headrace.expressions.functions import functions

        schemas = self.bench.columns()
        columns = {name for schema in schemas.values() for name in schema.names}
        return sorted({*self.dots, *_KEYWORDS, *(p.name for p in self.bench.flow), *schemas, *columns, *functions()})


_KEYWORDS = (
    "SELECT FROM WHERE GROUP BY HAVING LIMIT JOIN LEFT ON USING WITHIN CREATE STREAM TABLE VIEW SINK FUNCTION INSERT "
    "INTO AS WITH EMIT FINAL CHANGES EVERY LATE DEAD LETTERS TO SHOW STREAMS DESCRIBE TRANSFORM UNION ALL DISTINCT "
    "EVENT TIME WATERMARK connector format topic tumble hop session slide count_window explode .quit"
).split()


def _prompt(shell: Shell) -> None:
    """Reads commands from a terminal: lines are put together until a semicolon; Ctrl-C forgets them, Ctrl-D ends."""
    _line_editing(shell)
    click.echo(".help tells what can be said; statements end with a semicolon", err=True)
    waiting = ""
    while True:
        try:
            line = input("     ...> " if waiting else "headrace> ")
        except EOFError:
            click.echo(err=True)
            return
        except KeyboardInterrupt:
            click.echo(err=True)
            waiting = ""
            continue
        if not waiting and line.strip(" ;") in (".quit", ".exit", "quit", "exit"):
            return
        if not waiting and line.strip(" ;").lower() in ("help", "?"):
            line = ".help"
        waiting = f"{waiting}\n{line}" if waiting else line
        if not waiting.strip() or not (waiting.lstrip().startswith(".") or waiting.rstrip().endswith(";")):
            waiting = waiting if waiting.strip() else ""
            continue
        try:
            shell.obey(waiting)
        except HeadraceError as error:
            click.echo(str(error), err=True)
        except KeyboardInterrupt:
            click.echo(err=True)
        except Exception as error:  # noqa: BLE001 - whatever Spark raises ends the query, not the prompt
            from headrace.run.failure import explain

            click.echo(str(explain(error).error()), err=True)
        waiting = ""


def _line_editing(shell: Shell) -> None:
    """History that outlives the prompt, and completion by tab; as far as Python was built with it."""
    try:
        import readline
    except ImportError:
        return
    import atexit

    from headrace.project import Project

    history = Project.find().make_home() / "sql_history"
    if history.exists():
        readline.read_history_file(history)
    readline.set_history_length(1000)
    atexit.register(readline.write_history_file, history)
    found: list[str] = []

    def complete(text: str, state: int) -> str | None:
        if state == 0:
            found[:] = [word for word in shell.words() if word.lower().startswith(text.lower())] if text else []
        return found[state] if state < len(found) else None

    readline.set_completer(complete)
    readline.set_completer_delims(" \t\n,;()[]{}=<>+-*/'\"`")
    readline.parse_and_bind("tab: complete")


COMMANDS = [sql]

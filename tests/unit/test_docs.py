"""What is written for readers holds: flows, Python, examples of parts, commands and their help."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from textwrap import indent
from typing import Any

import click
import pytest

from headrace.check import check
from headrace.cli.main import COMMANDS, SUMMARIES, headrace
from headrace.declare import flowfile
from headrace.declare.load import declare
from headrace.declare.resolve import resolve
from headrace.errors import Problem
from headrace.reference import KINDS

ROOT = Path(__file__).resolve().parents[2]
GUIDES = [ROOT / "README.md", ROOT / "docs" / "guide.md"]
PAGES = [
    ROOT / "README.md",
    *sorted(ROOT.glob("docs/*.md")),
    *sorted(ROOT.glob("examples/*/README.md")),
    *sorted(ROOT.glob("src/headrace/templates/*/README.md")),
    ROOT / "CONTRIBUTING.md",
]


def blocks(page: Path, language: str) -> Iterator[tuple[int, str]]:
    """The fenced blocks in a language, each with its line."""
    text = page.read_text(encoding="utf-8")
    for found in re.finditer(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        yield text.count("\n", 0, found.start()) + 2, found[1]


def named(items: list[tuple[Path, int, str]]) -> list[Any]:
    return [pytest.param(text, id=f"{page.relative_to(ROOT)}:{line}") for page, line, text in items]


def problems_of(text: str) -> list[Problem]:
    return [p for p in check(resolve(flowfile.read(text, "flow.yaml"))).problems if not p.warning]


FLOWS = [(page, line, text) for page in GUIDES for line, text in blocks(page, "yaml") if text.startswith("flow:")]
PROGRAMS = [(page, line, text) for page in GUIDES for line, text in blocks(page, "python")]


def test_both_guides_show_flows() -> None:
    assert {page.name for page, _, _ in FLOWS} == {page.name for page, _, _ in PROGRAMS} == {"README.md", "guide.md"}


@pytest.mark.parametrize("text", named(FLOWS))
def test_a_flow_that_is_shown_has_no_problems(text: str) -> None:
    assert problems_of(text) == []


@pytest.mark.parametrize("text", named([(page, line, text) for page in GUIDES for line, text in blocks(page, "sql")]))
def test_sql_that_is_shown_has_no_problems_and_is_laid_out(text: str) -> None:
    from headrace.declare.sql.read import read
    from headrace.declare.sql.write import tidy

    assert [p for p in check(resolve(read(text, "shown.sql"))).problems if not p.warning] == []
    assert tidy(text) == text


@pytest.mark.parametrize("text", named(PROGRAMS))
def test_a_program_that_is_shown_makes_a_flow_without_problems(text: str, tmp_path: Path) -> None:
    file = tmp_path / "shown.py"
    file.write_text(text, encoding="utf-8")

    report = check(declare(file))

    assert [p for p in report.problems if not p.warning] == []
    assert report.flow.sinks


def test_the_two_forms_in_the_readme_are_the_same_flow(tmp_path: Path) -> None:
    (_, _, text), *_ = [f for f in FLOWS if f[0].name == "README.md"]
    (_, _, program), *_ = [p for p in PROGRAMS if p[0].name == "README.md"]
    (tmp_path / "shown.py").write_text(program, encoding="utf-8")
    (tmp_path / "shown.yaml").write_text(text, encoding="utf-8")

    assert declare(tmp_path / "shown.py").flow == declare(tmp_path / "shown.yaml").flow


def test_the_case_that_is_shown_fits_the_flow_that_is_shown(tmp_path: Path) -> None:
    from headrace.testing.cases import read_cases

    cases = next(text for _, text in blocks(ROOT / "docs" / "guide.md", "yaml") if text.startswith("cases:"))
    flow = next(text for page, _, text in FLOWS if "flow: large-orders" in text)
    (tmp_path / "orders.yaml").write_text(flow, encoding="utf-8")
    (tmp_path / "orders.cases.yaml").write_text(cases, encoding="utf-8")

    assert read_cases(tmp_path / "orders.cases.yaml", declare(tmp_path / "orders.yaml").flow)


COLUMNS = (
    "id BIGINT, user STRING, utilisateur STRING, address STRING, day DATE, price DECIMAL(10,2), quantity INT, "
    "amount DECIMAL(12,2), tag STRING, hashtags ARRAY<STRING>, text STRING, value STRING, at TIMESTAMP, "
    "order_id BIGINT, product_id BIGINT, symbol STRING"
)
"""What the inputs of examples have, all of them; an example that reads anything else is told that it does not exist."""
WITHOUT = {"rename": "user"}
"""An example that makes a column must not be given it."""


def example_around(kind: str, name: str) -> str:
    """The flow file that an example stands in: what it reads from before it, what reads from it behind it."""
    example: str = KINDS[kind][name].example
    entry = example.partition(":")[0]
    if kind == "source" and KINDS[kind][name].only_table:
        stream = f"  rows:\n    values: [{{id: 1}}, {{id: 7}}]\n    schema: id BIGINT\n{indent(example, '  ')}\n"
        joined = f"  joined:\n    from: [rows, {entry}]\n    join: {{on: id}}\n"
        return f"flow: x\nsources:\n{stream}steps:\n{joined}sinks:\n  end:\n    from: joined\n    console: {{}}\n"
    if kind == "source":
        return f"flow: x\nsources:\n{indent(example, '  ')}\nsinks:\n  end:\n    from: {entry}\n    console: {{}}\n"
    if kind == "format":
        columns = "" if name in ("raw", "text") else "    schema: id BIGINT, amount DOUBLE\n"
        start = "kafka: {topic: data}" if name == "raw" else "files: {path: data}"
        source = f"  start:\n    {start}\n{indent(example, '    ')}\n{columns}"
        return f"flow: x\nsources:\n{source}sinks:\n  end:\n    from: start\n    console: {{}}\n"
    inputs = re.findall(r"\w+", re.search(r"from: (.*)", example)[1])  # type: ignore[index]
    columns = ", ".join(c for c in COLUMNS.split(", ") if c.split()[0] != WITHOUT.get(name))
    sources = "".join(
        f"  {i}:\n    files: {{path: data}}\n    format: json\n    schema: {columns}\n"
        "    time: {column: at, watermark: 10 seconds}\n"
        for i in inputs
    )
    if kind == "sink":
        return f"flow: x\nsources:\n{sources}sinks:\n{indent(example, '  ')}\n"
    ports = ("large", "small", "otherwise") if name == "split" else ("",)
    ends = "".join(f"  end{p}:\n    from: {entry}{p and f'.{p}'}\n    console: {{}}\n" for p in ports)
    return f"flow: x\nsources:\n{sources}steps:\n{indent(example, '  ')}\nsinks:\n{ends}"


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, names in KINDS.items() for name in names])
def test_the_example_of_every_part_is_accepted_as_it_stands(kind: str, name: str) -> None:
    text = example_around(kind, name)

    assert problems_of(text) == [], text


def commands(
    group: click.Group = headrace, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield (*path, name), command
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))


ALL = dict(commands())


def find(words: list[str]) -> tuple[click.Command, list[str]]:
    """The command that words name, and the words behind it."""
    command: click.Command = headrace
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        inner = command.get_command(click.Context(command), words[0])
        assert inner is not None, f"there is no command {words[0]}"
        command, words = inner, words[1:]
    return command, words


def accept(line: str) -> None:
    """Takes a line as the command line would, without doing what it says; fails if it would be refused."""
    command, rest = find(shlex.split(line, comments=True)[1:])
    command.make_context(command.name, rest)


def recognise(mention: str) -> None:
    """A command named in running text, perhaps in several forms (`a|b`) and with less than it takes."""
    first, *others = mention.replace("\\|", "|").partition(" ")[2].split("|")
    command, rest = find([word.rstrip("…") for word in first.split()])
    own = {name for option in command.params for name in (*option.opts, *option.secondary_opts)} | {"-h", "--help"}
    asked = {name for word in rest if word.startswith("-") for name in word.split("=")[0].split("/")}
    assert asked <= own
    for other in others:
        find([*first.split()[:-1], other])


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_help_opens_with_one_sentence_and_ends_with_two_examples_that_are_accepted(path: tuple[str, ...]) -> None:
    text = ALL[path].get_help(click.Context(ALL[path], info_name=path[-1]))
    assert text.count("Examples:") == 1
    body, _, examples = text.partition("Examples:")
    lines = [line.strip() for line in examples.strip().splitlines()]

    first = body.split("\n\n")[1].strip()
    assert re.fullmatch(r"[A-Z][^.]*\.", first), first
    assert len(lines) == 2
    for line in lines:
        assert f"headrace {' '.join(path)}" in line
        accept(line[line.index("headrace") :])


def test_the_list_of_commands_says_what_each_says_of_itself() -> None:
    own = {name: (ALL[name,].help or "").strip().split("\n")[0] for name in COMMANDS}

    assert own == SUMMARIES


def typed(page: Path) -> Iterator[tuple[Path, int, str]]:
    """The command lines behind a prompt."""
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        if line.startswith("$ "):
            yield from ((page, number, part.strip()) for part in line[2:].split("&&") if "headrace " in part)


def mentioned(page: Path) -> Iterator[tuple[Path, int, str]]:
    """The commands named in running text."""
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        yield from ((page, number, found) for found in re.findall(r"`(headrace [^`]+)`", line))


@pytest.mark.parametrize("line", named([found for page in PAGES for found in typed(page)]))
def test_a_command_line_that_is_shown_is_accepted(line: str) -> None:
    accept(line[line.index("headrace ") :])


@pytest.mark.parametrize("mention", named([found for page in PAGES for found in mentioned(page)]))
def test_a_command_that_is_named_exists_with_the_options_it_is_named_with(mention: str) -> None:
    recognise(mention)

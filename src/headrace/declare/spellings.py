"""The example of a part in every form, made from the one that is written."""

from __future__ import annotations

from textwrap import indent

from headrace.declare import flowfile
from headrace.declare.python import part as python_part
from headrace.declare.resolve import resolve
from headrace.declare.sql.write import statements, tidy
from headrace.model import Flow


def around(kind: str, example: str) -> tuple[Flow, str]:
    """The smallest flow with an example in it, and the example's name; `kind` is source, operator, sink or format."""
    if kind == "format":
        example = "orders:\n  kafka: {topic: orders}\n" + indent(example, "  ")
        kind = "source"
    entry = flowfile.plain_yaml(example, "example")[0]
    ((name, said),) = entry.items()
    inputs = said.get("from", [])
    feeding = sorted({str(i).partition(".")[0] for i in ([inputs] if isinstance(inputs, str) else inputs)})
    sources = "".join(f"  {source}: {{rate: {{}}}}\n" for source in feeding)
    indented = indent(example.strip("\n"), "  ") + "\n"
    below = {"source": "", "operator": f"steps:\n{indented}", "sink": f"sinks:\n{indented}"}[kind]
    text = "flow: example\nsources:\n" + (indented if kind == "source" else sources) + below
    declared = resolve(flowfile.read(text, "example"))
    assert not declared.problems, declared.problems
    return declared.flow, str(name)


def spellings(kind: str, example: str) -> dict[str, str]:
    """An example as a flow file, in Python and in SQL."""
    flow, name = around(kind, example)
    made = statements(flow)
    return {
        "yaml": example,
        "python": python_part(flow, name),
        "sql": tidy("\n".join([*made.functions, *made.parts[name]])).rstrip("\n"),
    }

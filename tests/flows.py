"""Every flow to try things on: examples, golden flows, one with each operator, one around each part's example."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from headrace.declare import flowfile
from headrace.declare.load import declare
from headrace.declare.resolve import resolve
from headrace.model import Flow
from headrace.reference import KINDS

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / "examples"


def files() -> list[Path]:
    """The flow files of examples, golden flows and the demo."""
    found = [f for f in EXAMPLES.glob("*/*.yaml") if not f.name.endswith(".cases.yaml")]
    return [
        *sorted(found),
        *sorted(ROOT.glob("tests/golden/flows/*/flow.yaml")),
        *ROOT.glob("src/headrace/demo/*.yaml"),
    ]


@cache
def all_flows() -> dict[str, Flow]:
    """All of them by name."""
    from tests.unit.test_docs import example_around
    from tests.unit.test_front_doors import EVERYTHING

    texts = {"everything": EVERYTHING}
    texts |= {f"{kind} {name}": example_around(kind, name) for kind, names in KINDS.items() for name in names}
    found = {str(f.relative_to(ROOT)): declare(f) for f in files()}
    found |= {name: resolve(flowfile.read(text, name)) for name, text in texts.items()}
    for name, declared in found.items():
        assert declared.problems == (), name
    return {name: declared.flow for name, declared in found.items()}

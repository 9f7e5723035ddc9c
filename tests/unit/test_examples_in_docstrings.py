"""Every example in a docstring is executed."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent


def modules_with_examples() -> list[str]:
    paths = [*sorted((ROOT / "src").rglob("*.py")), *sorted((ROOT / "tools").rglob("*.py"))]
    paths += sorted((ROOT / "bench").glob("*.py"))  # the rivals' jobs run in environments of their own
    names = {}
    for path in paths:
        base = ROOT / "src" if path.is_relative_to(ROOT / "src") else ROOT
        names[".".join(path.relative_to(base).with_suffix("").parts).removesuffix(".__init__")] = path
    return [name for name, path in names.items() if ">>> " in path.read_text(encoding="utf-8")]


@pytest.mark.parametrize("name", modules_with_examples())
def test_examples_of(name: str) -> None:
    module = importlib.import_module(name)

    names = getattr(module, "example_names", dict)()

    result = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS, extraglobs=names)

    assert result.attempted > 0
    assert result.failed == 0, "what differs is printed above"

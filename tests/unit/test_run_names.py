"""Names of Java are asked for once, by whomever."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from py4j.java_gateway import JavaClass, JavaPackage, JVMView
from py4j.protocol import Py4JError

from headrace.run import names


class Java:
    """Answers as py4j's side in Java does: two packages and a class."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.gateway_property = SimpleNamespace(pool=None)
        self.converters = None

    def send_command(self, command: str) -> str:
        name = command.splitlines()[2]
        self.asked.append(name)
        return {"java": "yp", "java.util": "yp", "java.util.List": "ycjava.util.List"}.get(name, "x")


def test_a_name_is_looked_up_once_and_one_that_is_not_there_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in (JVMView, JavaPackage):
        monkeypatch.setattr(kind, "__getattr__", getattr(kind.__getattr__, "__wrapped__", kind.__getattr__))
    names.remember()
    names.remember()
    java = Java()
    view = JVMView(java, "default", id="rj")

    for _ in range(3):
        assert isinstance(view.java.util.List, JavaClass)
        with pytest.raises(Py4JError):
            _ = view.jave
        with pytest.raises(AttributeError):
            _ = view.java.__wrapped__

    assert java.asked == ["java", "java.util", "java.util.List", "jave", "jave", "jave"]

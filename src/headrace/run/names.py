"""Java's names, looked up once.

PySpark writes `jvm.org.apache.spark.…`, and py4j asks Java at every dot, every time, whether that is a class. Where it
is not, as with each package, Java looks through all jars, once for each package that is imported.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def remember() -> None:
    """Makes py4j keep what a name has been found to be; to be called before Spark is started."""
    from py4j.java_gateway import JavaPackage, JVMView

    for kind in (JVMView, JavaPackage):
        if not hasattr(kind.__getattr__, "__wrapped__"):
            kind.__getattr__ = _once(kind.__getattr__)


def _once(ask: Callable[[Any, str], Any]) -> Callable[[Any, str], Any]:
    """Asks once; what is known of an object is found before this is asked."""

    def asked(self: Any, name: str) -> Any:
        found = ask(self, name)
        self.__dict__[name] = found
        return found

    asked.__wrapped__ = ask  # type: ignore[attr-defined]
    return asked

"""Headrace: streaming pipelines on Spark, every record accounted for.

from headrace import Flow, col, tumbling
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.author.aggregator import Aggregator
    from headrace.author.topology import Bolt, Spout, Store, Task
    from headrace.declare.api import Flow
    from headrace.declare.stream import Stream
    from headrace.declare.topology import Topology
    from headrace.expressions.columns import col, fn, lit, when
    from headrace.operators.windows import count, hopping, session, sliding, tumbling
    from headrace.processor import ListState, MapState, Processor, ValueState

__all__ = [
    "Aggregator",
    "Bolt",
    "Flow",
    "ListState",
    "MapState",
    "Processor",
    "Spout",
    "Store",
    "Stream",
    "Task",
    "Topology",
    "ValueState",
    "col",
    "count",
    "fn",
    "hopping",
    "lit",
    "session",
    "sliding",
    "tumbling",
    "when",
]

_HOMES = {
    "Aggregator": "headrace.author.aggregator",
    "Topology": "headrace.declare.topology",
    "Task": "headrace.author.topology",
    "Store": "headrace.author.topology",
    "Spout": "headrace.author.topology",
    "Bolt": "headrace.author.topology",
    "Flow": "headrace.declare.api",
    "ListState": "headrace.processor",
    "MapState": "headrace.processor",
    "Processor": "headrace.processor",
    "Stream": "headrace.declare.stream",
    "ValueState": "headrace.processor",
    "col": "headrace.expressions.columns",
    "count": "headrace.operators.windows",
    "fn": "headrace.expressions.columns",
    "hopping": "headrace.operators.windows",
    "lit": "headrace.expressions.columns",
    "session": "headrace.operators.windows",
    "sliding": "headrace.operators.windows",
    "tumbling": "headrace.operators.windows",
    "when": "headrace.expressions.columns",
}


def __getattr__(name: str) -> object:
    """Loads a public name when it is first used, so that `import headrace` costs nothing."""
    if name not in _HOMES:
        raise AttributeError(f"module 'headrace' has no attribute {name!r}")
    from importlib import import_module

    if name in ("Flow", "Topology"):
        import headrace.interactive  # noqa: F401 - so that a flow can be previewed and run where it is written

    return getattr(import_module(_HOMES[name]), name)

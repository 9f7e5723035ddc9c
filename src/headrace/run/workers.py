"""Spark's Python workers, quick to start: what they load is loaded once, in the process they are forked from.

Spark starts workers anew for each task of a step with Python state, and gives each ten seconds to connect. On its
own it loads its own modules, pandas and Arrow in every one of them, which is a second of processor time.
"""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module

MODULE = "spark.python.daemon.module"
"""Spark's setting for what workers are forked from."""
_LOADED = (
    "pyspark.worker",
    "numpy",
    "pandas",
    "pyarrow",
    "pyarrow.compute",
    "headrace.operators.keyed",
    "headrace.operators.late",
    "headrace.operators.ordered",
    "headrace.operators.process_spark",
)


def main() -> None:
    """What Spark runs in place of `pyspark.daemon`."""
    from pyspark.daemon import manager

    for name in _LOADED:
        with suppress(ImportError):
            import_module(name)
    manager()


if __name__ == "__main__":
    main()

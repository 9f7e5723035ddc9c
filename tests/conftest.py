"""What the tests share: one Spark, one Kafka, one PostgreSQL, each started by the first test that asks for it.

Heavy imports stay inside the fixtures, so that the unit tests start at once.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from headrace.run.session import BRIEF

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parent.parent

# A shared or slow machine must not fail a property by its speed; pytest-timeout ends what hangs.
# The same examples each time, so that a change is judged by what it changes; HYPOTHESIS=random looks for others.
RANDOM = os.environ.get("HYPOTHESIS") == "random"
settings.register_profile("headrace", deadline=None, print_blob=True, derandomize=not RANDOM)
settings.load_profile("headrace")


# No test runs long enough for Java's second compiler to pay off, and it takes half of the processors' time.
os.environ["JDK_JAVA_OPTIONS"] = BRIEF


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The long ones first, whatever order was drawn, so that none is left for the end while the other workers wait."""
    rooms = ("chaos", "recovery", "end_to_end")
    items.sort(key=lambda item: next((n for n, room in enumerate(rooms) if room in item.path.parts), len(rooms)))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """A quiet run hides the seed of its order, which is needed once something fails."""
    if terminalreporter.stats.get("failed") or terminalreporter.stats.get("error"):
        terminalreporter.write_line(f"the same order again: --randomly-seed={config.getoption('randomly_seed', None)}")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The one local Spark of the whole test run."""
    from headrace.log.jars import ensure
    from headrace.log.java import find_java
    from headrace.run import classes, names
    from headrace.run import session as sessions

    folder = tmp_path_factory.mktemp("spark")
    java = find_java()
    # Functions of a test module are pickled by name, so workers must be able to import it.
    paths = (ROOT, *(Path(path) for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path))
    os.environ.update(sessions.environment(java.home, master := "local[2]", paths))

    from pyspark.sql import SparkSession

    jars = ensure("spark", _progress, java)
    quiet = folder / "log4j2.properties"
    quiet.write_text(_LOGGING.format(file=folder / "spark.log"), encoding="utf-8")
    (scratch := folder / "scratch").mkdir()
    options = sessions.settings(
        master=master, jars=jars, scratch=scratch, log4j=quiet, java=classes.options(java, jars)
    )
    names.remember()
    builder = SparkSession.builder.appName("headrace-tests")
    for name, value in options.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    yield session
    for query in session.streams.active:
        query.stop()
    session.stop()
    _end_java(session)


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The bootstrap address of the one Kafka of the whole test run; use topics with names of your own."""
    from tests.brokers import running_broker

    with running_broker(tmp_path_factory.mktemp("broker")) as bootstrap:
        yield bootstrap


@pytest.fixture(scope="session")
def postgresql(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the one PostgreSQL of the whole test run; use tables with names of your own."""
    from tests.servers import running_postgresql

    with running_postgresql(tmp_path_factory.mktemp("postgresql")) as address:
        yield address


_LOGGING = """
rootLogger.level = warn
rootLogger.appenderRef.file.ref = file
appender.file.type = File
appender.file.name = file
appender.file.fileName = {file}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{HH:mm:ss.SSS}} %-5p %c{{1}}: %m%n%ex
"""


def _progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _end_java(session: SparkSession) -> None:
    """PySpark leaves its JVM to the end of the process; the next thing the process does may be to start another."""
    from pyspark import SparkContext

    gateway = session.sparkContext._gateway
    assert gateway is not None
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(timeout=30)
    SparkContext._gateway = SparkContext._jvm = None

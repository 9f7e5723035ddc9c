from __future__ import annotations

import json

import pytest

from headrace.errors import DataError, EndpointError, FlowError, InternalError, Problem, UsageError
from headrace.operators.functions import MARKER
from headrace.run.failure import Failure, NotThereError, explain, explain_text, root_cause

WORKER = """PythonException: An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "/venv/lib/python3.11/site-packages/pyspark/worker.py", line 9, in main
  File "/project/flows/clean.py", line 33, in parse
    return int(text)
ValueError: invalid literal for int() with base 10: 'x'
"""


def test_a_function_that_raised_is_named_with_file_line_and_record() -> None:
    said = {
        "step": "clean",
        "function": "clean:parse",
        "file": "/project/clean.py",
        "line": 12,
        "error": "ValueError: bad number",
        "record": {"id": 7, "text": 'a "quoted" one'},
    }
    text = f"Job aborted.\nCaused by: x.PythonException: UserFunctionError: {MARKER}{json.dumps(said)}\n\tat a.b.C"

    failure = explain_text(text, query="clean")

    assert (failure.kind, failure.step, failure.file, failure.line) == ("data", "clean", "/project/clean.py", 12)
    assert failure.message == '/project/clean.py:12: step "clean": function "clean:parse" raised ValueError: bad number'
    assert json.loads(failure.record) == said["record"]
    assert not failure.retry
    assert failure.exit_code == 1
    shown = str(failure.error("/home/driver.log"))
    assert "record: " in shown
    assert "trace: /home/driver.log" in shown


def test_a_python_failure_no_step_reported_still_names_the_authors_line() -> None:
    failure = explain_text(WORKER, query="clean")

    assert failure.message == (
        'query "clean": /project/flows/clean.py:33: function "parse" raised '
        "ValueError: invalid literal for int() with base 10: 'x'"
    )
    assert (failure.kind, failure.file, failure.line) == ("data", "/project/flows/clean.py", 33)


@pytest.mark.parametrize(
    ("text", "kind", "retry", "words", "hint"),
    [
        (
            "org.apache.kafka.common.errors.TimeoutException: Timed out waiting for a node assignment. Call: x",
            "endpoint",
            True,
            'could not reach Kafka at "host:9092"',
            "broker status",
        ),
        (
            "KafkaException: No resolvable bootstrap urls given in bootstrap.servers",
            "endpoint",
            True,
            "reach",
            "broker",
        ),
        (
            "KafkaV2[Subscribe[tweets]]\norg.apache.kafka.common.errors.UnknownTopicOrPartitionException: no",
            "endpoint",
            False,
            'topic "tweets" does not exist',
            "headrace topic create tweets",
        ),
        (
            "org.apache.kafka.common.errors.SaslAuthenticationException: Authentication failed",
            "endpoint",
            False,
            "refused us",
            "[kafka]",
        ),
        ("Caused by: [KAFKA_DATA_LOSS.X] Some data may have been lost", "data", False, "no longer has", "--fresh"),
        (
            "[STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE] Provided value schema does not match",
            "usage",
            False,
            "meant something else",
            "--fresh",
        ),
        (
            "There are [1] sources in the checkpoint offsets and now there are [2] sources requested",
            "usage",
            False,
            "meant something else",
            "--fresh",
        ),
        ("Caused by: java.lang.OutOfMemoryError: Java heap space", "internal", True, "memory", "spark.driver.memory"),
        (
            "SparkNumberFormatException: [CAST_INVALID_INPUT] The value 'x' of the type \"STRING\" cannot be cast to "
            '"INT" because it is malformed. Correct the value as per the syntax. SQLSTATE: 22018',
            "data",
            False,
            "The value 'x' of the type \"STRING\" cannot be cast",
            "try_cast",
        ),
        ("All masters are unresponsive! Giving up.", "endpoint", True, "could not reach the Spark master", "--master"),
        ("AnalysisException: [UNRESOLVED_COLUMN] no x", "internal", False, "Spark refused the plan", ""),
        ("Py4JNetworkError: Answer from Java side is empty", "internal", True, "the driver failed", ""),
    ],
)
def test_what_is_known_is_said_in_words(text: str, kind: str, retry: bool, words: str, hint: str) -> None:
    failure = explain_text(text, query="q", kafka="host:9092")

    assert (failure.kind, failure.retry) == (kind, retry)
    assert words in failure.message
    assert hint in failure.hint
    assert failure.message.startswith('query "q": ')


def test_our_own_errors_pass_as_they_are() -> None:
    away = explain(EndpointError("could not reach x", hint="start it"))
    assert (away.kind, away.retry, away.hint) == ("endpoint", True, "start it")
    assert explain(UsageError("no")).exit_code == 2
    assert explain(InternalError("oops")).exit_code == 4
    flow = explain(FlowError(Problem(code="cycle", message="round and round")))
    assert (flow.kind, flow.exit_code, flow.retry) == ("flow", 1, False)
    assert flow.problems[0]["code"] == "cycle"


def test_our_own_error_is_found_among_the_causes_of_another() -> None:
    try:
        try:
            raise EndpointError("could not reach the database")
        except EndpointError as error:
            raise RuntimeError("batch failed") from error
    except RuntimeError as error:
        found = explain(error, query="q")

    assert found.message == "could not reach the database"
    assert found.retry


def test_a_failure_survives_the_way_through_the_events() -> None:
    failure = explain_text(WORKER)

    assert Failure.from_dict(json.loads(json.dumps(failure.as_dict()))) == failure


@pytest.mark.parametrize("text", ["", "\n\n", "Traceback", "Caused by: ", "x" * 10_000, f"{MARKER}{{broken"])
def test_any_text_gives_a_failure(text: str) -> None:
    failure = explain_text(text)

    assert failure.message
    assert len(failure.message) < 500
    assert isinstance(failure.error(), InternalError | DataError)


def test_the_root_cause_is_the_last_one() -> None:
    text = "Py4JError: o1\nCaused by: a.B: first\n\tat x\nCaused by: c.D: last SQLSTATE: 22018\n\t... 3 more"

    assert root_cause(text) == "c.D: last"


def test_a_system_that_does_not_answer_is_asked_again_and_one_that_has_no_such_thing_is_not() -> None:
    assert explain(EndpointError("could not reach it")).retry
    missing = explain(NotThereError('topic "x" does not exist', hint="headrace topic create x"))
    assert (missing.retry, missing.exit_code, missing.hint) == (False, 3, "headrace topic create x")


@pytest.mark.parametrize(
    ("raised", "kind", "retry"), [("EndpointError", "endpoint", True), ("DataError", "data", False)]
)
def test_an_error_of_ours_raised_in_a_worker_keeps_its_meaning(raised: str, kind: str, retry: bool) -> None:
    text = WORKER.replace("ValueError: invalid", f'headrace.errors.{raised}: step "found": invalid')

    failure = explain_text(text, query="found")

    assert (failure.kind, failure.retry) == (kind, retry)
    assert 'step "found": invalid literal' in failure.message


def test_a_python_that_is_slow_to_start_is_tried_again_and_old_times_are_the_authors() -> None:
    slow = explain_text("org.apache.spark.SparkException: Python worker failed to connect back.")
    assert (slow.kind, slow.retry) == ("internal", True)
    assert "did not start within ten seconds" in slow.message
    old = explain_text("[EMITTING_ROWS_OLDER_THAN_WATERMARK_NOT_ALLOWED] Previous node emitted a row …")
    assert (old.kind, old.retry) == ("data", False)


def test_a_file_that_is_cut_short_is_named_with_what_to_do() -> None:
    found = explain_text(
        "Py4JError: x\nCaused by: java.lang.RuntimeException: file:/data/in/2.parquet is not a Parquet file. "
        "Expected magic number at tail, but found [2, 38, 8, 22]",
        query="rows",
    )
    assert (found.kind, found.retry, found.exit_code) == ("data", False, 1)
    assert found.message == 'query "rows": file "/data/in/2.parquet" is not a whole Parquet file'
    assert "the run goes on" in found.hint


def test_a_file_with_a_part_that_is_damaged_is_named_with_the_cause() -> None:
    found = explain_text(
        "Py4JJavaError: : org.apache.spark.SparkException: [FAILED_READ_FILE.NO_HINT] Encountered error while reading "
        "file file:///data/in%20put/2.parquet.  SQLSTATE: KD001\n\tat a.b\n"
        "Caused by: org.apache.parquet.io.ParquetDecodingException: could not decompress\n\tat c.d",
        query="rows",
    )
    assert (found.kind, found.retry) == ("data", False)
    assert found.message == 'query "rows": file "/data/in put/2.parquet" cannot be read'
    assert "could not decompress" in found.detail
    gone = explain_text("[FAILED_READ_FILE.FILE_NOT_EXIST] Encountered error while reading file file:///in/a.json. x")
    assert gone.kind == "internal"

"""What an outside that fails looks like: soon, with its name, and what to do."""

from __future__ import annotations

import json

from tests.commands import Place
from tests.servers import free_port

FLOW = """\
flow: lines
sources:
  lines:
    kafka: {topic: no-such-topic}
    format: text
sinks:
  screen:
    from: lines
    console: {}
"""

WRITES = """\
flow: lines
sources:
  lines: {values: {rows: [[one]]}, schema: line STRING}
sinks:
  taken: {from: lines, kafka: {topic: no-topic-yet}, format: text}
"""


def test_a_kafka_that_does_not_answer_is_named_within_seconds_with_what_to_do(place: Place) -> None:
    (place.root / "lines.yaml").write_text(FLOW)
    address = f"127.0.0.1:{free_port()}"

    said = place.run("run", "lines.yaml", "--bootstrap", address, "--restarts", "1", code=3)

    assert f'could not reach Kafka at "{address}" for "lines"' in said.err
    assert "Connection refused" in said.err
    assert "trying again in 0.5 s (1 of 1)" in said.err
    assert "hint: headrace broker status" in said.err
    assert "incubator modules" not in place.logs(), "no Java was started for this"
    assert "no Kafka is known" in place.run("run", "lines.yaml", "--restarts", "0", code=3).err


def test_a_topic_that_does_not_exist_is_named_and_not_waited_for(place: Place, broker: str) -> None:
    (place.root / "lines.yaml").write_text(FLOW)

    said = place.run("run", "lines.yaml", "--bootstrap", broker, "--until-done", code=3)

    assert f'topic "no-such-topic" does not exist in Kafka at "{broker}"' in said.err
    assert "hint: headrace topic create no-such-topic" in said.err
    assert "trying again" not in said.err

    (place.root / "lines.yaml").write_text(WRITES)
    said = place.run("run", "lines.yaml", "--bootstrap", broker, "--until-done", "--fresh", code=3)
    assert f'topic "no-topic-yet" does not exist in Kafka at "{broker}", for "taken"' in said.err
    assert "headrace topic create no-topic-yet, or say `partitions` and it is created" in said.err
    assert "trying again" not in said.err
    assert "incubator modules" not in place.logs(), "no Java was started for this"


DIVISION = """\
flow: shares
sources:
  lots:
    files: {path: lots}
    format: json
    schema: id BIGINT, total INT, parts INT
steps:
  wanted:
    from: lots
    filter: id >= 0
  shares:
    from: wanted
    with: {share: total / parts}
  doubled:
    from: shares
    with: {double: share * 2}
sinks:
  screen:
    from: doubled
    console: {}
"""


def test_a_value_that_spark_refuses_is_reported_with_its_step_its_line_and_its_record(place: Place) -> None:
    (place.root / "shares.yaml").write_text(DIVISION)
    nowhere = place.run("run", "shares.yaml", "--until-done", code=1)
    assert 'shares.yaml:3:3: source "lots" reads from' in nowhere.err
    assert "[file-not-found]" in nowhere.err

    (place.root / "lots").mkdir()
    rows = [{"id": n, "total": n, "parts": 0 if n in (-1, 700, 900) else 4} for n in range(-2, 1000)]
    (place.root / "lots" / "a.json").write_text("\n".join(map(json.dumps, rows)))
    refused = place.run("run", "shares.yaml", "--until-done", code=1)

    assert 'shares.yaml:11:3: step "shares": Division by zero' in refused.err
    assert 'record: {"id":700,"total":700,"parts":0}' in refused.err
    assert "hint: try_cast and try_divide give NULL" in refused.err


def test_a_record_of_a_run_that_cannot_be_read_is_set_aside_by_fresh(place: Place) -> None:
    (place.root / "lines.yaml").write_text(FLOW)
    home = place.root / ".headrace" / "runs" / "lines"
    home.mkdir(parents=True)
    (home / "run.json").write_text("{")

    assert "cannot be read" in place.run("run", "lines.yaml", code=2).err
    said = place.run(
        "run", "lines.yaml", "--fresh", "--bootstrap", f"127.0.0.1:{free_port()}", "--restarts", "0", code=3
    )

    assert "the old home is now" in said.err
    assert [(one / "run.json").read_text() for one in home.parent.glob("lines.2*")] == ["{"]

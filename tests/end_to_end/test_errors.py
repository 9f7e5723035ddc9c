"""What an outside that fails looks like: soon, with its name, and what to do."""

from __future__ import annotations

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

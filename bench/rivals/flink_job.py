"""The works in Flink SQL, by PyFlink; everything runs in Java, on a cluster inside the process."""

from __future__ import annotations

import time
from pathlib import Path

from job import BOOTSTRAP, CORES, FOLDER, JOB, LIVE, OUT, ROUNDS, TAG, TOPIC, WORK, say
from pyflink.common import Configuration
from pyflink.table import EnvironmentSettings, TableEnvironment

SETTINGS = {
    "pipeline.jars": ";".join(f"file://{jar}" for jar in JOB["jars"]),
    "parallelism.default": str(CORES),
    "pipeline.object-reuse": "true",
    "table.local-time-zone": "UTC",
    "execution.checkpointing.interval": "10 s",
    "execution.checkpointing.dir": Path(FOLDER, "checkpoints").as_uri(),
    **({"execution.buffer-timeout.interval": "0 ms"} if LIVE else {}),
}
SOURCE = f"""'connector'='kafka', 'properties.bootstrap.servers'='{BOOTSTRAP}', 'topic'='{TOPIC}', 'format'='json',
    'json.timestamp-format.standard'='ISO-8601', 'scan.startup.mode'='earliest-offset',
    'properties.group.id'='{TAG}', 'properties.max.poll.records'='5000',
    'properties.fetch.max.wait.ms'='{5 if LIVE else 500}'"""
BOUNDED = f"{SOURCE}, 'scan.bounded.mode'='latest-offset'"
PRODUCER = "'properties.linger.ms'='50', 'properties.batch.size'='262144', 'properties.compression.type'='lz4'"
AT_ONCE = "'properties.linger.ms'='0'"


def sink(topic: str) -> str:
    return f"'properties.bootstrap.servers'='{BOOTSTRAP}', 'topic'='{topic}'"


def statements(topic: str) -> tuple[str, str, str]:
    """The table that is read, the one that is written, and what goes from one to the other."""
    json = "'json.timestamp-format.standard'='ISO-8601'"
    if WORK == "w1":
        return (
            f"""CREATE TABLE events (page STRING, `type` STRING, amount DOUBLE, ts TIMESTAMP_LTZ(3),
                WATERMARK FOR ts AS ts - INTERVAL '5' SECOND) WITH ({BOUNDED})""",
            f"""CREATE TABLE answer (window_start TIMESTAMP(3), page STRING, n BIGINT, total DOUBLE)
                WITH ('connector'='kafka', {sink(topic)}, 'format'='json', {json})""",
            """INSERT INTO answer SELECT window_start, page, COUNT(*), SUM(amount)
                FROM TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '10' SECOND)
                WHERE `type` <> 'view' GROUP BY window_start, window_end, page""",
        )
    if WORK == "w2":
        return (
            f"CREATE TABLE events (`user` STRING, page STRING, `type` STRING, amount DOUBLE) WITH ({BOUNDED})",
            f"""CREATE TABLE answer (`user` STRING, page STRING, amount DOUBLE) WITH ('connector'='kafka',
                {sink(topic)}, 'key.format'='raw', 'key.fields'='user', 'value.format'='json', {PRODUCER})""",
            "INSERT INTO answer SELECT `user`, page, amount FROM events WHERE `type` = 'buy'",
        )
    if WORK == "keyed":
        return (
            f"CREATE TABLE events (k STRING, t DOUBLE) WITH ({SOURCE})",
            f"""CREATE TABLE answer (k STRING, n BIGINT, t DOUBLE, PRIMARY KEY (k) NOT ENFORCED) WITH (
                'connector'='upsert-kafka', {sink(topic)}, 'key.format'='json', 'value.format'='json', {AT_ONCE})""",
            "INSERT INTO answer SELECT k, COUNT(*), MAX(t) FROM events GROUP BY k",
        )
    return (
        f"CREATE TABLE events (k STRING, `type` STRING, x BIGINT, t DOUBLE) WITH ({SOURCE})",
        f"CREATE TABLE answer (k STRING, x BIGINT, t DOUBLE) WITH ('connector'='kafka', {sink(topic)}, "
        f"'format'='json', {AT_ONCE})",
        "INSERT INTO answer SELECT k, x, t FROM events WHERE `type` = 'buy'",
    )


def main() -> None:
    configuration = Configuration()
    for name, value in SETTINGS.items():
        configuration.set_string(name, value)
    asked = EnvironmentSettings.new_instance().in_streaming_mode().with_configuration(configuration).build()
    for number in range(ROUNDS):
        tables = TableEnvironment.create(asked)
        read, written, query = statements(f"{OUT}-{number}")
        tables.execute_sql(read)
        tables.execute_sql(written)
        running = tables.execute_sql(query)
        if LIVE:
            running.wait()
            return
        result = running.get_job_client().get_job_execution_result().result()
        last = time.time()
        # Its own clock begins when the job does, which leaves out the start of the cluster, as for the others.
        say(last - result.get_net_runtime() / 1000, last, JOB["total"], number)


if __name__ == "__main__":
    main()

"""How a Kafka client is set up: in librdkafka's spelling, and in that of Spark's Java client."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

_SECRET = re.compile(r"password|jaas|keystore\.key|key\.pem|secret", re.IGNORECASE)


class ClientSettings(dict[str, str]):
    """Client settings whose secrets are not shown when they are printed."""

    def __repr__(self) -> str:
        shown = {k: "********" if _SECRET.search(k) else v for k, v in self.items()}
        return f"ClientSettings({shown})"

    __str__ = __repr__


def spark_kafka_options(client: Mapping[str, str]) -> ClientSettings:
    """The same settings for Spark's Kafka source and sink: the Java client's spelling, each with `kafka.` before it.

    Certificates travel in the options themselves, so that executors on other machines need no file.
    """
    options = {"bootstrap.servers": client["bootstrap.servers"]}
    if "security.protocol" in client:
        options["security.protocol"] = client["security.protocol"].upper()
    if "sasl.mechanism" in client:
        options["sasl.mechanism"] = client["sasl.mechanism"]
        options["sasl.jaas.config"] = _jaas(client["sasl.mechanism"], client["sasl.username"], client["sasl.password"])
    if "ssl.ca.location" in client:
        options["ssl.truststore.type"] = "PEM"
        options["ssl.truststore.certificates"] = _pem(client["ssl.ca.location"])
    if "ssl.key.location" in client:
        options["ssl.keystore.type"] = "PEM"
        options["ssl.keystore.certificate.chain"] = _pem(client["ssl.certificate.location"])
        options["ssl.keystore.key"] = _pem(client["ssl.key.location"])
    return ClientSettings({f"kafka.{name}": value for name, value in options.items()})


def _pem(path: str) -> str:
    return Path(path).read_text(encoding="ascii").strip()


def _jaas(mechanism: str, username: str, password: str) -> str:
    module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    user, secret = (text.replace("\\", "\\\\").replace('"', '\\"') for text in (username, password))
    return f'org.apache.kafka.common.security.{module} required username="{user}" password="{secret}";'

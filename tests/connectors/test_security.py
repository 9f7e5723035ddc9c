"""A cluster that wants to know who is there: TLS with certificates of both sides, and passwords, on a real broker."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from headrace.check import load
from headrace.compile.planner import plan
from headrace.compile.where import Where
from headrace.errors import EndpointError
from headrace.log import broker as brokers
from headrace.log import topics
from headrace.log.client import metadata
from headrace.log.consume import consume
from headrace.log.produce import produce
from headrace.model import Delivery
from headrace.project import Project, kafka_client
from headrace.run.inline import run_to_end
from tests.brokers import running_cluster
from tests.servers import free_port

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PASSWORD = 'pass"word\\1'
LOGINS = {
    "tls": 'security = "tls"\ncertificate = "ann.pem"\nkey = "ann.key"',
    "plain": 'security = "sasl-plaintext"\nmechanism = "PLAIN"\nusername = "ann"\npassword = "${env:ANN}"',
    "scram": 'security = "sasl-tls"\nmechanism = "SCRAM-SHA-512"\nusername = "ann"\npassword = "${env:ANN}"',
}


def certify(folder: Path) -> None:
    """An authority of our own, and what it says of the broker and of ann."""

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)

    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    openssl("req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.pem", "-days", "2", "-subj", "/CN=authority")
    (folder / "names").write_text("subjectAltName=IP:127.0.0.1,DNS:localhost")
    for name in ("broker", "ann"):
        openssl("req", *key, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
        signing = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-extfile", "names")
        openssl("x509", "-req", "-in", f"{name}.csr", "-out", f"{name}.pem", *signing)
    (folder / "store.pem").write_text((folder / "broker.key").read_text() + (folder / "broker.pem").read_text())


@pytest.fixture(scope="module")
def addresses(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, dict[str, str]]]:
    """A folder with the certificates, and the address of each way to log in."""
    folder = tmp_path_factory.mktemp("secured")
    certify(folder)
    ports = {name: free_port() for name in LOGINS}
    protocols = {"tls": "SSL", "plain": "SASL_PLAINTEXT", "scram": "SASL_SSL"}
    usual = brokers.server_properties
    quoted = PASSWORD.replace("\\", "\\\\").replace('"', '\\"')
    known = f'user_ann="{quoted}"'.replace("\\", "\\\\")  # once for the login module, once for the file

    def secured(info: brokers.BrokerInfo, node: brokers.Node) -> str:
        text = usual(info, node)
        said = dict(line.split("=", 1) for line in text.splitlines())
        more = ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items())
        mapped = ",".join(f"{name}:{protocol}" for name, protocol in protocols.items())
        module = "org.apache.kafka.common.security"
        lines = {
            "listeners": f"{said['listeners']},{more}",
            "advertised.listeners": f"{said['advertised.listeners']},{more}",
            "listener.security.protocol.map": f"{said['listener.security.protocol.map']},{mapped}",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": folder / "store.pem",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": folder / "ca.pem",
            "listener.name.tls.ssl.client.auth": "required",
            "listener.name.plain.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.plain.plain.sasl.jaas.config": f"{module}.plain.PlainLoginModule required {known};",
            "listener.name.scram.sasl.enabled.mechanisms": "SCRAM-SHA-512",
            "listener.name.scram.scram-sha-512.sasl.jaas.config": f"{module}.scram.ScramLoginModule required;",
        }
        return text + "".join(f"{name}={value}\n" for name, value in lines.items())

    patch = pytest.MonkeyPatch()
    patch.setattr(brokers, "server_properties", secured)
    patch.setenv("ANN", PASSWORD)
    try:
        with running_cluster(folder) as info:
            remember(info.bootstrap)
            yield folder, {name: f"127.0.0.1:{port}" for name, port in ports.items()}
    finally:
        patch.undo()


def remember(bootstrap: str) -> None:
    """Tells the broker ann's password, as one does for SCRAM."""
    from confluent_kafka.admin import (
        AdminClient,
        ScramCredentialInfo,
        ScramMechanism,
        UserScramCredentialUpsertion,
    )

    how = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    told = admin.alter_user_scram_credentials([UserScramCredentialUpsertion("ann", how, PASSWORD.encode())])
    for done in told.values():
        done.result(30)


FLOW = """
flow: NAME
sources:
  words:
    kafka: {topic: NAME-in}
    format: text
steps:
  loud:
    from: words
    select: {value: upper(value)}
sinks:
  out:
    from: loud
    kafka: {topic: NAME-out}
    format: text
"""


@pytest.mark.parametrize("login", LOGINS)
def test_a_flow_reads_and_writes_where_one_has_to_log_in(
    login: str, addresses: tuple[Path, dict[str, str]], tmp_path: Path, spark: SparkSession
) -> None:
    folder, bootstrap = addresses
    settings = f'[kafka]\nbootstrap = "{bootstrap[login]}"\n{LOGINS[login]}\n'
    settings += 'ca = "ca.pem"\n' if "tls" in LOGINS[login] else ""
    (folder / "headrace.toml").write_text(settings)
    client = kafka_client(Project.find(folder))
    name = f"{login}-{uuid4().hex[:6]}"
    for topic in (f"{name}-in", f"{name}-out"):
        topics.create(client, topic, partitions=2)
    produce(client, f"{name}-in", ((None, text.encode()) for text in ("one", "two", "three")))
    file = tmp_path / "flow.yaml"
    file.write_text(FLOW.replace("NAME", name))

    made = plan(load(file))
    where = Where(session=spark, streaming=True, home=tmp_path, base=tmp_path, kafka=client)
    run_to_end(made, made.queries[0], where, tmp_path / "checkpoint")

    assert made.promises[0].delivery is Delivery.EXACTLY_ONCE
    assert sorted(m.value or b"" for m in consume(client, f"{name}-out", until_end=True)) == [b"ONE", b"THREE", b"TWO"]
    assert PASSWORD not in repr(where)


def test_a_wrong_password_and_a_stranger_are_told_so(addresses: tuple[Path, dict[str, str]]) -> None:
    folder, bootstrap = addresses
    wrong = {
        "bootstrap.servers": bootstrap["plain"],
        "security.protocol": "sasl_plaintext",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "ann",
        "sasl.password": "guessed",
    }
    with pytest.raises(EndpointError, match="uthenticat"):
        metadata(wrong, patience=20)
    stranger = {
        "bootstrap.servers": bootstrap["tls"],
        "security.protocol": "ssl",
        "ssl.ca.location": f"{folder}/ca.pem",
    }
    with pytest.raises(EndpointError, match=r"(?i)ssl|tls|certificate"):
        metadata(stranger, patience=20)

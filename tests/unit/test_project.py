"""Projects: where they are found, what headrace.toml may say, and how Kafka is reached."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from headrace.cli.new import new
from headrace.errors import EndpointError, FlowError, Problem, UsageError
from headrace.kafka_settings import spark_kafka_options
from headrace.log.processes import Process, start_time
from headrace.log.state import BrokerInfo, Node, broker_folder, write
from headrace.project import Project, Settings, kafka_client, load_settings


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [n for n in os.environ if n.startswith("HEADRACE_")]:
        monkeypatch.delenv(name)


def toml(folder: Path, text: str) -> Path:
    file = folder / "headrace.toml"
    file.write_text(text, encoding="utf-8")
    return file


def problems(folder: Path, text: str, **environment: str) -> tuple[Problem, ...]:
    with pytest.raises(FlowError) as caught:
        load_settings(toml(folder, text), environment)
    return caught.value.problems


def test_a_project_is_the_nearest_folder_upwards_with_a_settings_file(tmp_path: Path) -> None:
    toml(tmp_path, '[spark]\nmaster = "local[3]"\n')
    inner = tmp_path / "flows" / "deep"
    inner.mkdir(parents=True)
    project = Project.find(inner)
    assert project.root == tmp_path.resolve()
    assert project.home == tmp_path.resolve() / ".headrace"
    assert project.settings.spark.master == "local[3]"


def test_without_a_settings_file_the_folder_itself_is_the_project(tmp_path: Path) -> None:
    assert Project.find(tmp_path).root == tmp_path.resolve()
    assert Project.find(tmp_path).settings == Settings()


def test_the_home_can_be_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_HOME", str(tmp_path / "there"))
    assert Project.find(tmp_path).home == tmp_path.resolve() / "there"


def test_the_home_is_kept_out_of_version_control(tmp_path: Path) -> None:
    home = Project(root=tmp_path).make_home()
    assert (home / ".gitignore").read_text(encoding="ascii") == "*\n"


def test_everything_can_be_said_in_the_file(tmp_path: Path) -> None:
    text = """
    [kafka]
    bootstrap = "one:9092,two:9092"
    [spark.settings]
    "spark.executor.memory" = "2g"
    [java]
    home = "/opt/java"
    """
    settings = load_settings(toml(tmp_path, text), {})
    assert settings.kafka.bootstrap == "one:9092,two:9092"
    assert settings.spark.settings == {"spark.executor.memory": "2g"}
    assert settings.java.home == "/opt/java"


def test_the_environment_goes_over_the_file(tmp_path: Path) -> None:
    file = toml(tmp_path, '[kafka]\nbootstrap = "file:1"\n[spark]\nmaster = "local[1]"\n')
    settings = load_settings(file, {"HEADRACE_KAFKA_BOOTSTRAP": "variable:2", "HEADRACE_SPARK_MASTER": ""})
    assert settings.kafka.bootstrap == "variable:2"
    assert settings.spark.master == "local[1]", "an empty variable says nothing"


def test_every_problem_is_found_at_its_line_with_the_nearest_name(tmp_path: Path) -> None:
    found = problems(
        tmp_path,
        '[kafka]\nbootstap = "x:1"\nsecurity = "ssl"\n\n[sparc]\nmaster = "local"\n',
    )
    assert {(p.code, p.location.line) for p in found} == {
        ("unknown-option", 2),
        ("bad-option", 3),
        ("unknown-option", 5),
    }
    hints = {p.location.line: p.hint for p in found}
    assert 'did you mean "bootstrap"?' in hints[2]
    assert 'did you mean "spark"?' in hints[5]


def test_a_bad_variable_is_named(tmp_path: Path) -> None:
    (found,) = problems(tmp_path, "", HEADRACE_KAFKA_SECURITY="open")
    assert (found.code, found.location.file) == ("bad-option", "environment HEADRACE_KAFKA_SECURITY")


@pytest.mark.parametrize("text", ["kafka = 3", "[kafka]\nbootstrap = 3", "[spark]\nsettings = 1", "[[kafka]]\nx = 1"])
def test_a_value_of_the_wrong_type_is_a_problem(tmp_path: Path, text: str) -> None:
    assert problems(tmp_path, text, HEADRACE_JAVA_HOME="/x")[0].code == "bad-option"


def test_a_file_that_is_not_toml_is_a_problem_at_its_line(tmp_path: Path) -> None:
    (found,) = problems(tmp_path, '[kafka]\nbootstrap = "x\n')
    assert (found.code, found.location.line) == ("bad-option", 2)


@pytest.mark.parametrize(
    "text", ['security = "sasl-tls"', 'security = "sasl-plaintext"\nusername = "u"', 'certificate = "c.pem"']
)
def test_settings_that_need_others_say_so(tmp_path: Path, text: str) -> None:
    (found,) = problems(tmp_path, f"[kafka]\n{text}\n")
    assert found.code == "missing-option"


def test_a_password_reaches_the_client_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_PASSWORD", 's3cr"et')
    for name in ("ca.pem", "cert.pem", "key.pem"):
        (tmp_path / name).write_text(f"-- {name} --\n", encoding="ascii")
    text = """
    [kafka]
    bootstrap = "outside:9093"
    security = "sasl-tls"
    mechanism = "SCRAM-SHA-512"
    username = "ann"
    password = "${env:KAFKA_PASSWORD}"
    ca = "ca.pem"
    certificate = "cert.pem"
    key = "key.pem"
    """
    toml(tmp_path, text)
    project = Project.find(tmp_path)
    client = kafka_client(project)
    assert client == {
        "bootstrap.servers": "outside:9093",
        "security.protocol": "sasl_ssl",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "ann",
        "sasl.password": 's3cr"et',
        "ssl.ca.location": str(project.root / "ca.pem"),
        "ssl.certificate.location": str(project.root / "cert.pem"),
        "ssl.key.location": str(project.root / "key.pem"),
    }
    spark = spark_kafka_options(client)
    scram = "org.apache.kafka.common.security.scram.ScramLoginModule"
    assert spark["kafka.sasl.jaas.config"] == f'{scram} required username="ann" password="s3cr\\"et";'
    assert spark["kafka.security.protocol"] == "SASL_SSL"
    assert spark["kafka.ssl.truststore.certificates"] == "-- ca.pem --"
    assert spark["kafka.ssl.keystore.key"] == "-- key.pem --"
    assert all(name.startswith("kafka.") for name in spark)
    for shown in (repr(client), str(client), repr(spark), f"{spark}", repr(project)):
        assert "s3cr" not in shown
        assert "-- key.pem --" not in shown


def test_a_literal_password_is_not_shown(tmp_path: Path) -> None:
    kafka = 'security = "sasl-plaintext"\nusername = "u"\npassword = "hunter2"'
    settings = load_settings(toml(tmp_path, f"[kafka]\n{kafka}\n"), {})
    assert "hunter2" not in repr(settings)
    assert settings.kafka.password is not None
    assert settings.kafka.password.reveal() == "hunter2"


def test_a_missing_secret_or_certificate_is_a_problem(tmp_path: Path) -> None:
    toml(tmp_path, '[kafka]\nbootstrap = "x:1"\nsecurity = "tls"\nca = "nowhere.pem"\n')
    with pytest.raises(FlowError) as caught:
        kafka_client(Project.find(tmp_path))
    assert caught.value.problems[0].code == "file-not-found"
    text = 'bootstrap = "x:1"\nsecurity = "sasl-plaintext"\nusername = "u"\npassword = "${env:NOT_THERE_AT_ALL}"'
    toml(tmp_path, f"[kafka]\n{text}\n")
    with pytest.raises(FlowError) as caught:
        kafka_client(Project.find(tmp_path))
    assert caught.value.problems[0].code == "missing-secret"


def running(project: Project, process: Process) -> None:
    node = Node(id=1, port=19092, controller_port=19093, process=process)
    write(BrokerInfo(folder=broker_folder(project.home), replication=1, nodes=(node,)))


def test_the_address_is_the_flags_then_the_settings_then_the_local_brokers(tmp_path: Path) -> None:
    project = Project(root=tmp_path)
    running(project, Process(os.getpid(), start_time(os.getpid()) or ""))
    assert kafka_client(project) == {"bootstrap.servers": "127.0.0.1:19092"}
    toml(tmp_path, '[kafka]\nbootstrap = "outside:9092"\n')
    assert kafka_client(Project.find(tmp_path))["bootstrap.servers"] == "outside:9092"
    assert kafka_client(Project.find(tmp_path), "flag:1")["bootstrap.servers"] == "flag:1"


def test_a_process_that_took_over_a_brokers_number_is_not_taken_for_it(tmp_path: Path) -> None:
    project = Project(root=tmp_path)
    running(project, Process(os.getpid(), "started at another time"))
    with pytest.raises(EndpointError) as caught:
        kafka_client(project)
    assert "headrace broker start" in caught.value.hint


def test_a_damaged_state_file_counts_as_none(tmp_path: Path) -> None:
    project = Project(root=tmp_path)
    folder = broker_folder(project.make_home())
    folder.mkdir()
    for text in ("", "{", "[]", json.dumps({"nodes": [{}], "replication": 1})):
        (folder / "broker.json").write_text(text, encoding="utf-8")
        with pytest.raises(EndpointError):
            kafka_client(project)


def test_a_new_project_below_a_file_is_misuse_and_a_name_with_a_blank_is_quoted(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("")
    refused = CliRunner().invoke(new, [str(tmp_path / "f" / "g")])
    assert isinstance(refused.exception, UsageError)
    made = CliRunner().invoke(new, [str(tmp_path / "a b")])
    assert made.exit_code == 0
    assert f"cd '{tmp_path}/a b' && " in made.output

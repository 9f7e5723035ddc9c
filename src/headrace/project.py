"""A project: the folder with `headrace.toml`, its settings, and the home of everything that is kept.

Settings come from `headrace.toml`; the environment goes over them (`HEADRACE_KAFKA_BOOTSTRAP`,
`HEADRACE_SPARK_MASTER`, …) and flags go over both.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, Field, ValidationError, model_validator

from headrace.errors import EndpointError, FlowError, Problem, nearest
from headrace.kafka_settings import ClientSettings
from headrace.log import state
from headrace.model import Location
from headrace.options import Options, Secret, refuse, refused_setting

FILE = "headrace.toml"
Security = Literal["plaintext", "tls", "sasl-plaintext", "sasl-tls"]
Mechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]


class KafkaSettings(Options):
    """`[kafka]`: the cluster to use instead of a local one."""

    bootstrap: str | None = Field(None, min_length=1, description="Addresses to begin with.", examples=["broker:9092"])
    security: Security = Field("plaintext", description="Whether the connection is encrypted, and who logs in how.")
    ca: str | None = Field(None, description="File with the certificates to trust, PEM.")
    certificate: str | None = Field(None, description="File with the client's certificate, PEM.")
    key: str | None = Field(None, description="File with the client's private key, PEM (PKCS 8).")
    mechanism: Mechanism = Field("PLAIN", description="How the password is proved.")
    username: str | None = Field(None, description="Who logs in.")
    password: Secret | None = Field(None, description="${env:NAME} or ${file:path}.")

    @model_validator(mode="after")
    def _fits_together(self) -> KafkaSettings:
        if self.security.startswith("sasl") and not (self.username and self.password):
            raise refuse("missing-option", f'security "{self.security}" needs a username and a password')
        if (self.certificate is None) != (self.key is None):
            raise refuse("missing-option", "a client certificate and its key are only of use together")
        return self


class SparkSettings(Options):
    """`[spark]`: where and how Spark runs."""

    master: str | None = Field(None, description="The cluster.", examples=["local[4]", "spark://host:7077"])
    settings: dict[str, str] = Field(default_factory=dict, description="Spark's own settings, by their full names.")

    @model_validator(mode="after")
    def _allowed(self) -> SparkSettings:
        for name, value in self.settings.items():
            if wrong := refused_setting(name, value):
                raise refuse("bad-option", *wrong)
        return self


class JavaSettings(Options):
    """`[java]`: which Java."""

    home: str | None = Field(None, description="Folder with bin/java in it.")


class CheckpointSettings(Options):
    """Where runs keep their checkpoints."""

    path: str | None = Field(
        None,
        description="A folder, or an address Hadoop takes; each run gets a folder in it. Unset: the run's home.",
        examples=["hdfs://name/headrace", "file:///var/lib/headrace"],
    )


class Settings(Options):
    """Everything `headrace.toml` may say."""

    kafka: KafkaSettings = KafkaSettings()
    spark: SparkSettings = SparkSettings()
    java: JavaSettings = JavaSettings()
    parameters: dict[str, Any] = Field(
        default_factory=dict,
        description="Values for parameters: `name = value` for every flow, a table `[parameters.FLOW]` for one.",
    )
    checkpoints: CheckpointSettings = CheckpointSettings()


@dataclass(frozen=True, kw_only=True)
class Project:
    """A folder with flows, its settings and its home."""

    root: Path
    settings: Settings = field(default_factory=Settings)
    chosen_home: Path | None = None
    """Where HEADRACE_HOME puts the home, if it does."""

    @classmethod
    def find(cls, start: Path | None = None) -> Project:
        """The project a folder belongs to: the nearest one upwards with `headrace.toml`, else the folder itself."""
        here = (start or Path.cwd()).resolve()
        root = next((folder for folder in (here, *here.parents) if (folder / FILE).is_file()), None)
        elsewhere = os.environ.get("HEADRACE_HOME")
        return cls(
            root=root or here,
            settings=load_settings(root / FILE if root else None, os.environ),
            chosen_home=Path(elsewhere).expanduser().resolve() if elsewhere else None,
        )

    @property
    def home(self) -> Path:
        """Where runs, the local broker and logs are kept: `.headrace`, or HEADRACE_HOME."""
        return self.chosen_home or self.root / ".headrace"

    @property
    def java_home(self) -> str | None:
        """The Java that is asked for, if one is."""
        return self.settings.java.home

    def make_home(self) -> Path:
        """The home, made if it is not there; nothing in it belongs into version control."""
        self.home.mkdir(parents=True, exist_ok=True)
        ignore = self.home / ".gitignore"
        if not ignore.exists():
            ignore.write_text("*\n", encoding="ascii")
        return self.home


def load_settings(file: Path | None, environment: Mapping[str, str]) -> Settings:
    """The settings of a file with the environment over them; every problem at once."""
    text, given = _read(file) if file else ("", {})
    places = {path: Location(str(file), line) for path, line in _lines(text)}
    for name, (table, option) in _variables().items():
        if environment.get(name):
            if not isinstance(given.setdefault(table, {}), dict):
                continue  # the file says something else than a table, which is a problem of its own
            given[table][option] = environment[name]
            places[(table, option)] = Location(f"environment {name}")
    try:
        return Settings.model_validate(given)
    except ValidationError as error:
        whole = Location(str(file) if file else "environment")
        # Inputs are left out: a value may be a password typed into the wrong place.
        raise FlowError(*(_problem(e, places, whole) for e in error.errors(include_input=False))) from None


def _read(file: Path) -> tuple[str, dict[str, Any]]:
    try:
        text = file.read_text(encoding="utf-8")
        return text, tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        at = re.search(r"\(at line (\d+), column (\d+)\)", str(error))
        place = Location(str(file), int(at[1]), int(at[2])) if at else Location(str(file))
        reason = re.sub(r"\s*\(at .*\)$", "", str(error))
        raise FlowError(Problem(code="bad-option", message=f"the file is not TOML: {reason}", location=place)) from None
    except (OSError, UnicodeDecodeError) as error:
        raise FlowError(
            Problem(code="bad-option", message=f"the file cannot be read: {error}", location=Location(str(file)))
        ) from None


def _tables() -> dict[str, type[BaseModel]]:
    return {"kafka": KafkaSettings, "spark": SparkSettings, "java": JavaSettings}


def _variables() -> dict[str, tuple[str, str]]:
    """Every environment variable that stands for a setting."""
    return {
        f"HEADRACE_{table}_{option}".upper(): (table, option)
        for table, model in _tables().items()
        for option in model.model_fields
        if (table, option) != ("spark", "settings")
    }


def _lines(text: str) -> Iterator[tuple[tuple[str, ...], int]]:
    """The line of each table and key; tomllib does not tell. Good enough for a hint, not a second parser."""
    table: tuple[str, ...] = ()
    for number, line in enumerate(text.splitlines(), 1):
        if header := re.match(r"\s*\[+\s*([^\]#]+?)\s*\]", line):
            table = _path(header[1])
            yield table, number
        elif key := re.match(r"""\s*((?:"[^"]*"|'[^']*'|[\w.-])+)\s*=""", line):
            path = (*table, *_path(key[1]))
            for length in range(len(table) + 1, len(path) + 1):
                yield path[:length], number


def _path(dotted: str) -> tuple[str, ...]:
    parts = re.findall(r""""([^"]*)"|'([^']*)'|([\w-]+)""", dotted)
    return tuple(next(filter(None, part), "") for part in parts)


def _problem(error: Any, places: Mapping[tuple[str, ...], Location], whole: Location) -> Problem:
    path = tuple(str(part) for part in error["loc"])
    place = next((places[path[:n]] for n in range(len(path), 0, -1) if path[:n] in places), whole)
    name, table = path[-1] if path else "", path[0] if path else ""
    if error["type"] == "extra_forbidden":
        if len(path) == 1:
            message, hint = f'there is no table "{name}"', nearest(name, Settings.model_fields)
        else:
            message, hint = f'table "{table}" has no option "{name}"', nearest(name, _tables()[table].model_fields)
        return Problem(code="unknown-option", message=message, location=place, hint=hint)
    if error["type"] == "headrace":
        context = error["ctx"]
        return Problem(code=context["code"], message=context["message"], location=place, hint=context["hint"])
    reason = error["msg"][:1].lower() + error["msg"][1:]
    message = f'option "{".".join(path[1:])}" of table "{table}": {reason}' if len(path) > 1 else f'"{name}": {reason}'
    return Problem(code="bad-option", message=message, location=place)


_PROTOCOLS = {"plaintext": "PLAINTEXT", "tls": "SSL", "sasl-plaintext": "SASL_PLAINTEXT", "sasl-tls": "SASL_SSL"}


def kafka_client(project: Project, bootstrap: str | None = None) -> ClientSettings:
    """How to reach the project's Kafka, in librdkafka's spelling.

    The address is the flag's, else the environment's, else that of `headrace.toml`, else the running local broker's.
    Security settings go with any address but the local broker's.
    """
    chosen = bootstrap or project.settings.kafka.bootstrap
    if chosen:
        return ClientSettings({"bootstrap.servers": chosen, **_security(project)})
    local = state.read(project.home)
    if local and local.running:
        return ClientSettings({"bootstrap.servers": local.bootstrap})
    raise EndpointError(
        "no Kafka is known: none is named, and the project's local broker does not run",
        hint='headrace broker start, or --bootstrap HOST:PORT, or [kafka] bootstrap = "HOST:PORT" in headrace.toml',
    )


def _security(project: Project) -> dict[str, str]:
    kafka = project.settings.kafka
    if kafka.security == "plaintext":
        return {}
    given = {"security.protocol": _PROTOCOLS[kafka.security].lower()}
    if kafka.security.startswith("sasl") and kafka.username and kafka.password:
        given |= {
            "sasl.mechanism": kafka.mechanism,
            "sasl.username": kafka.username,
            "sasl.password": _reveal(kafka.password),
        }
    if kafka.security.endswith("tls"):
        files = {
            "ssl.ca.location": kafka.ca,
            "ssl.certificate.location": kafka.certificate,
            "ssl.key.location": kafka.key,
        }
        given |= {option: str(_existing(project.root, path)) for option, path in files.items() if path}
    return given


def _reveal(secret: Secret) -> str:
    try:
        return secret.reveal()
    except LookupError as error:
        raise FlowError(Problem(code="missing-secret", message=str(error), location=Location(FILE))) from None


def _existing(root: Path, name: str) -> Path:
    path = root / Path(name).expanduser()
    if not path.is_file():
        problem = f'the file "{path}", named under [kafka], does not exist'
        raise FlowError(Problem(code="file-not-found", message=problem, location=Location(FILE)))
    return path

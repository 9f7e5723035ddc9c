from __future__ import annotations

import os
from pathlib import Path
from zipfile import ZipFile

from headrace.run.jar import JAR
from headrace.run.session import _zipped, choose_master, environment, python_path, settings, shipped


def made(master: str = "local[2]", **more: dict[str, str] | str) -> dict[str, str]:
    return settings(
        master=master,
        jars=[Path("/jars/a.jar"), Path("/jars/b.jar")],
        scratch=Path("/run/scratch"),
        log4j=Path("/run/log4j2.properties"),
        **more,  # type: ignore[arg-type]
    )


def test_the_flows_settings_go_over_the_projects_over_the_plans_over_ours() -> None:
    name = "spark.sql.shuffle.partitions"
    assert made()[name] == "2"
    assert made(plan={name: "3"})[name] == "3"
    assert made(plan={name: "3"}, project={name: "4"})[name] == "4"
    assert made(plan={name: "3"}, project={name: "4"}, flow={name: "5"})[name] == "5"


def test_an_authors_java_options_do_not_cost_the_log() -> None:
    options = made(project={"spark.driver.extraJavaOptions": "-Xss8m"})["spark.driver.extraJavaOptions"]

    assert "-Dlog4j2.configurationFile=file:/run/log4j2.properties" in options
    assert options.endswith("-Xss8m")


def test_an_authors_collector_takes_the_place_of_ours() -> None:
    name = "spark.driver.extraJavaOptions"
    assert "-XX:+UseParallelGC" in made()[name]
    ours = made(flow={name: "-Xss8m -XX:+UseZGC"})[name]
    assert "UseParallelGC" not in ours
    assert ours.endswith("-XX:-UsePerfData -Xss8m -XX:+UseZGC")
    assert "UseParallelGC" not in made(project={"spark.driver.defaultJavaOptions": "-XX:+UseG1GC"})[name]


def test_an_authors_class_path_does_not_cost_ours() -> None:
    plain = made()["spark.driver.extraClassPath"]
    both = made(flow={"spark.driver.extraClassPath": "/opt/their.jar"})["spark.driver.extraClassPath"]
    assert str(JAR) in plain
    assert both.split(os.pathsep) == [*plain.split(os.pathsep), "/opt/their.jar"]
    assert made("spark://host:7077")["spark.driver.extraClassPath"] == plain, "our classes must see Kafka's there too"


def test_a_local_driver_listens_on_loopback_only_and_one_on_a_cluster_can_be_reached() -> None:
    local, cluster = made("local[2]"), made("spark://host:7077")

    assert local["spark.driver.host"] == local["spark.driver.bindAddress"] == "127.0.0.1"
    assert "spark.driver.host" not in cluster
    assert made("spark://host:7077", host="10.0.0.7")["spark.driver.host"] == "10.0.0.7"
    assert "spark.local.dir" not in cluster
    assert environment(Path("/java"), "local", [])["SPARK_LOCAL_IP"] == "127.0.0.1"
    assert "SPARK_LOCAL_IP" not in environment(Path("/java"), "spark://host:7077", [])


def test_the_master_is_the_flags_then_the_projects_then_this_machine() -> None:
    assert choose_master("a", "b") == "a"
    assert choose_master(None, "b") == "b"
    assert choose_master(None, None) == "local[*]"


def test_the_authors_modules_are_found_beside_the_flow_and_in_the_project() -> None:
    paths = python_path(Path("/project/flows/shop.yaml"), Path("/project"))

    assert paths[:2] == (Path("/project/flows"), Path("/project"))
    assert (paths[-1] / "headrace" / "run" / "session.py").is_file()


def test_executors_of_a_cluster_are_sent_the_projects_modules_and_ours_but_nobody_elses(tmp_path: Path) -> None:
    project = tmp_path / "shop"
    for name in ("flows/taxes.py", "shared/__init__.py", ".venv/x.py", "venv/y.py", "flows/data.csv"):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).touch()
    ship = shipped(python_path(project / "flows" / "shop.yaml", project), project)

    held = []
    for number, folder in enumerate(ship):
        with ZipFile(_zipped(folder, tmp_path / f"{number}.zip")) as archive:
            held.append(set(archive.namelist()))

    assert held[:2] == [{"taxes.py"}, {"flows/taxes.py", "shared/__init__.py"}]
    assert {"headrace/run/session.py", "headrace/demo/hashtag-velocity.yaml"} <= held[2]
    assert not [name for name in held[2] if not name.startswith("headrace/") or "__pycache__" in name]

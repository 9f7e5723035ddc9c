"""The archive of classes: one for each Java and PySpark, used if it is there, forgotten with its environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.log.java import Java
from headrace.run import classes


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "headrace" / "classes"


def write_archive(java: Java, draft: Path) -> str:
    draft.write_bytes(b"classes")
    return ""


def test_an_archive_is_made_once_for_each_java_and_its_jars(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jars = [Path("a.jar")]
    one, other = Java(Path("/java/17"), 17), Java(Path("/java/21"), 21)
    assert classes.options(one, jars) == ""
    monkeypatch.setattr(classes, "_train", write_archive)
    told: list[str] = []
    for _ in range(2):
        classes.ensure(one, jars, told.append)
    assert len(told) == 1, "the second time it is there"
    assert f"-XX:SharedArchiveFile={cache}" in classes.options(one, jars)
    assert classes.options(other, jars) == ""
    assert classes.options(one, [Path("b.jar")]) == ""


def test_what_cannot_be_made_is_told_and_nothing_is_left(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(classes, "_train", lambda java, draft: "no space left")
    told: list[str] = []
    java = Java(Path("/java/17"), 17)
    classes.ensure(java, [], told.append)
    assert "no space left" in told[-1]
    assert classes.options(java, []) == ""
    assert list(cache.glob("*.jsa")) == []


def test_archives_of_environments_that_are_gone_are_removed(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(classes, "_train", write_archive)
    java = Java(Path("/java/17"), 17)
    for folder in ("gone", "here"):
        monkeypatch.setattr(classes, "_pyspark", lambda folder=folder: cache / folder)
        (cache / folder).mkdir(parents=True)
        classes.ensure(java, [])
    (cache / "gone").rmdir()
    monkeypatch.setattr(classes, "_pyspark", lambda: cache / "new")
    classes.ensure(java, [])
    assert sorted(Path(n.read_text().split()[0]).name for n in cache.glob("*.pyspark")) == ["here", "new"]
    assert len(list(cache.glob("*.jsa"))) == 2


def test_an_archive_that_another_version_of_ours_takes_the_place_of_is_removed(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(classes, "_train", write_archive)
    monkeypatch.setattr(classes, "_pyspark", lambda: cache)
    one, other = Java(Path("/java/17"), 17), Java(Path("/java/21"), 21)
    for java, jar in ((one, "old.jar"), (other, "old.jar"), (one, "new.jar")):
        classes.ensure(java, [Path(jar)])
    assert not classes.options(one, [Path("old.jar")])
    assert classes.options(one, [Path("new.jar")])
    assert classes.options(other, [Path("old.jar")])

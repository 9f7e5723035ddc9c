from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.compile.leaves import Leaf
from headrace.errors import DataError, UsageError
from headrace.run.checkpoint import planned
from headrace.run.failure import explain_text
from headrace.run.home import Home, Record
from headrace.run.integrity import require_whole
from headrace.run.journal import Entry
from headrace.run.restore import files_read, restored

LEAVES = [Leaf("files", 0), Leaf("orders", 1)]
LAST = 7
"""The last batch that is done."""


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """As Spark leaves it: batches 3 to 7 done, 8 begun; files and Kafka; state with a snapshot at 5."""
    folder = tmp_path / "cp"
    for name in ("offsets", "commits", "sources/0", "sources/1", "state/0/0/_metadata", "state/0/1"):
        (folder / name).mkdir(parents=True)
    (folder / "metadata").write_text('{"id":"8dcf48e5"}')
    for batch in range(3, LAST + 2):
        head = 'v1\n{"batchWatermarkMs":5000,"batchTimestampMs":1,"conf":{}}'
        (folder / "offsets" / str(batch)).write_text(
            f'{head}\n{{"logOffset":{batch - 1}}}\n{{"orders":{{"0":{batch}}}}}'
        )
    for batch in range(3, LAST + 1):
        (folder / "commits" / str(batch)).write_text('v1\n{"nextBatchWatermarkMs":0}')
    entry = {"path": "file:///data/in/a.json", "timestamp": 1, "batchId": 4}
    for name in ("4.compact", "5", "6", "7"):
        (folder / "sources" / "0" / name).write_text(f"v1\n{json.dumps(entry, separators=(',', ':'))}")
    (folder / "sources" / "1" / "0").write_text('v1\n{"orders":{"0":0}}')
    for part in ("0", "1"):
        with zipfile.ZipFile(folder / "state" / "0" / part / "5.zip", "w") as file:
            file.writestr("000.sst", "x" * 1000)
        for version in (6, 7, 8):
            (folder / "state" / "0" / part / f"{version}.changelog").write_bytes(b"LZ4Block....")
    return folder


def noted(folder: Path, *batches: int) -> dict[int, Entry]:
    return {n: Entry.of(n, planned(folder, n), LEAVES) for n in batches}


def test_a_whole_checkpoint_is_taken_and_so_is_none(checkpoint: Path, tmp_path: Path) -> None:
    require_whole("q", checkpoint, noted(checkpoint, 3, 7, 8))
    require_whole("q", tmp_path / "none", {})


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def zero(path: Path) -> None:
    path.write_bytes(b"\0" * path.stat().st_size)


def delete(path: Path) -> None:
    path.unlink()


@pytest.mark.parametrize(
    ("file", "damage", "said"),
    [
        ("metadata", delete, "is missing"),
        ("metadata", zero, "holds only zeros"),
        ("offsets/5", delete, "is missing, though the one before"),
        ("offsets/7", cut, "is cut short"),
        ("offsets/8", empty, "is empty"),
        ("offsets/7", zero, "holds only zeros"),
        ("commits/5", delete, "is missing, though the one before"),
        ("commits/7", cut, "is cut short"),
        ("sources/0/6", delete, "is missing: the files it lists would be read again"),
        ("sources/0/4.compact", zero, "holds only zeros"),
        ("sources/1/0", zero, "holds only zeros"),
        ("state/0/1/7.changelog", delete, "is missing: without it the state"),
        ("state/0/1/8.changelog", empty, "is empty"),
        ("state/0/0/6.changelog", zero, "holds only zeros"),
        ("state/0/0/5.zip", cut, "is cut short"),
    ],
)
def test_each_damage_is_said_with_its_file_and_the_way_out(
    checkpoint: Path, file: str, damage: Callable[[Path], None], said: str
) -> None:
    known = noted(checkpoint, 7, 8)
    damage(checkpoint / file)

    with pytest.raises(DataError) as caught:
        require_whole("q", checkpoint, known)

    assert f'"{checkpoint / file}" {said}' in caught.value.message
    assert "--restore" in caught.value.hint


def test_a_batch_nobody_was_given_can_be_planned_anew(checkpoint: Path) -> None:
    (checkpoint / "offsets" / "8").write_bytes(b"")

    with pytest.raises(DataError) as caught:
        require_whole("q", checkpoint, {})

    assert "delete that file" in caught.value.hint


def test_everything_gone_is_not_a_beginning(checkpoint: Path, tmp_path: Path) -> None:
    known = noted(checkpoint, 7)
    for folder in ("offsets", "commits"):
        for file in (checkpoint / folder).iterdir():
            file.unlink()

    for path in (checkpoint, tmp_path / "gone"):
        with pytest.raises(DataError, match="all would be read again"):
            require_whole("q", path, known)


def test_the_last_offsets_missing_behind_a_done_batch_are_said(checkpoint: Path) -> None:
    for batch in (7, 8):
        (checkpoint / "offsets" / str(batch)).unlink()
    with pytest.raises(DataError, match=r"offsets/7.* is missing, though its batch is done"):
        require_whole("q", checkpoint, {})


@pytest.mark.parametrize("gone", [["offsets/8"], ["offsets/8", "offsets/7", "commits/7"]])
def test_the_last_batches_gone_without_a_trace_are_known_from_the_journal(checkpoint: Path, gone: list[str]) -> None:
    known = noted(checkpoint, 6, 7, 8)
    for file in gone:
        (checkpoint / file).unlink()

    with pytest.raises(DataError, match=r"offsets/8.* is missing, though sinks were given its batch"):
        require_whole("q", checkpoint, known)


def test_a_batch_planned_and_given_to_nobody_yet_is_no_damage(checkpoint: Path) -> None:
    require_whole("q", checkpoint, noted(checkpoint, 6, 7))


def test_what_spark_says_of_a_damaged_file_is_said_in_words() -> None:
    failure = explain_text("StreamingQueryException: Incomplete log file file:/x/cp/q/offsets/5\n\tat a.b")

    assert failure.message == 'checkpoint file "file:/x/cp/q/offsets/5" cannot be read'
    assert not failure.retry


def test_a_full_disk_is_waited_for_like_anything_else_outside() -> None:
    failure = explain_text("StreamingQueryException: x\nCaused by: java.io.IOException: No space left on device\n")

    assert (failure.kind, failure.retry) == ("endpoint", True)
    assert "no space left on device" in failure.message


def test_a_home_is_restored_from_a_copy_without_its_processes(checkpoint: Path, tmp_path: Path) -> None:
    there, here = Home(tmp_path / "there" / "shop"), Home(tmp_path / "here" / "shop")
    there.make()
    there.write(Record(name="shop", file="f", root="r", hash="h", mode="micro-batch", queries={"q": {}}))
    checkpoint.rename(there.path / "checkpoints" / "q")
    (there.path / "places" / "out").mkdir()
    (there.path / "places" / "out" / "writer").write_text("abc")
    (there.path / "lock").touch()
    here.path.mkdir(parents=True)

    assert "continues from the copy" in restored(here, there.path)[0]
    assert (here.path / "places" / "out" / "writer").read_text() == "abc"
    assert not (here.path / "lock").exists()
    assert here.read().supervisor is None
    assert files_read(here.checkpoint("q")) == {"file:///data/in"}
    with pytest.raises(UsageError, match="is there already"):
        restored(here, there.path)
    with pytest.raises(UsageError, match='is of flow "shop"'):
        restored(Home(tmp_path / "here" / "other"), there.path)


def test_checkpoints_alone_can_be_restored(checkpoint: Path, tmp_path: Path) -> None:
    here = Home(tmp_path / "here" / "shop")

    notes = restored(here, tmp_path)

    assert "cp" in notes[0]
    assert "written again" in notes[2]
    with pytest.raises(UsageError, match="neither the home of a run"):
        restored(Home(tmp_path / "here" / "two"), tmp_path / "nothing")
    named = tmp_path / "three-0a1b2c3d4e5f"
    checkpoint.rename(named.parent / "moved")
    named.mkdir()
    (named.parent / "moved").rename(named / "cp")
    assert "written again" not in str(restored(Home(tmp_path / "here" / "three"), named)), "its sinks know the run"


def test_checkpoints_may_be_elsewhere(tmp_path: Path) -> None:
    home = Home(tmp_path / "shop")
    home.make()
    assert home.checkpoint("q") == home.path / "checkpoints" / "q"
    home.keep_checkpoints_at(f"file://{tmp_path}/else where/", "a1")
    assert home.checkpoint("q") == tmp_path / "else where" / "shop-a1" / "q"
    home.keep_checkpoints_at("hdfs://name/headrace", "b2")
    assert str(home.checkpoint("q") / "offsets") == "hdfs://name/headrace/shop-b2/q/offsets"
    with pytest.raises(UsageError, match="only be read where Spark runs"):
        home.checkpoint("q").exists()

"""Files: records read from the files of a folder, and written to one.

Delivery, as a source: exactly once; each file is read once, and which files a batch read is in the checkpoint. As a
sink: exactly once; see `published.py` for how.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

from pydantic import Field as Option

from headrace.connectors.base import (
    ORIGIN,
    REASON,
    Batch,
    Holding,
    IdempotentSink,
    Place,
    Reading,
    ReplayableSource,
    Written,
    connector,
)
from headrace.connectors.file_log import dated_files_of, files_of
from headrace.connectors.folder import Folder
from headrace.connectors.unreadable import (
    EMPTY,
    Noted,
    Unreadable,
    as_rows,
    decoded,
    empty_in,
    failing,
    looked_up,
    plain,
    reason_of,
    without,
)
from headrace.errors import FlowError, Problem
from headrace.formats.csv import as_number, as_texts
from headrace.formats.json import EXACT_TIMES
from headrace.formats.reasons import column
from headrace.model import Schema
from headrace.model.types import Decimal
from headrace.options import Names, Options

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column, DataFrame, DataFrameReader, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamReader
    from pyspark.sql.types import StructField

    from headrace.formats.base import Format

_CORRUPT = "_headrace_corrupt"


class FilesSourceOptions(Options):
    """Which files to read."""

    shorthand = "path"

    path: str = Option(
        min_length=1,
        description="A folder, a file or a pattern; relative to the project, or with a scheme Spark knows.",
        examples=["data/orders", "data/*.csv", "s3a://bucket/orders"],
    )
    per_batch: int | None = Option(
        None, ge=1, description="Most files in one batch of a stream; unset: all there are.", examples=[100]
    )
    recursive: bool = Option(False, description="Also read the files in folders below.")
    after: Literal["keep", "delete", "archive"] = Option(
        "keep", description="What to do with a file once its batch is complete. Streams only."
    )
    archive: str | None = Option(
        None, description="Folder for the files that were read, with `after: archive`.", examples=["data/done"]
    )


class FilesSinkOptions(Options):
    """Where to write files, and how many."""

    shorthand = "path"

    path: str = Option(
        min_length=1,
        description="A folder; relative to the project, or with a scheme Spark knows.",
        examples=["out/orders", "hdfs://name/orders"],
    )
    partition_by: Names = Option(
        (), description="Columns that become folders, name=value, rather than part of the files.", examples=["day"]
    )
    files_per_batch: int = Option(
        1, ge=1, le=100_000, description="Files each batch is written to; with partition_by, per folder at most."
    )
    rows_per_file: int | None = Option(
        None, ge=1, description="Begin another file after so many rows.", examples=[1_000_000]
    )


@connector(
    "files",
    options=FilesSourceOptions,
    example="""
orders:
  files: {path: data/orders}
  format: json
  schema: id BIGINT, amount DECIMAL(10,2)
""",
)
class FilesSource(ReplayableSource[FilesSourceOptions]):
    """Records of text, CSV, JSON or Parquet files; a folder is watched for new ones.

    Files must appear whole (write elsewhere, then rename) and not change. A record that is not readable becomes a
    dead letter, and so does a Parquet file that is, as a whole; read as a table, it stops the run with the reason.
    """

    carries = "files"

    def read(self, reading: Reading) -> DataFrame:
        from pyspark.sql import functions as F

        if reading.format is None:
            raise _missing_format(reading.place)
        kind = reading.format.file_options()[0]
        if kind in ("json", "text"):
            return self._decoded(reading, reading.format)
        if kind != "csv":
            return self._whole(reading, reading.format)
        frame = self._load(reading, reading.format, checked=True)
        if reading.origin:
            frame = _with_origin(frame, reading.format)
        assert reading.schema is not None
        frame = _with_numbers(frame, reading.format, reading.schema)
        reason = "the record does not have the schema's fields, or a value does not fit its column"
        if reading.reasons:
            return frame.withColumn(REASON, F.when(F.col(_CORRUPT).isNotNull(), F.lit(reason))).drop(_CORRUPT)
        return _refusing(frame, _when_set(_CORRUPT, reason), _CORRUPT)

    def lines(self, reading: Reading) -> DataFrame:
        """Each line as `value BINARY`, for those who want to treat unreadable records themselves."""
        from pyspark.sql import Window
        from pyspark.sql import functions as F

        reader = self._reader(reading).schema("value STRING").format("text")
        value = F.col("value").cast("binary").alias("value")
        if not reading.origin:
            return self._open(reader, reading).select(value)
        # A file may be read in blocks by several tasks; within one its lines come in order.
        here = Window.partitionBy("file").orderBy("block", "number")
        read = self._open(reader, reading).select(
            value,
            F.col("_metadata.file_path").alias("file"),
            F.col("_metadata.file_block_start").alias("block"),
            F.monotonically_increasing_id().alias("number"),
        )
        numbered = read.withColumn("line", F.row_number().over(here).cast("bigint"))
        return numbered.select("value", F.struct("value", "file", "line").alias(ORIGIN))

    def _decoded(self, reading: Reading, form: Format[Options]) -> DataFrame:
        from pyspark.sql import functions as F

        schema = reading.schema or form.own_schema
        if schema is None:
            raise _missing_schema(reading.place)
        row, reason = form.decode(F.col("value"), schema)
        origin = [ORIGIN] if reading.origin else []
        decoded = self.lines(reading).select(row.alias("row"), reason.alias(REASON), *origin)
        if reading.reasons:
            return decoded.select("row.*", REASON, *origin)
        return _refusing(decoded, F.col(REASON)).select("row.*")

    def _whole(self, reading: Reading, form: Format[Options]) -> DataFrame:
        """Files that are taken whole or not at all; each that is noted as unreadable is a row with its reason."""
        from pyspark.sql import functions as F

        if not reading.reasons:
            return self._load(reading, form, checked=False)
        if reading.streaming:
            noted = Noted(reading.place, reading.reads_for)
            left = noted.of(reading.repeated) if reading.repeated is not None else []
            frame = without(self._load(reading, form, checked=False), left)
            return frame.withColumn(REASON, F.lit(None).cast("string"))
        files, left = self._files(reading, form)
        frame = self._load(replace(reading, files=files), form, checked=False)
        if files is None:
            frame = without(frame, left)
        if reading.origin:
            frame = _with_origin(frame, None)
        return as_rows(frame.withColumn(REASON, F.lit(None).cast("string")), left)

    def _files(self, reading: Reading, form: Format[Options]) -> tuple[tuple[str, ...] | None, list[Unreadable]]:
        """The files that are read as a batch, None: all there are; and those that are left out of them."""
        noted = Noted(reading.place, reading.reads_for).all()
        if reading.between is not None:
            known = {(plain(one.path), one.planned): one for one in noted}
            dated = [((plain(path), time), path) for path, time in dated_files_of(reading.session, reading.between)]
            left = [known[key] for key, _ in dated if key in known]
            return self._now(reading, [path for key, path in dated if key not in known]), left
        if reading.files is not None:
            out = {plain(one.path): one for one in noted}
            files = tuple(path for path in reading.files if plain(path) not in out)
            return files, [out[plain(path)] for path in reading.files if plain(path) in out]
        frame = self._load(reading, form, checked=False)
        empty = empty_in(frame._jdf.queryExecution().analyzed())
        if empty:
            self.set_aside(reading, 0, (), empty=empty)
        return None, Noted(reading.place, reading.reads_for).all()

    def set_aside(
        self, reading: Reading, batch: int, columns: Sequence[str], *, empty: frozenset[str] | None = None
    ) -> int:
        form = reading.format
        if form is None or not form.whole_files:
            return 0
        noted = Noted(reading.place, reading.reads_for)
        known = {plain(one.path) for one in noted.of(batch)}
        dated = {path: time for path, time in self._listed(reading, form, empty) if plain(path) not in known}

        def load(files: Sequence[str]) -> DataFrame:
            frame = self._load(replace(reading, files=tuple(files)), form, checked=False)
            return frame.select(*(column(name) for name in columns if name in frame.columns))

        there = empty if empty is not None else empty_in(load([*dated])._jdf.queryExecution().analyzed())
        nothing = {plain(path) for path in there}
        found = {path: (EMPTY, "") for path in dated if plain(path) in nothing}
        if empty is None:
            rest = [path for path in dated if path not in found]
            found |= {path: (reason_of(said), said) for path, said in failing(load, rest)}
        if found:
            copy = noted.folder.parent / "copies" if self.options.after == "delete" else None
            told = [
                looked_up(reading.session, path, reason, said=said, planned=dated[path], copy=copy)
                for path, (reason, said) in found.items()
            ]
            noted.add(batch, told)
        return len(found)

    def left_out(self, reading: Reading, batch: int) -> int:
        return len(Noted(reading.place, reading.reads_for).of(batch))

    def _listed(
        self, reading: Reading, form: Format[Options], empty: frozenset[str] | None
    ) -> list[tuple[str, int | None]]:
        """The files of a batch, with when the stream has seen them change last, where there is a stream."""
        if reading.between is not None:
            return [*dated_files_of(reading.session, reading.between)]
        if reading.files is not None:
            return [(path, None) for path in reading.files]
        if empty is not None:
            return [(path, None) for path in empty]
        return [(decoded(path), None) for path in self._load(reading, form, checked=False).inputFiles()]

    def _load(self, reading: Reading, form: Format[Options], checked: bool) -> DataFrame:
        kind, options = form.file_options()
        if reading.schema is None:
            raise _missing_schema(reading.place)
        wanted = f"{as_texts(reading.schema).ddl()}, {_CORRUPT} STRING" if checked else reading.schema.ddl()
        settings = {**options, "mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT} if checked else options
        return self._open(self._reader(reading).schema(wanted).format(kind).options(**settings), reading)

    def _open(self, reader: DataFrameReader | DataStreamReader, reading: Reading) -> DataFrame:
        from pyspark.errors import AnalysisException

        place, path = reading.place, located(self.options.path, reading.place)
        try:
            return reader.load(self._paths(reading, path))  # type: ignore[arg-type]
        except AnalysisException as error:
            if error.getCondition() != "PATH_NOT_FOUND":
                raise
            raise _nothing_there(path, place, again=reading.between is not None, said=str(error)) from None

    def _paths(self, reading: Reading, path: str) -> str | list[str]:
        if reading.files is not None:
            return [*reading.files]
        if reading.between is None:
            return _one_file(path)
        return [*self._now(reading, files_of(reading.session, reading.between))]

    def where_now(self, reading: Reading, files: Sequence[tuple[str, str | None]]) -> tuple[str, ...]:
        """Files that were left out, where they are now; of each a copy may be known."""
        folder = Folder(reading.session, located(self.options.path, reading.place))
        there = self._now(reading, [path for path, _ in files])
        return tuple(
            copy if copy is not None and not folder.exists(path) else path
            for path, (_, copy) in zip(there, files, strict=True)
        )

    def _now(self, reading: Reading, files: Sequence[str]) -> tuple[str, ...]:
        """Files of a stream, where they are now."""
        if self.options.after != "archive":
            return tuple(files)
        archive = located(self.options.archive or "", reading.place)
        folder = Folder(reading.session, archive)
        return tuple(file if folder.exists(file) else f"{archive}{urlsplit(file).path}" for file in files)

    def _reader(self, reading: Reading) -> DataFrameReader | DataStreamReader:
        given = self.options
        if reading.between is not None or reading.files is not None:
            # Names are taken as they are, and columns from folder names as a stream takes them.
            path = located(given.path, reading.place)
            base = {} if _is_pattern(_one_file(path)) else {"basePath": path}
            return reading.session.read.options(__globPaths__="false", **base)
        if not reading.streaming:
            return reading.session.read.options(recursiveFileLookup=given.recursive)
        settings: dict[str, str] = {"recursiveFileLookup": str(given.recursive).lower()}
        if given.per_batch is not None:
            settings["maxFilesPerTrigger"] = str(given.per_batch)
        if given.after != "keep":
            settings["cleanSource"] = given.after
        if given.after == "archive":
            settings["sourceArchiveDir"] = located(given.archive or "", reading.place)
        return reading.session.readStream.options(**settings)


def _is_pattern(path: str) -> bool:
    return any(letter in path for letter in "*?[{")


def _one_file(path: str) -> str:
    """The path of a single local file as a pattern that fits nothing else; any other path as it is.

    Spark takes the path of a stream for a folder unless it is a pattern, and fails on its first batch.

    >>> _one_file("no/such/words.txt")
    'no/such/words.txt'
    """
    if not Path(path.removeprefix("file:")).is_file():
        return path
    at = max(index for index, letter in enumerate(path) if letter.isalnum())
    return f"{path[:at]}[{path[at]}]{path[at + 1 :]}"


@connector(
    "files",
    options=FilesSinkOptions,
    example="""
archive:
  from: orders
  files: {path: out/orders, partition_by: day}
  format: parquet
""",
)
class FilesSink(IdempotentSink[FilesSinkOptions]):
    """A few files for each batch, none for an empty one; each appears whole, under its final name, or not at all.

    A batch of one file is seen at once. One of several is seen file by file, within moments; after a crash in
    between it is completed when the run resumes. `_headrace/<writer>/<batch>.json` lists the files of a complete
    batch, for readers that want whole batches only.
    """

    carries = "files"
    default_format = "json"

    def requires(self, given: Schema) -> tuple[str, ...]:
        return self.options.partition_by

    def write(self, frame: DataFrame, batch: Batch) -> Written:
        from headrace.connectors.published import publish

        if batch.format is None:
            raise _missing_format(batch.place)
        kind, options = batch.format.file_options(writing=True)
        return publish(
            self._gathered(_flat(frame, kind, self.options.partition_by)),
            batch,
            located(self.options.path, batch.place),
            kind,
            self._settings(options),
            self.options.partition_by,
        )

    def newest(self, session: SparkSession, place: Place) -> int | None:
        from headrace.connectors.published import newest_published

        return newest_published(session, place, located(self.options.path, place))

    def holds(self, holding: Holding) -> DataFrame | None:
        from headrace.connectors.published import published_files
        from headrace.expressions.spark import spark_schema

        if holding.format is None:
            raise _missing_format(holding.place)
        kind, options = holding.format.file_options()
        path, columns = located(self.options.path, holding.place), spark_schema(holding.schema)
        files = published_files(holding.session, holding.place, path, holding.batches)
        files += [f for place in holding.replays for f in published_files(holding.session, place, path, None)]
        if kind in ("json", "text") or not files:
            raw = holding.session.read.options(__globPaths__="false", basePath=path)
            return self._decoded_files(raw, files, holding) if files else holding.session.createDataFrame([], columns)
        reader = holding.session.read.schema(columns).format(kind).options(**options)
        return reader.options(__globPaths__="false", basePath=path).load(files)

    def _decoded_files(self, reader: DataFrameReader, files: list[str], holding: Holding) -> DataFrame:
        """Lines of JSON or text, read as the source reads them; columns that are folders come from their names."""
        from pyspark.sql import functions as F

        assert holding.format is not None
        folders = self.options.partition_by
        plain = Schema.of((f.name, f.type) for f in holding.schema if f.name not in folders)
        kept = [f"`{f.name}` {f.type}" for f in holding.schema if f.name in folders]
        lines = reader.schema(", ".join(["value STRING", *kept])).format("text").load(files)
        row, _ = holding.format.decode(F.col("value").cast("binary"), plain)
        decoded = lines.select(row.alias("_row"), *(column(name) for name in folders))
        return decoded.select(*(F.col(f"_row.`{n}`") if n not in folders else column(n) for n in holding.schema.names))

    def _gathered(self, frame: DataFrame) -> DataFrame:
        """As many tasks as there shall be files; all rows of a folder in one task, unless more files are asked for."""
        from pyspark.sql import functions as F

        given = self.options
        if not given.partition_by:
            return frame.repartition(given.files_per_batch)
        if given.files_per_batch == 1:
            return frame.repartition(*given.partition_by)
        spread = F.pmod(F.xxhash64(*frame.columns), F.lit(given.files_per_batch))
        return frame.repartition(*given.partition_by, spread)

    def _settings(self, options: Mapping[str, str]) -> dict[str, str]:
        limit = self.options.rows_per_file
        return {**options, **({} if limit is None else {"maxRecordsPerFile": str(limit)})}


def located(path: str, place: Place) -> str:
    """The path as Spark takes it: relative ones from the project's root.

    >>> from pathlib import Path
    >>> located("s3a://bucket/x", Place(step="s", flow="f", home=Path("/h"), base=Path("/p")))
    's3a://bucket/x'
    """
    return path if "://" in path else str(place.base / path)


def _refusing(frame: DataFrame, reason: Column, *drop: str) -> DataFrame:
    """The frame, which fails at the first row that has a reason."""
    from pyspark.sql import functions as F

    stop = F.raise_error(F.concat(F.lit("a record is not readable: "), reason))
    # In a filter: Spark may not leave it out, as it would a column that nothing reads.
    return frame.where(F.when(reason.isNotNull(), stop.cast("boolean")).otherwise(F.lit(True))).drop(*drop)


def _with_origin(frame: DataFrame, csv: Format[Options] | None) -> DataFrame:
    """The frame with each record's file; from CSV also its line if it is not readable, else the same written anew."""
    from pyspark.sql import functions as F

    file = F.col("_metadata.file_path").alias("file")
    if csv is None:
        return frame.withColumn(ORIGIN, F.struct(file, F.lit(None).cast("string").alias("record")))
    schema = Schema.parse(
        ", ".join(f"`{f.name}` {f.dataType.simpleString()}" for f in frame.schema if f.name != _CORRUPT)
    )
    value = F.coalesce(F.col(_CORRUPT).cast("binary"), csv.encode(schema)).alias("value")
    return frame.withColumn(ORIGIN, F.struct(value, file))


def _with_numbers(frame: DataFrame, csv: Format[Options], schema: Schema) -> DataFrame:
    """The frame with every DECIMAL, which was read as text, as a number; a record where one is none is corrupt."""
    from pyspark.sql import functions as F

    made = {f.name: as_number(column(f.name), f.type) for f in schema if isinstance(f.type, Decimal)}
    if not made:
        return frame
    misfit = F.greatest(F.lit(False), *(column(n).isNotNull() & number.isNull() for n, number in made.items()))
    made[_CORRUPT] = F.coalesce(F.col(_CORRUPT), F.when(misfit, csv.encode(as_texts(schema)).cast("string")))
    return frame.select(*(made.get(n, column(n)).alias(n) for n in frame.columns))


def _when_set(name: str, reason: str) -> Column:
    from pyspark.sql import functions as F

    return F.when(F.col(name).isNotNull(), F.concat(F.lit(f"{reason}: "), F.col(name)))


def _flat(frame: DataFrame, kind: str, partition_by: tuple[str, ...]) -> DataFrame:
    """What the file format cannot hold, as text: CSV has no nested columns, text has strings only."""
    from pyspark.sql import functions as F

    if kind not in ("text", "csv"):
        return frame

    def flat(field: StructField) -> Column:
        here = column(field.name)
        if kind == "text":
            return here if field.name in partition_by else here.cast("string").alias(field.name)
        nested = field.dataType.typeName() in ("array", "map", "struct", "variant")
        return F.to_json(here, EXACT_TIMES).alias(field.name) if nested else here

    return frame.select(*map(flat, frame.schema.fields))


def _nothing_there(path: str, place: Place, *, again: bool, said: str) -> FlowError:
    if again:
        message, hint = (
            f'source "{place.step}" cannot read its files again: {said.split(" SQLSTATE")[0]}',
            ("they were moved or deleted after they were read; `after: keep` leaves them where they are"),
        )
    else:
        message = f'source "{place.step}" reads from "{path}", where there is nothing'
        hint = "a folder that is watched must exist, though it may be empty"
    return FlowError(Problem(code="file-not-found", message=message, step=place.step, hint=hint))


def _missing_format(place: Place) -> FlowError:
    return FlowError(
        Problem(
            code="format-required",
            message=f'"{place.step}" (files) is not told the format of its files',
            step=place.step,
        )
    )


def _missing_schema(place: Place) -> FlowError:
    return FlowError(
        Problem(
            code="schema-required", message=f'source "{place.step}" (files) is not told its columns', step=place.step
        )
    )

"""Delta Lake: rows written to a table, through delta-rs.

Delivery: exactly once. A batch is one commit of the table's log, and the commit carries who wrote it and the batch's
id (a Delta "txn" action); a batch whose id is there is not written again, and of two writers that try the same batch
at once the log lets one through. Only the driver writes: the rows of a batch must fit in its memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pydantic import Field as Option
from pydantic import model_validator

from headrace.connectors.base import Batch, Holding, Place, TransactionalSink, Written, connector
from headrace.connectors.before import note_before, noted_before
from headrace.connectors.files import located
from headrace.connectors.identity import known_writer, writer
from headrace.connectors.tables import in_case_of, quoted
from headrace.errors import DataError, EndpointError
from headrace.model import REMOVED, Schema
from headrace.options import Names, Options, Secret, refuse

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable
    from pyspark.sql import DataFrame, SparkSession

_PLACE = "_headrace_place"


class DeltaOptions(Options):
    """Which table to write, and how."""

    shorthand = "path"

    path: str = Option(
        min_length=1,
        description="The table's folder; relative to the project, or an address that delta-rs knows.",
        examples=["out/totals", "s3://bucket/totals"],
    )
    key: Names = Option(
        (),
        description="Columns that identify a row: a row with the same values is replaced. Unset: rows are added.",
        examples=["user", ["user", "day"]],
    )
    latest_by: str | None = Option(
        None,
        description="Column that says which of two rows with one key is newer; unset: the one that came later.",
        examples=["at"],
    )
    partition_by: Names = Option(
        (), description="Columns the table is divided by; only when it is made.", examples=["day"]
    )
    compact_every: int | None = Option(
        None,
        ge=1,
        description="Put small files together after every so many batches; unset: left to you.",
        examples=[100],
    )
    storage: dict[str, Secret] = Option(
        {},
        description="Settings of the object store, in delta-rs's spelling.",
        examples=[{"AWS_REGION": "eu-central-1", "AWS_SECRET_ACCESS_KEY": "${env:AWS_SECRET_ACCESS_KEY}"}],
    )

    @model_validator(mode="after")
    def _latest_needs_key(self) -> DeltaOptions:
        if self.latest_by is not None and not self.key:
            raise refuse("missing-option", '"latest_by" chooses between rows with one key, but there is no "key"')
        return self


@connector(
    "delta",
    options=DeltaOptions,
    extra="delta",
    example="""
lake:
  from: totals
  delta: {path: out/totals, key: user}
""",
)
class DeltaSink(TransactionalSink[DeltaOptions]):
    """Rows added to a Delta table, or replaced by key; the table is made, from the columns, if it is not there.

    When a key occurs twice in a batch the row with the greater `latest_by` holds, else the later one. Nulls are a
    key like any other. A batch without rows makes no commit. Old files are left to the table's own `vacuum`.
    """

    def takes_updates(self) -> bool:
        return bool(self.options.key)

    def key(self) -> tuple[str, ...]:
        return self.options.key

    def requires(self, given: Schema) -> tuple[str, ...]:
        latest = () if self.options.latest_by is None else (self.options.latest_by,)
        return (*self.options.partition_by, *latest)

    @property
    def newest_by(self) -> str | None:  # type: ignore[override]
        return self.options.latest_by

    def begins(self, place: Place) -> None:
        note_before(place, lambda: self._rows_there(place, []).num_rows)

    def held_before(self, place: Place) -> int:
        return int(noted_before(place) or 0)

    def newest(self, session: SparkSession, place: Place) -> int | None:
        name, path = known_writer(place), located(self.options.path, place)
        if name is None:
            return None
        with _trouble(place, path, "read"):
            table = self._open(path)
            return None if table is None else table.transaction_version(name)

    def holds(self, holding: Holding) -> DataFrame | None:
        from pyspark.sql import functions as F

        from headrace.expressions.spark import spark_schema, spark_type

        rows = self._rows_there(holding.place, holding.schema.names)
        if not rows.num_rows:
            return holding.session.createDataFrame([], spark_schema(holding.schema))
        held = holding.session.createDataFrame(rows)
        return held.select(*(F.col(f"`{f.name}`").cast(spark_type(f.type)).alias(f.name) for f in holding.schema))

    def _rows_there(self, place: Place, columns: Sequence[str]) -> pa.Table:
        import pyarrow as pa

        path = located(self.options.path, place)
        with _trouble(place, path, "read"):
            table = self._open(path)
            if table is None:
                return pa.table({})
            known = [field.name for field in table.schema().fields]
            return table.to_pyarrow_table(columns=in_case_of(known, columns) if columns else known[:1])

    def write(self, frame: DataFrame, batch: Batch) -> Written:
        path = located(self.options.path, batch.place)
        with _trouble(batch.place, path):
            name, table = writer(batch), self._open(path)
            if table is not None and _last(table, name) >= batch.id:
                return Written(skipped=frame.count())
            rows = frame.toArrow()
            if rows.num_rows:
                self._commit(path, table, rows, name, batch.id)
            return Written(written=rows.num_rows)

    def _open(self, path: str) -> DeltaTable | None:
        from deltalake import DeltaTable

        storage = self._storage()
        return DeltaTable(path, storage_options=storage) if DeltaTable.is_deltatable(path, storage) else None

    def _storage(self) -> dict[str, str] | None:
        return {name: value.reveal() for name, value in self.options.storage.items()} or None

    def _commit(self, path: str, table: DeltaTable | None, rows: pa.Table, name: str, batch_id: int) -> None:
        """The rows and the mark of their batch in one commit."""
        from deltalake import CommitProperties, Transaction, write_deltalake

        given = self.options
        # No other try if somebody else's commit comes between: it may have been this batch.
        properties = CommitProperties(app_transactions=[Transaction(name, batch_id)])
        key = in_case_of(rows.column_names, given.key)
        latest = in_case_of(rows.column_names, [given.latest_by])[0] if given.latest_by else None
        if key:
            rows = last_of_each(rows, key, latest)
        if key and table is not None:
            _merge(table, rows, key, latest, properties)
        else:
            write_deltalake(
                table if table is not None else path,
                _there(rows),
                mode="append",
                partition_by=in_case_of(rows.column_names, given.partition_by) or None if table is None else None,
                storage_options=self._storage(),
                commit_properties=properties,
            )
        if given.compact_every is not None and (batch_id + 1) % given.compact_every == 0:
            opened = self._open(path)
            assert opened is not None
            opened.optimize.compact()


def last_of_each(rows: pa.Table, key: Sequence[str], latest: str | None) -> pa.Table:
    """Of the rows with one key the newest, else the last.

    >>> import pyarrow as pa
    >>> last_of_each(pa.table({"k": [1, 2, 1], "n": [5, 6, 4]}), ["k"], None).to_pylist()
    [{'k': 2, 'n': 6}, {'k': 1, 'n': 4}]
    >>> last_of_each(pa.table({"k": [1, 2, 1], "n": [5, 6, 4]}), ["k"], "n").to_pylist()
    [{'k': 1, 'n': 5}, {'k': 2, 'n': 6}]
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    # Backwards, so that of two the later comes first; then the newest first, where a column says which that is.
    order = pa.array(range(rows.num_rows - 1, -1, -1), pa.int64())
    if latest is not None:
        order = order.take(pc.sort_indices(rows.select([latest]).take(order), sort_keys=[(latest, "descending")]))
    places = pa.array(range(rows.num_rows), pa.int64())
    ordered = rows.select(key).take(order).append_column(_PLACE, places)
    first = ordered.group_by(list(key)).aggregate([(_PLACE, "min")]).column(f"{_PLACE}_min")
    chosen = order.take(first.combine_chunks())
    return rows.take(chosen.take(pc.sort_indices(chosen)))


def _there(rows: pa.Table) -> pa.Table:
    """The rows less those that are taken back."""
    if REMOVED not in rows.column_names:
        return rows
    import pyarrow.compute as pc

    return rows.filter(pc.invert(pc.fill_null(rows.column(REMOVED), False))).drop_columns([REMOVED])


def _merge(table: DeltaTable, rows: pa.Table, key: Sequence[str], latest: str | None, properties: Any) -> None:
    # A null is a key too, which "=" would not match. In brackets: the parser there lets AND bind more tightly.
    same = " AND ".join(f"(target.{quoted(k)} IS NOT DISTINCT FROM source.{quoted(k)})" for k in key)
    newer = None
    if latest is not None:
        newer = f"target.{quoted(latest)} IS NULL OR source.{quoted(latest)} >= target.{quoted(latest)}"
    merging = table.merge(
        rows, predicate=same, source_alias="source", target_alias="target", commit_properties=properties
    )
    left_out = [REMOVED] if REMOVED in rows.column_names else []
    stays = None
    if left_out:
        gone = f"source.{quoted(REMOVED)} IS TRUE"
        stays = f"NOT ({gone})"
        merging = merging.when_matched_delete(predicate=f"{gone} AND ({newer})" if newer else gone)
        newer = f"{stays} AND ({newer})" if newer else stays
    if set(rows.column_names) - {*key, REMOVED}:
        merging = merging.when_matched_update_all(predicate=newer, except_cols=left_out)
    merging.when_not_matched_insert_all(predicate=stays, except_cols=left_out).execute()


def _last(table: DeltaTable, name: str) -> int:
    found = table.transaction_version(name)
    return -1 if found is None else int(found)


@contextmanager
def _trouble(place: Place, path: str, what: str = "write") -> Iterator[None]:
    """Says what went wrong, and whether another try may help."""
    where = f'sink "{place.step}" (delta, "{path}")'
    try:
        from deltalake import exceptions
    except ImportError:
        raise DataError(f"{where} needs a library that is not here", hint="pip install headrace[delta]") from None
    try:
        yield
    except exceptions.SchemaMismatchError as error:
        raise DataError(f"{where} refused the rows: the table has other columns", detail=_first_line(error)) from None
    except exceptions.CommitFailedError as error:
        raise EndpointError(f"could not commit for {where}", detail=_first_line(error)) from None
    except (exceptions.DeltaError, OSError) as error:
        said = _first_line(error)
        if any(word in str(error).lower() for word in ("schema", "column", "planning")):
            raise DataError(f"{where} refused the rows", detail=said) from None
        raise EndpointError(f"could not {what} for {where}", detail=said) from None


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0]

"""A source read as a table: all it holds at a moment, to be joined to a stream."""

from __future__ import annotations

from pydantic import Field, model_validator

from headrace.options import Duration, Names, Options, refuse


class Table(Options):
    """Everything a source holds, as one table rather than as a stream.

    It is read when the run starts; with `refresh`, again before a batch if it is older than that. A batch sees one
    state of it. It is held by the driver and sent to every task, so it is for thousands of rows, not billions.
    """

    refresh: Duration | None = Field(
        None, description="Read it again when it is older than this; unset: only when the run starts."
    )
    key: Names = Field((), description="Columns that identify a row: of several with one key the latest holds.")
    latest_by: str | None = Field(
        None,
        description="Column that says which of several rows with one key is the latest.",
        examples=["at", "kafka_offset"],
    )

    @model_validator(mode="after")
    def _go_together(self) -> Table:
        if bool(self.key) != (self.latest_by is not None):
            raise refuse("missing-option", '"key" and "latest_by" go together', "write {key: id, latest_by: at}")
        return self

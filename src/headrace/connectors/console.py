"""Console: rows printed as a table, or as lines of JSON."""

from __future__ import annotations

import json
import sys
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field as Option

from headrace.connectors import row_port
from headrace.connectors.base import AppendSink, Batch, Written, connector
from headrace.connectors.once import computed_once
from headrace.model import REMOVED
from headrace.options import Names, Options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming import DataStreamWriter

_WIDEST = 60


class ConsoleOptions(Options):
    """How rows are printed."""

    style: Literal["table", "json"] = Option("table", description="An aligned table for each batch, or JSON lines.")
    limit: int = Option(20, ge=1, description="Rows printed of each batch; a last line counts the rest.")
    key: Names = Option((), description="Columns that identify a row; they are printed first.", examples=["user"])


@connector(
    "console",
    options=ConsoleOptions,
    example="""
show:
  from: totals
  console: {limit: 10}
""",
)
class ConsoleSink(AppendSink[ConsoleOptions]):
    """Each batch on standard output; an empty one prints nothing. New values for a key are printed as they come.

    A row that is taken back is printed once more; where that can be, a last column `removed` tells.
    """

    weakness = "a batch repeated after a crash is printed again"
    complete = False
    in_real_time = True

    def takes_updates(self) -> bool:
        return True

    def key(self) -> tuple[str, ...]:
        return self.options.key

    def stream(self, frame: DataFrame, batch: Batch) -> DataStreamWriter:
        names = self._names(frame)

        def take(rows: list[list[Any]]) -> None:
            shown = [dict(zip(frame.columns, row, strict=True)) for row in rows]
            lines = _lines(names, shown) if self.options.style == "json" else _table(names, shown)
            sys.stdout.write("".join(f"{line}\n" for line in lines))
            sys.stdout.flush()

        return row_port.writer(frame, take)

    def _names(self, frame: DataFrame) -> list[str]:
        first = [name for name in frame.columns if name.lower() in {k.lower() for k in self.options.key}]
        return [*first, *(name for name in frame.columns if name not in first)]

    def write(self, frame: DataFrame, batch: Batch) -> Written:
        frame = frame.withColumnRenamed(REMOVED, "removed")
        names = self._names(frame)
        with computed_once(frame) as kept:  # shown in part but counted in whole
            rows = [row.asDict(recursive=True) for row in kept.limit(self.options.limit + 1).collect()]
            count = kept.count()
        if rows:
            sys.stdout.write(render(batch, names, rows, self.options))
            sys.stdout.flush()
        return Written(written=count)


def render(batch: Batch, names: Sequence[str], rows: Sequence[dict[str, Any]], options: ConsoleOptions) -> str:
    """The text for one batch."""
    shown = rows[: options.limit]
    if options.style == "json":
        lines = _lines(names, shown)
    else:
        lines = [f"{batch.place.step}, batch {batch.id}", *_table(names, shown)]
        if len(rows) > len(shown):
            lines.append(f"… more than {options.limit} rows")
        lines.append("")
    return "".join(f"{line}\n" for line in lines)


def _lines(names: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> list[str]:
    return [json.dumps({name: plain(row[name]) for name in names}, ensure_ascii=False) for row in rows]


def _table(names: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> list[str]:
    return table(names, ([row[name] for name in names] for row in rows))


def table(names: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[str]:
    """Aligned lines: numbers to the right, the rest to the left.

    >>> table(["tag", "n"], [["spark", 7], ["ai", 12]])
    ['tag     n', '─────  ──', 'spark   7', 'ai     12']
    """
    values = [list(row) for row in rows]
    cells = [[_cell(value) for value in row] for row in values]
    right = [
        any(v is not None for v in column) and all(v is None or _is_number(v) for v in column)
        for column in (zip(*values, strict=True) if values else ([] for _ in names))
    ]
    widths = [max(map(_width, column)) for column in zip(names, *cells, strict=True)]

    def line(texts: Sequence[str]) -> str:
        padded = (
            " " * (width - _width(text)) + text if to_right else text + " " * (width - _width(text))
            for text, width, to_right in zip(texts, widths, right, strict=True)
        )
        return "  ".join(padded).rstrip()

    return [line(names), "  ".join("─" * width for width in widths), *map(line, cells)]


def plain(value: Any) -> Any:
    """A value as JSON has it."""
    if isinstance(value, dict):
        return {str(plain(k)): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if isinstance(value, date | datetime):
        return value.isoformat()
    if isinstance(value, bytes | bytearray):
        return value.hex()
    if isinstance(value, Decimal):
        return str(value)
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def _cell(value: Any) -> str:
    if value is None:
        return "∅"
    if isinstance(value, datetime):
        text = value.isoformat(sep=" ")
    elif isinstance(value, dict | list | tuple):
        text = json.dumps(plain(value), ensure_ascii=False)
    else:
        text = str(plain(value))
    # Control characters would break the lines, or drive the terminal.
    text = "".join(c if c.isprintable() else " " for c in text)
    return text if len(text) <= _WIDEST else text[: _WIDEST - 1] + "…"


def _width(text: str) -> int:
    """Columns on a terminal: wide characters take two, combining ones none."""
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)

"""How time is cut into windows: the options, and what they mean to Spark."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any
from zoneinfo import available_timezones

from pydantic import Field, model_validator

from headrace.operators.folds import Fold
from headrace.options import Duration, Options, refuse, show_duration

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.group import GroupedData

START, END = "window_start", "window_end"
"""The columns every windowed result begins with; a window holds times from its start up to, not including, its end."""
NUMBER = "window_number"
"""A third one, where windows by count are given before they are complete: which of its key's windows it is, from 1."""

WATERMARKED = "spark.watermarkDelayMs"
"""Spark's mark on the column that the watermark is compared with; on a struct of two times it means the second."""
ENDS = "headrace.ends"
"""Our mark on an event time that is the end of a window: the moment just before it is meant."""
MARK = "_headrace_mark"
"""A column of a batch that answers some batches of a stream once more: windows that had ended by then, in
microseconds, take the record no more."""
_MOMENT, _WINDOW, _KEPT, _ALL = "_headrace_moment", "_headrace_window", "_headrace_kept", "_headrace_all"
_DAY = timedelta(days=1)


class Window(Options):
    """Windows over the event time: pieces of a fixed length, or sessions that end when nothing more comes.

    `tumbling: 10 seconds` cuts time into pieces; `hopping: 10 seconds, every: 5 seconds` begins a piece of
    ten seconds every five, so that a record is in two of them; `session: 30 seconds` puts the records of a key
    together that follow each other within thirty seconds, and ends that long after the last of them; `at_most`
    begins the next one when a session has become that long. `sliding: 10 seconds` gives a window with each record:
    the last ten seconds up to it. `count: 10` gives the records of a key ten by ten, `count: 10, each: 5` the last
    ten after every fifth, `count: 1` each alone. These last three and `at_most` take a key's records in the order of
    their times, each once the watermark has passed it; `window_start` and `window_end` of the windows by count and
    sliding are times of records, both inside.

    Pieces are counted from 1970-01-01T00:00:00Z. With `zone` pieces of whole days, tumbling or hopping, begin at
    midnight there, and are as long as those days are where the clock is changed.
    """

    tumbling: Duration | None = Field(None, description="Length of windows that follow one another.")
    hopping: Duration | None = Field(None, description="Length of windows that overlap; needs `every`.")
    every: Duration | None = Field(None, description="How often a hopping window begins.")
    session: Duration | None = Field(None, description="The pause after which a key's session is over.")
    at_most: Duration | None = Field(None, description="How long a session may become; then the next one begins.")
    sliding: Duration | None = Field(None, description="Length of windows that end with each record.")
    count: int | None = Field(None, ge=1, description="How many records of a key make a window.")
    each: int | None = Field(None, ge=1, description="After how many records a window by count is given.")
    zone: str | None = Field(
        None,
        description="Time zone whose midnight begins a window of whole days.",
        examples=["Europe/Berlin"],
    )

    @model_validator(mode="after")
    def _one_kind(self) -> Window:
        kinds = (self.tumbling, self.hopping, self.session, self.sliding, self.count)
        if sum(kind is not None for kind in kinds) != 1:
            raise refuse(
                "bad-option", "a window is one of tumbling, hopping, session, sliding, count", "write {tumbling: 10 s}"
            )
        if (self.hopping is None) != (self.every is None):
            raise refuse("bad-option", 'hopping and "every" go together', "write {hopping: 10 s, every: 5 s}")
        if self.each is not None and (self.count is None or self.each > self.count):
            raise refuse("bad-option", '"each" goes with "count" and is not greater', "write {count: 10, each: 5}")
        if self.at_most is not None and (self.session is None or self.at_most < self.session):
            raise refuse("bad-option", '"at_most" goes with "session" and is not shorter', "write {session: 30 s}")
        if self.count is None and (self.length <= timedelta(0) or self.step <= timedelta(0)):
            raise refuse("bad-option", "a window must be longer than nothing")
        if self.step > self.length:
            raise refuse(
                "bad-option",
                f"windows of {show_duration(self.length)} every {show_duration(self.step)} leave gaps",
                "every must not be longer than the window",
            )
        self._check_zone()
        return self

    def _check_zone(self) -> None:
        if self.zone is None:
            return
        if not (self.tumbling or self.hopping) or self.length % _DAY or self.step % _DAY:
            raise refuse(
                "bad-option",
                "a zone says when a day begins, so it needs a tumbling or hopping window of whole days",
                "write {tumbling: 1 day, zone: Europe/Berlin}",
            )
        if self.zone not in available_timezones():
            raise refuse("bad-option", f'there is no time zone "{self.zone}"', "write a name such as Europe/Berlin")

    @property
    def length(self) -> timedelta:
        return self.tumbling or self.hopping or self.session or self.sliding or timedelta(0)

    @property
    def step(self) -> timedelta:
        return self.every or self.length

    def __str__(self) -> str:
        zone = f" in {self.zone}" if self.zone else ""
        if self.tumbling:
            return f"tumbling {show_duration(self.length)}{zone}"
        if self.session:
            most = f", at most {show_duration(self.at_most)}" if self.at_most else ""
            return f"session with a gap of {show_duration(self.length)}{most}"
        if self.sliding:
            return f"sliding {show_duration(self.length)}"
        if self.count:
            return f"of {self.count} records, each {self.each or self.count}"
        return f"hopping {show_duration(self.length)} every {show_duration(self.step)}{zone}"

    def fold(self, *, changing: bool = False, allowance: timedelta | None = None) -> Fold | None:
        """How its windows are made of a key's records in order; None: Spark has a native way."""
        micros = _micros(self.length)
        how: dict[str, Any] = {"changing": changing, "allowance": _micros(allowance or timedelta(0))}
        if self.count is not None:
            return Fold(kind="count", size=self.count, step=self.each or self.count, **how)
        if self.sliding is not None:
            return Fold(kind="sliding", size=micros, **how)
        if self.at_most is not None:
            return Fold(kind="session", size=micros, most=_micros(self.at_most), **how)
        return Fold(kind="session", size=micros, **how) if self.session and changing else None

    def closes(self, column: Column) -> Column:
        """When the last window ends that a record of this time can be in."""
        from pyspark.sql import functions as F

        if self.fold() is not None:
            return column
        if self.session:
            return column + span(self.length)
        if self.zone:
            return self._days(column)[0]["end"]
        begins = F.unix_micros(column) - F.pmod(F.unix_micros(column), F.lit(_micros(self.step)))
        return F.timestamp_micros(begins + _micros(self.length))

    def is_open(self, time: Column, mark: Column, allowance: timedelta = timedelta(0)) -> Column:
        """Whether a record of this time has a window that is open under a watermark, in microseconds.

        The watermark is the same for all records of a batch, so where windows are as long as each other it is turned
        into the first time that is not too late, once, and each record's time is only compared with that.
        """
        from pyspark.sql import functions as F

        length, step = (F.lit(_micros(n)) for n in (self.length + allowance, self.step))
        if self.zone:
            return F.unix_micros(self.closes(time) + span(allowance)) > mark
        if self.session:
            return F.unix_micros(time) > mark - length
        begins = mark - length  # the last window that is closed begins here at the latest
        return F.unix_micros(time) >= begins - F.pmod(begins, step) + step

    def group(
        self, frame: DataFrame, time: str, keys: list[Column], allowance: timedelta = timedelta(0)
    ) -> GroupedData:
        """The frame grouped by window and by the keys; `bounds` tells its start and end.

        A window is a struct of both, named `window`. Where a stream cuts time into pieces of one length its end alone
        tells it, and whole numbers are grouped faster. With an allowance the end, which the watermark is compared
        with, is that much later.
        """
        from pyspark.sql import functions as F

        column = F.col(f"`{time}`")
        if MARK in frame.columns:
            frame = self.in_time(frame, column, allowance)
        if MARK in frame.columns and not self.session:
            later = span(allowance) if allowance else span(timedelta(0))
            windows = frame.select("*", self._column(column).alias(_WINDOW))
            ended = F.unix_micros(F.col(f"{_WINDOW}.end") + later)
            open_ = windows.where(F.col(MARK).isNull() | (ended > F.col(MARK)))
            whole = F.struct(F.col(f"{_WINDOW}.start").alias("start"), (F.col(f"{_WINDOW}.end") + later).alias("end"))
            return open_.groupBy(whole.alias("window"), *keys)
        if self.tumbling and not self.zone:
            known = frame.where(column.isNotNull())
            end = F.timestamp_micros(F.unix_micros(self.closes(column)) + _micros(allowance))
            ends = known.select("*", end.alias(_WINDOW, metadata={WATERMARKED: 0}))
            return ends.groupBy(F.col(_WINDOW).alias(END), *keys)
        if allowance or self.zone:
            windows = frame.select("*", self._column(column).alias(_WINDOW))
            whole = F.col(_WINDOW)
            if allowance:
                whole = F.struct(whole["start"].alias("start"), (whole["end"] + span(allowance)).alias("end"))
            kept = windows.select("*", whole.alias(_KEPT, metadata={WATERMARKED: 0}))
            return kept.groupBy(F.col(_KEPT).alias("window"), *keys)
        if self.session:
            if not keys:  # Spark has no sessions over all records; one key for all of them is the same
                frame = frame.withColumn(_ALL, F.lit(0))
                keys = [F.col(_ALL)]
            return frame.groupBy(F.session_window(column, interval(self.length)).alias("window"), *keys)
        return frame.groupBy(self._column(column).alias("window"), *keys)

    def bounds(self, grouped: DataFrame, allowance: timedelta = timedelta(0)) -> tuple[Column, Column]:
        """Start and end of the windows by which a frame was grouped."""
        from pyspark.sql import functions as F

        if END not in grouped.columns:
            ended = F.col("window.end")
            return F.col("window.start"), ended - span(allowance) if allowance else ended
        ended = F.unix_micros(F.col(END)) - _micros(allowance)
        return F.timestamp_micros(ended - _micros(self.length)), F.timestamp_micros(ended)

    def in_time(self, frame: DataFrame, time: Column, allowance: timedelta = timedelta(0)) -> DataFrame:
        """The records that were not too late for each of their windows, by their marks."""
        from pyspark.sql import functions as F

        closes = F.unix_micros(self.closes(time) + span(allowance))
        return frame.where(F.col(MARK).isNull() | (closes > F.col(MARK)))

    def _column(self, time: Column) -> Column:
        """The window of a time; where it is in several, a row for each."""
        from pyspark.sql import functions as F

        if not self.zone:
            return F.window(time, interval(self.length), interval(self.step))
        days = self._days(time)
        return days[0] if len(days) == 1 else F.explode(F.array_compact(F.array(*days)))

    def _days(self, time: Column) -> list[Column]:
        """The windows of whole days that a time is in, from midnight in the zone to midnight there, the last one first.

        Made by hand, because Spark's own windows have one length whatever the clock does. Where the length is not a
        whole number of steps, the first one may be null.
        """
        from pyspark.sql import functions as F

        zone = self.zone or "UTC"
        length, step = self.length // _DAY, self.step // _DAY
        epoch = F.lit("1970-01-01").cast("date")
        day = F.datediff(F.from_utc_timestamp(time, zone).cast("date"), epoch)
        last = (F.floor(day / step) * step).cast("int")

        def window(begins: Column) -> Column:
            midnights = (F.date_add(epoch, d).cast("timestamp") for d in (begins, begins + length))
            start, end = (F.to_utc_timestamp(midnight, zone) for midnight in midnights)
            return F.when(time.isNotNull() & (begins + length > day), F.struct(start.alias("start"), end.alias("end")))

        return [window(last - back) for back in range(0, length, step)]


def momentary(frame: DataFrame, time: str) -> tuple[DataFrame, str]:
    """The frame and its column of moments: where the time is the end of a window, the last microsecond before it.

    Otherwise the window from 50 to 60 would be counted in the minute that begins at 60.
    """
    if not frame.schema[time].metadata.get(ENDS):
        return frame, time
    return frame.select("*", moment(frame, time).alias(_MOMENT, metadata={WATERMARKED: 0})), _MOMENT


def moment(frame: DataFrame, time: str) -> Column:
    """The moment that a frame's time column means."""
    from pyspark.sql import functions as F

    column = F.col(f"`{time}`")
    return column - F.expr("INTERVAL '0.000001' SECOND") if frame.schema[time].metadata.get(ENDS) else column


def marked_again(frame: DataFrame, time: str, *given: DataFrame) -> DataFrame:
    """The frame with its time marked as it was in a frame it was made from, where a Python function lost the marks."""
    from pyspark.sql import functions as F

    marks = next((g.schema[time].metadata for g in given if time in g.columns), {})
    kept = {name: marks[name] for name in (WATERMARKED, ENDS) if name in marks}
    if not kept:
        return frame
    return frame.select(*(F.col(f"`{c}`").alias(c, metadata=kept) if c == time else f"`{c}`" for c in frame.columns))


def ends_again(frame: DataFrame, time: str | None, given: DataFrame) -> DataFrame:
    """The frame with its time marked as the end of a window, where that of the frame it was made from is one."""
    from pyspark.sql import functions as F

    if time is None or not given.schema[time].metadata.get(ENDS):
        return frame
    marks = {**frame.schema[time].metadata, ENDS: True}
    return frame.select(*(F.col(f"`{c}`").alias(c, metadata=marks) if c == time else f"`{c}`" for c in frame.columns))


def _micros(length: timedelta) -> int:
    return round(length.total_seconds() * 1_000_000)


def span(length: timedelta) -> Column:
    """A length of time as a Spark value."""
    from pyspark.sql import functions as F

    return F.expr(f"INTERVAL '{length.total_seconds():.3f}' SECOND")


def interval(length: timedelta) -> str:
    """A length of time as Spark reads it."""
    return f"{round(length.total_seconds() * 1000)} milliseconds"


def tumbling(length: str | timedelta, *, zone: str | None = None) -> Window:
    """Windows that follow one another."""
    return Window.model_validate({"tumbling": length} | ({"zone": zone} if zone else {}))


def hopping(length: str | timedelta, every: str | timedelta, *, zone: str | None = None) -> Window:
    """Windows of one length that begin more often than that."""
    return Window.model_validate({"hopping": length, "every": every} | ({"zone": zone} if zone else {}))


def session(gap: str | timedelta, *, at_most: str | timedelta | None = None) -> Window:
    """Records that follow each other within a pause."""
    return Window.model_validate({"session": gap} | ({"at_most": at_most} if at_most else {}))


def sliding(length: str | timedelta) -> Window:
    """A window that ends with each record."""
    return Window.model_validate({"sliding": length})


def count(records: int, *, each: int | None = None) -> Window:
    """Windows of so many records."""
    return Window.model_validate({"count": records} | ({"each": each} if each else {}))

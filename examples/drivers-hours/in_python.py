"""Hours worked and hours of break of each driver in every 12 hours; the same flow as flow.yaml."""

from headrace import Flow, tumbling

flow = Flow(
    "drivers-hours",
    description="Hours worked and hours of break of each driver in every 12 hours, against the legal limit.",
)

rides = flow.source(
    "rides",
    "files",
    path="rides",
    format="json",
    schema="licence STRING, event STRING, at TIMESTAMP",
    time={"column": "at", "watermark": "1 hour"},
)
shifts = rides.aggregate(
    "shifts",
    by="licence",
    window=tumbling("12 hours"),
    emit="changes",
    late="correct",
    allowance="24 hours",
    pickups="count_if(event = 'pickup')",
    dropoffs="count_if(event = 'dropoff')",
    # Drop-offs less pickups: the sum of the rides, whatever order the events came in.
    ridden="sum(CASE WHEN event = 'dropoff' THEN unix_seconds(at) ELSE -unix_seconds(at) END)",
    first_at="min(at)",
    last_at="max(at)",
    riding_in="min_by(event, at) = 'dropoff'",
    riding_out="max_by(event, at) = 'pickup'",
)
known = shifts.with_(
    "known",
    # A ride that began before the window counts from its start; one that goes on, up to the last event.
    begun="CASE WHEN riding_in THEN window_start ELSE first_at END",
    # Every pickup has its drop-off; if one is still to come there is no answer yet.
    complete="pickups - dropoffs = CAST(riding_out AS INT) - CAST(riding_in AS INT)",
)
seconds = known.with_(
    "seconds",
    working="CASE WHEN complete THEN ridden - unix_seconds(window_start) * CAST(riding_in AS INT) "
    "+ unix_seconds(last_at) * CAST(riding_out AS INT) END",
    present="unix_seconds(last_at) - unix_seconds(begun)",
)
hours = seconds.select(
    "hours",
    "window_start",
    "window_end",
    "licence",
    "round(working / 3600, 2) AS working_hours",
    "round((present - working) / 3600, 2) AS break_hours",
    "working > 10 * 3600 AS over_limit",
)
hours.sink("table", "sqlite", path="hours.db", table="hours", key=["window_start", "window_end", "licence"])

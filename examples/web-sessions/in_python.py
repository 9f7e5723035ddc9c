"""The visits of a shop's pages and their funnel; the same flow as flow.yaml."""

from headrace import Flow, session, tumbling

flow = Flow(
    "web-sessions",
    description="The visits of a shop's pages as sessions, how far each went towards buying, "
    "and the funnel of every hour.",
)

clicks = flow.source(
    "clicks",
    "generator",
    kind="clicks",
    rate=5.0,
    limit=20000,
    time={"column": "at", "watermark": "1 minute"},
)
visits = clicks.aggregate(
    "visits",
    by="session",
    window=session("5 minutes"),
    user="max(user)",
    pages="count_if(action = 'view')",
    landing="min_by(page, at)",
    referrer="min_by(referrer, at)",
    seconds="unix_seconds(max(at)) - unix_seconds(min(at))",
    # What was done, in the order of time: a purchase counts only behind a cart that is behind a click.
    path="array_join(transform(array_sort(collect_list(struct(at, action))), step -> step.action), ' ')",
)
staged = visits.with_(
    "staged",
    clicked="path RLIKE 'click'",
    filled="path RLIKE 'click.*cart'",
    bought="path RLIKE 'click.*cart.*buy'",
)
funnel = staged.aggregate(
    "funnel",
    by="referrer",
    window=tumbling("1 hour"),
    visits="count(*)",
    clicked="count_if(clicked)",
    filled="count_if(filled)",
    bought="count_if(bought)",
    conversion="round(count_if(bought) / count(*), 3)",
    pages="round(avg(pages), 1)",
)
staged.sink("sessions", "sqlite", table="visits", key=["session", "window_start"], path="visits.db")
funnel.sink("hourly", "sqlite", table="funnel", key=["window_start", "referrer"], path="visits.db")

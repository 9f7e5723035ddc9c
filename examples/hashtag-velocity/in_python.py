"""How often each hashtag is used together with the ones we follow; the same flow as flow.yaml."""

from headrace import Flow, col, fn, tumbling

FOLLOWED = ("ai", "data", "music", "coffee", "travel", "space", "football", "climate")

flow = Flow(
    "hashtag-velocity",
    description="How often each hashtag is used together with the ones we follow, second by second.",
)

tweets = flow.source(
    "tweets",
    "kafka",
    topic="tweets",
    format="json",
    schema="id BIGINT, hashtags ARRAY<STRING>, at TIMESTAMP",
    time={"column": "at", "watermark": "2 seconds"},
)
followed = tweets.filter("followed", fn.arrays_overlap(col("hashtags"), fn.array(*FOLLOWED)))
tags = followed.explode("tags", "hashtags", as_="tag")
others = tags.filter("others", ~col("tag").isin(*FOLLOWED))
velocity = others.aggregate("velocity", by="tag", window=tumbling("1 second"), emit="changes", n="count(*)")
velocity.sink("table", "sqlite", path="velocity.db", table="velocity", key=["window_start", "tag"])

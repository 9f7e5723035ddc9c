"""Every 5 seconds, the count of tweets over the last 10 seconds; the same flow as flow.yaml."""

from headrace import Flow, hopping

flow = Flow("tweets-last-ten-seconds", description="Every 5 seconds, the count of tweets over the last 10 seconds.")

tweets = flow.source(
    "tweets", "generator", kind="tweets", rate=20, limit=1200, time={"column": "at", "watermark": "10 seconds"}
)
counts = tweets.aggregate("counts", window=hopping("10 seconds", every="5 seconds"), tweets="count(*)")
counts.sink("screen", "console")

"""How often each word occurs in the lines of a topic; the same flow as from-topic.yaml."""

from headrace import Flow, col, fn

flow = Flow("word-count-topic", description="How often each word occurs in the lines of a topic.")

lines = flow.source("lines", "kafka", topic="lines", format="text")
words = lines.flat_map("words", each=fn.split(col("value"), " "), as_="word")
counts = words.aggregate("counts", by="word", n="count(*)")
counts.sink("table", "sqlite", path="counts.db", table="topic_counts", key="word")

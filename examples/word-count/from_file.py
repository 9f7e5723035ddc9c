"""How often each word occurs in a text file; the same flow as from-file.yaml."""

from headrace import Flow

flow = Flow("word-count", description="How often each word occurs in a text file.")

lines = flow.source("lines", "files", path="words.txt", format="text")
words = lines.flat_map("words", each="split(value, ' ')", as_="word")
counts = words.aggregate("counts", by="word", n="count(*)")
counts.sink("table", "sqlite", path="counts.db", table="counts", key="word")

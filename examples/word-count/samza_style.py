"""How often each word occurs, by a stateless and a stateful task over a topic: the word count of Samza."""

from headrace import Bolt, Store, Task, Topology


class SplitTask(Bolt):
    """The words of a line."""

    returns = "word STRING"

    def execute(self, record, out):
        for word in record["value"].split(" "):
            out.emit(word)


class CountTask(Task):
    """Each word with how often it has been seen, kept in the task's store."""

    returns = "word STRING, n BIGINT"
    store = Store("word STRING", "n BIGINT")

    def process(self, record, store, out):
        count = store.get(record["word"], 0) + 1
        store.put(record["word"], count)
        out.send(record["word"], count)


job = Topology("word-count-samza", description="How often each word occurs, in the manner of Samza.")
job.source("lines", "kafka", topic="lines", format="text")
job.bolt("split", SplitTask).shuffle("lines")
job.task("count", CountTask, parallelism=2).fields("split", "word")
job["count"].sink("table", "sqlite", path="counts.db", table="samza_counts", key="word")

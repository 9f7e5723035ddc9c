"""How often each word occurs, as a topology of a spout and two bolts: the word count of Storm."""

from pathlib import Path

from headrace import Bolt, Spout, Store, Topology

WORDS = Path(__file__).with_name("words.txt")


class Sentences(Spout):
    """The lines of a file, one after another."""

    returns = "sentence STRING"

    def __init__(self, file):
        self.file = file

    def open(self):
        self.lines = Path(self.file).read_text().splitlines()
        self.at = 0

    def seek(self, position):
        self.at = position

    def next(self):
        if self.at == len(self.lines):
            raise StopIteration
        self.at += 1
        return {"sentence": self.lines[self.at - 1]}, self.at


class Split(Bolt):
    """The words of a sentence."""

    returns = "word STRING"

    def execute(self, record, out):
        for word in record["sentence"].split(" "):
            out.emit(word)


class Count(Bolt):
    """Each word with how often it has been seen."""

    returns = "word STRING, n BIGINT"
    counts = Store("word STRING", "n BIGINT")

    def execute(self, record, out):
        word = record["word"]
        self.counts[word] = self.counts.get(word, 0) + 1
        out.emit(word, self.counts[word])


topology = Topology("word-count-storm", description="How often each word occurs, in the manner of Storm.")
topology.spout("lines", Sentences, file=str(WORDS))
topology.bolt("split", Split, parallelism=2).shuffle("lines")
topology.bolt("count", Count, parallelism=2).fields("split", "word")
topology["count"].sink("table", "sqlite", path="counts.db", table="storm_counts", key="word")

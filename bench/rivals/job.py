"""What a rival's job is told, and what it says: run in the rival's own environment, so without the rest of the bench.

`BENCH_JOB` holds the job as JSON. A job prints a line `RESULT {...}` with the time of the first record it read and of
the last one it finished, in seconds since 1970, and how many it read.
"""

from __future__ import annotations

import atexit
import json
import os
import time
from typing import Any

JOB: dict[str, Any] = json.loads(os.environ["BENCH_JOB"])
WORK, BOOTSTRAP, TOPIC, OUT, TAG = (JOB[name] for name in ("work", "bootstrap", "topic", "out", "tag"))
CORES, FOLDER, ROUNDS = JOB["cores"], JOB["folder"], JOB["rounds"]
LIVE = WORK in ("keyed", "stateless")


def say(first: float, last: float, read: int, number: int = 0) -> None:
    """Prints the result of a round."""
    print("\nRESULT " + json.dumps({"round": number, "first": first, "last": last, "read": read}), flush=True)


class Seen:
    """The first and the last record of a job that reads one by one; said when the process ends."""

    first = last = 0.0
    read = 0

    def record(self) -> None:
        """One was read."""
        self.last = time.time()
        if not self.read:
            self.first = self.last
        self.read += 1

    def done(self) -> None:
        """One was finished."""
        self.last = time.time()

    def report(self) -> None:
        if self.read:
            say(self.first, self.last, self.read)


def seen() -> Seen:
    """A counter that reports at the end of the process."""
    found = Seen()
    atexit.register(found.report)
    return found

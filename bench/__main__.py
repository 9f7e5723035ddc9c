"""`python -m bench NAME …`: one of the benchmarks; without a name, which there are."""

from __future__ import annotations

import importlib
import sys

BENCHES = {
    "w1": "windowed count from JSON: events a second, ours and rivals",
    "w2": "stateless JSON to Kafka: events a second, ours and rivals",
    "w3": "latency at a steady rate, stateless and keyed, ours and rivals",
    "pauses": "latency in real-time mode for several intervals between checkpoints",
    "soak": "half an hour of real-time mode: latency by minute, and whether a backlog ever builds up",
    "slots": "latency in real-time mode with more slots than tasks",
    "load": "latency against load until it breaks",
    "scale": "one core to two, a thousand keys to ten million",
    "start": "from `headrace run` to the first result, and what of it is whose",
    "rules": "what each rule of the compiler gives: the same work with it and without",
    "overhead": "the W1 flow against the same job by hand, in one process",
    "windows": "every kind of window over the same events: rate and memory",
    "ledger": "what it costs to account for every record",
    "state": "five million keys in RocksDB: rate, and memory of the whole driver",
    "recovery": "from kill -9 of the driver to the first new result, and what of it is whose",
    "report": "writes the tables and plots of docs/performance.md from bench/results",
}


def main() -> None:
    """Runs one."""
    name, *rest = sys.argv[1:] or ["help"]
    if name not in BENCHES:
        for known, what in BENCHES.items():
            print(f"  python -m bench {known:9} {what}")
        sys.exit(0 if name in ("help", "--help", "-h") else 2)
    if name in ("w1", "w2"):
        from bench import throughput

        throughput.main(name, rest)
    else:
        importlib.import_module(f"bench.{'latency' if name == 'w3' else name}").main(rest)


if __name__ == "__main__":
    main()

"""Benchmarks, each a command: `python -m bench` lists them, `make bench-w1` and its like run them."""

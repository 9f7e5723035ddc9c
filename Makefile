# Headrace. `make` lists what can be made.

# Byte code is kept, because starting quickly matters more than a clean tree.
unexport PYTHONDONTWRITEBYTECODE
# An activated environment must not leak into ours.
unexport PYTHONHOME PYTHONPATH VIRTUAL_ENV

SHELL := /bin/sh
BIN := .venv/bin
PYTHON := $(BIN)/python
PYTEST := $(PYTHON) -m pytest -q
OLDEST := import sys; sys.exit(sys.version_info < (3, 11))
UPGRADE ?=
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help setup demo check test format lock docs bench bench-w1 bench-w2 bench-w3 bench-pauses bench-soak bench-slots bench-scale bench-load bench-start bench-rules bench-overhead bench-ledger bench-recovery bench-state bench-windows bench-report chaos windows outages clean style fast generated jars servers

help: ## lists these
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-15s %s\n", $$1, $$2}'

setup: ## makes .venv from requirements.lock; instant when nothing has changed
	@for python in python3 python3.13 python3.12 python3.11; do \
	  if $$python -c '$(OLDEST)' 2>/dev/null; then exec $$python tools/setup.py; fi; \
	done; \
	echo 'make setup: no Python 3.11 or newer was found as python3 or python3.X' >&2; \
	echo '  hint: install one, and its venv module' >&2; exit 1

demo: setup ## a live stream from end to end: a Kafka, a source, a flow and its table; Ctrl-C stops all
	@exec $(BIN)/headrace demo

check: style fast ## format, lint, types, unit and property tests; under a minute

test: style generated fast jars servers ## everything, on real servers; what CI runs
	$(PYTEST) tests --ignore=tests/unit --ignore=tests/property --ignore=tests/bench -n 3 --maxschedchunk 1 --durations=25
	$(PYTEST) -s tests/bench

style: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

fast: setup
	$(PYTEST) tests/unit tests/property -n auto --dist worksteal --durations=10 --durations-min=1

generated: setup
	$(PYTHON) -m tools.generated --check
	$(PYTHON) -m tools.jar --check

jars: setup
	@$(PYTHON) -m headrace.log.jars
	@$(PYTHON) -m headrace.run.classes

servers: setup
	@$(PYTHON) -m tools.postgresql

format: setup ## rewrites the code as ruff wants it
	$(BIN)/ruff check --quiet --fix-only .
	$(BIN)/ruff format .

lock: setup ## pins everything anew into requirements.lock; UPGRADE="name …" or UPGRADE=all takes newer ones
	@$(PYTHON) -m tools.lock $(UPGRADE)

docs: setup ## writes the reference from the option models
	$(PYTHON) -m tools.generated

bench: setup ## lists the benchmarks; ARGS="…" goes to any of the ones below
	@$(PYTHON) -m bench

bench-w1: setup jars ## windowed count from JSON: ours, PySpark by hand, Flink SQL, Kafka Streams, Bytewax, Quix, Pathway
	$(PYTHON) -m bench w1 $(ARGS)

bench-w2: setup jars ## stateless JSON to Kafka: the same systems
	$(PYTHON) -m bench w2 $(ARGS)

bench-w3: setup jars ## latency at 1,000 and 10,000 events/s, stateless and keyed: the same systems
	$(PYTHON) -m bench w3 $(ARGS)

bench-pauses: setup jars ## what checkpoints cost in real-time mode: the tail for several intervals
	$(PYTHON) -m bench pauses $(ARGS)

bench-soak: setup jars ## half an hour of real-time mode: latency by minute, and whether a backlog ever builds up
	$(PYTHON) -m bench soak $(ARGS)

bench-slots: setup jars ## latency in real-time mode with more slots than tasks
	$(PYTHON) -m bench slots $(ARGS)

bench-load: setup jars ## latency against load until it breaks
	$(PYTHON) -m bench load $(ARGS)

bench-scale: setup jars ## one core to two, a thousand keys to ten million: rate and memory
	$(PYTHON) -m bench scale $(ARGS)

bench-start: setup jars ## from `headrace run` to the first result, and what of it is whose
	$(PYTHON) -m bench start $(ARGS)

bench-rules: setup jars ## what each rule of the compiler gives: the same work with it and without
	$(PYTHON) -m bench rules $(ARGS)

bench-report: setup ## writes the tables and plots of docs/performance.md from bench/results
	$(PYTHON) -m bench report

bench-overhead: setup jars ## the W1 flow against the same job by hand
	$(PYTHON) -m bench overhead

bench-windows: setup jars ## every kind of window over the same events: rate and memory
	$(PYTHON) -m bench windows

bench-ledger: setup jars ## what it costs to account for every record
	$(PYTHON) -m bench ledger

bench-state: setup jars ## five million keys in RocksDB: rate, and memory of the whole driver
	$(PYTHON) -m bench state

bench-recovery: setup jars ## from kill -9 of the driver to the first new result, and what of it is whose
	$(PYTHON) -m bench recovery

chaos: setup jars servers ## four flows side by side, in both modes, each killed fifty times; the nightly form of tests/chaos
	HEADRACE_CHAOS_KILLS=50 $(PYTEST) tests/chaos -s

windows: setup jars ## every kind of window with every emission and late policy; the long form of a test of tests/spark
	HEADRACE_WINDOWS=all $(PYTEST) tests/spark/test_windows_property.py

outages: setup jars servers ## a broker and a database away for a minute each; the long form of two tests of tests/recovery
	HEADRACE_OUTAGE=60 $(PYTEST) -s tests/recovery/test_outages.py tests/recovery/test_brokers.py

clean: ## removes what was made here; downloads in the cache stay
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist
	find . -name __pycache__ -type d -not -path './.git/*' -exec rm -rf {} +

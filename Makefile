# Everything here sets itself up: the first target that needs it makes .venv and builds the engine.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
SOURCES := pyproject.toml requirements-dev.lock Cargo.toml Cargo.lock pyrmq/engine.pyx \
	pyrmq/capi.pxd $(shell find native build_backend -type f -not -path '*/__pycache__/*' \
	-not -path 'native/fuzz/*')

.DEFAULT_GOAL := help
.PHONY: help setup run demo demo-outbox test test-rust lint format bench bench-loopback \
	bench-transactions bench-spark bench-plot dist-check crash faults simulation \
	spark-versions fuzz sanitize clean

help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-18s %s\n", $$1, $$2}'

$(STAMP): $(SOURCES)
	@PYTHON=$(PYTHON) scripts/check_tools.sh
	@test -d $(VENV) || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -r requirements-dev.lock
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

setup: $(STAMP) ## Make .venv and build the engine into it

run: $(STAMP) ## Run a name server and a broker on 127.0.0.1:9876 and :10911
	$(BIN)/pyrmq server

demo: $(STAMP) ## Send, consume, kill and restart an embedded broker; nothing may be lost
	$(BIN)/python -m pyrmq.demo

demo-outbox: $(STAMP) ## Tie messages to SQL transactions; kill the process in between
	$(BIN)/python examples/outbox.py

test-rust: ## Run the engine's own tests
	cargo test --locked --quiet

test: $(STAMP) test-rust ## Run all tests (interop and Spark tests where Java, Maven and Go exist)
	$(BIN)/pytest

lint: $(STAMP) ## Check style, types and the layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python scripts/check_layers.py
	cargo fmt --check
	cargo fmt --check --manifest-path native/fuzz/Cargo.toml
	cargo clippy --locked --quiet --all-targets --features python -- -D warnings

format: $(STAMP) ## Format all code
	$(BIN)/ruff check --fix --quiet .
	$(BIN)/ruff format --quiet .
	cargo fmt

bench: $(STAMP) ## Run the micro benchmarks, each beside its yardstick (PYRMQ_BENCH_FULL=1: full sizes)
	@mkdir -p build
	$(BIN)/pytest benches --benchmark-only --benchmark-group-by=group --benchmark-json=build/bench.json

bench-spark: $(STAMP) ## Spark on segments beside Parquet and others, in turns (needs Java, 8 GiB of memory)
	@mkdir -p build
	$(BIN)/python -m benches.spark --json build/bench-spark.json

bench-plot: $(STAMP) ## Draw docs/benchmarks.svg from what the last `make bench` measured
	$(BIN)/pip install --quiet --disable-pip-version-check 'matplotlib>=3.9,<4'
	$(BIN)/python -m benches.plot build/bench.json docs/benchmarks.svg

bench-loopback: $(STAMP) ## Measure a broker process over loopback
	$(BIN)/python -m benches.loopback

bench-transactions: $(STAMP) ## Transactions beside Apache RocketMQ's, in turns (needs Java, Maven)
	@mkdir -p build
	$(BIN)/python -m benches.loopback.compare --json build/bench-transactions.json

crash: $(STAMP) ## Kill a loaded broker 300 times and read everything back
	PYRMQ_CRASH_ROUNDS=300 $(BIN)/pytest tests/crash -s

faults: $(STAMP) ## Tear, flip and fail: tens of thousands of damaged stores and every failing call
	PYRMQ_FAULT_IMAGES=full $(BIN)/pytest tests/faults

spark-versions: $(STAMP) ## Run the Spark tests that depend on PySpark's version with 4.1 and 4.2 (needs Java)
	scripts/spark_versions.sh

simulation: $(STAMP) ## Run 10,000 seeds of transactions: kills, losses, clock jumps in any order
	$(BIN)/python -m tests.simulation.seeds 0 10000

fuzz: ## Fuzz every reader of foreign bytes, a minute each (needs nightly Rust)
	scripts/fuzz.sh

sanitize: ## Run the engine's tests under Miri, AddressSanitizer and ThreadSanitizer
	scripts/sanitize.sh

dist-check: ## Build sdist and wheels and test them outside the checkout
	scripts/dist_check.sh

clean: ## Remove everything that was built
	rm -rf $(VENV) target build dist pyrmq/*.so tests/interop/.build benches/loadgen/target

# Everything here sets itself up: the first target that needs it makes .venv and builds the engine.
PYTHON ?= python3
VENV ?= .venv
# How many tests at once: they mostly wait. WORKERS=0: one after the other, in one process.
WORKERS ?= 6
# Images of containers often set this. The tests start Python hundreds of times: each would compile pyrmq.
unexport PYTHONDONTWRITEBYTECODE
BIN := $(VENV)/bin
# The packages are installed; the engine in pyrmq/ is built for release; it is built, perhaps for development.
PACKAGES := $(VENV)/.packages
STAMP := $(VENV)/.installed
COMPILED := $(VENV)/.compiled
ENGINE_STAMP := $(VENV)/.engine
# For quick targets any engine will do, once the packages are installed.
ENGINE := $(shell test $(PACKAGES) -nt pyproject.toml -a $(PACKAGES) -nt requirements-dev.lock \
	&& echo $(ENGINE_STAMP) || echo $(STAMP))
SOURCES := pyproject.toml requirements-dev.lock Cargo.toml Cargo.lock pyrmq/engine.pyx \
	pyrmq/capi.pxd pyrmq/session.pxi pyrmq/ready_loop.pxi $(shell find native build_backend -type f -not -path '*/__pycache__/*' \
	-not -path 'native/fuzz/*')
PYTEST := $(BIN)/pytest -q -n $(WORKERS) --dist loadfile
# What wheels for others are built with; not the tools of .venv.
WHEEL_TOOLS := build/wheel-tools
LONG := PYRMQ_THOROUGH=1 $(BIN)/pytest
QUICK := $(addsuffix /unit,bench model config net auth namesrv broker client transactions store segments admin cli deploy doctor http logs metrics portals house oms otel docs spark console mcp) \
	portals/e2e segments/e2e system/simulation support
# Folders whose conftest.py takes `in_memory` (tests/support/scratch.py).
IN_MEMORY := $(addprefix tests/,broker/e2e cli/e2e client/e2e transactions/e2e segments)
LONG_FORMS := crash faults simulation memory interop spark python sanitize fuzz random disk

.DEFAULT_GOAL := help
.PHONY: help setup engine jar run demo demo-ha demo-outbox quick test soak test-rust test-jar lint lint-style lint-python lint-rust docs format bench bench-loopback \
	bench-client bench-instructions bench-transactions bench-spark bench-plot bench-save bench-compare profile docs-plots wheel wheels wheel-check print-quick thorough $(LONG_FORMS:%=thorough-%) clean

help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-20s %s\n", $$1, $$2}'

$(STAMP): $(SOURCES)
	@PYTHON=$(PYTHON) scripts/check_tools.sh
	@test -d $(VENV) || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -r requirements-dev.lock
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $(PACKAGES) $(ENGINE_STAMP) $@

$(ENGINE_STAMP): $(SOURCES)
	@rm -f $(STAMP)
	@scripts/dev_engine.sh $(abspath $(BIN)/python)
	@touch $@

# pytest compiles tests when it first reads them; five workers at once would each compile them all.
$(COMPILED): | $(STAMP)
	@$(BIN)/pytest --collect-only -qq tests >/dev/null || $(BIN)/pytest --collect-only -q tests
	@touch $@

setup: $(STAMP) ## Make .venv and build the engine into it

engine: $(ENGINE) ## Build the engine for development: within a minute, and not for benchmarks

jar: ## Build spark_ext/jars/pyrmq-spark.jar, Spark's reader in the JVM (Java 17, Maven; PYRMQ_JAR_PROFILE=dev)
	@PYTHON=$(PYTHON) scripts/spark_jar.sh

run: $(STAMP) ## Run a name server and a broker on 127.0.0.1:9876 and :10911
	$(BIN)/pyrmq server

demo: $(STAMP) ## Send, consume, kill and restart an embedded broker; nothing may be lost
	$(BIN)/python -m pyrmq.demo

demo-ha: $(STAMP) ## A master is killed: read on from its slave, promote it, send on; nothing may be lost
	$(BIN)/python -m pyrmq.demo_ha

demo-outbox: $(STAMP) ## Tie messages to SQL transactions; kill the process in between
	$(BIN)/python examples/outbox.py

test-rust: ## Run the engine's own tests, with a fixed seed (PROPTEST_RNG_SEED=… another)
	PROPTEST_RNG_SEED=$${PROPTEST_RNG_SEED:-1} scripts/in_memory.sh cargo test --locked --quiet

# Says what is missing where there is no Java, Maven or cargo; with PYRMQ_REQUIRE_INTEROP=1 that is an error.
test-jar: $(STAMP)
	@$(BIN)/python -m tests.spark.jvm_jar

quick: engine ## Tests for every edit (under 3 minutes): no JVM, no process, nothing slow
	$(PYTEST) -m "not slow" $(QUICK:%=tests/%)

print-quick:
	@echo $(QUICK:%=tests/%)

test: $(STAMP) $(COMPILED) test-rust test-jar ## Test all behaviour (interop and Spark where Java, Maven and Go exist)
	$(PYTEST) --durations=25

soak: $(STAMP) ## All kinds of load for 10 minutes, with stops and kills (MINUTES=, SEED=, FLUSH=SYNC_FLUSH)
	$(BIN)/python -m tests.system.soak --minutes $(or $(MINUTES),10) $(if $(SEED),--seed $(SEED)) $(if $(FLUSH),--flush $(FLUSH))

lint: lint-style lint-python lint-rust site ## Check style, types, layers, pages made from the code, and the site

lint-style: engine ## The quick part of it: seconds
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python scripts/check_layers.py
	$(BIN)/python scripts/portals.py --check
	$(BIN)/python scripts/docs_modules.py --check
	$(BIN)/python scripts/docs_tables.py --check
	$(BIN)/python scripts/dashboards.py --check

lint-python: engine ## Types, the compiled engine's too; all tests can be collected
	$(BIN)/mypy
	$(BIN)/python -m mypy.stubtest pyrmq.engine --ignore-disjoint-bases --allowlist scripts/stubtest.txt
	$(BIN)/pytest --collect-only -qq tests >/dev/null || $(BIN)/pytest --collect-only -q tests
	@touch $(COMPILED)
	cargo fmt --check

lint-rust: ## Format and clippy
	cargo fmt --all --check
	cargo fmt --check --manifest-path native/fuzz/Cargo.toml
	cargo clippy --locked --quiet --all-targets --features python -- -D warnings

format: engine ## Format all code
	$(BIN)/ruff check --fix --quiet .
	$(BIN)/ruff format --quiet .
	cargo fmt --all

wheel: $(STAMP) ## Build a wheel for this Python and this machine alone (dist/); with the jar if it is there
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation -w dist .
	@ls dist/pyrmq_broker-*.whl

$(WHEEL_TOOLS)/.installed: scripts/wheels.txt
	@PYTHON=$(PYTHON) scripts/check_tools.sh
	$(PYTHON) -m venv $(WHEEL_TOOLS)
	$(WHEEL_TOOLS)/bin/pip install --quiet --disable-pip-version-check -r scripts/wheels.txt
	@touch $@

wheels: $(WHEEL_TOOLS)/.installed ## Build wheels as released, x86_64 and aarch64, each Python found (CPUS=, PYTHONS=)
	PATH="$(abspath $(WHEEL_TOOLS)/bin):$$PATH" PYTHON=$(PYTHON) PYRMQ_JAR_CPUS="x86_64 aarch64" scripts/spark_jar.sh
	$(WHEEL_TOOLS)/bin/python scripts/wheels.py --try $(CPUS:%=--cpu %) $(PYTHONS:%=--python %)

wheel-check: ## Build an sdist and a wheel and try them outside the checkout
	scripts/dist_check.sh --one

thorough: $(LONG_FORMS:%=thorough-%) ## All the long forms below, one after the other (hours)

thorough-crash: $(STAMP) ## Kill a loaded broker 300 times per variant and read everything back
	$(LONG) tests/system/crash tests/system/rolling tests/outbox/e2e/test_killed_service.py -s

thorough-faults: $(STAMP) ## Tear, flip and fail: every torn image, 20,000 flips, every failing call, servers that lie
	$(LONG) tests/system/faults tests/admin/e2e/bad_servers tests/system/hostile/requests

thorough-simulation: $(STAMP) ## Run 10,000 seeds each of transactions, of pops and timers, and of replication: kills, losses, clock jumps
	$(LONG) tests/system/simulation -s
	PYRMQ_HA_SEEDS=10000 cargo test --locked --quiet -p pyrmq-store -- ha::simulation

thorough-memory: $(STAMP) ## Send and consume a million messages: the client's memory is flat
	$(LONG) tests/system/soak/test_client_memory.py -s

thorough-interop: $(STAMP) ## Run all Java clients, and all tests with each Apache RocketMQ
	$(LONG) tests/system/interop
	PYRMQ_PEER=5.3.3 $(LONG) tests/system/interop

thorough-spark: $(STAMP) ## Run the long Spark tests, and what depends on it with each PySpark
	$(LONG) tests/spark
	PYRMQ_PEER=5.3.3 $(LONG) -m "not slow" tests/spark/e2e/proof tests/spark/e2e/test_apache_broker.py
	scripts/spark_versions.sh

thorough-python: ## Build and try wheels for each Python found (3.11 to 3.14, and 3.15), as released
	scripts/dist_check.sh

thorough-sanitize: ## Run the engine's tests under Miri, AddressSanitizer and ThreadSanitizer
	scripts/sanitize.sh

thorough-fuzz: ## Fuzz every reader of foreign bytes, a minute each (needs nightly Rust)
	scripts/fuzz.sh

thorough-random: $(STAMP) ## Run all tests with random values with seeds that nobody has tried
	$(LONG) -m "(hypothesis or random) and not slow"
	PROPTEST_CASES=2000 cargo test --locked --quiet

thorough-disk: $(STAMP) ## Run the tests on the disk whose files are in memory otherwise (tests/support/scratch.py)
	$(LONG) -n $(WORKERS) --dist loadfile -q $(IN_MEMORY)

bench: $(STAMP) ## Run the micro benchmarks, each beside its yardstick (PYRMQ_BENCH_FULL=1: full sizes)
	@mkdir -p build
	$(BIN)/pytest benches --benchmark-only --benchmark-group-by=group --benchmark-json=build/bench.json

bench-save: bench ## The same, kept for this commit (.benchmarks/COMMIT.json)
	$(BIN)/python -m benches.saved save build/bench.json

bench-compare: $(STAMP) ## This commit's figures beside another's (REV=main), with their spread
	@test -n "$(REV)" || { echo "make bench-compare: name a commit, as REV=main"; exit 2; }
	$(BIN)/python -m benches.saved compare $(REV)

profile: $(STAMP) ## A flame graph of a loaded broker, Rust and Python (SCENARIO=send-8x128, TOOL=py-spy or perf)
	$(BIN)/python -m benches.profile $(or $(SCENARIO),send-8x128) $(if $(TOOL),--tool $(TOOL))

bench-spark: $(STAMP) ## Spark on segments beside Parquet and others, in turns (needs Java, 8 GiB of memory)
	@mkdir -p build
	$(BIN)/python -m benches.spark --json build/bench-spark.json
	$(BIN)/python -m benches.spark.jvm --json build/bench-spark-jvm.json

bench-plot: $(STAMP) ## Draw docs/benchmarks.svg from what the last `make bench` measured
	$(BIN)/pip install --quiet --disable-pip-version-check 'matplotlib>=3.9,<4'
	$(BIN)/python -m benches.plot build/bench.json docs/benchmarks.svg

docs: $(STAMP) ## Write the pages of docs/ and the dashboards that are made from the code
	$(BIN)/python scripts/docs_modules.py
	$(BIN)/python scripts/docs_tables.py
	$(BIN)/python scripts/dashboards.py

docs-plots: $(STAMP) ## Draw docs/images, the plots of jobs that the documentation shows
	$(BIN)/python scripts/docs_plots.py

.PHONY: site site-serve
site: engine ## Build the site of docs/ into build/site: dead links, and pages that no menu has, are errors
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

site-serve: engine ## Show it at 127.0.0.1:8000, and again after each change of a page
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve

bench-loopback: $(STAMP) ## Measure a broker over loopback beside the least one can do (PEER=1: and Apache's)
	@mkdir -p build
	$(BIN)/python -m benches.loopback $(if $(PEER),--peer) --json build/bench-loopback.json

bench-client: $(STAMP) ## CPU of clients for each message, with the broker in another process
	@mkdir -p build
	$(BIN)/pytest benches/test_client.py --benchmark-only --benchmark-json=build/bench-client.json

bench-instructions: $(STAMP) ## Count instructions a message, not noisy (SAVE=file, COMPARE=file, LOAD=name; needs valgrind)
	$(BIN)/python -m benches.instructions $(if $(LOAD),--load $(LOAD)) $(if $(SAVE),--save $(SAVE)) \
		$(if $(COMPARE),--compare $(COMPARE))

bench-transactions: $(STAMP) ## Transactions beside Apache RocketMQ's, in turns (needs Java, Maven)
	@mkdir -p build
	$(BIN)/python -m benches.loopback.compare --json build/bench-transactions.json

clean: ## Remove everything that was built
	rm -rf $(VENV) target build dist pyrmq/*.so tests/system/interop/.build spark_jvm/target spark_ext/jars

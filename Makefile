.DEFAULT_GOAL := help
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed
# Once, before several daemons start: from bytecode each starts in half the time.
COMPILE = $(BIN)/python -m compileall -q runtime protocol storage security client controller broker deploy spark web connect

# Python may write bytecode: from it tests are collected in half the time, twice in `make test`.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help lint quick check test peers fmt run bench simulate mutants compat chaos codec docs dist map clean
help: ## this list
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 10

$(STAMP): pyproject.toml runtime/version.py
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "minikafka needs Python 3.11 or newer; set PYTHON=")'
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@echo "installing into .venv (about 1 GB, half a minute)"
	@$(BIN)/pip install --quiet --disable-pip-version-check -e '.[connect,console,dev,docs,rest,spark,examples]'
	@$(COMPILE)
	@touch $@

lint: $(STAMP) ## format, lint, types (of what changed since the last run), import contracts
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

quick: lint ## lint, style and tests of the pure modules: about 20 s
	$(BIN)/pytest -q -n 2 -m "not slow" tests/style $$($(BIN)/python -m tests.support.pure)

check: lint ## lint, style and all fast tests
	$(BIN)/pytest -q -n 2 -m "not slow" tests

# A run that does not end is interrupted: it says what failed until then.
WITHIN = timeout --foreground -s INT -k 60

# Three workers: most slow tests wait for processes half of their time. More of them, and Spark gives
# up its Python workers, which have 10 s to start.
test: $(STAMP) ## everything a normal machine can run
	$(MAKE) --no-print-directory check
	@$(BIN)/python -m minikafka.spark.java || echo "the tests of Spark are skipped"
	$(WITHIN) 3000 $(BIN)/python -u -m pytest -q -n 3 --dist loadscope --no-loadscope-reorder -m "slow and not peers" tests

peers: $(STAMP) ## beside other people's programs, where they are installed: Chromium, Prometheus, Apache Kafka
	$(BIN)/pytest -q -m peers tests

SEED ?= 0
COVERAGE ?=
RUNS ?= $(if $(COVERAGE),20,1)
simulate: $(STAMP) ## the whole cluster simulated: SEED=n replays one, RUNS=n explores from there
	$(BIN)/python -m tests.simulation --seed $(SEED) --runs $(RUNS) $(if $(COVERAGE),--coverage)

PATCH ?=
SEEDS ?= 500
mutants: $(STAMP) ## planted bugs that the simulator or a test must catch, or PATCH=file of your own
	$(BIN)/python -m tests.mutants --seeds $(SEEDS) $(if $(PATCH),--patch $(PATCH),--page docs/mutants.md)

compat: $(STAMP) ## foreign clients against real brokers, and the page of what they asked and got
	$(BIN)/python -m tests.compat.page

chaos: $(STAMP) ## real processes under real faults, as root; and a drill on hosts of their own
	$(BIN)/python -m tests.chaos
	$(BIN)/python -m tests.chaos.drill

codec: $(STAMP) ## the C of the compiled record codec, from its Cython source, and build it
	@rm -f protocol/records/_records.c
	$(BIN)/cython -3 --module-name minikafka.protocol.records._records protocol/records/_records.pyx -o protocol/records/_records.c
	@sed -i "1i /* From _records.pyx, sha256 $$(sha256sum protocol/records/_records.pyx | cut -d' ' -f1): make codec */" protocol/records/_records.c
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps -e .

IN ?=
map: $(STAMP) ## every folder and module in a line, P where it is pure: IN=folder for one of them
	@$(BIN)/python -m tests.style.house_map $(IN)

fmt: $(STAMP) ## rewrite formatting and imports
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

run: $(STAMP) ## the flights pipeline on a cluster of its own, with a leader killed on the way
	@$(COMPILE)
	@$(BIN)/python -m minikafka.spark.java
	@$(BIN)/python -m minikafka.spark.examples.flights

bench: $(STAMP) ## the benchmarks, as ratios within one run (about half an hour)
	@$(COMPILE)
	$(BIN)/python -m bench

docs: $(STAMP) ## reference pages of the Python API, from its docstrings, in build/api
	@$(BIN)/python -m minikafka.deploy.api_docs build/api

dist: $(STAMP) ## sdist, wheel and manual pages; the wheel tried in an environment of its own
	rm -rf build/try build/man dist
	$(BIN)/python -m build
	@$(PYTHON) -m venv build/try
	@build/try/bin/pip install --quiet --disable-pip-version-check dist/*.whl
	@cd build && try/bin/minikafka --version
	@cd build && try/bin/minikafka generate helm --output try/chart
	@cd build && try/bin/minikafka generate man --output man

clean: ## remove what the build made
	rm -rf .venv build dist src/*.egg-info .*_cache .coverage* .hypothesis

# Every target sets up what it needs in .venv by itself; a fresh machine needs only make and Python (with its venv).
# Stamps in .venv are newer than the lock they were made from, so a second run installs nothing.

.DELETE_ON_ERROR:
.NOTPARALLEL:
.DEFAULT_GOAL := help

PYTHON ?= python3
ARGS   ?=
MINUTES ?= 10
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-input --progress-bar off --no-compile
# Pinned here because the tool that makes the locks cannot be in one.
UV     := uv==0.13.7
# A set-up compiles nothing ahead, a third of its time for modules of which few are ever imported; so what is
# imported must be kept compiled.
unexport PYTHONDONTWRITEBYTECODE

# $(call install,NAME,BESIDE): exactly what requirements/NAME.lock says, then this tree; BESIDE, if any, is run
# meanwhile, and whoever needs what it should have brought says so if it is missing. Neither step builds in
# isolation: that would fetch build tools which no lock has pinned. Plain pip, although uv is quicker,
# because it honours whatever mirror or certificate the machine has set for pip.
define install
@echo "setting up $(VENV) from requirements/$(1).lock (once)"
@$(if $(2),$(2) & )$(PIP) --require-hashes --no-build-isolation -r requirements/$(1).lock && wait
@$(PIP) --no-deps --no-build-isolation --no-index -e .
@touch $@
endef

.PHONY: help serve test browser test-spark pictures soak check format bench cluster lock proto clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-11s %s\n", $$1, $$2}' Makefile
	@echo 'Pass options on with ARGS, as in: make serve ARGS="--listen 127.0.0.1:7575"'

serve: $(VENV)/.serve ## run a server
	@exec $(BIN)/jjq serve $(ARGS)

# What Spark needs is set up beside the checks: neither takes more than one core, and no check looks at it.
# Spark's tests are one group, so that one JVM serves them all; being the largest, it is begun first. Much of
# what tests do is to wait, for servers and for leases: three share two cores.
test: $(VENV)/.dev ## run every check, then every test
	@$(MAKE) --no-print-directory check browser & $(MAKE) --no-print-directory $(VENV)/.spark; set_up=$$?; wait $$! && exit $$set_up
	@JAVA_HOME="$$(.ci/java)" && JJQ_BROWSER="$$(.ci/browser)" && export JAVA_HOME JJQ_BROWSER && exec $(BIN)/python -m pytest -n 3 --dist loadgroup $(ARGS)

browser:
	@.ci/browser >/dev/null

test-spark: $(VENV)/.spark ## run the tests that need Spark, and those alone
	@JAVA_HOME="$$(.ci/java)" && export JAVA_HOME && exec $(BIN)/python -m pytest -m spark $(ARGS)

pictures: $(VENV)/.dev ## make the pictures of the console in docs/images anew
	@JJQ_BROWSER="$$(.ci/browser)" && export JJQ_BROWSER && exec $(BIN)/python -m tests.jjq.console.browser.pictures $(ARGS)

soak: $(VENV)/.dev ## run servers under faults for MINUTES=n and judge what clients saw; see docs/faults.md
	@exec $(BIN)/python -m tests.faults --minutes $(MINUTES) $(ARGS)

check: $(VENV)/.dev ## lint, format, types, import directions, generated code
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/python proto/generate.py --check

format: $(VENV)/.dev ## rewrite the tree as check wants it, where that is mechanical
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

bench: $(VENV)/.spark $(VENV)/.bench ## measure, also against the peers; see docs/benchmark.md
	@JAVA_HOME="$$(.ci/java)" && export JAVA_HOME && exec $(BIN)/python -m bench $(ARGS)

cluster: $(VENV)/.dev ## run a cluster of nodes on this machine
	@exec $(BIN)/python -m jjq.dev_cluster $(ARGS)

proto: $(VENV)/.dev ## regenerate the wire code from proto/
	@$(BIN)/python proto/generate.py

# Widest first, and the others constrained by it: the same version of a package in every lock, so that
# set-ups can be layered in one .venv. Names, versions and hashes only: no mirror leaks into a lock.
COMPILE = build/lock/bin/uv pip compile --quiet --no-config --universal --python-version 3.11 \
	--generate-hashes --no-header --no-annotate --no-emit-index-url --no-emit-find-links \
	--group build pyproject.toml

lock: ## resolve all dependencies anew into requirements/*.lock
	@rm -rf build/lock && $(PYTHON) -m venv build/lock
	@build/lock/bin/python -m pip install --quiet --disable-pip-version-check '$(UV)'
	@$(COMPILE) --upgrade --extra dev --extra s3 --extra otel --extra spark -o requirements/spark.lock
	@rm -f requirements/bench.lock requirements/dev.lock requirements/serve.lock
	@$(COMPILE) --extra dev --extra s3 --extra otel --extra bench -c requirements/spark.lock -o requirements/bench.lock
	@$(COMPILE) --extra dev --extra s3 --extra otel -c requirements/spark.lock -o requirements/dev.lock
	@$(COMPILE) -c requirements/spark.lock -o requirements/serve.lock
	@rm -rf build/lock

clean: ## remove everything that make made
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +

$(VENV)/.base:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	    echo "jjq needs Python 3.11 or newer as '$(PYTHON)': install it, or run make PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -m venv --clear $(VENV) || { \
	    echo "could not create $(VENV): on Debian and Ubuntu run 'apt install python3-venv' first" >&2; exit 1; }
	@touch $@

$(VENV)/.serve: requirements/serve.lock pyproject.toml | $(VENV)/.base
	$(call install,serve)

$(VENV)/.dev: requirements/dev.lock pyproject.toml | $(VENV)/.base
	$(call install,dev)

# After dev's: its setuptools builds PySpark, which is published as source alone.
$(VENV)/.spark: requirements/spark.lock pyproject.toml | $(VENV)/.dev
	$(call install,spark,.ci/java >/dev/null)

$(VENV)/.bench: requirements/bench.lock pyproject.toml | $(VENV)/.dev
	$(call install,bench)

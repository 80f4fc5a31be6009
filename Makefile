# The menu. Every target sets up its own environment in .venv on a fresh machine.
#   make demo    a planted leak is found, explained and cured, in a minute or two
#   make check   ruff, mypy, import directions, fast tests: under a minute once .venv stands
#   make test    all tests
#   make bench   all benchmarks -> benchmarks/results.json, docs/benchmarks.md (ONLY="births walk": these anew)

PYTHON ?= python3
VENV ?= .venv
LOCK ?= requirements-dev.lock
BIN := $(VENV)/bin
READY := $(VENV)/.ready

export TF_CPP_MIN_LOG_LEVEL ?= 3
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help demo check test bench setup clean

help:
	@sed -n 's/^#   //p' Makefile

setup: $(READY)

$(READY): pyproject.toml setup.py $(LOCK) $(wildcard src/tenure/probes/*.c)
	@command -v $(PYTHON) >/dev/null || { echo "tenure needs Python 3.10 to 3.13, and there is no $(PYTHON); try make PYTHON=python3.11" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 10) <= sys.version_info < (3, 14))' || \
	  { echo "tenure needs Python 3.10 to 3.13; $(PYTHON) is $$($(PYTHON) -V 2>&1); try make PYTHON=python3.11" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || \
	  { echo "$(PYTHON) can't make virtual environments; install its venv package (Debian: python3-venv)" >&2; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -r $(LOCK)
	$(BIN)/python -m pip install --quiet --no-deps --editable .
	touch $@

demo: setup
	$(BIN)/tenure demo

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q tests/test_layers.py
	$(BIN)/python -m pytest -q -m "not tf and not slow"

test: setup
	$(BIN)/python -m pytest -q

bench: setup
	$(BIN)/python benchmarks/run_all.py $(ONLY)

clean:
	rm -rf $(VENV) .venv-oldest build dist src/*.egg-info .mypy_cache .pytest_cache .ruff_cache
	find src tests benchmarks -name __pycache__ -prune -exec rm -rf {} +
	rm -f src/tenure/probes/*.so

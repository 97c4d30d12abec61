# The two commands: `make demo` and `make test`. Everything happens in .venv, beside this file.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt
DEMO := build/demo.trace

.PHONY: demo test lint types unit bench clean

demo: $(VENV)/.core
	@mkdir -p build
	@$(BIN)/trainwitness demo --out $(DEMO)

test: lint types unit

lint: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(VENV)/.dev
	$(BIN)/mypy

unit: $(VENV)/.dev
	$(BIN)/pytest

bench: $(VENV)/.dev
	$(BIN)/python -m benchmarks.recording
	$(BIN)/python -m benchmarks.trace_size
	$(BIN)/python -m benchmarks.verification
	$(BIN)/python -m benchmarks.commitment
	$(BIN)/python -m benchmarks.exact

clean:
	rm -rf $(VENV) build .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(VENV)/.core: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "trainwitness needs Python 3.11 or newer: make PYTHON=python3.11 ...")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing into $(VENV) ..."
	@$(INSTALL) -e .
	@touch $@

$(VENV)/.dev: $(VENV)/.core
	@$(INSTALL) -e '.[dev]'
	@touch $@

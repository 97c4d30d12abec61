# The commands: `make demo`, `make test`, `make test-all` and `make docs`. Everything happens in .venv, beside this file.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt
DEMO := build/demo

.PHONY: demo test test-all browser docs lint types unit bench clean

demo: $(VENV)/.core
	@mkdir -p build
	@$(BIN)/python -c 'import plotly, fpylll' 2>/dev/null || $(INSTALL) -e '.[report,lattice]' \
	  || echo "without the extras [report] and [lattice] parts of the story are left out"
	@$(BIN)/trainwitness demo --out $(DEMO)

test: lint types unit

# Everything: also a real browser, a wheel in an empty environment, and every command of the documentation.
test-all: lint types browser $(VENV)/.all
	$(BIN)/pytest --everything

browser:
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null \
	  || { echo "the report is tested in Chromium; install it: apt-get install chromium"; exit 1; }

docs: $(VENV)/.all
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "open site/index.html"

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
	rm -rf $(VENV) build site .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(VENV)/.core: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "trainwitness needs Python 3.11 or newer: make PYTHON=python3.11 ...")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing into $(VENV) ..."
	@$(INSTALL) -e .
	@touch $@

$(VENV)/.dev: $(VENV)/.core
	@$(INSTALL) -e '.[dev]'
	@touch $@

$(VENV)/.all: $(VENV)/.dev
	@$(INSTALL) -e '.[test-all]'
	@touch $@

# Every target works on a bare machine with Python 3.11 and make; the rest comes from pip.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.DEFAULT_GOAL := help
.PHONY: help demo test slow bench lint format clean

help:  ## list the targets
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

demo: $(VENV)/.demo  ## tracks of every family: a table, and the picture out/demo.png
	$(BIN)/track-gen demo --out out/demo.png

test: $(VENV)/.dev  ## the default test lane
	$(BIN)/python -m pytest

slow: $(VENV)/.dev  ## the tests over thousands of seeds
	$(BIN)/python -m pytest -m slow

lint: $(VENV)/.dev  ## ruff (rules and format) and pyright
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright --pythonpath $(BIN)/python

format: $(VENV)/.dev  ## apply ruff's fixes and format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.dev  ## every benchmark: a table each, JSON in out/benchmarks
	mkdir -p out/benchmarks
	for name in throughput quality startup cubins runtime metrics environment extent elevation gates gate_difficulty; do \
	  $(BIN)/python benchmarks/$$name.py --json out/benchmarks/$$name.json || exit 1; \
	done

clean:  ## remove the virtual environment, outputs and caches
	rm -rf $(VENV) out build dist .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# The package is installed editable, so only a change of the dependencies installs again. The demo
# needs no torch; the stamp of the development install also serves the demo.
$(VENV)/.demo: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[cli,viz]'
	touch $@

$(VENV)/.dev: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	touch $@ $(VENV)/.demo

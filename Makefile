# A fresh clone needs Python 3.11+ and a package index; every target sets up what it needs.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
DEMO   := $(VENV)/.installed-demo

.DEFAULT_GOAL := help
.PHONY: help setup browser demo test coverage wheel lint format bench docs clean

help:  ## show this list
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

setup: $(STAMP)  ## make .venv and install everything, pinned (nothing to do when nothing changed)

$(STAMP): pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@ $(DEMO)

# The demo runs without PyTorch and the tools of development: what is installed for it is a small part of `setup`.
$(DEMO): pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[demo]'
	@touch $@

demo: $(DEMO)  ## scan, plan, release and audit a real survey that needs no download; ends with the report's path
	@$(BIN)/lowtide demo

# One thread for each worker: two workers of two threads on two cores wait for each other, ten times as long.
# A file is the work of one worker, so what a file fits once is fitted once; tests/conftest.py has slow files go first.
test: setup browser  ## the whole test suite
	OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder $(PYTEST_ARGS)

coverage: setup browser  ## the whole test suite, with the lines that no test runs; renews the page on coverage by room
	@$(MAKE) --no-print-directory test PYTEST_ARGS="--cov --cov-report=term --cov-report=json:coverage.json $(PYTEST_ARGS)"
	$(BIN)/python docs/coverage_by_room.py coverage.json

# Tests lay the report out in a real browser. Without one, and without the right to install it, they say so and skip.
browser:
	@command -v chromium chromium-browser google-chrome >/dev/null || { test "$$(id -u)" = 0 && \
	  { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y chromium >/dev/null; } || true; }

wheel: setup  ## sdist and wheel, with all assets, in dist/
	@rm -rf build dist
	$(BIN)/python -m build --outdir dist . >/dev/null
	@rm -rf build
	@ls -l dist

lint: setup  ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: setup  ## let ruff mend what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: setup  ## speed, as ratios measured in one run
	@for file in benchmarks/bench_*.py; do $(BIN)/python $$file $(BENCH_ARGS) || exit 1; done

docs: setup  ## the documentation as a site; a warning is an error
	$(BIN)/python -m sphinx -q -W --keep-going -b html docs docs/_build/html
	@echo "site: $(CURDIR)/docs/_build/html/index.html"

clean:  ## remove the environment and everything generated
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage coverage.json out docs/_build docs/reference/generated

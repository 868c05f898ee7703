# `make train` and `make test` are all a newcomer needs; both prepare .venv first and skip what is done.
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
WORKERS ?= 2
UV := $(shell command -v uv 2> /dev/null)

.PHONY: help train test test-slow fuzz lint types setup bench docs film dist constraints clean

help:  ## what there is to make (this list)
	@grep -hE '^[a-z][a-z-]*:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*##[ ]*/\1\t/' | expand -t 12

train: $(READY)  ## train the default preset and show what it learnt
	$(BIN)/atlas train quick --folder runs/quick-$$(date +%Y%m%d-%H%M%S)

test: lint types  ## lint, types, the fast tests and the oracles
	$(BIN)/python -m pytest -m "not slow" --numprocesses $(WORKERS) --dist loadfile --durations=10

test-slow: $(READY)  ## the tests that take minutes; types are checked at run time in every module
	$(BIN)/python -m pytest -m slow --jaxtyping-packages=atlas,typecheck.check

N ?= 100000
SEED ?= 0
fuzz: $(READY)  ## feed changed examples to everything that reads: `make fuzz N=100000 SEED=1`
	$(BIN)/python tests/fuzz/fuzzing.py $(N) --seed $(SEED)

bench: $(READY)  ## how fast everything is on this machine: many minutes, `make bench PARTS=world` fewer
	$(BIN)/atlas bench $(PARTS)

docs: $(READY)  ## build the site into docs/_build/html; warnings are errors
	$(BIN)/python -m sphinx -W --keep-going -n -q -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

film: $(READY)  ## the film of the README, anew
	$(BIN)/python docs/film.py

dist: $(READY)  ## build what is released, and check it
	rm -rf dist
	$(BIN)/python -m build
	$(BIN)/python -m twine check --strict dist/*

FREEZE := $(if $(UV),uv pip freeze --python $(BIN)/python,$(BIN)/python -m pip freeze)
constraints: $(READY)  ## write down the versions of .venv, once all tests have passed with them
	@{ echo "# The versions with which all tests passed: pip install 'atlas-ued[dev]' -c constraints.txt"; \
		echo "# With Python $$($(BIN)/python -c 'import platform; print(platform.python_version())') on Linux; written by \`make constraints\`."; \
		$(FREEZE) --exclude-editable | grep -E '^[A-Za-z0-9._-]+=='; } > constraints.txt

lint: $(READY)  ## style
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)  ## types
	$(BIN)/mypy

setup: $(READY)  ## prepare .venv

# The stamp is written last: an interrupted set-up starts over.
$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Python 3.11 or newer is needed; '$(PYTHON)' is $$($(PYTHON) --version 2>&1). Try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
ifdef UV
	uv venv --quiet --allow-existing --python $(PYTHON) $(VENV)
	uv pip install --quiet --python $(BIN)/python -e '.[dev]'
else
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
endif
	@touch $(READY)

clean:  ## remove .venv and caches
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis

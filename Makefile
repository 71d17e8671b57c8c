# `make demo` and `make test` work on a fresh clone: what they need is installed into .venv once.

VENV   := .venv
PYTHON := $(VENV)/bin/python
READY  := $(VENV)/.ready
PYTEST := $(PYTHON) -m pytest -n 2 --dist worksteal
CODE   := src tests docs examples $(wildcard training benchmarks)

# No command here may look for a model on a hub.
export HF_HUB_OFFLINE := 1

.DEFAULT_GOAL := help
.PHONY: help venv demo test check format docs bench clean

help: ## this list
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

venv: $(READY) ## install everything into .venv (the other targets do it when needed)

# torch first and by itself: it is most of the download, and a change of ours need not repeat it.
$(READY): pyproject.toml constraints.txt
	python3 -m venv $(VENV)
	$(PYTHON) -m pip install --quiet -c constraints.txt torch==2.13.0
	$(PYTHON) -m pip install --quiet -c constraints.txt -e ".[dev,data]"
	@touch $@

demo: $(READY) ## explain what the bundled models say: in the terminal, as pages, as pictures
	$(PYTHON) examples/demo.py demo

test: $(READY) ## the default tests, under five minutes on two cores
	$(PYTEST)

check: $(READY) ## lint, formatting, types
	$(PYTHON) -m ruff check $(CODE)
	$(PYTHON) -m ruff format --check $(CODE)
	$(PYTHON) -m mypy

format: $(READY) ## put the formatting right
	$(PYTHON) -m ruff check --fix $(CODE)
	$(PYTHON) -m ruff format $(CODE)

docs: $(READY) ## write the tables of README and docs anew, from the registries
	$(PYTHON) docs/tables.py

bench: $(READY) ## speed and memory against a plain forward and backward
	$(PYTHON) benchmarks/speed.py
	$(PYTHON) benchmarks/memory.py

clean: ## remove what the other targets made, .venv included
	rm -rf $(VENV) demo build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

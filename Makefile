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

test: $(READY) ## the default tests, some ten minutes on two cores
	$(PYTEST)

check: $(READY) ## lint, formatting, types
	$(PYTHON) -m ruff check $(CODE)
	$(PYTHON) -m ruff format --check $(CODE)
	$(PYTHON) -m mypy

format: $(READY) ## put the formatting right
	$(PYTHON) -m ruff check --fix $(CODE)
	$(PYTHON) -m ruff format $(CODE)

docs: $(READY) ## write the generated tables of README and docs, and the hop lists
	$(PYTHON) docs/tables.py
	$(PYTHON) docs/trace.py --write

# Peers to compare with. lxt and zennit without what they name: they would bring a torchvision, and
# one that was built for another torch breaks transformers. The benchmark gets round its absence.
PEERS := $(VENV)/.peers
$(PEERS): $(READY)
	$(PYTHON) -m pip install --quiet -c constraints.txt -e ".[bench]"
	$(PYTHON) -m pip install --quiet -c constraints.txt --no-deps lxt zennit
	@touch $@

RESULTS := benchmarks/results
TIMED   := raw_attention,rollout,grad_cam,gae,gradient_x_input,lrp_ah,lrp_ln,lrp_ah_ln,attn_lrp,partial_lrp,transformer_attribution,full_lrp

# One that fails does not stop the others (the dashes): page.py fails at the end if any was over.
bench: $(PEERS) ## all benchmarks and their page, three to four hours on a quiet machine
	-$(PYTHON) benchmarks/speed.py --shapes bert,vit --rounds 7 --methods $(TIMED) --json $(RESULTS)/speed.json
	-$(PYTHON) benchmarks/speed.py --shapes bert,vit --rounds 7 --methods $(TIMED) --threads 2 --json $(RESULTS)/speed_two.json
	-$(PYTHON) benchmarks/speed.py --shapes lxmert,detr --rounds 5 --json $(RESULTS)/streams.json
	-$(PYTHON) benchmarks/memory.py --json $(RESULTS)/memory.json
	-$(PYTHON) benchmarks/peers.py --json $(RESULTS)/peers.json
	-$(PYTHON) benchmarks/flow.py --json $(RESULTS)/flow.json
	-$(PYTHON) benchmarks/sweep.py --json $(RESULTS)/sweep.json
	-$(PYTHON) benchmarks/sweep.py --layers 2 --lengths 1024,2048,4096,8192,16384 --batches 1 --budget 120 --json $(RESULTS)/sweep_long.json
	-$(PYTHON) benchmarks/long_inputs.py --longest 16384 --json $(RESULTS)/long_inputs.json
	-$(PYTHON) benchmarks/throughput.py --json $(RESULTS)/throughput.json
ifdef WHYFORMER_DATA
	-$(PYTHON) benchmarks/segmentation.py --json $(RESULTS)/segmentation.json
	-$(PYTHON) benchmarks/evaluation.py --alone 36 --json $(RESULTS)/evaluation.json
endif
	$(PYTHON) benchmarks/page.py

clean: ## remove what the other targets made, .venv included
	rm -rf $(VENV) demo artefacts build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

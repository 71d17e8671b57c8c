# Every target works on a fresh clone: the first one sets up .venv.

VENV   := .venv
PYTHON := $(VENV)/bin/python
READY  := $(VENV)/.ready
PYTEST := $(PYTHON) -m pytest -n 2 --dist worksteal
CODE   := src tests docs examples $(wildcard training benchmarks)

# What depends on the processor's arithmetic; CI runs it as other processors too (.ci/run).
NUMERIC := tests/engine tests/golden tests/methods tests/metrics $(wildcard tests/statistics)

# uv resolves in seconds what takes pip minutes. pip installs torch, also from local wheels.
UV := $(VENV)/bin/uv pip install --quiet --python $(PYTHON) -c constraints.txt

# No command here may look for a model on a hub.
export HF_HUB_OFFLINE := 1
# pytest compiles the tests once; without bytecode files every process would do it again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help venv dist demo test test-all test-slow test-numeric test-oldest fuzz check format docs site bench clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

venv: $(READY) ## install everything into .venv (the other targets do this on first use)

# Packages whose models tests explain, without what they name: timm and open_clip would install a
# torchvision for another torch, which breaks transformers.
TESTED := timm open_clip_torch ftfy wcwidth quantus cachetools scikit-image lazy-loader opencv-python-headless

# torchao has a folder of its own, on the path of one test: transformers and peft behave otherwise
# where they find it.
#
# torch first and alone: it is most of the download, and a change of ours need not repeat it.
$(READY): pyproject.toml constraints.txt
	python3 -m venv $(VENV)
	$(PYTHON) -m pip install --quiet -c constraints.txt torch==2.13.0 uv
	$(UV) -e ".[dev]"
	$(UV) --no-deps $(TESTED)
	$(UV) --no-deps --upgrade --target $(VENV)/torchao torchao
	@touch $@

dist: $(READY) ## build the wheel and the sdist into dist/
	$(PYTHON) -m hatchling build

demo: $(READY) ## explain predictions of the bundled models: terminal output, HTML pages, pictures
	$(PYTHON) examples/demo.py demo

test: $(READY) ## run the quick tests, about six minutes on two cores
	$(PYTEST)

test-all: $(READY) ## run all tests, the slow ones too, about forty minutes on two cores
	$(PYTEST) -m "" --hypothesis-profile=new

test-slow: $(READY) ## run the tests that `make test` leaves out
	$(PYTEST) -m slow --hypothesis-profile=new

test-numeric: $(READY) ## run the quick tests of what depends on the processor's arithmetic
	$(PYTEST) $(NUMERIC)

fuzz: $(READY) ## feed 50,000 damaged files, models, command lines and requests
	$(PYTHON) -m tests.fuzz.fuzz --cases 50000

# The lower bounds of pyproject.toml, installed apart. torch stays at the tested version: older ones
# need another Python or platform here. Old and new packages warn about each other.
OLDEST := .venv-oldest
OLDEST_TESTS := tests/test_explain.py tests/test_attribution.py tests/test_compare.py \
	tests/models/test_packed_weights.py tests/cli/test_explain_command.py tests/cli/test_front_page.py

$(OLDEST)/.ready: $(READY) pyproject.toml
	python3 -m venv $(OLDEST)
	$(OLDEST)/bin/python -m pip install --quiet -c constraints.txt torch==2.13.0
	$(VENV)/bin/uv pip install --quiet --python $(OLDEST)/bin/python --resolution lowest-direct \
		torch==2.13.0 -e . "click==8.2.1" "pytest==9.0.0" "hypothesis>=6.170" "pytest-xdist>=3.6" "html5lib>=1.1"
	@touch $@

test-oldest: $(OLDEST)/.ready ## run some tests with the oldest versions that pyproject.toml allows
	$(OLDEST)/bin/python -m pytest -n 2 -W ignore::DeprecationWarning $(OLDEST_TESTS)

check: $(READY) ## check lint, formatting and types
	$(PYTHON) -m ruff check $(CODE)
	$(PYTHON) -m ruff format --check $(CODE)
	$(PYTHON) -m mypy

format: $(READY) ## fix lint and formatting
	$(PYTHON) -m ruff check --fix $(CODE)
	$(PYTHON) -m ruff format $(CODE)

docs: $(READY) ## update the generated tables and hop lists in README and docs
	$(PYTHON) docs/tables.py
	$(PYTHON) docs/trace.py --write

site: $(READY) ## build the docs site into site/, with warnings as errors
	PYTHONPATH=.:src NO_MKDOCS_2_WARNING=1 $(PYTHON) -m mkdocs build --quiet --strict

# Other libraries to compare with. lxt and zennit without their dependencies: they would install a
# torchvision for another torch, which breaks transformers. The benchmark does not need it.
PEERS := $(VENV)/.peers
$(PEERS): $(READY)
	$(PYTHON) -m pip install --quiet -c constraints.txt -e ".[bench]"
	$(PYTHON) -m pip install --quiet -c constraints.txt --no-deps lxt zennit
	@touch $@

RESULTS := benchmarks/results
TIMED   := libragrad,blend,gae_balanced,raw_attention,rollout,grad_cam,gae,gradient_x_input,lrp_ah,lrp_ln,lrp_ah_ln,attn_lrp,partial_lrp,transformer_attribution,full_lrp

# A benchmark that fails does not stop the others (the dashes): page.py fails at the end if one
# exceeded its limit.
bench: $(PEERS) ## run all benchmarks and write their page, three to four hours on a quiet machine
	-$(PYTHON) benchmarks/speed.py --shapes bert,vit --rounds 7 --methods $(TIMED) --json $(RESULTS)/speed.json
	-$(PYTHON) benchmarks/speed.py --shapes bert,vit --rounds 7 --methods $(TIMED) --threads 2 --json $(RESULTS)/speed_two.json
	-$(PYTHON) benchmarks/speed.py --shapes sst2 --rounds 10 --methods auto,lrp_ah_ln,gae --json $(RESULTS)/speed_small.json
	-$(PYTHON) benchmarks/products.py --json $(RESULTS)/products.json
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

clean: ## remove everything that the other targets made, .venv too
	rm -rf $(VENV) .venv-oldest demo artefacts site build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

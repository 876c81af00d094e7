# Every target sets up what it needs by itself. `make help` lists them.
SHELL := /bin/bash
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
STAGES := $(BIN)/python scripts/stages.py
# Some fixtures take minutes: that is no reason to show where every thread is.
PATIENTLY := -o faulthandler_timeout=0
# A test that hangs is a failure that shows where every thread is, and no run that never ends.
NEVER_HANGING := -o faulthandler_timeout=300 -o faulthandler_exit_on_timeout=true
# The last line of `cluster up` is KUBECONFIG=<path>.
ON_CLUSTER = export PYTHONPATH=tests && export $$($(BIN)/python -m cluster up | tail -n 1) && $(BIN)/python
# What shows that core and command line are covered: to watch all other tests for that would double their time.
COVERING := $(wildcard $(foreach part,api bad cli control law simulate,tests/unit/test_$(part)*.py))
CRD := crds/omnilearn.dev_omnilearnjobs.yaml

# A virtual environment from elsewhere (a copied or moved tree) would run the code from there: make it anew.
ifneq ($(shell cat .venv/.place 2>/dev/null),$(CURDIR))
$(shell rm -f $(READY))
endif

# Whoever has told Python to keep no bytecode would wait for torch to be compiled at every start of a worker.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo check test lint format generate bench chaos chaos-cluster scale churn lock clean cluster-up cluster-down images install e2e \
	stage-format stage-lint stage-types stage-imports stage-generated stage-unit-1 stage-unit-2 stage-exact-1 stage-exact-2 stage-chaos \
	stage-apiserver stage-bench stage-demo stage-e2e

help: ## Show the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(READY) ## Train a real model on four unlike workers, kill one and add one; ends with a picture
	@$(BIN)/omnilearn run examples/digits/job.yaml --kill step40:middle-1 --add step50:small --output out/demo
	@echo "picture: out/demo/shares.png"

check: $(READY) ## The inner loop: format, lint, types, imports, generated files, unit tests
	@$(STAGES) format lint types imports generated unit-1+unit-2

test: $(READY) ## Everything: check, the demo, the API server's own validation, exactness, a part of the chaos, a real cluster
	@$(STAGES) format lint demo+types+imports+generated+bench unit-1+unit-2+exact-1+exact-2 apiserver chaos e2e

lint: $(READY) ## Format, lint, types and import contracts, without changing a file
	@$(STAGES) format lint types imports

format: $(READY) ## Rewrite the sources the way the linter wants them
	@$(BIN)/ruff check --quiet --fix-only . && $(BIN)/ruff format .

generate: $(READY) ## Write the CRD from the models, and the chart's copy of it
	@$(BIN)/omnilearn crd > $(CRD).new && mv $(CRD).new $(CRD) && wc -c $(CRD) && $(BIN)/python -m scripts.chart

bench: $(READY) ## All benchmarks, for a quiet machine and a long coffee: tables, JSON and pictures in out/
	@for each in laws training recovery accuracy coordinator papers; do \
		$(BIN)/python -m benchmarks.$$each --json out/$$each.json --plot out/$$each.png || exit 1; done
	@$(BIN)/python -m benchmarks.peers --json out/peers.json

chaos: $(READY) ## A thousand seeded faults against real processes, and some against every other strategy
	@FAULTS=1000 $(BIN)/pytest $(PATIENTLY) tests/chaos/test_chaos.py
	@FAULTS=40 $(BIN)/pytest $(PATIENTLY) tests/chaos/test_strategies.py

chaos-cluster: $(READY) ## A hundred seeded faults against a real job on real pods (FAULTS, SEED); figures and a picture in out/
	@FAULTS=$${FAULTS:-100} $(BIN)/pytest $(PATIENTLY) tests/e2e/test_chaos.py

scale: $(READY) ## A thousand jobs on the cluster, with pods that kwok plays; figures and a picture in out/
	@$(ON_CLUSTER) -m benchmarks.scale --json out/scale.json --plot out/scale.png

churn: $(READY) ## Two thousand jobs that come and go on the cluster: what is left of them?
	@$(ON_CLUSTER) -m benchmarks.churn --json out/churn.json --plot out/churn.png

cluster-up: $(READY) ## A real Kubernetes cluster for tests and for trying things; the last line is KUBECONFIG=<path>
	@PYTHONPATH=tests $(BIN)/python -m cluster up

cluster-down: $(READY) ## Take it away; images and logs stay (ALL=1: these, too)
	@PYTHONPATH=tests $(BIN)/python -m cluster down $(if $(ALL),--all)

images: $(READY) ## Build both images, by Docker or buildah; sizes and times
	@$(BIN)/python -m scripts.images

install: $(READY) ## Put images and operator into that cluster, by Helm
	@PYTHONPATH=tests $(BIN)/python -m e2e.install

e2e: stage-e2e ## What a user does, on a real cluster

lock: $(READY) ## Raise the pinned dependencies to the newest that pyproject.toml allows
	@UV=$(BIN)/uv scripts/lock.sh

clean: ## Remove everything that make has made here (the build of the API server's checks stays in your cache folder)
	rm -rf .venv .cache out dist build .coverage .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(READY): requirements/uv.txt requirements/dev.txt pyproject.toml scripts/setup.sh
	@PYTHON=$(PYTHON) scripts/setup.sh

stage-format stage-lint stage-types stage-imports stage-generated stage-unit-1 stage-unit-2 stage-exact-1 stage-exact-2 stage-chaos stage-apiserver stage-bench stage-e2e: $(READY)

stage-format:
	@$(BIN)/ruff format --check --quiet --diff .
stage-lint:
	@$(BIN)/ruff check --quiet .
stage-types:
	@$(BIN)/mypy
stage-imports:
	@$(BIN)/lint-imports
stage-generated:
	@$(BIN)/omnilearn crd | diff -u $(CRD) - || { echo "$(CRD) is stale: run make generate"; exit 1; }
	@$(BIN)/python -m scripts.chart --check
stage-unit-1:
	@$(BIN)/pytest $(NEVER_HANGING) --cov --cov-report=term $(COVERING)
stage-unit-2:
	@$(BIN)/pytest $(NEVER_HANGING) $(filter-out $(COVERING),$(wildcard tests/unit/test_*.py))
stage-exact-1:
	@$(BIN)/pytest $(NEVER_HANGING) $(wildcard tests/exactness/test_a*.py)
stage-exact-2:
	@$(BIN)/pytest $(NEVER_HANGING) $(filter-out $(wildcard tests/exactness/test_a*.py),$(wildcard tests/exactness/test_*.py))
stage-chaos:
	@$(BIN)/pytest $(NEVER_HANGING) tests/chaos
stage-apiserver:
	@$(BIN)/pytest $(PATIENTLY) tests/integration
stage-bench:
	@$(BIN)/python -m benchmarks.laws --quick --json out/laws-quick.json
stage-e2e:
	@PYTHONPATH=tests $(BIN)/python -m e2e.lanes $(PATIENTLY) --durations=25
	@$(BIN)/pytest tests/unit/test_chart*.py
stage-demo:
	@$(MAKE) --no-print-directory demo

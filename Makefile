# Everything a developer does is one target. `make help` lists them.
VENV ?= .venv
BIN := $(VENV)/bin
PYTEST_WORKERS ?= 2
ARGS ?=

# Where writing bytecode is forbidden, every start of ours compiles every source anew, in tests and benches too.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help run test coverage test-cluster test-engines test-packaging lint format bench bench-fleet fuzz simulate docs crds chart sbom wheel clean

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

$(VENV)/.installed: pyproject.toml constraints.txt scripts/bootstrap.sh
	@VENV=$(VENV) sh scripts/bootstrap.sh

run: $(VENV)/.installed ## embedded cluster, HTTPS webhooks, controller, and a scenario (ARGS="--once" ends after it)
	@$(BIN)/mdctl run $(ARGS)

test: $(VENV)/.installed ## every test that needs no real API server and no engine
	$(BIN)/python -m pytest -n $(PYTEST_WORKERS) --dist worksteal -m "not real and not engines and not slow" $(ARGS)

# Apart from `test`: before Python 3.14 the tracer of branches makes the properties take three times as long.
coverage: $(VENV)/.installed ## the same tests, with the branches that they reach and the lines that they do not
	$(BIN)/python -m pytest -n $(PYTEST_WORKERS) --dist worksteal -m "not real and not engines and not slow" --cov --cov-report=term:skip-covered $(ARGS)

test-cluster: $(VENV)/.installed ## the cluster scenarios on a real kube-apiserver (KUBECONFIG+MODELWARDEN_TEST_CLUSTER=1, or KUBEBUILDER_ASSETS)
	$(BIN)/python -m pytest tests/cluster --cluster=real -m "not slow" $(ARGS)

test-engines: $(VENV)/.installed ## ask the engines' own parsers (ORACLE_HOME names their environments)
	$(BIN)/python -m pytest tests/engines -m engines $(ARGS)

test-packaging: $(VENV)/.installed ## chart by Helm, all that is shipped on a real API server (KUBEBUILDER_ASSETS), wheel, bill of materials, promtool, a scrape; minutes, needs a package index
	@sh scripts/tools.sh .run/tools
	PATH="$(CURDIR)/.run/tools/bin:$$PATH" $(BIN)/python -m pytest tests/deploy tests/app/test_scrape.py -m "slow or not slow" -rs $(ARGS)

lint: $(VENV)/.installed ## ruff, mypy --strict, import-linter
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

format: $(VENV)/.installed ## ruff's formatter and its safe fixes
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

.run/kopf/.installed:
	@mkdir -p .run && python3 -m venv .run/kopf && .run/kopf/bin/pip install -q --disable-pip-version-check kopf uvloop && touch $@

bench: $(VENV)/.installed .run/kopf/.installed ## CPU per review beside kopf, argv reading, cold start; a table and bench/out/*.json
	BENCH_KOPF_PYTHON=$(CURDIR)/.run/kopf/bin/python $(BIN)/python -m bench $(ARGS)

bench-fleet: $(VENV)/.installed .run/kopf/.installed ## the controller over an API server stand-in at growing fleet sizes (ARGS="--sizes 100,1000 --peers none")
	BENCH_KOPF_PYTHON=$(CURDIR)/.run/kopf/bin/python $(BIN)/python -m bench.fleet $(ARGS)

fuzz: $(VENV)/.installed ## bounded fuzzing of reviews, annotations, argv and Secrets
	FUZZ=long $(BIN)/python -m pytest tests/fuzz -m "slow or not slow" --timeout 900 $(ARGS)

simulate: $(VENV)/.installed ## 10,000 random scenarios of the controller in a simulated cluster (ARGS: --seeds N, --seed N --steps 1,2, --sweep, --mutants)
	$(BIN)/python -m tests.simulation $(ARGS)

docs: $(VENV)/.installed ## regenerate the pages that come from registries
	$(BIN)/python -m scripts.docs

crds: $(VENV)/.installed ## regenerate deploy/crds from the types
	$(BIN)/mdctl crds --write deploy/crds

chart: $(VENV)/.installed ## regenerate deploy/chart from the base
	$(BIN)/python -m scripts.chart

# The date of the last commit: a wheel of the same tree is the same wheel, byte by byte.
wheel: $(VENV)/.installed ## the wheel, reproducibly, into dist/
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(BIN)/python -m pip wheel -q --disable-pip-version-check --no-deps --wheel-dir dist .

.run/sbom/.installed:
	@mkdir -p .run && python3 -m venv .run/sbom && .run/sbom/bin/pip install -q --disable-pip-version-check "cyclonedx-bom>=7,<8" && touch $@

sbom: .run/sbom/.installed ## dist/sbom.cdx.json (CycloneDX): what an installation of the pinned dependencies holds
	@sh scripts/sbom.sh .run/sbom/bin/cyclonedx-py dist/sbom.cdx.json

clean: ## remove what the targets made
	rm -rf $(VENV) .run .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage htmlcov dist build

# Two commands on a fresh machine: `make reproduce` and `make test`. Each sets up all that it needs.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
TOOLS  := $(VENV)/.tools
KERNELS := $(VENV)/kernels
PAGES  := $(VENV)/.pages

.PHONY: help setup reproduce test lint types layers unit docs bench bench-peers torture lock package image clean
.DEFAULT_GOAL := help

help:            ## show this list
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(READY)  ## make the virtual environment with the pinned packages

$(READY): requirements/lock.txt pyproject.toml clients/python/pyproject.toml lab/pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Tightrope needs Python 3.11 or newer; this is " + sys.version.split()[0] + ". Try: make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/lock.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e clients/python -e . -e lab
	@touch $@

$(TOOLS): scripts/install-test-tools clients/typescript/package-lock.json $(READY)
	@bash scripts/install-test-tools
	@touch $@

$(PAGES): requirements/docs.txt $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r requirements/docs.txt
	@touch $@

reproduce: $(READY)  ## run the main job
	$(BIN)/tightrope reproduce

test: $(READY)  ## lint, types, layers, doctests and tests
	@$(MAKE) --no-print-directory --jobs 2 --output-sync=target lint types layers $(KERNELS)/.compiled
	@$(MAKE) --no-print-directory unit

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy

layers: $(READY)
	$(BIN)/lint-imports

# Tests start many processes: without kept byte code each would compile all modules that it imports.
unit $(KERNELS)/.compiled: export PYTHONDONTWRITEBYTECODE :=

# Compiled for this machine, kept by what their sources say.
$(KERNELS)/.compiled: scripts/compile-kernels $(READY) $(wildcard src/tightrope/kernels/*.py)
	NUMBA_CACHE_DIR=$(CURDIR)/$(KERNELS) $(BIN)/python scripts/compile-kernels
	@touch $@

# One worker more than the two cores of a small machine, since some tests wait for servers; tests/conftest.py orders the files.
unit: $(READY) $(TOOLS) $(KERNELS)/.compiled
	NUMBA_CACHE_DIR=$(CURDIR)/$(KERNELS) $(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder

docs: $(READY) $(TOOLS) $(PAGES)  ## the documentation's site: runs the tutorials, leaves build/site/index.html, checks what was built
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	$(BIN)/python -m pytest -q tests/site/built_site.py

bench: $(READY)  ## speed against plain NumPy loops (benchmarks/README.md)
	$(BIN)/tightrope bench --out out/bench

bench-peers: $(READY)  ## the same problem in other libraries, in an environment of their own
	$(BIN)/python benchmarks/peers.py

torture: $(READY) $(TOOLS)  ## the service's long fault tests: kill -9, power cuts, restarts (docs/service-faults.md)
	PYTHONPATH=tests $(BIN)/python tests/service/torture.py

lock:            ## after a change of pinned versions: the hashes of all their files (requirements/)
	$(PYTHON) scripts/lock

package: $(READY)  ## build sdist and wheel, install the wheel in an empty environment, run what its help shows; try other releases of Uvicorn (docs/release.md)
	$(BIN)/python scripts/check-package
	$(BIN)/python scripts/check-uvicorn

image: $(READY)  ## as root: run the Dockerfile's steps without a container engine, and start the service (docs/containers.md)
	$(BIN)/python scripts/check-image

clean:           ## remove the virtual environment and every cache
	rm -rf $(VENV) .venv-peers .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist clients/typescript/node_modules clients/typescript/dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# `make train` and `make test` do everything from nothing; a second call does no set-up again.
# Paths are relative, so that a checkout in a folder with spaces in its name works.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.PHONY: train test test-slow test-cuda fuzz build lint format types docs cuda-compile asan bench clean

PYTHON := .venv/bin/python
CONFIG ?= configs/char_gpt.yaml
FUZZ_SECONDS ?= 60
FUZZ_SEED ?= 1
NATIVE_SOURCES := setup.py pyproject.toml $(shell find csrc -type f)

# Caches stay in the checkout; so do temporary files where the system's folder for them is not ours to write.
export TORCHINDUCTOR_CACHE_DIR := $(CURDIR)/.cache/inductor
ifeq ($(shell test -w "$${TMPDIR:-/tmp}" && echo writable),)
export TMPDIR := $(CURDIR)/.cache/tmp
endif

train: build
	$(PYTHON) -m burnlike train $(CONFIG)

test: build
	$(PYTHON) -m pytest

test-slow: build
	$(PYTHON) -m pytest -m "not cuda"

test-cuda: build
	$(PYTHON) -m pytest -m cuda

# FUZZ_SECONDS says how long, FUZZ_SEED where to begin; a file that breaks the rules is kept in .cache.
fuzz: build
	$(PYTHON) -m tests.record.fuzz.fuzz --seconds $(FUZZ_SECONDS) --seed $(FUZZ_SEED) --keep .cache

build: .venv/.native

lint: .venv/.packages
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .
	.venv/bin/lint-imports

format: .venv/.packages
	$(PYTHON) -m ruff check --fix .
	$(PYTHON) -m ruff format .

types: build
	$(PYTHON) -m basedpyright

docs: build
	$(PYTHON) -m tools.tensor_api

cuda-compile: .venv/.packages
	$(PYTHON) .ci/cuda_compile.py

asan: .venv/.packages
	.ci/asan.sh

bench: build
	$(PYTHON) -m benchmarks

clean:
	rm -rf .venv .cache build dist *.egg-info burnlike/*.so

.venv/.packages: requirements.lock .ci/environment.sh
	@mkdir -p .cache/tmp
	@.ci/environment.sh
	@touch $@

.venv/.native: .venv/.packages $(NATIVE_SOURCES)
	@echo "Building the native ops"
	@$(PYTHON) -m pip install --verbose --no-build-isolation --no-deps \
	    --config-settings editable_mode=compat --editable . > .cache/build.log 2>&1 \
	    || { cat .cache/build.log; exit 1; }
	@sed -n '/native build/,/libraries/s/^  //p' .cache/build.log
	@touch $@

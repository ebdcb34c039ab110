# Two commands matter: `make up` shows what there is, `make test` proves it.
# Everything is installed into .venv; nothing is done twice.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip -qq --disable-pip-version-check
LOCKED := -c constraints.txt
WEB := $(shell find web/src web/public -type f) $(wildcard web/*.json web/*.ts web/*.js web/*.html)
NATIVE := $(wildcard native/*.cpp native/*.h native/CMakeLists.txt)
FUZZ_SECONDS ?= 60
# The fuzzers' compiler: this Debian's, or another release's default.
CLANG := $(shell command -v clang++-14 || command -v clang++ || echo clang++-14)

# Where a Kubernetes for tests is built, and found again.
KUBERNETES ?= build/kubernetes

# What builds the image.
ENGINE ?= $(shell command -v docker || command -v podman || echo docker)

.PHONY: up test web check bench preemption fuzz native-test test-kubernetes image constraints format clean help

help: ## what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

up: $(VENV)/.built build/.web ## set up, log demo runs of every kind, and show them in a board
	@$(BIN)/python examples/demo.py

test: $(VENV)/.dev .venv-tf/.ready .venv-profile/.ready build/transformers4/.ready build/azurite/.ready build/fuzz/.built build/.web check native-test ## set up and run every test
	@echo "· fuzzing for a short while"
	@scripts/fuzz 10
	@echo "· tests"
	@# Tests wait for processes as often as they work: one more than there are processors. Those of
	@# one file stay together: they share hubs, clusters and stores.
	@$(BIN)/python -m pytest -n $$(( $$(nproc) + 1 )) --dist loadfile

web: build/.web ## build the web page into the package

check: $(VENV)/.dev build/.web ## every gate: format, lint, types, layers
	@echo "· gates"
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy --no-error-summary
	@mkdir -p build
	@$(BIN)/lint-imports > build/lint-imports.log || { cat build/lint-imports.log; exit 1; }
	@npm --silent --prefix web run check > build/web-check.log || { cat build/web-check.log; exit 1; }
	@npm --silent --prefix web run test > build/web-test.log || { cat build/web-test.log; exit 1; }

bench: $(VENV)/.dev ## compare with the peers; writes docs/benchmarks.md
	@$(BIN)/python -m benchmarks

preemption: $(VENV)/.dev ## kill and resume trainings, 50 times in each of four ways
	@$(BIN)/python -m benchmarks.preemption --times 50

fuzz: build/fuzz/.built ## fuzz the kernel for FUZZ_SECONDS per target
	@scripts/fuzz $(FUZZ_SECONDS)

native-test: build/native-test/run ## the kernel's own tests, under sanitizers
	@echo "· kernel tests"
	@build/native-test/run

test-kubernetes: $(VENV)/.dev ## the launcher on a real Kubernetes, which is built once, or on that of KUBECONFIG
	@test -n "$$KUBECONFIG" || scripts/build-kubernetes $(KUBERNETES)
	@TBHUB_TEST_KUBERNETES=$(KUBERNETES) $(BIN)/python -m pytest -m kubernetes -v -rs --durations=0 tests/launchers

image: ## the image of the hub and its hosts, tbhub:latest, with docker or podman
	@$(ENGINE) build $(IMAGE_OPTIONS) -t tbhub .

constraints: $(VENV)/.tools ## take the newest versions of everything, and note them
	@$(PIP) install --upgrade --upgrade-strategy eager --no-build-isolation -e '.[dev]'
	@{ sed -n '/^#/p' constraints.txt; $(BIN)/pip freeze --exclude-editable | sed 's/+cpu$$//'; } > constraints.new
	@mv constraints.new constraints.txt

format: $(VENV)/.dev ## rewrite the Python files in house style
	@$(BIN)/ruff check --quiet --fix .
	@$(BIN)/ruff format --quiet .

clean: ## remove everything that was made
	rm -rf $(VENV) .venv-tf .venv-profile build dist src/tbhub/hub/web web/node_modules .bench runs/demo .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# What the kernel is built with.
$(VENV)/.tools:
	@scripts/apt-install g++ g++
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || scripts/apt-install - python3-venv
	@$(PYTHON) -c 'import os, sysconfig; os.stat(sysconfig.get_path("include") + "/Python.h")' \
	  2>/dev/null || scripts/apt-install - python3-dev
	@echo "· creating $(VENV)"
	@test -x $(BIN)/pip || { rm -rf $(VENV); $(PYTHON) -m venv $(VENV); }
	@$(PIP) install --upgrade pip
	@$(PIP) install $(LOCKED) cmake ninja nanobind scikit-build-core
	@touch $@

# The package itself with what it needs to run.
$(VENV)/.built: $(VENV)/.tools pyproject.toml constraints.txt $(NATIVE)
	@echo "· building the kernel"
	@$(PIP) install $(LOCKED) --no-build-isolation -e .
	@$(BIN)/python -m compileall -q src/tbhub
	@touch $@

# Beside it what tests, gates and benchmarks need: the libraries we are compared with among it.
$(VENV)/.dev: $(VENV)/.built pyproject.toml constraints.txt
	@echo "· installing what tests and gates need (a few minutes the first time)"
	@scripts/apt-install chromium chromium
	@scripts/apt-install podman podman runc netavark iptables
	@ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || scripts/apt-install initdb postgresql
	@scripts/apt-install slurmctld slurm-wlm munge
	@$(PIP) install $(LOCKED) --no-build-isolation -e '.[dev]'
	@touch $@

# The web page, where an editable installation finds it.
build/.web: $(WEB) scripts/build-web
	@scripts/apt-install npm nodejs npm
	@echo "· building the web page"
	@scripts/build-web src/tbhub/hub/web
	@mkdir -p build
	@touch $@

# TensorFlow has an environment of its own: where it is installed, tensorboard imports it.
.venv-tf/.ready: | $(VENV)/.tools
	@echo "· creating .venv-tf for files written by TensorFlow"
	@test -x .venv-tf/bin/pip || { rm -rf .venv-tf; $(PYTHON) -m venv .venv-tf; }
	@.venv-tf/bin/pip -qq --disable-pip-version-check install tensorflow-cpu==2.21.0 tensorboard==2.21.0
	@touch $@

# The profile plugin is put beside the rest: where it is found, every board loads it.
.venv-profile/.ready: | $(VENV)/.tools
	@echo "· installing the profile plugin into .venv-profile"
	@rm -rf .venv-profile
	@$(PIP) install --target .venv-profile xprof==2.24.2
	@touch $@

# Transformers 4 is put beside 5, with what it needs of another version.
build/transformers4/.ready: | $(VENV)/.tools
	@echo "· installing Transformers 4 into build/transformers4"
	@rm -rf build/transformers4
	@$(PIP) install --no-deps --target build/transformers4 transformers==4.57.6 huggingface_hub==0.36.2 tokenizers==0.22.2
	@touch $@

# Azure's store for tests, as its maker gives it out.
build/azurite/.ready:
	@echo "· installing Azurite into build/azurite"
	@scripts/apt-install npm nodejs npm
	@npm install --silent --no-audit --no-fund --prefix build/azurite azurite@3.35.0
	@touch $@

build/native-test/run: native/tests/*.cpp native/tests/*.h scripts/build-native-tests $(NATIVE)
	@echo "· building the kernel's tests"
	@scripts/apt-install g++ g++
	@mkdir -p build/native-test
	@scripts/build-native-tests $@

build/fuzz/.built: native/fuzz/*.cpp native/fuzz/*.h scripts/build-fuzzers $(NATIVE)
	@echo "· building the fuzzers"
	@scripts/apt-install $(CLANG) clang-14 libclang-rt-14-dev || scripts/apt-install clang++ clang
	@mkdir -p build/fuzz
	@CLANG=$$(command -v $(CLANG) || command -v clang++) scripts/build-fuzzers build/fuzz
	@touch $@

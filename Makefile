# Two commands matter: `make up` shows what there is, `make test` proves it.
# Everything is installed into .venv; nothing is done twice.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip -qq --disable-pip-version-check
NATIVE := $(wildcard native/*.cpp native/*.h native/CMakeLists.txt)
FUZZ_SECONDS ?= 60
# The fuzzers' compiler: this Debian's, or another release's default.
CLANG := $(shell command -v clang++-14 || command -v clang++ || echo clang++-14)

.PHONY: up test check bench fuzz native-test format clean help

help: ## what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

up: $(VENV)/.built ## set up, log demo runs of every kind, and show them in a board
	@$(BIN)/python examples/demo.py

test: $(VENV)/.dev .venv-tf/.ready .venv-profile/.ready build/fuzz/.built check native-test ## set up and run every test
	@echo "· fuzzing for a short while"
	@scripts/fuzz 10
	@echo "· tests"
	@$(BIN)/python -m pytest -n auto

check: $(VENV)/.dev ## every gate: format, lint, types, layers
	@echo "· gates"
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy --no-error-summary
	@mkdir -p build
	@$(BIN)/lint-imports > build/lint-imports.log || { cat build/lint-imports.log; exit 1; }

bench: $(VENV)/.dev ## compare with the peers; writes docs/benchmarks.md
	@$(BIN)/python -m benchmarks

fuzz: build/fuzz/.built ## fuzz the kernel for FUZZ_SECONDS per target
	@scripts/fuzz $(FUZZ_SECONDS)

native-test: build/native-test/run ## the kernel's own tests, under sanitizers
	@echo "· kernel tests"
	@build/native-test/run

format: $(VENV)/.dev ## rewrite the Python files in house style
	@$(BIN)/ruff check --quiet --fix .
	@$(BIN)/ruff format --quiet .

clean: ## remove everything that was made
	rm -rf $(VENV) .venv-tf .venv-profile build dist .bench runs/demo .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
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
	@$(PIP) install cmake ninja nanobind scikit-build-core
	@touch $@

# The package itself with what it needs to run.
$(VENV)/.built: $(VENV)/.tools pyproject.toml $(NATIVE)
	@echo "· building the kernel"
	@$(PIP) install --no-build-isolation -e .
	@touch $@

# Beside it what tests, gates and benchmarks need: the libraries we are compared with among it.
$(VENV)/.dev: $(VENV)/.built pyproject.toml
	@echo "· installing what tests and gates need (a few minutes the first time)"
	@scripts/apt-install chromium chromium
	@$(PIP) install --no-build-isolation -e '.[dev]'
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

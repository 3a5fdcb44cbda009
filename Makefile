# Needs Python 3.11 or newer, git and make. Everything else goes into .venv.
# Choose another interpreter with: make PYTHON=/path/to/python …

BIN := .venv/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check
COMPILE := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --upgrade \
	--generate-hashes --no-annotate --no-header --no-emit-index-url --no-emit-find-links

export PYTHON
# Hundreds of tests start a program: compiling it anew each time would take a third of the whole time.
unexport PYTHONDONTWRITEBYTECODE

# Tests also wait for the programs that they start, so one more than there are cores keeps two cores busy.
WORKERS := -n 3

# The long suites take a new seed each time, and the smoke tests one for each commit. Both print it;
# OSTLER_SEED=… runs the same cases again.
LONG_SEED = $${OSTLER_SEED:-$$(od -An -N3 -tu4 /dev/urandom | tr -d ' ')}
SMOKE_SEED = $${OSTLER_SEED:-$$(printf '%d' "0x$$(git rev-parse --short=6 HEAD 2>/dev/null | cut -c1-6)" 2>/dev/null || echo 0)}

.PHONY: help
help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' Makefile

.PHONY: demo
demo: .venv/.demo  ## install all of Ostler, then watch a run survive kill -9; no key, no network
	@$(BIN)/python -m compileall -q src
	@$(BIN)/ostler demo

.PHONY: test
test: .venv/.dev  ## everything a change must pass: style, types, layers, generated docs, tests
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python scripts/generate_docs.py --check
	$(BIN)/python -m pytest $(WORKERS)

.PHONY: test-smoke
test-smoke: local-model real-agents wheelhouse  ## a seeded sample of each suite of test-long, in a few minutes
	OSTLER_SEED=$(SMOKE_SEED) $(BIN)/python -m pytest -m long $(WORKERS) --sample 2

.PHONY: test-pythons
test-pythons:  ## generated docs and tests on every Python from 3.11 on that is found here
	scripts/test-pythons.sh $(WORKERS)

.PHONY: test-long
test-long: local-model real-agents wheelhouse  ## the slow and heavy tests, up to hours; prints its seed; the page's tests need chromium
	export OSTLER_SEED=$(LONG_SEED) && \
		$(BIN)/python -m pytest -m long $(WORKERS) --hypothesis-seed="$$OSTLER_SEED" && \
		$(MAKE) --no-print-directory test-elsewhere
	@if command -v npm >/dev/null; then $(MAKE) --no-print-directory test-web; fi

.PHONY: test-elsewhere
test-elsewhere:  ## the suite of `make test` in a long path, as another user, in another time zone and language, in random order
	OSTLER_SEED=$(LONG_SEED) scripts/test-elsewhere.sh $(WORKERS)

.PHONY: test-web
test-web: web/node_modules/.installed  ## the tests of the page's own code; needs Node 20
	cd web && npm run --silent check && npm test --silent

.PHONY: web
web: web/node_modules/.installed  ## build the page into the package; needs Node 20
	cd web && npm run --silent build

web/node_modules/.installed: web/package-lock.json
	cd web && npm ci --silent --no-audit --no-fund
	@touch $@

.PHONY: test-local-model
test-local-model: local-model  ## our wire against a real model, a small one (130 MB to download)
	$(BIN)/python -m pytest -m long tests/system/test_local_model.py

.PHONY: test-install
test-install: wheelhouse  ## install the package with pip, uv and uvx, from a wheel and from git (70 MB to download)
	$(BIN)/python -m pytest -m long tests/system/test_install.py

.PHONY: test-real-agents
test-real-agents: real-agents  ## other vendors' agents under the driver (2 GB from npm and PyPI)
	$(BIN)/python -m pytest -m long -n 2 tests/agents/real

.PHONY: real-agents-seen
real-agents-seen: real-agents  ## the same; writes the table in docs/terminal-agents.md, and the recorded screens
	OSTLER_RENEW_SCREENS=1 $(BIN)/python -m pytest -q -m long -n 2 tests/agents/real

# Tests of those that cannot be had are skipped.
.PHONY: real-agents
real-agents: .venv/.dev
	@$(BIN)/python -m tests.agents.real.installing || echo "some agents are missing" >&2

# Without it, its tests are skipped.
.PHONY: local-model
local-model: .venv/.dev
	@$(MAKE) --no-print-directory .venv/.local-model || echo "no local model: it cannot be downloaded" >&2

# Without it, the tests of an installation are skipped. They install from it, so they need no network.
.PHONY: wheelhouse
wheelhouse: .venv/.dev
	@$(MAKE) --no-print-directory .venv/.wheelhouse || echo "no wheelhouse: it cannot be downloaded" >&2

.PHONY: dist
dist: .venv/.dev  ## build the wheel and the source distribution into dist
	rm -rf dist
	$(BIN)/python -m hatchling build -d dist

.PHONY: bench
bench: .venv/.dev  ## measure start-up, steps, streams, memory and the server; takes some minutes
	$(BIN)/python -m bench

.PHONY: docs
docs: .venv/.dev  ## write what the documentation takes from the code
	$(BIN)/python scripts/generate_docs.py

.PHONY: catalogue
catalogue: .venv/.demo  ## renew what is known of models from its sources; needs npm and the network
	$(BIN)/python scripts/make_catalogue.py

.PHONY: picture
picture: .venv/.demo  ## draw the picture of the demo, docs/pictures/demo.svg
	$(BIN)/python scripts/picture.py

.PHONY: screens
screens: .venv/.dev  ## renew the screens of the terminal face on file, and the pictures in docs/images
	OSTLER_RENEW_SCREENS=1 $(BIN)/python -m pytest -q -n 2 $(addprefix tests/tui/,test_terminal_ui_screens.py test_transcript_streaming.py test_history_viewer.py)
	OSTLER_RENEW_SCREENS=1 $(BIN)/python -m pytest -q -n 2 -m long tests/server/browser

.PHONY: format
format: .venv/.dev  ## format the code and mend what ruff can mend
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

.PHONY: lock
lock: .venv/.created  ## renew the lock files from pyproject.toml
	$(INSTALL) uv
	$(COMPILE) --group packaging --output-file requirements/packaging.lock
	$(COMPILE) pyproject.toml --extra all --group dev --output-file requirements/dev.lock
	$(COMPILE) pyproject.toml --extra all --group build --constraint requirements/dev.lock \
		--output-file requirements/demo.lock
	$(COMPILE) --group local-model --no-deps --output-file requirements/local-model.lock

.PHONY: clean
clean:  ## remove what make made
	rm -rf .venv .venv-* .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist
	rm -rf web/node_modules
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/.created:
	@python=$$(scripts/find-python.sh) && "$$python" -m venv --clear .venv
	@touch $@

# Everything that the README shows: the server, other vendors' agents, pictures, search.
.venv/.demo: requirements/demo.lock pyproject.toml | .venv/.created
	$(INSTALL) --require-hashes -r requirements/demo.lock
	$(INSTALL) --no-build-isolation --no-deps -e .
	@touch $@

.venv/.local-model: requirements/local-model.lock | .venv/.created
	$(INSTALL) --timeout 30 --retries 1 --require-hashes --no-deps --only-binary :all: -r requirements/local-model.lock
	@touch $@

.venv/.wheelhouse: requirements/demo.lock requirements/packaging.lock | .venv/.created
	$(INSTALL) --require-hashes -r requirements/packaging.lock
	rm -rf .venv/wheelhouse
	$(BIN)/python -m pip download --quiet --disable-pip-version-check --require-hashes --only-binary :all: \
		--dest .venv/wheelhouse -r requirements/demo.lock
	@touch $@

.venv/.dev: requirements/dev.lock pyproject.toml | .venv/.created
	$(INSTALL) --require-hashes -r requirements/dev.lock
	$(INSTALL) --no-build-isolation --no-deps -e .
	@touch $@

# Two commands on a fresh machine with Python 3.11+, node and make:
#   make demo   makes .venv, installs, builds, and runs a notebook with Claude at work in it (no key needed)
#   make test   installs what the tests need and runs all of them

PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
PYTEST = $(BIN)/python -m pytest
NPM = npm --prefix labextension

LAB_SOURCES = $(shell find labextension/src labextension/*.json labextension/*.mjs labextension/*.js -type f 2>/dev/null)

.DEFAULT_GOAL := help
.PHONY: help pictures example-recordings demo lab test test-py test-ts test-kernels test-lab44 test-hub test-slow test-live check fix build bench clean

help:  ## this list
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 16

demo: $(VENV)/.run  ## the main job: a notebook with Claude in it, from a failing test to a passing one
	$(BIN)/cellwright demo

lab: $(VENV)/.run build  ## JupyterLab with the extension; the demo's notebook is open
	$(BIN)/cellwright demo --lab

test: test-ts test-py  ## all tests, with coverage

test-py: $(VENV)/.test build
	$(PYTEST) -m "not browser and not slow and not live and not hub" --ignore=tests/server -n 2 --dist loadfile --cov --cov-report=
	# one after another: each has servers and kernels of its own
	$(PYTEST) tests/server -m "not browser and not slow and not live and not hub" --cov --cov-append --cov-report=
	# apart: the browser's driver keeps an event loop running in its thread
	$(PYTEST) -m "browser and not slow" --cov --cov-append --cov-report=
	$(BIN)/coverage report --fail-under=80

test-ts: labextension/node_modules/.installed
	$(NPM) test

# another version of one package, laid before the environment's own
OTHER = $(VENV)/other

$(OTHER)/%: $(VENV)/.test
	rm -rf $@
	$(BIN)/pip install -q --no-deps --target $@ "$(subst -,==,$*).*"

HUB = $(VENV)/hub

KERNELS = 6.31 7.1

# the server's way to kernels, and to the notebooks of their users
SERVER_ON_KERNELS = $(addprefix tests/server/test_,busy_kernels.py runs.py notebooks_over_server.py)

test-kernels: $(VENV)/.test build $(KERNELS:%=$(OTHER)/ipykernel-%)  ## the kernel tests, and some of the server's, on older ipykernels
	@for version in $(KERNELS); do \
	  echo "--- ipykernel $$version"; \
	  PYTHONPATH=$(CURDIR)/$(OTHER)/ipykernel-$$version CELLWRIGHT_EXPECT_IPYKERNEL=$$version \
	    sh -c '$(PYTEST) tests/kernel -m kernel -q -n 2 --dist loadfile && $(PYTEST) $(SERVER_ON_KERNELS) -q' || exit 1; \
	done

test-lab44: $(VENV)/.test build $(OTHER)/jupyterlab-4.4  ## the browser tests on JupyterLab 4.4
	PYTHONPATH=$(CURDIR)/$(OTHER)/jupyterlab-4.4 JUPYTERLAB_DIR=$(CURDIR)/$(OTHER)/jupyterlab-4.4/share/jupyter/lab \
	  CELLWRIGHT_EXPECT_LAB=4.4 $(PYTEST) tests/e2e -m "browser and not slow" -q

pictures: $(VENV)/.test build  ## the pictures in docs/images, as the browser tests see the screen
	CELLWRIGHT_TAKE_PICTURES=1 $(PYTEST) -m "browser and not slow" -q

example-recordings: $(VENV)/.test  ## the example notebooks and what they are played from, made anew
	$(BIN)/python notebooks/record_examples.py

test-hub: $(HUB)/.installed build  ## two users of a real JupyterHub, with the key on the hub
	PATH="$(CURDIR)/$(HUB)/node/node_modules/.bin:$(CURDIR)/$(HUB)/bin:$$PATH" CELLWRIGHT_REQUIRE_HUB=1 \
	  $(HUB)/bin/python -m pytest tests/hub -m hub -q

test-slow: $(VENV)/.test build  ## soak and other slow tests
	# apart, as above
	$(PYTEST) -m "slow and not browser"
	$(PYTEST) -m "slow and browser"

test-live: $(VENV)/.test  ## a few tests on the real API; needs ANTHROPIC_API_KEY
	$(PYTEST) -m live

check: $(VENV)/.test labextension/node_modules/.installed labextension/typecheck/node_modules/.installed  ## linters, type checkers, import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(NPM) run typecheck
	$(NPM) run lint

fix: $(VENV)/.test  ## what the linters can mend
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.test build  ## speed against a floor and the bare SDK, as ratios; writes docs/performance.md
	$(BIN)/python -m benchmarks --write

# ---- what the targets above stand on ----

WIDGET = src/cellwright/kernel/widgets/static/transcript.js
EXTENSION = src/cellwright/labextension/package.json

build: $(WIDGET) $(EXTENSION)  ## the widget's bundle and the JupyterLab extension

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q --upgrade pip

labextension/node_modules/.installed: labextension/package.json labextension/package-lock.json
	$(NPM) ci --no-audit --no-fund --loglevel=error
	@touch $@

# JupyterLab's packages, for their types alone: who builds or tests does not need them
labextension/typecheck/node_modules/.installed: labextension/typecheck/package.json labextension/typecheck/package-lock.json
	npm --prefix labextension/typecheck ci --ignore-scripts --no-audit --no-fund --loglevel=error
	touch $@

$(WIDGET): labextension/node_modules/.installed $(LAB_SOURCES)
	$(NPM) run --silent build:widget

$(EXTENSION): $(WIDGET)
	$(NPM) run --silent build:labextension
	@touch $@

# editable, so that what you change is what runs; the extensions of JupyterLab and of Jupyter Server are linked into the environment
$(VENV)/.run: $(VENV)/bin/python pyproject.toml $(WIDGET) $(EXTENSION)
	$(BIN)/pip install -q -e ".[lab]"
	mkdir -p $(VENV)/share/jupyter/labextensions
	ln -sfn "$(CURDIR)/src/cellwright/labextension" $(VENV)/share/jupyter/labextensions/cellwright
	mkdir -p $(VENV)/etc/jupyter/jupyter_server_config.d
	ln -sfn "$(CURDIR)/jupyter-config/jupyter_server_config.d/cellwright.json" $(VENV)/etc/jupyter/jupyter_server_config.d/
	@touch $@

# JupyterHub beside what the tests have, so that they stay light; its proxy is a node program
$(HUB)/.installed: $(VENV)/.test
	$(BIN)/python -m venv $(HUB)
	$(HUB)/bin/python -c 'import pathlib, sys, sysconfig; \
	  pathlib.Path(sysconfig.get_path("purelib"), "base.pth").write_text(f"import site; site.addsitedir({sys.argv[1]!r})")' \
	  "$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')"
	$(HUB)/bin/pip install -q "jupyterhub>=5.2,<7"
	npm install --prefix $(HUB)/node --no-audit --no-fund --no-package-lock --loglevel=error "configurable-http-proxy@^5.1"
	@touch $@

$(VENV)/.test: $(VENV)/.run
	$(BIN)/pip install -q -e ".[test]"
	@touch $@

clean:  ## everything that was made
	rm -rf $(VENV) labextension/node_modules labextension/lib src/cellwright/labextension src/cellwright/kernel/widgets/static

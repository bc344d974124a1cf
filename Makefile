# Two commands on a fresh machine with Python 3.11+, Node 20.19+, npm and make:
#   make demo   makes .venv, installs, builds, and runs a notebook with Claude at work in it (no key needed)
#   make test   installs what the tests need and runs all of them

PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
PYTEST = $(BIN)/python -m pytest
NPM = npm --prefix labextension
# first in what uses Node: a shell may have lost it since the packages were installed
NEEDS_NODE = @PYTHON="$(or $(wildcard $(BIN)/python),$(PYTHON))" .ci/needs build node

WIDGET = src/cellwright/kernel/widgets/static/transcript.js
EXTENSION = src/cellwright/labextension/package.json

LAB_SOURCES = $(shell find labextension/src labextension/*.json labextension/*.mjs labextension/*.js -type f 2>/dev/null)

# what tests start, hundreds of Python processes, reads compiled modules instead of compiling them each time
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help programs-for-tests sizes pictures moving-picture reel example-recordings release release-build demo lab test test-ts test-py test-browser test-all test-times coverage leg legs test-live bench-code \
  check check-style check-types check-tests check-browser-side written fix build bench fuzz docs clean

help:  ## this list
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 16

demo: $(VENV)/.run  ## the main job: a notebook with Claude in it, a tour in five prompts
	$(BIN)/cellwright demo

lab: $(VENV)/.run build  ## JupyterLab with the extension; the demo's notebook is open
	$(BIN)/cellwright demo --lab

# what `make test` runs beside the browser, and with it
PLAIN = not browser and not slow and not live and not hub and not hosted and not wheel and not claude_code and not front_ends and not marimo and not collaboration and not containers and not thorough
SCENES = browser and not slow
IN_BROWSER = tests/e2e tests/server/test_example.py tests/docs/test_site.py -n 2 --dist worksteal
# each worker plays whole files, whose tests share a kernel or a server; in order, since files of few tests are not the short ones
PARALLEL = -n 4 --dist loadfile --no-loadscope-reorder

test: test-ts test-py test-browser  ## all tests but those of `make leg`
	@.ci/needs untested

# Chromium, bubblewrap and strace, where they can be installed; `test` ends with what was not tested without them
programs-for-tests:
	@.ci/needs programs

test-py: $(VENV)/.test build | programs-for-tests
	$(PYTEST) -m "$(PLAIN)" $(PARALLEL) $(TESTS)

# apart: the browser's driver keeps an event loop running in its thread
# a worker has a Chromium and a JupyterLab of its own; pictures of what failed are in .failed-scenes
test-browser: $(VENV)/.test build | programs-for-tests
	$(PYTEST) $(IN_BROWSER) -m "$(SCENES) and not notebook7"

test-ts: labextension/node_modules/.installed
	$(NEEDS_NODE)
	cd labextension && node_modules/.bin/vitest run

coverage: $(VENV)/.test build  ## the same with coverage, which must not fall
	$(NPM) test
	$(PYTEST) -m "$(PLAIN)" $(PARALLEL) --cov --cov-report=
	$(PYTEST) $(IN_BROWSER) -m "$(SCENES)" --cov --cov-append --cov-report=
	$(BIN)/coverage report --fail-under=80

test-all: coverage  ## all tests with coverage, and every leg whole
	@for leg in $(LEGS); do $(MAKE) --no-print-directory leg LEG=$$leg WHOLE=1 || exit 1; done

test-times: $(VENV)/.test build  ## a table by file of what the tests take; TESTS chooses some
	PYTHONPATH=$(CURDIR)/tests/shared $(PYTEST) -p measured_times -m "$(PLAIN)" $(PARALLEL) -q $(TESTS)

# ---- legs: what depends on the version of something, or takes long; .ci/run runs one, chosen by the commit ----

KERNELS = 6.29 7.1
PYTHONS = 3.13 3.14
LEGS = $(KERNELS:%=ipykernel-%) $(PYTHONS:%=python-%) jupyterlab-4.4 notebook-7 jupyterhub wheel claude-code colab front-ends marimo collaboration containers thorough soak soak-browser

legs:
	@echo $(LEGS)

leg:  ## LEG=name: one of ipykernel-6.29, ipykernel-7.1, python-3.13, python-3.14, jupyterlab-4.4, notebook-7, jupyterhub, wheel, claude-code, colab, front-ends, marimo, collaboration, containers, thorough, soak, soak-browser; with WHOLE=1 all its tests
	@test -n "$(filter $(LEG),$(LEGS))" || { echo "LEG must be one of: $(LEGS)"; exit 2; }
	$(MAKE) --no-print-directory leg-$(LEG)

# another version of one package, laid before the environment's own
OTHER = $(VENV)/other

.PRECIOUS: $(OTHER)/%
$(OTHER)/%: $(VENV)/.test
	rm -rf $@
	$(BIN)/pip install -q --no-deps --target $@ "$(subst -,==,$*).*"

leg-ipykernel-%: $(OTHER)/ipykernel-% build
	PYTHONPATH=$(CURDIR)/$< CELLWRIGHT_EXPECT_IPYKERNEL=$* \
	  $(PYTEST) -m "$(if $(WHOLE),kernel,kernel_version) and not slow" -q $(PARALLEL)

# an interpreter of this version: one that runs, wherever it comes from; the shims of pyenv may lead to none
interpreter_of = $(shell for each in python$(1) $(HOME)/.pyenv/versions/$(1).*/bin/python; do \
  "$$each" -c 'import sys; print(sys.executable)' 2>/dev/null && break; done)

# the plain part of the suite in an environment of its own: what reads code, runs it and forks, where versions of Python differ most; with WHOLE=1 all of it
BY_PYTHON = tests/kernel/branches tests/kernel/execute tests/kernel/namespace tests/agent/calls tests/tools/code
leg-python-%: build
	@$(if $(call interpreter_of,$*),\
	  $(MAKE) --no-print-directory VENV=$(VENV)/python-$* PYTHON="$(call interpreter_of,$*)" test-py $(if $(WHOLE),,TESTS="$(BY_PYTHON)"),\
	  echo "There is no Python $* on this machine: nothing was tested with it.")

ON_LAB44 = PYTHONPATH=$(CURDIR)/$(OTHER)/jupyterlab-4.4 JUPYTERLAB_DIR=$(CURDIR)/$(OTHER)/jupyterlab-4.4/share/jupyter/lab \
  CELLWRIGHT_EXPECT_LAB=4.4 $(PYTEST) -q $(IN_BROWSER)

# pytest ends with 5 where it finds no test: then all scenes are played
leg-jupyterlab-4.4: $(OTHER)/jupyterlab-4.4 build
	$(ON_LAB44) -m "$(SCENES)$(if $(WHOLE),, and lab_version)" || { test $$? -eq 5 && $(ON_LAB44) -m "$(SCENES)"; }

leg-notebook-7: $(VENV)/.test build
	$(PYTEST) $(IN_BROWSER) -m "$(SCENES) and notebook7" -q

HUB = $(VENV)/hub

leg-jupyterhub: $(HUB)/.installed build
	PATH="$(CURDIR)/$(HUB)/node/node_modules/.bin:$(CURDIR)/$(HUB)/bin:$$PATH" CELLWRIGHT_REQUIRE_HUB=1 \
	  $(HUB)/bin/python -m pytest -m hub -q

# what users install, by the pip of the interpreter that made $(VENV), into an environment of its own
leg-wheel: $(VENV)/.test $(VENV)/.release build
	$(PYTEST) tests/legs/wheel -m wheel -q

# the package that drives Claude Code, and the program in it; what it needs besides is there for the tests
$(OTHER)/claude-code: pyproject.toml $(VENV)/.test
	rm -rf $@
	$(BIN)/pip install -q --no-deps --target $@ "$$($(BIN)/python -c 'import tomllib; \
	  extras = tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]; print(extras["claude-code"][-1])')"
	@touch $@

leg-claude-code: $(OTHER)/claude-code build
	PYTHONPATH=$(CURDIR)/$< $(PYTEST) tests/legs/claude_code -m claude_code -q

COLAB = $(VENV)/colab
# Google Colab's Python where there is one
COLAB_PYTHON ?= $(firstword $(wildcard /usr/bin/python3.13 /usr/local/bin/python3.13 $(HOME)/.pyenv/versions/3.13.*/bin/python) $(PYTHON))

$(COLAB)/.installed: tests/legs/hosted/colab.txt pyproject.toml $(WIDGET) $(EXTENSION)
	rm -rf $(COLAB)
	$(COLAB_PYTHON) -m venv $(COLAB)
	$(COLAB)/bin/pip install -q -r tests/legs/hosted/colab.txt -e . hypothesis pytest pytest-timeout
	@touch $@

leg-colab: $(COLAB)/.installed
	$(COLAB)/bin/python -m pytest tests/legs/hosted -m hosted -q

FRONT_ENDS = $(VENV)/front-ends
FRONT_END_PAGES = tests/legs/front_ends/page

# the widget manager of VS Code is whole in its file: what its package names as needed is for building it
$(FRONT_ENDS)/.installed: $(FRONT_END_PAGES)/package.json labextension/node_modules/.installed
	rm -rf $(FRONT_ENDS)
	mkdir -p $(FRONT_ENDS)/ipywidgets8
	cp $< $(FRONT_ENDS)
	npm install --prefix $(FRONT_ENDS) --ignore-scripts --no-audit --no-fund --no-package-lock --loglevel=error
	cd $(FRONT_ENDS) && npm pack --silent @vscode/jupyter-ipywidgets8@1.0.9 && tar xzf vscode-*.tgz --strip-components=1 -C ipywidgets8
	@touch $@

leg-front-ends: $(FRONT_ENDS)/.installed $(COLAB)/.installed $(VENV)/.test build
	node $(FRONT_END_PAGES)/build.mjs labextension/node_modules/esbuild $(FRONT_ENDS) $(FRONT_ENDS)/pages
	CELLWRIGHT_FRONT_END_PAGES=$(CURDIR)/$(FRONT_ENDS)/pages CELLWRIGHT_COLAB_PYTHON=$(CURDIR)/$(COLAB)/bin/python \
	  $(PYTEST) tests/legs/front_ends -m front_ends -q

MARIMO = $(VENV)/marimo

# marimo and what it needs, beside what the tests have
$(MARIMO)/.installed: $(VENV)/.test
	rm -rf $(MARIMO)
	$(BIN)/python -m venv $(MARIMO)
	$(MARIMO)/bin/python -c 'import pathlib, sys, sysconfig; \
	  pathlib.Path(sysconfig.get_path("purelib"), "base.pth").write_text(f"import site; site.addsitedir({sys.argv[1]!r})")' \
	  "$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')"
	$(MARIMO)/bin/pip install -q "$$($(BIN)/python -c 'import tomllib; \
	  extras = tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]; print(extras["marimo"][-1])')"
	@touch $@

leg-marimo: $(MARIMO)/.installed build
	$(MARIMO)/bin/python -m pytest tests/legs/marimo -m marimo -q

# what lets several pages edit one notebook; its part in the server is there for the tests
$(OTHER)/collaboration: $(VENV)/.test
	rm -rf $@
	$(BIN)/pip install -q --no-deps --target $@ "jupyter-collaboration==5.*" "jupyter-collaboration-ui==3.*" "jupyter-docprovider==3.*"
	@touch $@

leg-collaboration: $(OTHER)/collaboration build
	PYTHONPATH=$(CURDIR)/$< JUPYTER_PATH=$(CURDIR)/$</share/jupyter $(PYTEST) tests/legs/collaboration -m collaboration -q -n 2 --dist worksteal

# CELLWRIGHT_REQUIRE_CONTAINERS=podman,docker fails where one of them runs no container, instead of leaving it out
leg-containers: $(VENV)/.test
	$(PYTEST) -m containers -q

leg-thorough: $(VENV)/.test build
	CELLWRIGHT_ALL_EXAMPLES=1 $(PYTEST) -m "(thorough or generated) and not slow" -q $(PARALLEL)

leg-soak: $(VENV)/.test build $(KERNELS:%=$(OTHER)/ipykernel-%)
	$(PYTEST) -m "slow and not browser" -q
	@for each in $(KERNELS); do \
	  PYTHONPATH=$(CURDIR)/$(OTHER)/ipykernel-$$each CELLWRIGHT_EXPECT_IPYKERNEL=$$each \
	  $(PYTEST) tests/kernel/branches/test_snapshot.py -m slow -q -s || exit 1; done

leg-soak-browser: $(VENV)/.test build
	$(PYTEST) -m "slow and browser" -q
	CELLWRIGHT_SCENE_GB=2 $(PYTEST) tests/e2e/notebook/test_branches.py -q

# ---- the rest ----

release: $(VENV)/.release  ## VERSION=0.1.0: version, changelog, build from a clean clone, checks, tag (RELEASING.md)
	@test -n "$(VERSION)" || { echo "VERSION is missing: make release VERSION=0.1.0"; exit 2; }
	$(BIN)/python release/release.py $(VERSION)

release-build: $(VENV)/.release  ## the newest commit built into dist/, the same bit for bit wherever it is done
	$(BIN)/python release/release.py --build

docs: $(VENV)/.docs  ## the documentation site, in docs/_build/html; whatever is wrong with a page or a link stops it
	$(BIN)/python -m sphinx -q -W --keep-going -j 2 -b html docs docs/_build/html
	@echo "The site is in docs/_build/html: open docs/_build/html/index.html"

pictures: $(VENV)/.test build  ## the pictures in docs/images, as the browser tests see the screen
	CELLWRIGHT_TAKE_PICTURES=1 $(PYTEST) tests/e2e -m "$(SCENES)" -q

moving-picture: $(VENV)/.test build  ## the one at the top of the README alone, in light and dark
	CELLWRIGHT_TAKE_PICTURES=1 $(PYTEST) tests/e2e/notebook/test_moving_picture.py -q -s

# REEL=folder; TESTS chooses some scenes
reel: $(VENV)/.test build  ## every pictured scene in light and dark, at 1440x900, 1100x700 and 200 % zoom, in build/reel
	CELLWRIGHT_REEL=$(or $(REEL),$(CURDIR)/build/reel) $(PYTEST) $(or $(TESTS),tests/e2e) -m "$(SCENES)" -q

sizes: $(VENV)/.test $(VENV)/.release build  ## packages and sizes of an installation, measured into docs/installation.json; then `make written`
	CELLWRIGHT_WRITE_SIZES=1 $(PYTEST) tests/legs/wheel/test_sizes.py tests/legs/wheel/test_release.py -m wheel -q -k "brings or bit_for_bit"

example-recordings: $(VENV)/.test  ## the example notebooks and what they are played from, made anew
	$(BIN)/python notebooks/record_examples.py

test-live: $(VENV)/.test  ## a few tests on the real API; needs ANTHROPIC_API_KEY
	$(PYTEST) -m live

check:  ## linters, type checkers, import contracts
	@$(MAKE) --no-print-directory -j 3 $(VENV)/.test labextension/typecheck/node_modules/.installed
	@$(MAKE) --no-print-directory -j 2 --output-sync=target check-types check-browser-side check-style check-tests
	@test ! -s .unsteady-scenes || { echo "Scenes of the browser that passed at the second try only, in the last run:"; cat .unsteady-scenes; }

check-style:
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/python -m benchmarks.published
	$(BIN)/python -m benchmarks.structure --check

# as on Windows, too, but for the sandbox and the branches, which have nothing to call there; with a cache of its own: in a
# shared one each platform would throw away what the other has read
check-types:
	$(BIN)/mypy
	$(BIN)/mypy --platform win32 --cache-dir .mypy_cache/windows --follow-imports silent --exclude "cellwright/(sandbox|kernel/branches)/"

# that all tests can be imported; what pytest makes of their assertions is kept, where four workers would each make it anew
check-tests:
	$(PYTEST) --collect-only -qq > /dev/null || $(PYTEST) --collect-only -q

check-browser-side: labextension/node_modules/.installed labextension/typecheck/node_modules/.installed
	$(NEEDS_NODE)
	$(NPM) run typecheck
	$(NPM) run lint

written: $(VENV)/.test  ## what is written down of the built-in tools: the schemas of their inputs, and the rest of their definitions; and what repeats the table of options
	$(BIN)/python tests/house/test_input_schemas.py
	PYTHONPATH=tests/shared $(BIN)/python tests/house/test_written_definitions.py
	$(BIN)/python tests/config/settings/test_option_table.py
	$(BIN)/python tests/docs/test_written_numbers.py
	$(BIN)/python release/release.py --written

fix: $(VENV)/.test  ## what the linters can mend
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.test build  ## speed against a floor and the bare SDK, as ratios; writes docs/performance.md
	$(BIN)/python -m benchmarks --write

CODE = .

ACCURACY = $(CODE)

# each with floors of its own in the same run: rg, git grep, ctags, ast, jedi
bench-code: $(VENV)/.test  ## the index of code, into docs/code-intelligence.md; CODE= a large folder, ACCURACY= folders, FLASK= a checkout, EMBEDDING= a model
	$(BIN)/python -m benchmarks.code --speed $(CODE) --accuracy $(ACCURACY) $(if $(FLASK),--flask $(FLASK)) \
	  $(if $(EMBEDDING),--embedding '$(EMBEDDING)')

SECONDS = 300
SEED =

fuzz: $(VENV)/.test  ## commands by chance, decided, run under strace in a bubblewrap, and judged; SECONDS=, SEED= plays one again
	PYTHONPATH=tests/shared $(BIN)/python -m shell_fuzzer --seconds $(SECONDS) $(if $(SEED),--seed $(SEED))

# ---- what the targets above stand on ----

build: $(WIDGET) $(EXTENSION)  ## the widget's bundle and the JupyterLab extension

$(VENV)/bin/python:
	@PYTHON="$(PYTHON)" .ci/needs build $(if $(and $(wildcard $(WIDGET)),$(wildcard $(EXTENSION))),,node)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q --upgrade pip

labextension/node_modules/.installed: labextension/package.json labextension/package-lock.json
	$(NEEDS_NODE)
	$(NPM) ci --no-audit --no-fund --loglevel=error
	@touch $@

# JupyterLab's packages, for their types alone: who builds or tests does not need them
labextension/typecheck/node_modules/.installed: labextension/typecheck/package.json labextension/typecheck/package-lock.json
	npm --prefix labextension/typecheck ci --ignore-scripts --no-audit --no-fund --loglevel=error
	@touch $@

$(WIDGET): labextension/node_modules/.installed $(LAB_SOURCES)
	$(NEEDS_NODE)
	$(NPM) run --silent build:widget

$(EXTENSION): $(WIDGET)
	$(NEEDS_NODE)
	$(NPM) run --silent build:labextension
	@touch $@

# editable, so that what you change is what runs; the extensions of JupyterLab and of Jupyter Server are linked into the environment
define INSTALL
	rm -rf $(VENV)/share/jupyter/labextensions/cellwright src/cellwright/labextension/install.json  # pip would write through the link
	$(BIN)/pip install -q $(2) -e ".[$(1)]"
	mkdir -p $(VENV)/share/jupyter/labextensions
	rm -rf $(VENV)/share/jupyter/labextensions/cellwright  # pip lays a copy of today's there
	ln -sfn "$(CURDIR)/src/cellwright/labextension" $(VENV)/share/jupyter/labextensions/cellwright
	mkdir -p $(VENV)/etc/jupyter/jupyter_server_config.d
	ln -sfn "$(CURDIR)/jupyter-config/jupyter_server_config.d/cellwright.json" $(VENV)/etc/jupyter/jupyter_server_config.d/
endef

$(VENV)/.run: $(VENV)/bin/python pyproject.toml $(WIDGET) $(EXTENSION)
	$(call INSTALL,lab)
	@touch $@

# what the tests need, without us: that installs while the front end is built
define REQUIREMENTS
import tomllib
project = tomllib.load(open("pyproject.toml", "rb"))["project"]
extras = ["test"]
print(*project["dependencies"], sep="\n")
for extra in extras:
    for each in project["optional-dependencies"][extra]:
        if each.startswith("cellwright["):
            extras += each.removeprefix("cellwright[").removesuffix("]").split(",")
        else:
            print(each)
endef
export REQUIREMENTS

# compiled on both cores, without the packages' own tests
$(VENV)/.packages: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -c "$$REQUIREMENTS" | $(BIN)/pip install -q --no-compile -r /dev/stdin
	-$(BIN)/python -m compileall -q -j 2 -x /tests/ $(VENV)/lib  # a package may have files for other Pythons
	@touch $@

$(VENV)/.test: $(VENV)/.packages $(WIDGET) $(EXTENSION)
	$(call INSTALL,test,--no-deps)
	@touch $(VENV)/.run $@

$(VENV)/.release: $(VENV)/bin/python pyproject.toml
	$(BIN)/pip install -q --group release
	@touch $@

# what builds the site; the package is there already
$(VENV)/.docs: $(VENV)/.run
	$(BIN)/pip install -q $$($(BIN)/python -c 'import tomllib; \
	  extras = tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]; print(*extras["docs"])')
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

clean:  ## everything that was made
	rm -rf $(VENV) docs/_build docs/reference labextension/node_modules labextension/lib src/cellwright/labextension src/cellwright/kernel/widgets/static

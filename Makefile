# make leaderboard   install the core into .venv (no torch) and print the table
# make test          lint, types and the fast tests; installs all extras but ray (CONTRIBUTING.md: the CPU build of torch)
# make test-full     adds the slow tests, which need every extra and Python 3.11, 3.12 and 3.13
# make reproduce     make the committed baseline forecasts again and print the table
# make clean         remove .venv and what the tools leave behind
#
# PYTHON    the interpreter that makes .venv, 3.11 or later     make test PYTHON=python3.12
# PIP_ARGS  passed to pip                                       make test PIP_ARGS="--extra-index-url URL"
# JOBS      test processes

SHELL := /bin/bash
PYTHON ?= python3
PIP_ARGS ?=
JOBS ?= 2
VENV ?= .venv
BIN := $(VENV)/bin
FAST := -m "not slow and not gpu"

.DEFAULT_GOAL := help
.PHONY: help leaderboard test lint test-full reproduce clean
.NOTPARALLEL:

help:
	@sed -n '/^#/!q; s/^# \{0,1\}//p' Makefile

# A stamp is written only when its installation is complete, so a later call with the stamp in place never asks the
# network. The marker tells an installation that was killed halfway, which pip may take for a whole one: the next call
# then starts from an empty environment. An installation that failed by itself, for want of a network, removes it.
define install
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "make: '$(PYTHON)' is not Python 3.11 or later; name one: make $(firstword $(MAKECMDGOALS)) PYTHON=python3.12" >&2; exit 1; }
	@if [ -e $(VENV)/.incomplete ] || ! $(BIN)/python -m pip --version >/dev/null 2>&1; then \
	  rm -rf $(VENV) && $(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }; fi
	@trap 'exit 130' INT TERM HUP; touch $(VENV)/.incomplete; \
	  echo "make: installing kernelcast$(EXTRAS) into $(VENV)" >&2; \
	  $(BIN)/python -m pip install $$([ -t 2 ] || echo -qq) --disable-pip-version-check --prefer-binary --no-compile \
	    -c constraints.txt $(PIP_ARGS) -e '.$(EXTRAS)' >&2 || { rm -f $(VENV)/.incomplete; \
	  echo "make: the installation failed: it needs a package index that pip can reach; see PIP_ARGS in CONTRIBUTING.md" >&2; exit 1; }
	@rm -f $(VENV)/.incomplete
	@touch $(STAMPS)
endef

$(VENV)/.core: private EXTRAS :=
$(VENV)/.core: private STAMPS = $@
$(VENV)/.test: private EXTRAS := [dev,gpu,llm,train]
$(VENV)/.test: private STAMPS = $(VENV)/.core $@
$(VENV)/.full: private EXTRAS := [dev,gpu,llm,ray,train]
$(VENV)/.full: private STAMPS = $(VENV)/.core $(VENV)/.test $@

$(VENV)/.core $(VENV)/.test $(VENV)/.full: pyproject.toml constraints.txt
	$(install)

leaderboard: $(VENV)/.core
	@$(BIN)/kernelcast leaderboard

lint: $(VENV)/.test
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check .
	$(BIN)/python -m mypy

test: lint
	$(BIN)/python -m pytest -q -n $(JOBS) $(FAST)

test-full: $(VENV)/.full lint
	$(BIN)/python -m pytest -q -n $(JOBS) -m "not gpu"

reproduce: $(VENV)/.core
	@$(BIN)/kernelcast reproduce

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +

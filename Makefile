# Everything a bare machine needs: `make paper` and `make test`; the rest is for work on fastmm itself.
# PYTHON=python3.12 chooses the interpreter; changing it makes the environment anew.
PYTHON ?= python3
OUT ?= report

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help paper test test-cpp test-python lint format sanitize bench bench-quick dist clean

tag := $(shell "$(PYTHON)" -c 'import sys; print("%d.%d.%d" % sys.version_info[:3])')
ifeq ($(tag),)
  $(error $(PYTHON) does not run; install Python 3.10 or later, or say which: make test PYTHON=python3.12)
endif

BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
BUILD := build/venv-$(tag)
STAMPS := .venv/stamps-$(tag)
TOOLS := PATH="$(CURDIR)/$(BIN):$$PATH" CMAKE_GENERATOR=Ninja
# Warnings are errors where nobody would read them.
WERROR := $(if $(CI),ON,OFF)

# Folders are listed too: their time changes when a file goes.
SOURCES := $(shell find csrc fastmm -name __pycache__ -prune -o -name '*.so' -prune -o -print) CMakeLists.txt pyproject.toml README.md LICENSE

help:
	@echo 'make paper       figures of the paper and the check of its claims, into report/'
	@echo 'make test        C++ and Python tests, doctests included'
	@echo 'make lint        ruff, mypy and clang-format'
	@echo 'make format      rewrite Python and C++ in the house style'
	@echo 'make sanitize    C++ tests under the address and undefined-behaviour sanitizers'
	@echo 'make bench       all benchmarks against their peers, as a Markdown table (make bench-quick: tiny sizes)'
	@echo 'make dist        source archive and wheel, into dist/'
	@echo 'make clean       remove everything made here'

# The environment; a folder of another interpreter has no stamp of this one and goes.
$(STAMPS)/venv:
	rm -rf .venv
	"$(PYTHON)" -m venv .venv
	$(PIP) install --upgrade 'pip>=25.1'
	@mkdir -p $(STAMPS) && touch $@

$(STAMPS)/build-tools: $(STAMPS)/venv pyproject.toml
	$(PIP) install --group build
	@touch $@

# Build tools stand in .venv rather than in a throwaway environment, so that a second build compiles only what changed.
$(STAMPS)/fastmm: $(STAMPS)/build-tools $(SOURCES)
	$(TOOLS) $(PIP) install --no-build-isolation -Cbuild-dir=$(BUILD) -Ccmake.define.FASTMM_TESTS=ON \
	  -Ccmake.define.FASTMM_WERROR=$(WERROR) .
	@touch $@

$(STAMPS)/test: $(STAMPS)/venv pyproject.toml
	$(PIP) install --group test
	@touch $@

$(STAMPS)/lint: $(STAMPS)/venv pyproject.toml
	$(PIP) install --group lint
	@touch $@

$(STAMPS)/bench: $(STAMPS)/venv pyproject.toml
	$(PIP) install --group bench
	@touch $@

paper: $(STAMPS)/fastmm
	$(BIN)/fastmm paper --out "$(OUT)"

test: test-cpp test-python

test-cpp: $(STAMPS)/fastmm
	$(TOOLS) cmake --build $(BUILD) --target cpp_tests
	$(TOOLS) ctest --test-dir $(BUILD) --output-on-failure

# The script pytest, unlike `python -m pytest`, does not put this folder on the path: the installed package is tested.
test-python: $(STAMPS)/fastmm $(STAMPS)/test
	$(BIN)/pytest --doctest-modules --pyargs fastmm ./tests

lint: $(STAMPS)/lint $(STAMPS)/fastmm
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/clang-format --dry-run -Werror $$(find csrc -name '*.[ch]pp')

format: $(STAMPS)/lint
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $$(find csrc -name '*.[ch]pp')

sanitize: $(STAMPS)/build-tools
	$(TOOLS) cmake --preset asan
	$(TOOLS) cmake --build --preset asan
	$(TOOLS) ctest --preset asan

bench bench-quick: $(STAMPS)/fastmm $(STAMPS)/test $(STAMPS)/bench
	@mkdir -p build bench/results
	$(if $(filter bench-quick,$@),FASTMM_BENCH_QUICK=1) $(BIN)/pytest bench -o testpaths=bench -o pythonpath=bench -o filterwarnings=default \
	  --benchmark-enable --benchmark-only --benchmark-json=build/$@.json
	$(BIN)/python bench/report.py build/$@.json $(if $(filter bench,$@),> bench/results/latest.md && cat bench/results/latest.md)

dist: $(STAMPS)/venv
	$(PIP) install build
	rm -rf dist
	$(BIN)/python -m build --config-setting=cmake.define.FASTMM_WERROR=$(WERROR) .

clean:
	rm -rf .venv build dist report .mypy_cache .pytest_cache .ruff_cache .hypothesis .benchmarks

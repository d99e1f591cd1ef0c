# Two commands do everything: `make paper` and `make test`. Each makes what it needs in .venv and build/.
PYTHON ?= python3
export CMAKE_BUILD_PARALLEL_LEVEL ?= $(shell getconf _NPROCESSORS_ONLN)

# The environment is made anew when the interpreter or the place of this folder changes.
key := $(shell { $(PYTHON) -VV; pwd; } 2>&1 | cksum | cut -d' ' -f1)
venv := .venv/stamps/python-$(key)
installed := .venv/stamps/installed
test_tools := .venv/stamps/test-tools
bench_tools := .venv/stamps/bench-tools

# Folders are listed too: removing a file changes them.
sources := $(shell find fastmm csrc/fastmm csrc/bindings -name __pycache__ -prune -o ! -name '*.so' -print)
pip := .venv/bin/python -I -m pip --quiet --disable-pip-version-check
with_tools := PATH="$$PWD/.venv/bin:$$PATH"
# Started from .venv and isolated, neither pytest nor what a test starts can import the source tree by accident.
pytest := cd .venv && bin/python -I -m pytest -c ../pyproject.toml

.PHONY: paper test test-cpp test-python bench clean
.NOTPARALLEL:
.DELETE_ON_ERROR:

paper: $(installed)
	.venv/bin/fastmm paper --out report

test: test-cpp test-python

test-cpp: build/release/build.ninja
	$(with_tools) cmake --build --preset release
	$(with_tools) ctest --preset release

test-python: $(installed) $(test_tools)
	$(pytest) ../tests
	$(pytest) --doctest-modules --pyargs fastmm

bench: $(installed) $(test_tools) $(bench_tools)
	mkdir -p build/bench
	$(pytest) ../bench --benchmark-enable --benchmark-json=../build/bench/latest.json
	.venv/bin/python -I bench/report.py build/bench/latest.json

clean:
	rm -rf .venv build dist report

$(venv):
	rm -rf .venv
	$(PYTHON) -m venv .venv
	$(pip) install --upgrade 'pip>=25.1'
	mkdir -p $(@D) && touch $@

$(installed): $(venv) pyproject.toml CMakeLists.txt $(sources)
	@echo 'Building fastmm; the first time takes some minutes.'
	$(pip) install .
	touch $@

$(test_tools): $(venv) pyproject.toml
	$(pip) install --group test cmake ninja
	touch $@

$(bench_tools): $(venv) pyproject.toml
	$(pip) install --group bench
	touch $@

build/release/build.ninja: $(test_tools) CMakePresets.json
	$(with_tools) cmake --preset release
	touch $@

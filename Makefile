# Two commands do everything: `make paper` and `make test`. Each makes what it needs in .venv and build/.
PYTHON ?= python3
export CMAKE_BUILD_PARALLEL_LEVEL ?= $(shell getconf _NPROCESSORS_ONLN)

# The environment is made anew when the interpreter or the place of this folder changes.
key := $(shell { $(PYTHON) -VV; pwd; } 2>&1 | cksum | cut -d' ' -f1)
venv := .venv/stamps/python-$(key)
build_tools := .venv/stamps/build-tools
installed := .venv/stamps/installed
test_tools := .venv/stamps/test-tools
bench_tools := .venv/stamps/bench-tools

# Folders are listed too: removing a file changes them.
sources := $(shell find fastmm csrc/fastmm csrc/bindings -name __pycache__ -prune -o ! -name '*.so' -print)
# One build serves the wheel and the C++ tests. Its tools stand in .venv, so that the next build compiles only changes.
build := build/make-$(key)
# Warnings stop CI, not those who come with a newer compiler.
werror := $(if $(CI),ON,OFF)
pip := .venv/bin/python -I -m pip --quiet --disable-pip-version-check
with_tools := PATH="$$PWD/.venv/bin:$$PATH"
# Started from .venv and isolated, neither pytest nor what a test starts can import the source tree by accident.
pytest := cd .venv && bin/python -I -m pytest -c ../pyproject.toml
# Files of tests go to workers side by side; more of them would fight for processors with the threads they test.
workers := -n $(shell n=$$(getconf _NPROCESSORS_ONLN); echo $$((n < 4 ? n : 4))) --dist loadfile

.PHONY: paper test test-cpp test-python bench clean
.NOTPARALLEL:
.DELETE_ON_ERROR:

paper: $(installed)
	.venv/bin/fastmm paper --out report

test: test-cpp test-python

test-cpp: $(installed)
	$(with_tools) cmake --build $(build) --target cpp_tests
	$(with_tools) ctest --test-dir $(build) --output-on-failure

# (tests/ runs the doctests of the PyTorch adapter, where PyTorch is installed.)
test-python: $(installed) $(test_tools)
	$(pytest) $(workers) ../tests
	$(pytest) $(workers) --doctest-modules --pyargs fastmm --ignore-glob='/*/fastmm/interop/torch/*'

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

$(build_tools): $(venv) pyproject.toml
	$(pip) install --group build
	touch $@

$(installed): $(build_tools) pyproject.toml CMakeLists.txt $(sources)
	@echo 'Building fastmm; the first time takes some minutes.'
	$(with_tools) $(pip) install --no-build-isolation -Cbuild-dir=$(build) -Ccmake.define.FASTMM_TESTS=ON \
	  -Ccmake.define.FASTMM_WERROR=$(werror) .
	touch $@

$(test_tools): $(venv) pyproject.toml
	$(pip) install --group test
	touch $@

$(bench_tools): $(venv) pyproject.toml
	$(pip) install --group bench
	touch $@

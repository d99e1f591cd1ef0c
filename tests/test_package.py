"""The package as installed: one version, an import that is quick and leaves the process alone, instruction sets."""

import importlib.metadata
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import fastmm as mm
from fastmm import _core

ROOT = Path(__file__).parents[1]
OPTIONAL = ("cvxopt", "distributed", "matplotlib", "numba", "osqp", "rich", "scipy", "torch", "typer", "xarray", "zarr")
IMPORT_BUDGET_MS = 30.0

# Softmax, attention and a short run; printed in full so that two processes can be compared.
ANSWER = """
import numpy as np, fastmm as mm
from fastmm import _core
rng = np.random.default_rng(1)
X, Y, v = rng.standard_normal((20, 6, 8, 10)), rng.choice([-1.0, 1.0], (20, 6)), rng.standard_normal((20, 10))
problem = mm.Problem(X, Y, v)
run = mm.descend(problem, steps=30)
print(_core.build_info()["instruction_set"], *run.p.ravel().tolist())
"""


def python(folder, *arguments, **environment):
    """Run this interpreter in a folder of its own, so that no source tree is in the way."""
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_one_version_everywhere():
    declared = re.search(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.MULTILINE)
    assert declared is not None
    cited = re.search(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(encoding="utf-8"), re.MULTILINE)
    assert cited[1] == declared[1]
    assert declared[1] == importlib.metadata.version("fastmm") == mm.__version__ == _core.build_info()["version"]


def test_the_changelog_begins_with_this_version():
    headings = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert headings[0] == mm.__version__


def test_build_info_tells_how_it_was_built():
    info = _core.build_info()
    assert re.match(r"(gcc|clang) \d+", info["compiler"])
    assert info["build_type"] in {"Release", "RelWithDebInfo", "Debug", "MinSizeRel"}
    assert info["instruction_set"] in info["instruction_sets"]
    assert info["instruction_sets"][0] == "baseline"
    assert "-ffp-contract=off" in info["flags"]
    assert "fast-math" not in info["flags"]


def test_every_public_name_exists():
    for name in mm.__all__:
        assert getattr(mm, name) is not None, name
    assert set(mm.__all__) == set(dir(mm))


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'nonesuch'"):
        mm.nonesuch  # noqa: B018


def test_type_hints_are_installed():
    folder = Path(mm.__file__).parent
    assert (folder / "py.typed").is_file()
    assert (folder / "_core.pyi").is_file()


def test_subnormals_stay_alive(tmp_path):
    """After the import and after a threaded run, in the main thread and in one started later."""
    code = (
        "import threading, fastmm as mm, numpy as np\n"
        "tiny = np.full(3, 2.0**-1022)\n"
        "def halve(): print((tiny / 4).tolist() == [2.0**-1024] * 3)\n"
        "halve()\n"
        "mm.descend(mm.Problem(np.ones((64, 2, 3, 4)), np.ones((64, 2)), np.ones((64, 4))), steps=5, threads=2)\n"
        "halve()\n"
        "thread = threading.Thread(target=halve); thread.start(); thread.join()\n"
    )
    done = python(tmp_path, "-c", code)
    assert done.stdout.split() == ["True"] * 3, done.stderr


@pytest.fixture(scope="module")
def baseline(tmp_path_factory):
    done = python(tmp_path_factory.mktemp("baseline"), "-c", ANSWER, FASTMM_ISA="baseline")
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.parametrize("wanted", ["", *_core.build_info()["instruction_sets"]])
def test_an_instruction_set_can_be_forced(tmp_path, baseline, wanted):
    """Each gives the same run to rounding: fused multiply-add and wider lanes are all that differs.

    Without a wish it is the widest one.
    """
    done = python(tmp_path, "-c", ANSWER, FASTMM_ISA=wanted)
    assert done.returncode == 0, done.stderr
    name, *values = done.stdout.split()
    assert name == (wanted or _core.build_info()["instruction_sets"][-1])
    assert [float(x) for x in values] == pytest.approx([float(x) for x in baseline[1:]], rel=1e-9)


def test_an_unknown_instruction_set_is_an_import_error_naming_the_allowed_ones(tmp_path):
    done = python(tmp_path, "-c", "import fastmm", FASTMM_ISA="avx9000")
    last = done.stderr.strip().splitlines()[-1]
    assert done.returncode == 1
    assert last.startswith("ImportError")
    assert "FASTMM_ISA is 'avx9000'" in last
    assert ", ".join(_core.build_info()["instruction_sets"]) in last


def test_import_loads_nothing_optional(tmp_path):
    code = f"import sys, fastmm; print([name for name in {OPTIONAL} if name in sys.modules])"
    done = python(tmp_path, "-c", code)
    assert done.stdout.strip() == "[]", done.stderr


def test_import_costs_little_more_than_numpy(tmp_path):
    """At most 30 ms over NumPy; where NumPy itself takes long, on a slow or busy machine, a seventh of that.

    CPU time, and the least of several runs: what a busy machine adds is not the import's.
    """
    clock = "1e3 * time.process_time()"
    code = f"import time; a = {clock}; import numpy; b = {clock}; import fastmm; print(b - a, {clock} - b)"
    excess = []
    for _ in range(7):
        done = python(tmp_path, "-c", code)
        assert done.returncode == 0, done.stderr
        numpy, ours = map(float, done.stdout.split())
        excess.append(ours - max(IMPORT_BUDGET_MS, numpy / 7))
        if excess[-1] <= 0:
            break
    assert min(excess) <= 0

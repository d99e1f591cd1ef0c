"""In-place builds: `python setup.py build_ext --inplace` puts the module into fastmm/. pip never reads this file."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent
# Tools installed beside this interpreter count even when its environment is not activated.
PATH = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])


def build_in_place() -> None:
    """Configure build/inplace for this interpreter and build the module into fastmm/."""
    cmake, ninja = shutil.which("cmake", path=PATH), shutil.which("ninja", path=PATH)
    try:
        from pybind11 import get_cmake_dir
    except ImportError:
        get_cmake_dir = None
    if cmake is None or get_cmake_dir is None:
        sys.exit("an in-place build needs CMake and pybind11: pip install --group dev, or pip install cmake pybind11")
    options = [f"-DPython_EXECUTABLE={sys.executable}", f"-Dpybind11_DIR={get_cmake_dir()}"]
    options += ["-DFASTMM_TESTS=OFF", "-DFASTMM_WERROR=OFF"]
    options += [f"-DCMAKE_MAKE_PROGRAM={ninja}"] if ninja else ["-G", "Unix Makefiles"]
    subprocess.run([cmake, "--preset", "inplace", *options], cwd=ROOT, check=True)
    jobs = os.environ.get("CMAKE_BUILD_PARALLEL_LEVEL") or str(os.cpu_count() or 1)
    subprocess.run([cmake, "--build", "build/inplace", "--parallel", jobs], cwd=ROOT, check=True)


if __name__ == "__main__":
    if sys.argv[1:] not in (["build_ext", "--inplace"], ["build_ext", "-i"]):
        sys.exit("setup.py only knows `build_ext --inplace`; everything else is pip's: pip install .")
    try:
        build_in_place()
    except subprocess.CalledProcessError as error:
        sys.exit(error.returncode)

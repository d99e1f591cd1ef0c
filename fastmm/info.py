"""What a bug report needs: versions, the build, threads and the instruction set in use."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

from fastmm import _core
from fastmm.config import resolve_threads

PACKAGES = ("numpy", "scipy", "osqp", "matplotlib", "rich", "typer", "xarray", "zarr", "distributed")


def info() -> dict[str, str]:
    """Versions, build and run-time choices, in the order a reader wants them.

    Returns
    -------
    dict of str
        From "fastmm" (the version) to the versions of the packages it stands on; "not installed" where one is missing.

    Examples
    --------
    >>> from fastmm.info import info
    >>> import fastmm as mm
    >>> info()["fastmm"] == mm.__version__
    True
    """
    build = _core.build_info()
    found = {
        "fastmm": str(build["version"]),
        "instruction set": f"{build['instruction_set']} (of {', '.join(build['instruction_sets'])})",
        "threads": str(resolve_threads()),
        "compiler": str(build["compiler"]),
        "flags": str(build["flags"]),
        "build type": f"{build['build_type']}, assertions {'on' if build['assertions'] else 'off'}",
        "python": f"{platform.python_version()} ({platform.python_implementation()})",
        "platform": platform.platform(),
    }
    return found | {name: _version(name) for name in PACKAGES}


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"

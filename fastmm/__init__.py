"""fastmm: the fast, certified laboratory for max-margin attention."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from fastmm import _core
from fastmm.errors import FastmmError, InfeasibleError, NotSolvedError, Status
from fastmm.problem import Problem

if TYPE_CHECKING:
    from fastmm import reference as reference

__version__: str = _core.build_info()["version"]

__all__ = ["FastmmError", "InfeasibleError", "NotSolvedError", "Problem", "Status", "__version__", "reference"]

# What stands here is imported on first use: name -> (module, attribute or None for the module itself).
_LAZY: dict[str, tuple[str, str | None]] = {"reference": ("fastmm.reference", None)}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'fastmm' has no attribute {name!r}")
    module, attribute = _LAZY[name]
    found = importlib.import_module(module)
    value = found if attribute is None else getattr(found, attribute)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)

"""Twins of the kernels: the same code for another number of lanes, or with a user's functions inside."""

from __future__ import annotations

import types
from typing import Any

from fastmm.jit import block, gradient, loop, rules
from fastmm.jit.compiling import rebound
from fastmm.jit.lanes import WIDTH, load_one

_MODULES = (block, gradient, rules, loop)


def twin(width: int, names: dict[str, Any]) -> Any:
    """All kernels, each bound to the twins of those that it calls; `names` replaces functions of theirs."""
    found = {} if width == WIDTH else {"WIDTH": width, "load": load_one}
    for module in _MODULES:  # in the order in which they call each other, but for functions within one module
        for name, kernel in list(vars(module).items()):
            if hasattr(kernel, "py_func") and kernel.py_func.__module__ == module.__name__:
                found[name] = rebound(kernel)
    found.update(names)
    for kernel in found.values():
        if hasattr(kernel, "py_func"):
            kernel.py_func.__globals__.update(found)
    return types.SimpleNamespace(**found)

"""Twins of the kernels: the same code for another number of lanes, or with a user's functions inside."""

from __future__ import annotations

import types
from typing import Any

from fastmm.jit import block, gradient, loop, rules
from fastmm.jit.compiling import rebound
from fastmm.jit.lanes import WIDTH, load_one

_MODULES = (block, gradient, rules, loop)


def twin(width: int, names: dict[str, Any]) -> Any:
    """The kernels with functions replaced by name: those that call one, if only through others, are made anew."""
    found = dict(names) if width == WIDTH else {"WIDTH": width, "load": load_one, **names}
    kept_as = "_one" if not names else None
    own = {
        name: kernel
        for module in _MODULES
        for name, kernel in vars(module).items()
        if hasattr(kernel, "py_func") and kernel.py_func.__module__ == module.__name__ and name not in names
    }
    while changed := [n for n, k in own.items() if n not in found and found.keys() & {*k.py_func.__code__.co_names}]:
        found.update((name, rebound(own[name], kept_as)) for name in changed)
    for kernel in found.values():
        if hasattr(kernel, "py_func"):
            kernel.py_func.__globals__.update(found)
    return types.SimpleNamespace(**{**own, **found})

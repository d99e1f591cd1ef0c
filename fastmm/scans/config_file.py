"""Configuration files: a scan as TOML, for `fastmm scan`."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

_KEYS = {"task": str, "trials": int, "seed": int, "store": str, "grid": dict}
_OPTIONAL = {"chunk": int, "threads": int}


def read_config(file: Path) -> dict[str, Any]:
    """The arguments of `fastmm.scan` from a file such as

    ::

        task = "converge"        # or "module:function"
        trials = 1000
        seed = 1
        store = "results.zarr"   # next to this file

        [grid]
        n = 6
        T = 8
        d = [2, 5, 10]
        generator = "mixture"    # or {name = "mixture", noise = 0.5}, or "module:function"

    with ``chunk`` and ``threads`` if wanted.
    """
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        config: dict[str, Any] = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(error.strerror or str(error)) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"is no TOML file ({error})") from error
    missing, unknown = sorted(set(_KEYS) - set(config)), sorted(set(config) - set(_KEYS) - set(_OPTIONAL))
    if missing or unknown:
        told = [f"lacks {', '.join(missing)}"] * bool(missing) + [f"has unknown {', '.join(unknown)}"] * bool(unknown)
        raise ValueError(f"{' and '.join(told)}; allowed: {', '.join(_KEYS)} [{', '.join(_OPTIONAL)}]")
    for name, value in config.items():
        kind = (_KEYS | _OPTIONAL)[name]
        if type(value) is not kind:
            raise ValueError(f"{name}: got {value!r}; allowed: {kind.__name__}")
    config["store"] = file.parent / config["store"]
    if config["task"] != "converge":
        config["task"] = _function("task", config["task"], file.parent)
    if "generator" in config["grid"]:
        value = config["grid"]["generator"]
        many = isinstance(value, list)
        made = [_generator(one, file.parent) for one in (value if many else [value])]
        config["grid"]["generator"] = made if many else made[0]
    return config


def _generator(value: Any, folder: Path) -> Any:
    from dataclasses import replace

    from fastmm.scans.generators import GENERATORS

    if isinstance(value, dict):
        name, settings = value.get("name"), {key: one for key, one in value.items() if key != "name"}
        if name not in GENERATORS:
            raise ValueError(f"generator: got name = {name!r}; allowed: {', '.join(map(repr, GENERATORS))}")
        try:
            return replace(GENERATORS[name], **settings)
        except TypeError as error:
            raise ValueError(f"generator: {name} does not take these settings ({error})") from error
    return _function("generator", value, folder) if isinstance(value, str) and ":" in value else value


def _function(name: str, text: str, folder: Path) -> Any:
    """A function by its module and name; modules next to the file are found too."""
    module, _, function = text.partition(":")
    sys.path.insert(0, str(folder.resolve()))
    try:
        return getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(f"{name}: got {text!r} ({error}); allowed: 'module:function'") from error
    finally:
        sys.path.pop(0)

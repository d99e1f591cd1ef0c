"""How fastmm compiles with Numba: no fast-math, cached on disk where that works, rebindable to users' functions."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import numba
from numba.core import caching, cgutils
from numba.extending import intrinsic

F = TypeVar("F", bound=Callable[..., Any])

# Errors of the arithmetic are values here (inf, NaN) as in NumPy, never exceptions: loops stay free of branches.
_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy"}

# What only compiled code calls needs no entries for Python and C.
_PART: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
_ENTRIES = ("run_stretch",)


@functools.cache
def _sources() -> str:
    """A digest of all sources of fastmm.jit: what is compiled in one file is inlined into that of others."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


class _Cache(caching.FunctionCache):
    """Numba's cache on disk, except that it knows of all our files, and that a disk that fails only costs time."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)  # type: ignore[no-untyped-call]
        self._cache_file = caching.IndexDataCacheFile(
            cache_path=self._cache_path, filename_base=self._impl.filename_base, source_stamp=_sources()
        )

    @contextlib.contextmanager
    def _guard_against_spurious_io_errors(self) -> Iterator[None]:
        with contextlib.suppress(OSError, EOFError):
            yield


def compiled(function: F) -> F:
    """Compiles a kernel that Python calls, on first use; kept on disk unless no cache folder can be written."""
    out: F = _cached(numba.njit(**_OPTIONS)(function), function)
    return out


def part(function: F) -> F:
    """Compiles a function that only kernels call; kept on disk for the kernels made around users' functions."""
    out: F = _cached(numba.njit(**_OPTIONS, **_PART)(function), function)
    return out


def _cached(dispatcher: Any, function: Any) -> Any:
    with contextlib.suppress(RuntimeError, OSError):  # no folder for the cache: compiled anew in each process
        dispatcher._cache = _Cache(function)
    return dispatcher


def compiled_user(function: Callable[..., Any]) -> Any:
    """Compiles a user's function (a plain one, or one that Numba compiled already) in memory only."""
    return numba.njit(**_OPTIONS)(getattr(function, "py_func", function))


def rebound(kernel: Any, kept_as: str | None = None, **names: Any) -> Any:
    """The same kernel with other functions behind its global names, so that they are inlined into it.

    With `kept_as`, an ending for its name, it is kept on disk; not where a user's function may be inside, because
    Numba cannot tell there whether that has changed.
    """
    source = kernel.py_func
    scope = {**source.__globals__, **names}
    twin = types.FunctionType(source.__code__, scope, source.__name__, source.__defaults__, source.__closure__)
    twin.__qualname__ = source.__name__ + (kept_as or "")  # names the file that it is kept in
    dispatcher = numba.njit(**_OPTIONS, **({} if source.__name__ in _ENTRIES else _PART))(twin)
    return dispatcher if kept_as is None else _cached(dispatcher, twin)


def short_reason(error: BaseException) -> str:
    """The line of a Numba error that says what is wrong, without its advice."""
    noise = ("failed in", "during:", "file ", "this error", "<source", "^", "enable logging")
    lines = [line.strip() for line in str(error).splitlines()]
    telling = [line for line in lines if line and not line.lower().startswith(noise)]
    text = telling[0] if telling else type(error).__name__
    return text if len(text) <= 200 else text[:197] + "..."


def _unowned(typing_context: Any, array: Any) -> Any:
    """The same memory without a share in owning it: views of it cost no counting of references in inner loops."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        view = context.make_array(signature.args[0])(context, builder, value=arguments[0])
        view.meminfo = cgutils.get_null_value(view.meminfo.type)
        view.parent = cgutils.get_null_value(view.parent.type)
        return view._getvalue()

    return array(array), build


unowned: Any = intrinsic(_unowned)

"""Finds the part of a model that makes attention weights, and captures what it returns during one forward pass."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch

MultiheadAttention = torch.nn.MultiheadAttention


class Method(NamedTuple):
    """A method of a module, by its name."""

    owner: Any
    name: str


def find(model: Any, name: str | None) -> Any:
    """The module or method of this name in the model; by default its last MultiheadAttention."""
    if name is None:
        layers = [module for module in model.modules() if isinstance(module, MultiheadAttention)]
        if not layers:
            raise ValueError("attention: the model has no torch.nn.MultiheadAttention; allowed: a name or a callable")
        return layers[-1]
    modules = dict(model.named_modules())
    if name in modules:
        return modules[name]
    owner, _, method = name.rpartition(".")
    if owner in modules and callable(getattr(modules[owner], method, None)):
        return Method(modules[owner], method)
    raise ValueError(f"attention: got {name!r}; allowed: the name of a submodule or of a method in the model")


@contextlib.contextmanager
def captured(source: Any, seen: list[Any]) -> Iterator[None]:
    """While it is open, `seen` holds the last output of a module or method."""
    with contextlib.ExitStack() as stack:
        if isinstance(source, Method):
            stack.enter_context(_watched(source, seen))
        else:
            if isinstance(source, MultiheadAttention):
                stack.callback(source.register_forward_pre_hook(_ask_for_weights, with_kwargs=True).remove)
            stack.callback(source.register_forward_hook(lambda module, args, output: _keep(seen, output)).remove)
        yield


def _keep(seen: list[Any], output: Any) -> None:
    seen[:] = [output]


def _ask_for_weights(module: Any, args: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The caller's arguments, with the weights of all heads asked for; outputs stay what they are."""
    own = dict(kwargs)
    # by position: query, key, value, key_padding_mask, need_weights, attn_mask, average_attn_weights
    for name, place in (("need_weights", 4), ("average_attn_weights", 6)):
        value = name == "need_weights"
        if len(args) > place:
            args = (*args[:place], value, *args[place + 1 :])
        else:
            own[name] = value
    return args, own


@contextlib.contextmanager
def _watched(method: Method, seen: list[Any]) -> Iterator[None]:
    own = getattr(method.owner, method.name)
    shadowed = method.name in vars(method.owner)

    def watching(*args: Any, **kwargs: Any) -> Any:
        output = own(*args, **kwargs)
        _keep(seen, output)
        return output

    vars(method.owner)[method.name] = watching
    try:
        yield
    finally:
        if shadowed:
            vars(method.owner)[method.name] = own
        else:
            del vars(method.owner)[method.name]


def query_key(model: Any, source: Any, names: Sequence[str] | None) -> Callable[[], tuple[Any, Any]]:
    """A function to the query and key weights as they are, each (heads, width, inputs), or to a pair of None."""
    if names is not None:
        parameters = dict(model.named_parameters())
        if isinstance(names, str) or len(names) != 2 or not all(name in parameters for name in names):
            raise ValueError(f"weights: got {names!r}; allowed: the names of two parameters of the model")
        pair = [parameters[name] for name in names]
        if any(x.ndim != 2 for x in pair) or pair[0].shape[0] != pair[1].shape[0]:
            raise ValueError(f"weights: got shapes {[tuple(x.shape) for x in pair]}; allowed: (width, inputs) for both")
        return lambda: (pair[0].unsqueeze(0), pair[1].unsqueeze(0))
    if isinstance(source, MultiheadAttention):
        return lambda: _of_heads(source)
    return lambda: (None, None)


def _of_heads(layer: Any) -> tuple[Any, Any]:
    if layer.in_proj_weight is None:
        query, key = layer.q_proj_weight, layer.k_proj_weight
    else:
        query, key, _ = layer.in_proj_weight.chunk(3)
    query, key = (x.reshape(layer.num_heads, -1, x.shape[-1]) for x in (query, key))
    return query, key

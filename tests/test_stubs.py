"""The compiled module's type stubs name what is there, no more and no less."""

import ast
import re
from pathlib import Path

import pytest

import fastmm as mm
from fastmm import _core

TREE = ast.parse((Path(mm.__file__).parent / "_core.pyi").read_text(encoding="utf-8"))
FUNCTIONS = {node.name: node for node in TREE.body if isinstance(node, ast.FunctionDef)}
CLASSES = {node.name: node for node in TREE.body if isinstance(node, ast.ClassDef)}


def public(thing):
    return {name for name in dir(thing) if not name.startswith("_")}


def test_functions_and_classes():
    assert {name for name in {*FUNCTIONS, *CLASSES} if not name.startswith("_")} == public(_core)


def members(name):
    found = {
        node.target.id if isinstance(node, ast.AnnAssign) else node.name
        for node in CLASSES[name].body
        if isinstance(node, ast.AnnAssign | ast.FunctionDef)
    }
    return found.union(*(members(base.id) for base in CLASSES[name].bases))


@pytest.mark.parametrize("name", sorted(CLASSES))
def test_members_of_a_class(name):
    assert {member for member in members(name) if not member.startswith("_")} == public(getattr(_core, name))


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_arguments_of_a_function(name):
    """pybind11 writes a signature for each dtype into the docstring; arguments without a name are arg0, arg1, ..."""
    arguments = FUNCTIONS[name].args
    listed = [arg.arg for arg in arguments.posonlyargs + arguments.args + arguments.kwonlyargs]
    signatures = re.findall(rf"^(?:\d+\. )?{name}\((.*)\) -> ", getattr(_core, name).__doc__, re.MULTILINE)
    assert signatures
    for signature in signatures:
        inside = re.findall(r"(\w+): ", signature)
        named = [listed[int(arg[3:])] if re.fullmatch(r"arg\d+", arg) else arg for arg in inside]
        assert named == listed

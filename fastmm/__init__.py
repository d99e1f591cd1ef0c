"""fastmm: the fast, certified laboratory for max-margin attention."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from fastmm import _core
from fastmm.errors import FastmmError, InfeasibleError, NotSolvedError, Status
from fastmm.gradients import descent_direction, loss_and_grad
from fastmm.problem import Problem
from fastmm.weights import attention, log_softmax, softmax

if TYPE_CHECKING:
    from fastmm import jit as jit
    from fastmm import losses as losses
    from fastmm import paper as paper
    from fastmm import plot as plot
    from fastmm import reference as reference
    from fastmm import scans as scans
    from fastmm import theory as theory
    from fastmm.descent import Trajectory, descend
    from fastmm.descent import rules as rules
    from fastmm.descent import stopping as stopping
    from fastmm.gradients import hessian_vector
    from fastmm.jit import custom_loss, custom_rule
    from fastmm.margin import (
        Certificate,
        MaxMargin,
        SetMargin,
        att_svm,
        att_svm_sets,
        certify,
        label_svm,
        margin_vjp,
        min_norm,
        weight_svm,
    )
    from fastmm.plan import Plan
    from fastmm.scans.run import scan
    from fastmm.theory.correlation import correlation

__version__: str = _core.build_info()["version"]

# What stands here is imported on first use: name -> module that has it ("fastmm" when the name is itself a module).
_LAZY = {
    "Certificate": "fastmm.margin",
    "MaxMargin": "fastmm.margin",
    "Plan": "fastmm.plan",
    "SetMargin": "fastmm.margin",
    "Trajectory": "fastmm.descent",
    "att_svm": "fastmm.margin",
    "att_svm_sets": "fastmm.margin",
    "certify": "fastmm.margin",
    "correlation": "fastmm.theory.correlation",
    "custom_loss": "fastmm.jit",
    "custom_rule": "fastmm.jit",
    "descend": "fastmm.descent",
    "hessian_vector": "fastmm.gradients",
    "label_svm": "fastmm.margin",
    "jit": "fastmm",
    "losses": "fastmm",
    "margin_vjp": "fastmm.margin",
    "min_norm": "fastmm.margin",
    "paper": "fastmm",
    "plot": "fastmm",
    "reference": "fastmm",
    "rules": "fastmm.descent",
    "scan": "fastmm.scans",
    "scans": "fastmm",
    "stopping": "fastmm.descent",
    "theory": "fastmm",
    "weight_svm": "fastmm.margin",
}

__all__ = [
    "Certificate",
    "FastmmError",
    "InfeasibleError",
    "MaxMargin",
    "NotSolvedError",
    "Plan",
    "Problem",
    "SetMargin",
    "Status",
    "Trajectory",
    "__version__",
    "att_svm",
    "att_svm_sets",
    "attention",
    "certify",
    "correlation",
    "custom_loss",
    "custom_rule",
    "descend",
    "descent_direction",
    "hessian_vector",
    "jit",
    "label_svm",
    "log_softmax",
    "loss_and_grad",
    "losses",
    "margin_vjp",
    "min_norm",
    "paper",
    "plot",
    "reference",
    "rules",
    "scan",
    "scans",
    "softmax",
    "stopping",
    "theory",
    "weight_svm",
]


def __getattr__(name: str) -> Any:
    module = _LAZY.get(name)
    if module is None:
        raise AttributeError(f"module 'fastmm' has no attribute {name!r}")
    if module == "fastmm":
        value: Any = importlib.import_module(f"fastmm.{name}")
    else:
        value = getattr(importlib.import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)

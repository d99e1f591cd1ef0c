"""The gradient and descent loops in Numba: home of users' losses and step rules, and a second implementation.

`run` is the counterpart of the compiled core's runs; `custom_loss` and `custom_rule` make of scalar and small-array
Python functions what is inlined into its loops. Heads other than the linear one are not supported.
"""

from __future__ import annotations

from fastmm.jit.descent import run
from fastmm.jit.user_loss import CustomLoss, custom_loss
from fastmm.jit.user_rule import CustomRule, custom_rule

__all__ = ["CustomLoss", "CustomRule", "custom_loss", "custom_rule", "run"]

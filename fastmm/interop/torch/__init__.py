"""fastmm inside PyTorch: pooled attention, normalised descent, max-margin layers and a monitor of attention."""

try:
    import torch as _torch  # noqa: F401
except ImportError as error:
    raise ImportError(
        "fastmm.interop.torch needs PyTorch 2.5 or later: pip install 'fastmm[torch]', or see pytorch.org for a build "
        "that fits your GPU",
        name="torch",
    ) from error

from fastmm.interop.torch.descent import NormalizedGD
from fastmm.interop.torch.margins import MaxMarginLayer, max_margin
from fastmm.interop.torch.monitor import AttentionMonitor
from fastmm.interop.torch.pooling import softmax_attention

__all__ = ["AttentionMonitor", "MaxMarginLayer", "NormalizedGD", "max_margin", "softmax_attention"]

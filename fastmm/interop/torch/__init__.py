"""fastmm inside PyTorch: pooled attention, normalised descent, max-margin layers and a monitor of attention."""

try:
    import torch as _torch
except ImportError as error:
    raise ImportError(
        "fastmm.interop.torch needs PyTorch 2.5 or later: pip install 'fastmm[torch]', or see pytorch.org for a build "
        "that fits your GPU",
        name="torch",
    ) from error

from fastmm.interop.torch.pooling import softmax_attention

__all__ = ["softmax_attention"]

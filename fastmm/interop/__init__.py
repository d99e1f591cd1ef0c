"""Adapters that let other libraries call fastmm's kernels; each is imported by its own name and needs its library."""

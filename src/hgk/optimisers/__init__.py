"""Optimisers of the kernel's weights."""

from hgk.optimisers.algorithm1 import Algorithm1

__all__ = ["Algorithm1"]

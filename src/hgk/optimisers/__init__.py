"""Optimisers of the kernel's weights."""

from hgk.optimisers.adam import Adam
from hgk.optimisers.algorithm1 import Algorithm1

__all__ = ["Adam", "Algorithm1"]

"""Pairs of classes, all against all."""

import torch


def pairs_of(classes: int) -> torch.Tensor:
    """All a < b, one pair per row."""
    return torch.combinations(torch.arange(classes))

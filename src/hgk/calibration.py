"""From decision values to probabilities.

With g(t) = a t for t > 0 and b t for t < 0, a, b > 0:

    two classes     log (p / (1 - p)) = g(t)
    more            p_k = exp(g(t_k)) / Σ_l exp(g(t_l))

g increases through 0, so that the most probable class is the one with the largest value. log a and log b minimise
the mean logarithmic loss on leave-one-out values t, in which a row's label has a part only through the weights (with
other losses than least squares: on values of held-out folds). So that few rows without an error do not claim
certainty, a row of class c counts as its own class with probability 1 - ε_c and as any other with the rest,
ε_c = 1/(n_c + 2) for n_c rows (Platt, 1999).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch


@dataclass(frozen=True)
class Calibration:
    """The slopes a and b."""

    above: float
    below: float

    @classmethod
    def of(cls, t: np.ndarray, Y: np.ndarray, weight: np.ndarray) -> Calibration:
        """From values t and labels ±1, one column per class (one for two classes), by LBFGS on (log a, log b)."""
        values, share = torch.from_numpy(t), torch.from_numpy(weight / weight.sum())
        column = torch.from_numpy(Y.argmax(1) if Y.shape[1] > 1 else (Y[:, 0] > 0).astype(int))[:, None]
        targets = cls._targets(column, share, float(weight.sum() ** 2 / (weight**2).sum()), max(2, Y.shape[1]))
        theta = torch.ones(2, dtype=torch.float64, requires_grad=True)
        optimiser = torch.optim.LBFGS([theta], max_iter=100, line_search_fn="strong_wolfe")

        def loss() -> torch.Tensor:
            optimiser.zero_grad()
            # Slopes beyond e^6 would claim more certainty than any number of rows can show.
            value = -(share * (targets * cls._log(values, *theta.clamp(-6, 6).exp())).sum(1)).sum()
            value = value + 1e-6 * (theta**2).sum()
            value.backward()
            return value

        optimiser.step(loss)
        above, below = theta.detach().clamp(-6, 6).exp().tolist()
        return cls(above, below)

    @staticmethod
    def _targets(column: torch.Tensor, share: torch.Tensor, size: float, classes: int) -> torch.Tensor:
        """1 - ε_c for a row's class, the rest for the others."""
        rows = torch.zeros(classes, dtype=share.dtype).index_add(0, column[:, 0], share) * size
        other = (1 / (rows + 2))[column] / (classes - 1)
        return other.expand(-1, classes).scatter(1, column, 1 - (classes - 1) * other)

    @staticmethod
    def _log(t: torch.Tensor, above, below) -> torch.Tensor:
        """Log-probabilities, one column per class."""
        g = torch.where(t > 0, above * t, below * t)
        if t.shape[1] == 1:
            return torch.cat([torch.nn.functional.logsigmoid(-g), torch.nn.functional.logsigmoid(g)], 1)
        return torch.log_softmax(g, 1)

    def probabilities(self, t: np.ndarray) -> np.ndarray:
        return self._log(torch.from_numpy(t), self.above, self.below).exp().numpy()

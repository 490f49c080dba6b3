"""From decision values to probabilities.

With g(t) = a t for t > 0 and b t for t < 0, a, b > 0, and for least squares, whose values estimate 2 P - 1, with
q = (1 + t) / 2 in [ε, 1 - ε] and a power s > 0 (otherwise s = 0):

    two classes     log (p / (1 - p)) = g(t) + s log (q / (1 - q))
    more            p_k proportional to q_k^s exp(g(t_k))

a = b = 0 and s = 1 leave the estimate as it is, which is right where rows repeat and values are cell frequencies. Both
terms increase in t through 0, so that the most probable class is the one with the largest value. log a, log b and log s
minimise the mean logarithmic loss on leave-one-out values t, in which a row's label has a part only through the weights
(with other losses than least squares: on values of held-out folds). So that few rows without an error do not claim
certainty, a row of class c counts as its own class with probability 1 - ε_c and as any other with the rest,
ε_c = 1/(n_c + 2) for n_c rows (Platt, 1999); ε = 1/(n + 2).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch


@dataclass(frozen=True)
class Calibration:
    """The slopes a and b, the power s, and ε."""

    above: float
    below: float
    power: float = 0.0
    least: float = 0.0

    @classmethod
    def of(
        cls, t: np.ndarray, Y: np.ndarray, weight: np.ndarray, size: float | None = None, estimates: bool = False
    ) -> Calibration:
        """From values t and labels ±1, one column per class (one for two classes), by LBFGS on (log a, log b, log s).

        ``size`` is the number of rows that the weights amount to, by default (Σ s)² / Σ s². ``estimates`` says that t
        estimates 2 P - 1.
        """
        size = float(weight.sum() ** 2 / (weight**2).sum()) if size is None else size
        values, share = torch.from_numpy(t), torch.from_numpy(weight / weight.sum())
        column = torch.from_numpy(Y.argmax(1) if Y.shape[1] > 1 else (Y[:, 0] > 0).astype(int))[:, None]
        targets, least = cls._targets(column, share, size, max(2, Y.shape[1])), 1 / (size + 2)
        theta = torch.ones(3 if estimates else 2, dtype=torch.float64)
        theta[2:] = 0.0
        theta.requires_grad_()
        optimiser = torch.optim.LBFGS([theta], max_iter=100, line_search_fn="strong_wolfe")

        def loss() -> torch.Tensor:
            optimiser.zero_grad()
            # Slopes beyond e^6 would claim more certainty than any number of rows can show.
            above, below, *power = theta.clamp(-6, 6).exp()
            found = cls(above, below, power[0] if power else 0.0, least)
            value = -(share * (targets * found._log(values)).sum(1)).sum() + 1e-6 * (theta**2).sum()
            value.backward()
            return value

        optimiser.step(loss)
        above, below, *power = theta.detach().clamp(-6, 6).exp().tolist()
        return cls(above, below, power[0] if estimates else 0.0, least)

    @staticmethod
    def _targets(column: torch.Tensor, share: torch.Tensor, size: float, classes: int) -> torch.Tensor:
        """1 - ε_c for a row's class, the rest for the others."""
        rows = torch.zeros(classes, dtype=share.dtype).index_add(0, column[:, 0], share) * size
        other = (1 / (rows + 2))[column] / (classes - 1)
        return other.expand(-1, classes).scatter(1, column, 1 - (classes - 1) * other)

    def _log(self, t: torch.Tensor) -> torch.Tensor:
        """Log-probabilities, one column per class."""
        g = torch.where(t > 0, self.above * t, self.below * t)
        log_q = (((1 + t) / 2).clamp(self.least, 1 - self.least)).log()
        if t.shape[1] == 1:
            log_rest = (((1 - t) / 2).clamp(self.least, 1 - self.least)).log()
            g = g + self.power * (log_q - log_rest) if self.least else g
            return torch.cat([torch.nn.functional.logsigmoid(-g), torch.nn.functional.logsigmoid(g)], 1)
        return torch.log_softmax(g + self.power * log_q if self.least else g, 1)

    def probabilities(self, t: np.ndarray) -> np.ndarray:
        return self._log(torch.from_numpy(t)).exp().numpy()

"""The paper's deep networks: an architecture of fifteen by five-fold cross-validation with early stopping.

The paper says: Caffe, up to 1000 relu units per layer, single precision, the five networks averaged. Which fifteen,
and all of the training, it leaves open; `hgk.bench.networks` says what is done here.
"""

from __future__ import annotations

from hgk.arrays import threads
from hgk.bench.methods import Fitted, Method
from hgk.bench.networks import ARCHITECTURES, Schedule, choose

QUICK = ((100,), (100, 100), (100, 100, 100))


class DNN(Method):
    name = "DNN"
    label = "relu networks, architecture by 5-fold CV, early stopping"
    accelerated = True

    def fit(self, X, y, seed, effort):
        candidates, schedule = (QUICK, Schedule(epochs=30)) if effort.quick else (ARCHITECTURES, Schedule())
        with threads(effort.threads):
            found = choose(X, y, candidates, schedule, seed=seed, device=effort.device)
        chosen = {
            "architecture": list(found.architecture),
            "validation": {"x".join(map(str, widths)): error for widths, error in found.candidates.items()},
            "epochs": found.epochs,
            "flops": found.flops,
        }
        return Fitted(found.predict, chosen)

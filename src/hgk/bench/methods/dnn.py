"""The paper's deep networks: an architecture of fifteen by five-fold cross-validation with early stopping.

The paper says: Caffe, fifteen architectures with up to 1000 relu units per layer, five folds with early stopping, the
five networks averaged, single precision. It leaves the rest open. Here: one to five layers of 100, 300 or 1000 units,
all fifteen trained in full; squared loss, Adam with a one-cycle rate up to 0.003, batches of 128, at most 100 epochs,
stopped after 30 without progress; no dropout, no decay. Of two rates, 0.001 and 0.003, the larger had the smaller
held-out errors on training rows of one split of cadata and letter-recognition; on higgs it was better once, worse
twice.
"""

from __future__ import annotations

from math import isfinite

from hgk.arrays import threads
from hgk.bench.methods import Fitted, Method
from hgk.bench.networks import ARCHITECTURES, Schedule, choose_networks

SMALL_NETWORKS = ((100,), (100, 100), (100, 100, 100))


class DNN(Method):
    name = "DNN"
    label = "relu networks, architecture by 5-fold CV, early stopping"
    accelerated = True

    def fit(self, X, y, seed, effort):
        candidates, schedule = (SMALL_NETWORKS, Schedule(epochs=30)) if effort.quick else (ARCHITECTURES, Schedule())
        with threads(effort.threads):
            network = choose_networks(X, y, candidates, schedule, seed=seed, device=effort.device)
        chosen = {
            "architecture": list(network.architecture),
            "validation": {"x".join(map(str, a)): e if isfinite(e) else None for a, e in network.candidates.items()},
            "epochs": network.epochs,
            "flops": network.flops,
        }
        return Fitted(network.predict, chosen)

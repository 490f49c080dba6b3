"""The paper's method: seven architectures, each learned by Algorithm 1 on every fold, chosen by cross-validation."""

import numpy as np

from hgk import Algorithm1, HGKRegressor, inhomogeneous, two_layers
from hgk.bench.methods import Fitted, Method
from hgk.events import ArchitectureChosen, last


class OursPaper(Method):
    name = "Ours (paper)"
    label = "Algorithm 1, inhomogeneous and six depth-2 kernels, 5 folds"
    accelerated = True

    def fit(self, X, y, seed, effort):
        model = self._short(X.shape[1], seed) if effort.quick else HGKRegressor("paper", random_state=seed)
        model.set_params(device=effort.device).fit(X, y)
        chosen = last(model.history_, ArchitectureChosen)
        risks = [] if chosen is None else list(chosen.risks)
        (_, kernel, _, _), *_ = model.machine_.terms
        nodes = len(kernel.architecture.coordinates)
        return Fitted(model.predict, {"nodes": nodes, "risks": risks, "lam": model.lam_, "gamma": model.gamma_})

    def _short(self, d, seed):
        """The same protocol with two architectures and a few steps of Algorithm 1."""
        architectures = [inhomogeneous(d), two_layers(d, 4, rng=np.random.default_rng(seed))]
        optimiser = Algorithm1(M=1, L=2, N1=30, N2=20, N3=4)
        return HGKRegressor("paper", architecture=architectures, optimiser=optimiser, random_state=seed)

"""RealMLP with pytabkit's tuned defaults; the early-stopping epoch is chosen on rows it sets aside."""

from hgk.bench.methods import Fitted, Method


class RealMLP(Method):
    name = "RealMLP"
    label = "multilayer perceptron, pytabkit's tuned defaults"
    requires = ("pytabkit", "pytorch_lightning")
    accelerated = True

    def fit(self, X, y, seed, effort):
        from pytabkit import RealMLP_TD_Regressor

        sizes = {"n_epochs": 32} if effort.quick else {}
        model = RealMLP_TD_Regressor(random_state=seed, n_threads=effort.threads, device=effort.device, **sizes)
        return Fitted(model.fit(X, y).predict)

"""xRFM, recursive feature machines in a tree, with pytabkit's defaults."""

from hgk.bench.methods import Fitted, Method


class XRFM(Method):
    name = "xRFM"
    label = "recursive feature machines, pytabkit's defaults"
    requires = ("pytabkit", "xrfm")
    accelerated = True

    def fit(self, X, y, seed, effort):
        from pytabkit import XRFM_D_Regressor

        model = XRFM_D_Regressor(random_state=seed, n_threads=effort.threads, device=effort.device).fit(X, y)
        return Fitted(model.predict)

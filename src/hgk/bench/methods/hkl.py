"""Bach's hierarchical kernel learning: sparse sums of products of one-dimensional kernels, λ and basis by 5 folds."""

from hgk.arrays import threads
from hgk.bench.methods import Fitted, Method
from hgk.bench.peers.hkl import HKLRegressor
from hgk.bench.peers.hkl.estimator import BASES


class HKL(Method):
    name = "HKL"
    label = "hierarchical kernel learning, λ and basis by 5 folds"
    accelerated = True

    def fit(self, X, y, seed, effort):
        def fitted(basis):
            model = HKLRegressor(basis, device=effort.device, random_state=seed)
            return model.set_params(**({"max_nodes": 50} if effort.quick else {})).fit(X, y)

        with threads(effort.threads):
            models = {basis: fitted(basis) for basis in BASES}
        risks = {basis: float(model.cv_risks_.min()) for basis, model in models.items()}
        model = models[min(risks, key=risks.__getitem__)]
        chosen = {
            "basis": model.basis,
            "risks": risks,
            "lam": model.lam_,
            "nodes": len(model.nodes_),
            "columns": sorted({column for node in model.nodes_ for column, _ in node}),
            "relative_gap": model.gap_ / model.objective_ if model.objective_ > 0 else 0.0,
        }
        return Fitted(model.predict, chosen)

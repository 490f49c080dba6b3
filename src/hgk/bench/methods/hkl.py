"""Bach's hierarchical kernel learning: sparse sums of products of one-dimensional kernels, λ by 5 folds."""

from hgk.arrays import threads
from hgk.bench.methods import Fitted, Method
from hgk.hkl import HKLRegressor


class HKL(Method):
    name = "HKL"
    label = "hierarchical kernel learning, λ by 5 folds"
    accelerated = True

    def fit(self, X, y, seed, effort):
        model = HKLRegressor(device=effort.device, random_state=seed)
        if effort.quick:
            model.set_params(max_nodes=50)
        with threads(effort.threads):
            model.fit(X, y)
        chosen = {
            "basis": model.basis,
            "lam": model.lam_,
            "nodes": len(model.nodes_),
            "columns": sorted({column for node in model.nodes_ for column, _ in node}),
            "relative_gap": model.gap_ / model.objective_ if model.objective_ > 0 else 0.0,
        }
        return Fitted(model.predict, chosen)

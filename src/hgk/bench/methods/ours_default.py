"""HGKRegressor as it comes."""

from hgk import HGKRegressor
from hgk.bench.methods import Fitted, Method


class OursDefault(Method):
    name = "Ours (default)"
    label = "HGKRegressor's defaults: leave-one-out gradients, kinds of trees averaged"
    accelerated = True

    def fit(self, X, y, seed, effort):
        model = HGKRegressor(device=effort.device, random_state=seed, time_budget=2 if effort.quick else None).fit(X, y)
        trials = [e for e in model.history_ if e["stage"] == "candidate"]
        held_out = {str(e["candidate"]): e.get("risk", e["honest"]) for e in trials}
        averaged = next((e["candidates"] for e in reversed(model.history_) if e["stage"] == "chosen"), None)
        return Fitted(model.predict, {"averaged": averaged, "held_out": held_out})

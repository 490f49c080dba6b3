"""HGKRegressor as it comes."""

from hgk import HGKRegressor
from hgk.bench.methods import Fitted, Method
from hgk.events import Chosen, Judged, LeavesChosen, last, of_kind


class OursDefault(Method):
    name = "Ours (default)"
    label = "HGKRegressor's defaults: leave-one-out gradients, kinds of trees averaged"
    accelerated = True

    def fit(self, X, y, seed, effort):
        model = HGKRegressor(device=effort.device, random_state=seed, time_budget=2 if effort.quick else None).fit(X, y)
        judged, chosen = of_kind(model.history_, Judged), last(model.history_, Chosen)
        held_out = {e.candidate: e.honest if e.risk is None else e.risk for e in judged}
        averaged = None if chosen is None else list(chosen.candidates)
        leaves = last(model.history_, LeavesChosen)
        told = {"averaged": averaged, "held_out": held_out}
        return Fitted(model.predict, told if leaves is None else told | {"leaves": leaves.words})

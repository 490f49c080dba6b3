"""HGKRegressor with leaves from 3000 rows, for ``hgk bench`` with HGK_BENCH_METHODS=experiments/default/methods."""

from hgk import HGKRegressor
from hgk.bench.methods import Fitted, Method
from hgk.events import LeavesChosen, last
from hgk.learners import Default, Settings, register


class OursWithLeaves(Method):
    name = "Ours (leaves from 3000 rows)"
    label = "HGKRegressor, leaves averaged with the machine on all rows"

    def fit(self, X, y, seed, effort):
        register("leaves from 3000 rows", Default(Settings(divided=3000)))
        model = HGKRegressor("leaves from 3000 rows", random_state=seed).fit(X, y)
        leaves = last(model.history_, LeavesChosen)
        return Fitted(model.predict, {} if leaves is None else {"leaves": leaves.words})

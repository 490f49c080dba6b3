"""Annealing, descent and Algorithm 1: the formulas, the conditions, the book-keeping."""

import math

import numpy as np
import pytest
import torch

from cases import ARCHITECTURES, random_kernel, random_rows
from hgk import arrays
from hgk.events import Guarded, Searched
from hgk.executor import Threads
from hgk.kernels import inhomogeneous, isotropic, two_layers
from hgk.machines import Rows, clipped_risk, train
from hgk.optimisers import Algorithm1, algorithm1, annealing
from hgk.optimisers.annealing import LONGEST_EDGE, MOVE, Annealing, ExponentBlock, accepts, anneal, draws
from hgk.optimisers.armijo import SLOPE, Descending, descend
from hgk.optimisers.objective import Objective, Risk
from hgk.progress import Progress
from tasks import ClippedAt

each_architecture = pytest.mark.parametrize("architecture", ARCHITECTURES.values(), ids=ARCHITECTURES.keys())


def objective(architecture, outputs=1):
    D1, D2 = random_rows(40, outputs=outputs), random_rows(30, outputs=outputs, seed=1, weighted=True)
    machine = train(random_kernel(architecture, seed=3), D1, 1e-3)
    clip = float(machine(D2.X).abs().quantile(0.8))  # some predictions are clipped, most are not
    return Objective(machine.kernel, D1.X, machine.alpha, D2, ClippedAt(clip)), machine.kernel.W


@pytest.mark.parametrize("delta", [-0.1, 0.0, 0.01, 0.1])
@pytest.mark.parametrize("i", [1, 50, 400])
def test_acceptance_frequencies_follow_the_papers_formula(delta, i):
    N, risk, trials = 400, 0.5, 20_000
    rng = np.random.default_rng(0)
    accepted = np.mean([accepts(delta, risk, i, N, rng.random()) for _ in range(trials)])
    p = 1.0 if delta < 0 else 0.5 * math.exp(-100 * i / math.sqrt(N) * delta / risk)
    assert accepted == pytest.approx(p, abs=4 * math.sqrt(p * (1 - p) / trials) + 1e-12)


@each_architecture
def test_an_annealing_step_updates_the_exponent_as_if_it_were_computed_anew(architecture, monkeypatch):
    monkeypatch.setattr(arrays.tiling, "TILE", 300)  # several row blocks
    target, W = objective(architecture, outputs=2)
    block, rng = ExponentBlock(target, W), np.random.default_rng(0)
    assert block.risk == pytest.approx(target.risk(W), rel=1e-10)
    for layer, mask in enumerate(architecture.free()[: architecture.depth]):
        for index in map(tuple, mask.nonzero().tolist()):
            value = float(rng.uniform(0.2, 1.5))
            changed = [w.clone() for w in block.sweep.W]
            changed[layer][index] = value
            assert block.propose(layer, index, value) == pytest.approx(target.risk(tuple(changed)), rel=1e-9)
            if rng.random() < 0.5:
                block.accept()
                assert block.risk == pytest.approx(target.risk(block.sweep.W), rel=1e-9)


@pytest.mark.parametrize("name", ["smooth and rough", "rough, depth 1", "two exponents"])
def test_a_rejected_proposal_leaves_no_trace_in_shared_buffers(name):
    """All rows in one tile: the proposal and the current weights use the same memory in turn."""
    architecture = ARCHITECTURES[name]
    target, W = objective(architecture)
    block = ExponentBlock(target, W)
    places = [tuple(index) for index in architecture.mask.nonzero().tolist()]
    for index in places:
        changed = W[0].clone()
        changed[index] = 2.0
        assert block.propose(0, index, 2.0) == pytest.approx(target.risk((changed, *W[1:])), rel=1e-9)
    assert block.propose(0, places[0], float(W[0][places[0]])) == pytest.approx(target.risk(W), rel=1e-9)


def test_annealing_changes_weights_leaves_its_start_alone_and_reports_the_risk_of_its_end():
    target, W = objective(two_layers(5, 3, 2))
    before = [w.clone() for w in W]
    found = anneal(target, W, 60, np.random.default_rng(0))
    assert all(torch.equal(a, b) for a, b in zip(W, before, strict=True))
    assert found.risk == pytest.approx(target.risk(found.W), rel=1e-9)
    assert 0 < found.accepted <= found.steps == 60
    assert not found.W[0][~two_layers(5, 3, 2).mask].any()


def test_an_edge_that_does_not_matter_stays_short_enough_for_the_kernel_to_stay_definite():
    """A node whose v are all but 0: nothing tells its edge where to go, and at 10⁸ rounding is all there is to k."""
    architecture, rows = two_layers(4, 2, 4), random_rows(60, d=4)
    W = [w.clone() for w in architecture.start(rows.spread, np.random.default_rng(0))]
    W[0][1], W[1][1] = 1e-9, 900.0
    kernel = random_kernel(architecture).with_weights(W)
    machine = train(kernel, rows[:40], 1e-3)
    at = Objective(kernel, machine.X, machine.alpha, rows[40:], ClippedAt(0.8))
    lengths = [float(anneal(at, W, 200, np.random.default_rng(seed)).W[1][1]) for seed in range(4)]
    assert min(lengths) < 500  # it moves, but
    assert 500 < max(lengths) <= LONGEST_EDGE
    for length, definite in ((LONGEST_EDGE, True), (1e8, False)):
        W[0][1], W[1][1] = 1 / length, length
        smallest = float(torch.linalg.eigvalsh(kernel.with_weights(W).matrix(rows.X))[0])
        assert (smallest > 1e-6) == definite
    W[1][1] = 2000.0  # given so: it may get shorter
    assert float(anneal(at, W, 200, np.random.default_rng(0)).W[1][1]) <= 2000.0


@each_architecture
def test_gradient_of_the_clipped_risk_equals_finite_differences(architecture):
    target, W = objective(architecture, outputs=2)
    t = target.kernel.multiply(target.D2.X, target.X1, target.alpha)
    assert 0 < int((t.abs() > target.problem.clip).sum()) < t.numel()  # some are clipped, some are not
    risk, gradient = target.gradient(W)
    assert risk == pytest.approx(clipped_risk(t, target.D2, target.problem.clip))
    h = 1e-6
    for layer, mask in enumerate(architecture.free()):
        for index in map(tuple, mask.nonzero().tolist()):
            up, down = [w.clone() for w in W], [w.clone() for w in W]
            up[layer][index] += h
            down[layer][index] -= h
            numeric = (target.risk(tuple(up)) - target.risk(tuple(down))) / (2 * h)
            assert float(gradient[layer][index]) == pytest.approx(numeric, rel=1e-4, abs=1e-7)


@each_architecture
def test_every_descent_step_satisfies_the_armijo_condition(architecture):
    target, W = objective(architecture)
    found = descend(target, W, 8)
    assert found.steps
    for step in found.steps:
        assert step["after"] <= step["before"] - SLOPE * step["eta"] * step["slope"]
    for one, next_one in zip(found.steps, found.steps[1:], strict=False):
        assert next_one["before"] == pytest.approx(one["after"], rel=1e-9)
    assert found.risk == pytest.approx(target.risk(found.W), rel=1e-9)


def test_descent_ends_at_a_local_minimum_and_says_so():
    target, W = objective(inhomogeneous(5))
    found = descend(target, W, 500)
    assert found.at_minimum
    assert len(found.steps) < 500
    assert not descend(target, W, 1).at_minimum


class Watching(Threads):
    """Threads that keep what was asked for, and what came of it."""

    def drive(self, searches):
        self.__dict__["asked"] = []
        return super().drive([self._watched(search) for search in searches])

    def _watched(self, search):
        answer = None
        while True:
            try:
                request = search.send(answer)
            except StopIteration as end:
                return end.value
            answer = yield request
            self.asked.append((request, answer))

    def of_kind(self, kind):
        return [(request, answer) for request, answer in self.asked if isinstance(request, kind)]


def learned(optimiser, architecture, rows, rng, progress, executor=None):
    return (executor or Threads()).drive([optimiser.search(architecture, rows, rng, progress)])[0]


def run(rows, progress=None, seed=0, executor=None, **settings):
    settings = {"M": 3, "L": 3, "N1": 15, "N2": 10, "N3": 3} | settings
    progress = progress or Progress()
    rng = np.random.default_rng(seed)
    return learned(Algorithm1(**settings), two_layers(5, 4), rows, rng, progress, executor), progress.history


def test_algorithm1_returns_the_weights_with_the_smallest_risk_on_D3():
    executor = Watching()
    kernel, history = run(random_rows(120), executor=executor)
    assert all(isinstance(event, Searched) for event in history)
    tried = [(request, risk) for request, risk in executor.of_kind(Risk) if request.rows is not None]  # on D3
    (D3,) = {id(request.rows): request.rows for request, _ in tried}.values()
    assert len(D3) == 40
    for event, (request, risk) in zip(history, tried, strict=True):
        assert event.risk_D2 == pytest.approx(request.objective.risk(request.W), rel=1e-9)
        assert event.risk_D3 == risk == pytest.approx(request.objective.risk(request.W, D3))
    risks = [event.risk_D3 for event in history]
    assert history[-1].best_D3 == min(risks)
    assert all(torch.equal(a, b) for a, b in zip(kernel.W, tried[int(np.argmin(risks))][0].W, strict=True))


def test_algorithm1_switches_to_annealing_only_after_a_local_minimum_and_reshuffles_only_without_progress(monkeypatch):
    reshuffled, executor = [], Watching()
    reshuffle = algorithm1._Run._reshuffle

    def spy_reshuffle(self):
        D3, together = self.D3, set(self.D1) | set(self.D2)
        sizes = len(self.D1), len(self.D2)
        before = set(self.D1)
        reshuffle(self)
        assert set(self.D1) != before
        assert self.D3 is D3
        assert set(self.D1) | set(self.D2) == together
        assert (len(self.D1), len(self.D2)) == sizes
        reshuffled.append(self.best_risk)

    monkeypatch.setattr(algorithm1._Run, "_reshuffle", spy_reshuffle)
    _, history = run(random_rows(120), executor=executor, M=6, L=6, N3=200)
    minima = [descent.at_minimum for _, descent in executor.of_kind(Descending)]
    assert any(minima)
    steps = [event.how for event in history]
    outcomes = iter(minima)
    for now, after in zip(steps, [*steps[1:], "start"], strict=True):
        reached = next(outcomes) if now == "descend" else False
        if after != "start":
            assert after == ("anneal" if reached else "descend")
    rounds = [[event.best_D3 for event in history if event.round == i] for i in range(6)]
    # "test error did not decrease in the loop": from the start of the round to its end
    assert len(reshuffled) == sum(best[-1] >= best[0] for best in rounds)
    assert 0 < len(reshuffled) < 6


def test_algorithm1_anneals_N1_steps_first_and_N2_after_a_minimum_from_where_it_was(monkeypatch):
    trained, executor = [], Watching()
    train_ = algorithm1._Run._train

    def spy_train(self, W, *rest):
        objective = yield from train_(self, W, *rest)
        trained.append((W, objective, set(self.D1), set(self.D2)))
        return objective

    monkeypatch.setattr(algorithm1._Run, "_train", spy_train)
    run(random_rows(120), executor=executor, M=3, L=6, N1=7, N2=5, N3=300)
    annealed = [request for request, _ in executor.of_kind(Annealing)]
    firsts = [request for request in annealed if request.steps == 7]
    assert {request.steps for request in annealed} == {7, 5}
    assert len(firsts) == len(trained) == 3
    for request, (W_trained, objective, D1, D2) in zip(firsts, trained, strict=True):
        assert request.objective is objective
        assert request.W is W_trained  # annealing starts at the weights that α was trained with
        assert len(objective.X1) == len(D1)  # α lives on D1 alone
        assert len(objective.D2) == len(D2)
        assert not D1 & D2
    assert not torch.equal(trained[1][0][0], trained[0][0][0])  # later rounds go on from where the last ended


def test_draws_are_made_step_by_step():
    """So that a seed gives what it always gave, whatever the number of steps."""
    rng = np.random.default_rng(3)
    for place, factor, r in zip(*draws(7, 20, np.random.default_rng(3)), strict=True):
        assert place == rng.integers(7)
        assert factor == math.exp(MOVE * rng.standard_normal())
        assert r == rng.random()


def test_annealing_reaches_every_weight_and_cools(monkeypatch):
    target, W = objective(ARCHITECTURES["depth 3, uneven"])
    seen = []
    accepts_ = annealing.accepts

    def spy(delta, risk, i, N, r):
        seen.append((i, N))
        return accepts_(delta, risk, i, N, r)

    monkeypatch.setattr(annealing, "accepts", spy)
    found = anneal(target, W, 400, np.random.default_rng(0))
    for w, new, mask in zip(W, found.W, ARCHITECTURES["depth 3, uneven"].free(), strict=True):
        assert bool((w != new)[mask].all())
    assert seen == [(i, 400) for i in range(1, 401)]


def test_the_guard_returns_the_plain_kernel_when_learning_does_not_pay():
    progress, plain = Progress(), 0
    for seed in range(6):  # labels without any structure: learning can only seem to pay, and rarely
        rng = np.random.default_rng(seed)
        noise = random_rows(90)
        noise.Y.copy_(torch.from_numpy(rng.uniform(-1, 1, (90, 1))))
        kernel = learned(Algorithm1(M=1, L=1, guard=True), two_layers(5, 4), noise, rng, progress)
        assert isinstance(progress.history[-1], Guarded)
        plain += kernel.architecture.tied
    assert plain >= 4
    X = rng.uniform(-1, 1, (300, 5))
    easy = Rows(*map(torch.from_numpy, (X, np.sin(5 * X[:, :1]), np.ones(300))))  # one column of five
    kernel = learned(Algorithm1(M=3, guard=True), two_layers(5, 4), easy, rng, progress)
    assert not kernel.architecture.tied


def test_the_same_seed_gives_the_same_weights_and_another_seed_others():
    rows = random_rows(80)
    one, two, other = (run(rows, seed=s)[0] for s in (0, 0, 1))
    assert all(torch.equal(a, b) for a, b in zip(one.W, two.W, strict=True))
    assert not torch.equal(one.W[0], other.W[0])


def test_stopped_algorithm1_returns_the_best_so_far():
    progress = Progress(lambda event: event.how == "descend")
    kernel, history = run(random_rows(80), progress)
    assert [event.how for event in history] == ["start", "descend"]
    assert kernel.W[0].shape == (4, 5)


def test_nothing_is_learned_for_the_plain_kernel_or_from_a_handful_of_rows():
    rng = np.random.default_rng(0)
    progress = Progress()
    plain = learned(Algorithm1(), isotropic(5), random_rows(80), rng, progress)
    assert torch.equal(plain.W[0], torch.ones(1, 5, dtype=torch.float64))
    learned(Algorithm1(), two_layers(5, 4), random_rows(8), rng, progress)
    assert progress.history == []


def test_settings_are_checked():
    assert Algorithm1.paper() == Algorithm1(M=15, L=10, N1=1000, N2=500, N3=10)
    with pytest.raises(ValueError, match="N2=0 was given to Algorithm1"):
        Algorithm1(N2=0)

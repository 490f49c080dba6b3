"""Annealing, descent and Algorithm 1: the formulas, the conditions, the book-keeping."""

import math

import numpy as np
import pytest
import torch

from cases import ARCHITECTURES, random_kernel, random_rows
from hgk import arrays
from hgk.kernels import inhomogeneous, isotropic, two_layers
from hgk.machines.base import Rows, clipped_risk, train
from hgk.optimisers import Algorithm1, algorithm1, annealing
from hgk.optimisers.annealing import LONGEST, MOVE, Annealing, Block, accepts, anneal, draws
from hgk.optimisers.armijo import SLOPE, Descending, descend
from hgk.optimisers.objective import Objective
from hgk.progress import Progress

each_architecture = pytest.mark.parametrize("architecture", ARCHITECTURES.values(), ids=ARCHITECTURES.keys())


def objective(architecture, outputs=1):
    D1, D2 = random_rows(40, outputs=outputs), random_rows(30, outputs=outputs, seed=1, weighted=True)
    machine = train(random_kernel(architecture, seed=3), D1, 1e-3)
    clip = float(machine(D2.X).abs().quantile(0.8))  # some predictions are clipped, most are not
    return Objective(machine.kernel, D1.X, machine.alpha, D2, clip), machine.kernel.W


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
    monkeypatch.setattr(arrays, "TILE", 300)  # several row blocks
    target, W = objective(architecture, outputs=2)
    block, rng = Block(target, W), np.random.default_rng(0)
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
    block = Block(target, W)
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
    at = Objective(kernel, machine.X, machine.alpha, rows[40:], 0.8)
    lengths = [float(anneal(at, W, 200, np.random.default_rng(seed)).W[1][1]) for seed in range(4)]
    assert min(lengths) < 500  # it moves, but
    assert 500 < max(lengths) <= LONGEST
    for length, definite in ((LONGEST, True), (1e8, False)):
        W[0][1], W[1][1] = 1 / length, length
        smallest = float(torch.linalg.eigvalsh(kernel.with_weights(W).matrix(rows.X))[0])
        assert (smallest > 1e-6) == definite
    W[1][1] = 2000.0  # given so: it may get shorter
    assert float(anneal(at, W, 200, np.random.default_rng(0)).W[1][1]) <= 2000.0


@each_architecture
def test_gradient_of_the_clipped_risk_equals_finite_differences(architecture):
    target, W = objective(architecture, outputs=2)
    t = target.kernel.multiply(target.D2.X, target.X1, target.alpha)
    assert 0 < int((t.abs() > target.clip).sum()) < t.numel()  # some are clipped, some are not
    risk, gradient = target.gradient(W)
    assert risk == pytest.approx(clipped_risk(t, target.D2, target.clip))
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


def run(rows, progress=None, seed=0, **settings):
    settings = {"M": 3, "L": 3, "N1": 15, "N2": 10, "N3": 3} | settings
    progress = progress or Progress()
    kernel = Algorithm1(**settings).learn(two_layers(5, 4), rows, 1.0, np.random.default_rng(seed), progress)
    return kernel, progress.history


def test_algorithm1_returns_the_weights_with_the_smallest_risk_on_D3(monkeypatch):
    tried = []
    remember = algorithm1._Run._remember

    def spy(self, objective, W, risk_D2, *rest):
        assert risk_D2 == pytest.approx(objective.risk(W), rel=1e-9)
        tried.append((objective.risk(W, self.D3), W))
        return remember(self, objective, W, risk_D2, *rest)

    monkeypatch.setattr(algorithm1._Run, "_remember", spy)
    kernel, history = run(random_rows(120))
    risks = [event["risk_D3"] for event in history]
    assert risks == pytest.approx([risk for risk, _ in tried])
    assert history[-1]["best_D3"] == min(risks)
    assert all(torch.equal(a, b) for a, b in zip(kernel.W, tried[int(np.argmin(risks))][1], strict=True))


def test_algorithm1_switches_to_annealing_only_after_a_local_minimum_and_reshuffles_only_without_progress(monkeypatch):
    reshuffled, minima = [], []
    reshuffle, descend_all = algorithm1._Run._reshuffle, algorithm1.FULFIL[Descending]

    def spy_descend(wishes):
        found = descend_all(wishes)
        minima.extend(descent.at_minimum for descent in found)
        return found

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
    monkeypatch.setitem(algorithm1.FULFIL, Descending, spy_descend)
    _, history = run(random_rows(120), M=6, L=6, N3=200)
    assert any(minima)
    steps = [event["step"] for event in history]
    outcomes = iter(minima)
    for now, after in zip(steps, [*steps[1:], "start"], strict=True):
        reached = next(outcomes) if now == "descend" else False
        if after != "start":
            assert after == ("anneal" if reached else "descend")
    rounds = [[event["best_D3"] for event in history if event["round"] == i] for i in range(6)]
    # "test error did not decrease in the loop": from the start of the round to its end
    assert len(reshuffled) == sum(best[-1] >= best[0] for best in rounds)
    assert 0 < len(reshuffled) < 6


def test_algorithm1_anneals_N1_steps_first_and_N2_after_a_minimum_from_where_it_was(monkeypatch):
    calls, trained = [], []
    anneal_all, train_ = algorithm1.FULFIL[Annealing], algorithm1._Run._train

    def spy_anneal(wishes):
        calls.extend((wish.steps, wish.objective, wish.W) for wish in wishes)
        return anneal_all(wishes)

    def spy_train(self, W, *rest):
        objective = yield from train_(self, W, *rest)
        trained.append((W, objective, set(self.D1), set(self.D2)))
        return objective

    monkeypatch.setitem(algorithm1.FULFIL, Annealing, spy_anneal)
    monkeypatch.setattr(algorithm1._Run, "_train", spy_train)
    run(random_rows(120), M=3, L=6, N1=7, N2=5, N3=300)
    firsts = [call for call in calls if call[0] == 7]
    assert {steps for steps, *_ in calls} == {7, 5}
    assert len(firsts) == len(trained) == 3
    for (_, target, W), (W_trained, trained_target, D1, D2) in zip(firsts, trained, strict=True):
        assert target is trained_target
        assert W is W_trained  # annealing starts at the weights that α was trained with
        assert len(target.X1) == len(D1)  # α lives on D1 alone
        assert len(target.D2) == len(D2)
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
        kernel = Algorithm1(M=1, L=1, guard=True).learn(two_layers(5, 4), noise, 1.0, rng, progress)
        assert progress.history[-1]["stage"] == "guard"
        plain += kernel.architecture.tied
    assert plain >= 4
    X = rng.uniform(-1, 1, (300, 5))
    easy = Rows(*map(torch.from_numpy, (X, np.sin(5 * X[:, :1]), np.ones(300))))  # one column of five
    kernel = Algorithm1(M=3, guard=True).learn(two_layers(5, 4), easy, 1.0, rng, progress)
    assert not kernel.architecture.tied


def test_the_same_seed_gives_the_same_weights_and_another_seed_others():
    rows = random_rows(80)
    one, two, other = (run(rows, seed=s)[0] for s in (0, 0, 1))
    assert all(torch.equal(a, b) for a, b in zip(one.W, two.W, strict=True))
    assert not torch.equal(one.W[0], other.W[0])


def test_stopped_algorithm1_returns_the_best_so_far():
    progress = Progress(lambda event: event["step"] == "descend")
    kernel, history = run(random_rows(80), progress)
    assert [event["step"] for event in history] == ["start", "descend"]
    assert kernel.W[0].shape == (4, 5)


def test_nothing_is_learned_for_the_plain_kernel_or_from_a_handful_of_rows():
    rng = np.random.default_rng(0)
    progress = Progress()
    plain = Algorithm1().learn(isotropic(5), random_rows(80), 1.0, rng, progress)
    assert torch.equal(plain.W[0], torch.ones(1, 5, dtype=torch.float64))
    Algorithm1().learn(two_layers(5, 4), random_rows(8), 1.0, rng, progress)
    assert progress.history == []


def test_settings_are_checked():
    assert Algorithm1.paper() == Algorithm1(M=15, L=10, N1=1000, N2=500, N3=10)
    with pytest.raises(ValueError, match="N2=0 was given to Algorithm1"):
        Algorithm1(N2=0)

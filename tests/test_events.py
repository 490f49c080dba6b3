"""What a fit tells: typed events, which are condensed and kept in files, and what is read from them."""

import json
import math
from dataclasses import dataclass, fields
from itertools import pairwise
from types import NoneType, UnionType
from typing import get_args, get_origin, get_type_hints

import numpy as np
import pytest
from sklearn.datasets import make_friedman1

import hgk
import hgk.events
from hgk import Algorithm1, HGKClassifier, HGKRegressor, arrays, inhomogeneous, two_layers
from hgk.events import (
    ASIDE,
    BY_FOLDS,
    ArchitectureChosen,
    Centres,
    Chosen,
    Counted,
    Event,
    GridChosen,
    Guarded,
    Held,
    Judged,
    LamChosen,
    Optimism,
    Planned,
    Refined,
    Searched,
    Step,
    Trained,
    Watched,
    condensed,
    honest_error,
    last,
    of_kind,
)
from hgk.learners import PRESETS, Default
from hgk.learners.default.effort import LearningEffort
from hgk.progress import Progress
from hgk.storable import KNOWN, Malformed, storable
from hgk.storage import ModelFileError
from hgk.storage.codec import DocumentReader, DocumentWriter
from tasks import default_settings

KINDS = [kind for kind in vars(hgk.events).values() if isinstance(kind, type) and issubclass(kind, Event)][1:]


def through_json(event):
    """As a file holds it, and back, where any event is expected."""
    encoder = DocumentWriter()
    return DocumentReader(encoder.arrays)(json.loads(json.dumps(encoder(event), allow_nan=False)), Event, "history")


# ------------------------------------------------------------------------------------------------- every class

SAMPLES = {bool: True, int: 3, float: 0.25, str: "a"}


def sample(hint):
    """A value of this type."""
    if isinstance(hint, UnionType):
        return sample(next(kind for kind in get_args(hint) if kind is not NoneType))
    if get_origin(hint) is tuple:
        return (sample(get_args(hint)[0]),) * 2
    return SAMPLES[hint]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_event_is_storable_and_comes_back_with_all_fields(kind):
    hints = get_type_hints(kind)
    event = kind(**{f.name: sample(hints[f.name]) for f in fields(kind)})
    assert through_json(event) == event
    assert type(through_json(event)) is kind
    assert KNOWN[kind.__name__] is kind


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_event_is_one_line_of_words_and_numbers(kind):
    hints = get_type_hints(kind)
    event = kind(**{f.name: sample(hints[f.name]) for f in fields(kind)})
    text = str(event)
    assert text.startswith(kind.__name__.lower())
    assert "\n" not in text
    assert all(f.name in text.split() for f in fields(kind))


def test_a_line_leaves_out_what_is_not_known():
    assert str(Watched(step=10, risk=1 / 3, fold=0)) == "watched  fold 0  step 10  risk 0.33333"


@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf])
def test_numbers_that_no_file_holds_are_left_out(odd):
    step = Step(step=1, criterion=odd, lam=0.1, candidate="maps").finite()
    assert step == Step(step=1, criterion=None, lam=0.1, candidate="maps")
    chosen = ArchitectureChosen(risk=0.1, risks=(0.2, odd, 0.1)).finite()
    assert chosen == ArchitectureChosen(risk=0.1, risks=(0.2, None, 0.1))
    assert through_json(step) == step
    assert through_json(chosen) == chosen


def test_an_event_of_finite_numbers_is_itself():
    for event in (Step(step=1, criterion=0.5, lam=0.1), ArchitectureChosen(risk=0.1, risks=(0.1,)), Held(risk=None)):
        assert event.finite() is event


@pytest.mark.parametrize(
    "event",
    [
        Held(risk=-0.1),
        Judged(criterion=0.1, honest=-1.0, lam=1.0),
        Refined(values=3, taken=True, number=-1.0, level=0.1),
    ],
)
def test_negative_risks_are_refused(event):
    with pytest.raises(Malformed, match="is negative"):
        through_json(event)


def test_the_optimism_of_a_kind_is_how_much_the_criterion_flatters_it():
    assert Judged(criterion=0.1, honest=0.4, lam=1.0).optimism == pytest.approx(0.3)
    assert math.isnan(Judged(criterion=None, honest=0.4, lam=1.0).optimism)


# ---------------------------------------------------------------------------------------------- events of fits


@pytest.fixture(scope="module")
def histories():
    X, y = make_friedman1(120, n_features=5, noise=0.5, random_state=0)
    grades = np.digitize(y, np.quantile(y, [0.3, 0.7])).astype(float)
    short = Algorithm1(1, 1, 5, 3, 1)
    trees = [inhomogeneous(5), two_layers(5, 2, 3)]
    with default_settings(effort=LearningEffort(9, 10, 40, 5, 50, 3, 60), many=100, watched=20):
        told = {
            "default": HGKRegressor(random_state=0).fit(X, y),
            "few values": HGKRegressor(random_state=0, time_budget=1.0).fit(X, grades),
            "squared hinge": HGKClassifier(loss="squared_hinge", groups={"pair": [0, 1]}, random_state=0).fit(
                X, grades > 0
            ),
            "classes": HGKClassifier(random_state=0).fit(X, grades),
        }
    told |= {
        "plain": HGKClassifier("plain", random_state=0).fit(X, grades),
        "hinge": HGKClassifier("plain", loss="hinge", random_state=0).fit(X, grades > 0),
        "guarded": HGKRegressor("algorithm1", random_state=0).fit(X, y),
        "paper": HGKRegressor("paper", architecture=trees, optimiser=short, random_state=0).fit(X, y),
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arrays.memory, "EXACT", 100)
        told["centres"] = HGKRegressor(random_state=0).fit(X, y)
        with default_settings(divided=100, leaf_rows=(30,), leaf_steps=(2, 2), centres_beside=20):
            told["leaves"] = HGKRegressor(random_state=0).fit(X, y)
    told["compressed"] = told["guarded"].compress(0.5)
    return told


def test_every_event_of_a_fit_round_trips(histories):
    for model in histories.values():
        for event in model.history_:
            assert through_json(event.finite()) == event.finite()


def test_small_fits_tell_every_kind_of_event(histories):
    """So that the test above is about all of them."""
    assert {type(event) for model in histories.values() for event in model.history_} == set(KINDS)


def test_a_file_keeps_the_history(histories, tmp_path):
    for name, model in histories.items():
        hgk.save(model, tmp_path / f"{name}.hgk")
        kept = hgk.load(tmp_path / f"{name}.hgk").history_
        assert list(kept) == [event.finite() for event in condensed(model.history_, 50)]


def test_callbacks_get_the_events_of_the_history():
    X, y = make_friedman1(60, n_features=5, random_state=0)
    told = []
    model = HGKRegressor("plain", random_state=0, callback=told.append).fit(X, y)
    assert all(isinstance(event, Event) for event in told)
    assert tuple(told) == model.history_


def test_what_an_event_is_about_is_added_on_its_way():
    progress = Progress()
    progress.of(candidate="maps", fold=2).report(Watched(step=1, risk=0.5))
    progress.of(architecture=1).of(fold=0).report(Held(risk=0.1))
    assert progress.history == [
        Watched(step=1, risk=0.5, candidate="maps", fold=2),
        Held(risk=0.1, architecture=1, fold=0),
    ]


@storable
@dataclass(frozen=True, kw_only=True)
class Rested(Event):
    """An event from outside the package."""

    minutes: float


@dataclass(frozen=True, kw_only=True)
class Unheard(Event):
    """One that was not declared storable."""

    minutes: float


@dataclass(frozen=True)
class Tells(Default):
    """A learner that tells of something first."""

    event: Event = Rested(minutes=5.0)

    def learn(self, task, rng, progress, executor):
        progress.report(self.event)
        return super().learn(task, rng, progress, executor)


def test_an_event_from_outside_the_package_is_kept_in_files(tmp_path, monkeypatch):
    X, y = make_friedman1(40, n_features=5, random_state=0)
    monkeypatch.setitem(PRESETS, "default", Tells())
    hgk.save(HGKRegressor(random_state=0).fit(X, y), tmp_path / "told.hgk")
    assert last(hgk.load(tmp_path / "told.hgk").history_, Rested) == Rested(minutes=5.0)
    monkeypatch.setitem(PRESETS, "default", Tells(event=Unheard(minutes=5.0)))
    with pytest.raises(ModelFileError, match="Unheard"):  # before there is a file that cannot be read
        hgk.save(HGKRegressor(random_state=0).fit(X, y), tmp_path / "unheard.hgk")
    assert not (tmp_path / "unheard.hgk").exists()


# ------------------------------------------------------------------------------------------- what is read from them


def test_events_of_a_class_come_in_their_order():
    history = [Held(risk=0.3), Watched(step=1, risk=0.2), Held(risk=0.1)]
    assert of_kind(history, Held) == [history[0], history[2]]
    assert last(history, Held) is history[2]
    assert of_kind(history, Event) == history
    assert of_kind(history, Optimism) == []
    assert last(history, Optimism) is None


def test_of_every_run_of_steps_some_are_kept_evenly_spaced():
    runs = {("maps", 0): 137, ("maps", 1): 50, ("warped", 0): 7}
    steps = [
        Step(step=i, criterion=0.1, lam=0.1, candidate=candidate, fold=fold)
        for i in range(137)
        for (candidate, fold), n in runs.items()
        if i < n  # side by side
    ]
    history = [*steps, Watched(step=1, risk=0.5, candidate="maps", fold=0), Chosen(candidates=("maps",))]
    kept = condensed(history, 50)
    places = [next(i for i, event in enumerate(history) if event is told) for told in kept]
    assert places == sorted(places)  # in their order
    for (candidate, fold), n in runs.items():
        numbers = [e.step for e in of_kind(kept, Step) if (e.candidate, e.fold) == (candidate, fold)]
        assert len(numbers) == min(n, 50)
        assert (numbers[0], numbers[-1]) == (0, n - 1)
        gaps = np.diff(numbers)
        assert gaps.max() - gaps.min() <= 1
    assert kept[-2:] == history[-2:]
    assert condensed(kept, 50) == kept
    assert condensed([], 50) == []


def test_the_honest_error_is_of_rows_set_aside_before_that_of_folds():
    grid = GridChosen(risk=0.3, gamma=1.0, lam=0.1, products=10)
    of_loss = GridChosen(risk=0.2, gamma=1.0, lam=0.1)  # another measure than the squared error
    architecture, chosen = ArchitectureChosen(risk=0.4), Chosen(candidates=("plain",), risk=0.5)
    assert honest_error([]) is None
    assert honest_error([of_loss]) is None
    assert honest_error([grid, of_loss]) == (BY_FOLDS, grid)
    assert honest_error([architecture, grid]) == (BY_FOLDS, architecture)
    assert honest_error([chosen, grid, architecture]) == (ASIDE, chosen)
    other = Chosen(candidates=("maps",), risk=0.1)
    assert honest_error([chosen, other]) == (ASIDE, other)  # the last word


@pytest.mark.parametrize(
    ("name", "basis", "kind"),
    [
        ("default", ASIDE, Chosen),
        ("few values", ASIDE, Chosen),
        ("plain", BY_FOLDS, GridChosen),
        ("guarded", BY_FOLDS, GridChosen),
        ("paper", BY_FOLDS, ArchitectureChosen),
    ],
)
def test_a_model_tells_the_honest_error_of_its_fit(histories, name, basis, kind):
    model = histories[name].model_
    told, event = honest_error(model.history)
    assert (told, type(event)) == (basis, kind)
    assert (model.error()["basis"], model.error()["risk"]) == (basis, event.risk)


def test_what_the_events_of_fits_have_in_common(histories):
    """Steps count up in every run; kinds that were chosen were judged; the fold of an architecture is known."""
    for name, model in histories.items():
        runs = {}
        for event in of_kind(model.history_, Step):
            if event.fold is not None:  # the last steps of a kind's kernels are side by side
                runs.setdefault((event.candidate, event.fold), []).append(event.step)
        for steps in runs.values():
            restarts = [i for i, step in enumerate(steps) if step == 1] + [len(steps)]
            for begin, end in pairwise(restarts):
                assert steps[begin:end] == list(range(1, end - begin + 1)), name
        chosen = last(model.history_, Chosen)
        judged = {event.candidate for event in of_kind(model.history_, Judged)}
        assert chosen is None or set(chosen.candidates) <= judged
        assert all(event.fold is not None for event in of_kind(model.history_, Held))
        for event in of_kind(model.history_, Counted):
            assert 0 < event.done <= event.of
    assert last(histories["centres"].history_, Centres).rows == 120
    assert last(histories["few values"].history_, Refined).values == 3
    assert last(histories["few values"].history_, Planned) is not None
    assert {event.fold for event in of_kind(histories["hinge"].history_, Trained)} == set(range(5))
    assert of_kind(histories["squared hinge"].history_, LamChosen)
    assert of_kind(histories["guarded"].history_, Guarded)
    assert {event.how for event in of_kind(histories["paper"].history_, Searched)} <= {"start", "anneal", "descend"}

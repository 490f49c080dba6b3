"""What a learner is given in tests: tasks, targets, features, and the default learner with other settings."""

from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pytest

from hgk.inputs import Feature
from hgk.learners import PRESETS, Default, Settings
from hgk.learners.default.effort import LearningEffort
from hgk.search import Squares, Task
from hgk.targets import Numbers, Scaling


def numbers(outputs=1):
    """Labels that are scaled already."""
    return Numbers(Scaling(np.zeros(outputs), np.ones(outputs)), outputs == 1)


def features(*kinds):
    """One feature for each kind; a step belongs to the last column before it."""
    columns = np.cumsum([kind != "step" for kind in kinds]) - 1
    return tuple(Feature(int(j), f"x{j}", kind) for j, kind in zip(columns, kinds, strict=True))


def task_of(rows, lams=(0.1,), folds=5, **more):
    """Row i is held out in fold i modulo ``folds``; all columns are scaled ones, the labels numbers."""
    given = {"target": numbers(rows.Y.shape[1]), "features": features(*["scaled"] * rows.X.shape[1])} | more
    return Task(rows, np.arange(len(rows)) % folds, np.array(lams), **given)


@contextmanager
def default_settings(**settings):
    """The preset "default" with other settings, for a while."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(PRESETS, "default", Default(Settings(**settings)))
        yield


def quickly(**settings):
    """The preset "default" with few small steps of one kind: as quick as with a budget, and the same on any machine."""
    return default_settings(effort=LearningEffort(kinds=1, steps=30, batch=201), **settings)


@dataclass(frozen=True)
class ClippedAt(Squares):
    """Least squares of predictions that are clipped elsewhere than at ±1."""

    at: float = 1.0

    @property
    def clip(self):
        return self.at

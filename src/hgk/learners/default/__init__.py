"""The default learner: kinds of trees, effort, judges, averages, and the settings that they rest on."""

from hgk.learners.default.kinds import KINDS, Kind
from hgk.learners.default.learner import Default
from hgk.learners.default.settings import Settings

__all__ = ["KINDS", "Default", "Kind", "Settings"]

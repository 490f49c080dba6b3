"""Who learns the kernel: a given one, the plain one, the paper's way, the default."""

from hgk.learners.base import Learned, Learner, Wanted
from hgk.learners.default import Default, Kind, Settings
from hgk.learners.given import Given
from hgk.learners.paper import ByOptimiser
from hgk.learners.presets import PRESETS, register

__all__ = ["PRESETS", "ByOptimiser", "Default", "Given", "Kind", "Learned", "Learner", "Settings", "Wanted", "register"]

"""Labels <-> columns: the only place that knows what a label is."""

from hgk.targets.base import Refinement, Target
from hgk.targets.bounds import LabelBounds, label_bounds
from hgk.targets.calibration import Calibration, Coupling, pairs_of
from hgk.targets.classes import FEWEST_CALIBRATED, Classes, first_half
from hgk.targets.few_values import FewValues
from hgk.targets.numbers import Numbers
from hgk.targets.pairs import Pairs
from hgk.targets.quantiles import Quantiles
from hgk.targets.scaling import Scaling

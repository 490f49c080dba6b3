"""The kinds of first-layer nodes: one file each, with formula, gradient, start, bound and words."""

from hgk.kernels.nodes.base import Batch, Members, NodeKind, Stacked, Tiles, Twin
from hgk.kernels.nodes.columns import ColumnKind
from hgk.kernels.nodes.oblique import Oblique
from hgk.kernels.nodes.rough import Rough
from hgk.kernels.nodes.smooth import Smooth

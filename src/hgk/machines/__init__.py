"""Trained machines: f = Σ α k over rows, and what is known of f at rows it has not seen."""

from hgk.machines.base import Elsewhere, Machine, Sum, WithoutOwn
from hgk.machines.centres import OnCentres, train_on_centres
from hgk.machines.compressed import Compressed, Compression
from hgk.machines.exact import Exact, Part, train
from hgk.machines.leaves import InLeaves
from hgk.machines.leaves_of_classes import ClassesInLeaves
from hgk.machines.leaves_of_loss import LossInLeaves
from hgk.machines.mean import MeanOfMachines
from hgk.machines.of_classes import MATRICES_OF_CLASSES, OfClasses, kernel_matrix, train_classes
from hgk.machines.of_loss import FINE, OfLoss
from hgk.machines.partition import Direction, Partition, Sampled, partition, principal_direction, random_direction
from hgk.machines.rows import Rows, Sample, clipped_risk, weighted_quantile, wrong_classes
from hgk.machines.stacked import StackedRows, padded, stacks

__all__ = [
    "FINE",
    "MATRICES_OF_CLASSES",
    "ClassesInLeaves",
    "Compressed",
    "Compression",
    "Direction",
    "Elsewhere",
    "Exact",
    "InLeaves",
    "LossInLeaves",
    "Machine",
    "MeanOfMachines",
    "OfClasses",
    "OfLoss",
    "OnCentres",
    "Part",
    "Partition",
    "Rows",
    "Sampled",
    "StackedRows",
    "Sum",
    "WithoutOwn",
    "clipped_risk",
    "kernel_matrix",
    "padded",
    "partition",
    "principal_direction",
    "random_direction",
    "stacks",
    "train",
    "train_classes",
    "train_on_centres",
    "weighted_quantile",
    "wrong_classes",
]

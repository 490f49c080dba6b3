"""The kinds of trees that the default learner tries. They differ in their first-layer nodes and the features these see:

plain           the isotropic Gaussian kernel, nothing learned
mixed           4 smooth and 4 rough nodes on scaled and rank copies
mixed, shrunk   the same with log-weights pulled to their mean, where rows are few
all kinds       4 smooth, 4 rough and 4 oblique nodes on scaled and rank copies
maps            8 oblique nodes on scaled copies
oblique         4 rough and 4 oblique nodes on scaled copies, where features are many
warped          4 smooth, 4 oblique, and 4 rough nodes on the steps of each column: a learned monotone warp,
                since Σ_k a_k |b_k(x) - b_k(x')| = |g(x) - g(x')| with g = Σ_k a_k b_k
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hgk.inputs import Feature
from hgk.kernels import Architecture, HierarchicalKernel, isotropic, two_layers, with_kinds

if TYPE_CHECKING:
    from hgk.learners.default.settings import Settings

Build = Callable[[Sequence[Feature]], Architecture]
Sees = Callable[[Feature], bool]
RANK = 8


@dataclass(frozen=True)
class Kind:
    """A kind of tree, for which tables it is tried, and how hard its log-weights are pulled to their mean.

    ``suits(n, features, settings)`` says whether it is tried for n rows. A tree that the user asked for keeps all its
    weights, and is judged even if there is no time to learn any.
    """

    name: str
    build: Build
    suits: Callable[[float, Sequence[Feature], Settings], bool] = lambda n, features, settings: True
    shrink: float = 0.0
    asked: bool = False

    def pruning(self, settings: Settings) -> float:
        return 0.0 if self.asked else settings.pruning


def columns_of(features: Sequence[Feature]) -> int:
    """Features but for the steps, which are many for one column."""
    return sum(feature.kind != "step" for feature in features)


def tree(features: Sequence[Feature], nodes: Sequence[tuple[int, str, Sees]]) -> Architecture:
    """A depth-2 tree from (how many nodes, of which kind, the features that they see)."""
    kinds = [kind for many, kind, _ in nodes for _ in range(many)]
    sets = tuple(
        tuple(j for j, feature in enumerate(features) if sees(feature)) for many, _, sees in nodes for _ in range(many)
    )
    rough, oblique = ([i for i, kind in enumerate(kinds) if kind == wanted] for wanted in ("rough", "oblique"))
    d = len(features)
    flat = replace(two_layers(d, len(sets), d), coordinates=sets)
    return with_kinds(flat, rough=rough, oblique=oblique, rank=min(d, RANK) if oblique else 0)


def _copies(feature: Feature) -> bool:
    return feature.kind != "step"


def _scaled(feature: Feature) -> bool:
    return feature.kind not in ("rank", "step")


def mixed(features: Sequence[Feature]) -> Architecture:
    return tree(features, [(4, "smooth", _copies), (4, "rough", _copies)])


def all_kinds(features: Sequence[Feature]) -> Architecture:
    return tree(features, [(4, "smooth", _copies), (4, "rough", _copies), (4, "oblique", _copies)])


def oblique(features: Sequence[Feature]) -> Architecture:
    return tree(features, [(4, "rough", _scaled), (4, "oblique", _scaled)])


def maps(features: Sequence[Feature]) -> Architecture:
    return tree(features, [(8, "oblique", _scaled)])


def warped(features: Sequence[Feature], maps: int = 4) -> Architecture:
    """With ``maps`` oblique nodes. The rough nodes see a column that has no steps (two values, a category) as it is."""
    stepped = {feature.column for feature in features if feature.kind == "step"}

    def warp(feature: Feature) -> bool:
        return feature.kind != "rank" and not (feature.kind == "scaled" and feature.column in stepped)

    return tree(features, [(4, "smooth", _copies), (4, "rough", warp), (maps, "oblique", _copies)])


def plain_kernel(features: Sequence[Feature]) -> HierarchicalKernel:
    """The plain Gaussian kernel on the scaled copies, of width 1."""
    seen = tuple(j for j, feature in enumerate(features) if _scaled(feature))
    architecture = replace(isotropic(len(features)), coordinates=(seen,))
    return HierarchicalKernel(architecture, (architecture.mask.double(),))


# The safest first, then in the order of what they add.
KINDS = (
    Kind("mixed", mixed, lambda n, features, settings: n < settings.few),
    Kind("mixed, shrunk", mixed, lambda n, features, settings: n < settings.few, shrink=0.1),
    Kind("all kinds", all_kinds, lambda n, features, settings: n >= settings.few),
    Kind("maps", maps, lambda n, features, settings: n >= settings.few),
    Kind(
        "oblique",
        oblique,
        lambda n, features, settings: n >= settings.few and columns_of(features) > settings.several,
    ),
    Kind(
        "warped",
        warped,
        lambda n, features, settings: n >= settings.few and any(feature.kind == "step" for feature in features),
    ),
)


def kinds_for(n: float, features: Sequence[Feature], settings: Settings) -> list[Kind]:
    if n < settings.fewest:
        return []
    return [kind for kind in settings.kinds if kind.suits(n, features, settings)]

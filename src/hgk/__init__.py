"""hgk: learning with hierarchical Gaussian kernels."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hgk.estimators import (
        CompactModelError,
        GaussianProcessKernel,
        HGKClassifier,
        HGKQuantileRegressor,
        HGKRegressor,
        StoppedEarlyWarning,
    )
    from hgk.kernels import (
        Architecture,
        HierarchicalKernel,
        compose,
        grouped,
        inhomogeneous,
        isotropic,
        two_layers,
        with_kinds,
    )
    from hgk.optimisers import Adam, Algorithm1
    from hgk.storage import ModelFileError, load, save

__version__ = "0.1.0"

_HOMES = {
    "estimators": [
        "CompactModelError",
        "GaussianProcessKernel",
        "HGKClassifier",
        "HGKQuantileRegressor",
        "HGKRegressor",
        "StoppedEarlyWarning",
    ],
    "kernels": [
        "Architecture",
        "HierarchicalKernel",
        "compose",
        "grouped",
        "inhomogeneous",
        "isotropic",
        "two_layers",
        "with_kinds",
    ],
    "optimisers": ["Adam", "Algorithm1"],
    "storage": ["ModelFileError", "load", "save"],
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}
__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    """Names are imported when they are first asked for: the command line starts before its packages do."""
    if name in _HOME:
        value = globals()[name] = getattr(import_module(f"hgk.{_HOME[name]}"), name)
        return value
    if not name.startswith("_"):  # hgk.losses and the like, without an import of their own
        try:
            return import_module(f"hgk.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"hgk.{name}":
                raise
    raise AttributeError(f"module 'hgk' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]

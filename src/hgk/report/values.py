"""Numbers and names as a page holds them."""

from __future__ import annotations

from typing import Any

import numpy as np

from hgk.report.web import or_none

LONGEST_NAME = 120  # characters of a name


def cut_name(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…"


def or_dash(value: float | None, form: str) -> str:
    return "–" if value is None else format(value, form)


def plain(value: Any) -> Any:
    """Numpy's numbers and arrays as Python's; what is not finite as None."""
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, dict):
        return {key: plain(v) for key, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, np.generic):
        value = value.item()
    return or_none(value) if isinstance(value, float) else value


def rounded(values: Any, digits: int | None = None) -> Any:
    """Six digits of what differs are enough for a curve, and make the page small."""
    digits = _digits(np.asarray(values, dtype=float)) if digits is None else digits
    return plain([rounded(v, digits) if np.ndim(v) else float(f"{v:.{digits}g}") for v in values])


def _digits(values: np.ndarray) -> int:
    """Six, and those in which all values agree."""
    finite = values[np.isfinite(values)]
    with np.errstate(over="ignore"):
        spread = np.ptp(finite) if finite.size else 0.0
    alike = np.log10(np.abs(finite).max() / spread) if 0 < spread < np.inf else 0.0
    return 6 + int(np.clip(np.ceil(alike), 0, 11))

"""Tables, labels and weights such as nobody would give on purpose, for the property tests.

``HGK_FUZZ=n`` draws n examples per property, other ones each time; without it there are few, always the same.
"""

import os
import warnings

import numpy as np
import pandas as pd
import polars as pl
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from hgk import HGKClassifier, HGKRegressor

FUZZ = int(os.environ.get("HGK_FUZZ", "0"))


def examples(few):
    """So many examples of a property, or as many as ``make fuzz`` asks for."""
    return settings(
        max_examples=max(few, FUZZ),
        derandomize=not FUZZ,
        deadline=None,
        database=None,
        print_blob=True,
        phases=[Phase.explicit, Phase.generate],  # a smaller example of a failure may take minutes to find
        suppress_health_check=list(HealthCheck),
    )


# ------------------------------------------------------------------------------------------------------- columns

WIDTHS = [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64]


def _scaled(n):
    """Ordinary numbers in a unit of 1e-300 to 1e300, about a middle that may be far off."""
    return st.builds(
        lambda seed, scale, shift: (np.random.default_rng(seed).standard_normal(n) + shift) * 10.0**scale,
        st.integers(0, 99),
        st.integers(-300, 300),
        st.sampled_from([0.0, 0.0, 1e3, -1e6]),
    )


def _whole(n):
    return st.sampled_from(WIDTHS).flatmap(lambda kind: hnp.arrays(kind, n))


def _wild(n):
    """Any floats that are finite, the largest beside the smallest."""
    return st.sampled_from([16, 32, 64]).flatmap(
        lambda width: hnp.arrays(f"f{width // 8}", n, elements={"allow_nan": False, "allow_infinity": False})
    )


def _holes(n):
    return hnp.arrays(float, n, elements=st.one_of(st.just(np.nan), st.floats(-1e9, 1e9)))


def columns(n):
    """One column of numbers."""
    return st.one_of(
        _scaled(n),
        _whole(n),
        _wild(n),
        _holes(n),
        hnp.arrays(bool, n),
        st.floats(-1e300, 1e300).map(lambda v: np.full(n, v)),
        st.just(np.full(n, np.nan)),
    )


@st.composite
def tables(draw, least=2, most=14, widest=5):
    """An array, its columns of one dtype or of several, in any memory layout."""
    n, d = draw(st.integers(least, most)), draw(st.integers(1, widest))
    parts = [draw(columns(n)) for _ in range(d)]
    if d > 1 and draw(st.booleans()):
        parts[-1] = parts[0]
    if n > 2 and draw(st.booleans()):
        parts = [np.concatenate([p[: n // 2], p[: n - n // 2]]) for p in parts]  # half the rows are copies
    with np.errstate(over="ignore"):
        X = parts[0][:, None] if d == 1 else np.column_stack([p.astype(float) for p in parts])
    return draw(st.sampled_from(LAYOUTS))(X)


def _strided(X):
    wide = np.repeat(np.repeat(X, 2, axis=0), 2, axis=1)
    return wide[::2, ::2]


def _read_only(X):
    X = X.copy()
    X.setflags(write=False)
    return X


LAYOUTS = [np.ascontiguousarray, np.asfortranarray, _strided, _read_only, lambda X: X[::-1].copy()[::-1]]


# -------------------------------------------------------------------------------------------------------- frames


@st.composite
def frames(draw, least=2, most=12):
    """Texts, truth values, categories, Decimals and extension types beside numbers; pandas or polars."""
    n = draw(st.integers(least, most))
    texts = st.lists(st.one_of(st.none(), st.text(max_size=4)), min_size=n, max_size=n)
    truths = st.lists(st.sampled_from([True, False, None]), min_size=n, max_size=n)
    wholes = st.lists(st.one_of(st.none(), st.integers(-(2**53), 2**53)), min_size=n, max_size=n)
    prices = st.lists(st.one_of(st.none(), st.decimals(-10, 10, places=2)), min_size=n, max_size=n)
    kinds = {
        "number": columns(n).map(pd.Series),
        "object": texts.map(lambda v: pd.Series(v, dtype=object)),
        "string": texts.map(lambda v: pd.Series(v, dtype="string")),
        "str": texts.map(lambda v: pd.Series(v, dtype="str")),
        "category": texts.map(lambda v: pd.Series(v, dtype=object).astype("category")),
        "codes": wholes.map(lambda v: pd.Series(v, dtype="Int64").astype("category")),
        "boolean": truths.map(lambda v: pd.Series(v, dtype="boolean")),
        "Int64": wholes.map(lambda v: pd.Series(v, dtype="Int64")),
        "Float32": wholes.map(lambda v: pd.Series(v, dtype="Float32")),
        "double[pyarrow]": wholes.map(lambda v: pd.Series(v, dtype="double[pyarrow]")),
        "Decimal": prices.map(lambda v: pd.Series(v, dtype=object)),
        "many": st.just(pd.Series([f"id {i}" for i in range(n)], dtype=object)),
    }
    chosen = draw(st.lists(st.sampled_from(sorted(kinds)), min_size=1, max_size=4))
    names = draw(st.lists(st.text(max_size=5), min_size=len(chosen), max_size=len(chosen), unique=True))
    frame = pd.DataFrame({name: draw(kinds[kind]) for name, kind in zip(names, chosen, strict=True)})
    polars = draw(st.booleans()) and not any(kind in ("codes", "Decimal") for kind in chosen)
    return _polars(frame) if polars else frame


def _polars(frame):
    cells = {name: [None if pd.isna(v) else v for v in frame[name]] for name in frame}
    return pl.DataFrame({name: pl.Series(values, strict=False) for name, values in cells.items()})


# -------------------------------------------------------------------------------------------- labels and weights


def targets(n):
    """Labels for regression."""
    return st.one_of(_scaled(n), _whole(n), _wild(n), hnp.arrays(bool, n), st.just(np.full(n, 3.5)))


def weights(n):
    """Ordinary, of an extreme unit, of extreme differences, mostly zero; or none."""
    return st.one_of(
        st.none(),
        st.builds(
            lambda seed, scale: np.random.default_rng(seed).uniform(0.5, 2, n) * 10.0**scale,
            st.integers(0, 9),
            st.sampled_from([-308, -150, 0, 150, 307]),
        ),
        hnp.arrays(float, n, elements=st.sampled_from([0.0, 5e-324, 1e-200, 1.0, 1e200, 1.7e308])),
        hnp.arrays(np.int64, n, elements=st.integers(0, 3)),
    )


# ------------------------------------------------------------------------------------------------------ sentences


def is_sentence(text):
    """One line, that ends with a full stop and has another part after what was given: what to do."""
    return "\n" not in text and text.endswith(".") and any(mark in text for mark in (";", ", so "))


def attempted(work):
    """What ``work`` returns, or None if it refused in one sentence; only warnings of ours, whole sentences too."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            done, said = work(), None
        except (ValueError, TypeError) as error:
            done, said = None, str(error)
    assert said is None or is_sentence(said), said
    for warning in caught:
        assert warning.category is UserWarning, str(warning)
        text = str(warning.message)
        assert text.endswith(".") or text.startswith("X does not have valid feature names"), text  # scikit-learn's
    return done


def model_of(preset, classifier=False):
    return (HGKClassifier if classifier else HGKRegressor)(preset, random_state=0)

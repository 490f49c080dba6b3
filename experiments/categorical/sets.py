"""Small sets of categorical and mixed columns in which rows repeat: published tables, rules with noise, coarse copies.

Every set is a function without arguments that gives a pandas frame and the classes as numbers from 0; it gives the same
rows each time. Columns of names have the dtype "category", all others are floats.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine

Set = tuple[pd.DataFrame, np.ndarray]


# ------------------------------------------------------------------------------------ published tables


def from_counts(levels: dict[str, str], counts: np.ndarray) -> Set:
    """As many rows as the table counts; its axes are the columns, in order, and then the class.

    >>> X, y = from_counts({"x": "a b"}, np.array([[2, 0], [1, 1]]))
    >>> X["x"].tolist(), y.tolist()
    (['a', 'a', 'b', 'b'], [0, 0, 0, 1])
    """
    where = np.repeat(np.indices(counts.shape).reshape(counts.ndim, -1), counts.ravel(), axis=1)
    return names({column: (codes, levels[column]) for column, codes in zip(levels, where, strict=False)}), where[-1]


def names(columns: dict[str, tuple[np.ndarray, str]]) -> pd.DataFrame:
    """Columns of categories from codes and the levels they stand for."""
    return pd.DataFrame(
        {name: pd.Categorical.from_codes(codes, levels.split()) for name, (codes, levels) in columns.items()}
    )


def two_by_two() -> Set:
    return from_counts({"treated": "no yes"}, np.array([[140, 60], [80, 120]]))


def constant() -> Set:
    return from_counts({"same": "always"}, np.array([[200, 100]]))


def berkeley() -> Set:
    """Graduate admissions at Berkeley, 1973, the six largest departments: admitted or not."""
    rejected = [[313, 19], [207, 8], [205, 391], [279, 244], [138, 299], [351, 317]]
    admitted = [[512, 89], [353, 17], [120, 202], [138, 131], [53, 94], [22, 24]]
    return from_counts({"department": "A B C D E F", "sex": "male female"}, np.dstack([rejected, admitted]))


def hair_and_eyes() -> Set:
    """Colour of the eyes (brown, blue, hazel, green) of 592 students, by sex and hair."""
    male = [[32, 11, 10, 3], [53, 50, 25, 15], [10, 10, 7, 7], [3, 30, 5, 8]]
    female = [[36, 9, 5, 2], [66, 34, 29, 14], [16, 7, 7, 7], [4, 64, 5, 8]]
    return from_counts({"sex": "male female", "hair": "black brown red blond"}, np.array([male, female]))


def titanic() -> Set:
    """891 of the 1316 passengers, by class, sex and age group: saved or not."""
    lost = [[[0, 118], [0, 4]], [[0, 154], [0, 13]], [[35, 387], [17, 89]]]
    saved = [[[5, 57], [1, 140]], [[11, 14], [13, 80]], [[13, 75], [14, 76]]]
    levels = {"class": "1st 2nd 3rd", "sex": "male female", "group": "child adult"}
    X, y = from_counts(levels, np.stack([lost, saved], axis=-1))
    some = np.random.default_rng(1).permutation(len(y))[:891]
    return X.iloc[some].reset_index(drop=True), y[some]


def titanic_with_numbers() -> Set:
    """The same passengers: an age in years that fits their group instead of it, and a fare that fits their class."""
    rng = np.random.default_rng(2)
    X, y = titanic()
    number = X["class"].cat.codes.to_numpy()
    grown = rng.normal(np.array([40, 33, 28])[number], 11).clip(15, 75)
    age = np.where(X["group"] == "child", rng.uniform(0, 14, len(y)), grown).round()
    fare = rng.lognormal(np.log(np.array([60, 20, 10]))[number], 0.5).round(1)
    return X.drop(columns="group").assign(age=age, fare=fare), y


# ----------------------------------------------------------------------------------- rules with noise


def one_category() -> Set:
    rng = np.random.default_rng(3)
    codes = rng.integers(3, size=600)
    y = rng.random(600) < np.array([0.8, 0.5, 0.2])[codes]
    return names({"x": (codes, "a b c")}), y.astype(int)


def four_by_four() -> Set:
    """Each of the 16 cells has a probability of its own, uniform in [0, 1]."""
    rng = np.random.default_rng(4)
    first, second = rng.integers(4, size=(2, 2000))
    y = rng.random(2000) < rng.random((4, 4))[first, second]
    return names({"first": (first, "a b c d"), "second": (second, "a b c d")}), y.astype(int)


def three_switches() -> Set:
    """Additive logits; the columns are the numbers 0 and 1."""
    rng = np.random.default_rng(5)
    x = rng.integers(2, size=(1000, 3))
    y = rng.random(1000) < 1 / (1 + np.exp(0.7 - x @ [1.5, -1.0, 0.5]))
    return pd.DataFrame(x.astype(float), columns=["a", "b", "c"]), y.astype(int)


def mushrooms() -> Set:
    """20 species in 12 columns, each cell another level now and then; poisonous by smell and gills, but for 1 %."""
    rng = np.random.default_rng(6)
    sizes = np.array([6, 4, 9, 2, 2, 2, 10, 5, 4, 4, 9, 7])
    species = rng.integers(20, size=2000)
    usual = rng.integers(sizes, size=(20, 12))[species]
    codes = np.where(rng.random((2000, 12)) < 0.05, rng.integers(sizes, size=(2000, 12)), usual)
    smell, gills = codes[:, 2], codes[:, 6]
    y = ((smell >= 5) | ((smell == 0) & (gills >= 5))) ^ (rng.random(2000) < 0.01)
    return names({f"c{j}": (codes[:, j], " ".join("abcdefghij"[:size])) for j, size in enumerate(sizes)}), y.astype(int)


def cars() -> Set:
    """Every car of six ordered columns once; four grades by rules, 5 % of them at random."""
    rng = np.random.default_rng(7)
    price = "low med high vhigh"
    levels = {"buying": price, "upkeep": price, "doors": "2 3 4 more", "persons": "2 4 more"}
    levels |= {"boot": "small med big", "safety": "low med high"}
    codes = np.indices([len(text.split()) for text in levels.values()]).reshape(6, -1)
    buying, upkeep, doors, persons, boot, safety = codes
    refused = (persons == 0) | (safety == 0) | (buying + upkeep >= 5)
    merit = 3 * safety + 2 * boot + (doors > 0) - 2 * (buying + upkeep)
    grade = np.where(refused, 0, 1 + np.digitize(merit, [4, 7]))
    y = np.where(rng.random(len(grade)) < 0.05, rng.integers(4, size=len(grade)), grade)
    return names({name: (row, levels[name]) for name, row in zip(levels, codes, strict=True)}), y


def tasted() -> Set:
    """12 rounded numbers, seven ordered grades with noise, 18 % of the rows repeated and graded anew."""
    rng = np.random.default_rng(8)
    n, distinct = 2000, 1640
    x = rng.normal(size=(distinct, 4)) @ rng.normal(size=(4, 11)) + rng.normal(size=(distinct, 11))
    x = np.column_stack([x.round(1), x[:, 0] > 1.5]).astype(float)
    x = x[np.r_[np.arange(distinct), rng.integers(distinct, size=n - distinct)]]
    taste = x[:, :4] @ [0.4, -0.3, 0.2, 0.2] + 0.5 * np.sin(x[:, 4]) + 0.5 * x[:, 11] + rng.normal(size=n)
    shares = np.cumsum([0.01, 0.03, 0.33, 0.43, 0.16, 0.03])
    columns = [f"x{j}" for j in range(12)]
    return pd.DataFrame(x, columns=columns), np.digitize(taste, np.quantile(taste, shares))


# ---------------------------------------------------------------------- scikit-learn's sets made coarse


def binned(load: Callable, columns: list[str]) -> Set:
    """Three levels of equal width for each column."""
    X, y = load(return_X_y=True, as_frame=True)
    return X[columns].apply(lambda x: pd.cut(x, 3, labels=["low", "middle", "high"])), y.to_numpy()


def iris() -> Set:
    return binned(load_iris, load_iris().feature_names)


def wine() -> Set:
    return binned(load_wine, ["alcohol", "flavanoids", "color_intensity", "proline"])


def breast_cancer() -> Set:
    """Four of its columns, rounded to multiples of these units."""
    units = {"mean radius": 2, "mean texture": 4, "mean concave points": 0.03, "worst smoothness": 0.03}
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    return pd.DataFrame({name: (X[name] / unit).round() * unit for name, unit in units.items()}), y.to_numpy()


def digits() -> Set:
    """Seven pixels, black or white."""
    X, y = load_digits(return_X_y=True)
    pixels = [10, 20, 26, 29, 36, 42, 53]
    return pd.DataFrame((X[:, pixels] > 8).astype(float), columns=[f"pixel {j}" for j in pixels]), y


SETS: dict[str, Callable[[], Set]] = {
    "2x2": two_by_two,
    "constant": constant,
    "one-category": one_category,
    "4x4": four_by_four,
    "three-switches": three_switches,
    "berkeley": berkeley,
    "hair-and-eyes": hair_and_eyes,
    "titanic": titanic,
    "titanic-numbers": titanic_with_numbers,
    "mushrooms": mushrooms,
    "cars": cars,
    "tasted": tasted,
    "iris": iris,
    "wine": wine,
    "breast-cancer": breast_cancer,
    "digits": digits,
}

"""Labels and columns: what one way makes of the other, for every target."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from hgk.machines import Rows
from hgk.storable import Malformed
from hgk.targets import Calibration, Classes, Coupling, FewValues, Numbers, Pairs, Quantiles, Scaling, pairs_of
from hgk.targets.few_values import MOST_VALUES, PER_VALUE
from hgk.targets.quantiles import BEYOND, quantile

N = 60
RNG = np.random.default_rng(0)
ONES = np.ones(N)
NUMBERS = 3 + 5 * RNG.standard_normal(N)
GRADES = RNG.choice([1.0, 2.0, 5.0], N)
TWO = np.where(RNG.random(N) < 0.4, 7.0, -1.0)
TEXTS = np.array(["ash", "birch", "elm"])[RNG.integers(3, size=N)]
LEVELS = np.array([0.1, 0.5, 0.9])


def few_values(y):
    numbers = Numbers.of(y, ONES)
    (target,) = FewValues.options(numbers, torch.from_numpy(numbers.encode(y)), N)
    return target


# every target with labels that it is of
CASES = {
    "numbers": (Numbers.of(NUMBERS, ONES), NUMBERS),
    "several numbers": (Numbers.of(np.column_stack([NUMBERS, GRADES]), ONES), np.column_stack([NUMBERS, GRADES])),
    "few values": (few_values(GRADES), GRADES),
    "few values, sharpened": (replace(few_values(GRADES), power=2.5), GRADES),
    "two values": (replace(few_values(TWO), power=1.3), TWO),
    "two classes": (Classes.of(TWO, ONES, estimates=True), TWO),
    "three classes": (Classes.of(TEXTS, ONES, estimates=False), TEXTS),
    "pairs": (Pairs(("ash", "birch", "elm"), "<U5", estimates=False, calibration=Coupling(1.7)), TEXTS),
    "a quantile": (Quantiles.of(NUMBERS, ONES, LEVELS[:1]), NUMBERS),
    "quantiles": (Quantiles.of(NUMBERS, ONES, LEVELS), NUMBERS),
}
each_target = pytest.mark.parametrize(("target", "y"), CASES.values(), ids=CASES.keys())


def columns_of(target, y):
    """Y and T."""
    Y = torch.from_numpy(target.encode(y))
    return Y, target.expand(Y)


def some_values(target, rows=30, seed=1):
    """Values of a machine, clipped."""
    t = np.random.default_rng(seed).uniform(-1.2, 1.2, (rows, len(target.columns)))
    return torch.from_numpy(t).clamp(-1, 1)


def rows_with(Y, weight=None):
    n = len(Y)
    weight = torch.ones(n, dtype=torch.float64) if weight is None else torch.from_numpy(weight)
    return Rows(torch.zeros(n, 1, dtype=torch.float64), Y, weight)


# -------------------------------------------------------------------------------------------------- every target


@each_target
def test_labels_lie_in_the_unit_interval_and_columns_have_names(target, y):
    Y, T = columns_of(target, y)
    assert (Y.abs() <= 1).all()
    assert (T[T.isfinite()].abs() <= 1).all()
    assert T.shape == (N, len(target.columns))
    target.check(len(target.columns), Y.shape[1])
    target.check(len(target.columns), None)
    with pytest.raises(Malformed):
        target.check(len(target.columns) + 1, Y.shape[1])
    with pytest.raises(Malformed):
        target.check(len(target.columns), Y.shape[1] + 1)


@each_target
def test_a_machine_that_is_right_says_the_labels(target, y):
    """Values T, 0 where a row has no part in a column."""
    _, T = columns_of(target, y)
    said = target.decode(T.nan_to_num(0.0)).numpy()
    if target.classes:
        assert np.array_equal(target.chosen(said), y)
    else:
        several = y[:, None] if y.ndim == 1 and len(target.predictions) > 1 else y
        np.testing.assert_allclose(target.out(said), np.broadcast_to(several, target.out(said).shape), atol=1e-12)


@each_target
def test_predictions_are_a_vector_where_labels_are_one(target, y):
    decoded = target.decode(some_values(target)).numpy()
    assert target.out(decoded).shape == ((30,) if target.single else (30, decoded.shape[1]))
    np.testing.assert_array_equal(target.out(decoded).reshape(30, -1), target.in_unit(decoded).reshape(30, -1))


@each_target
def test_values_may_lie_along_any_axis(target, y):
    t = some_values(target)
    torch.testing.assert_close(target.decode(t.T, 0), target.decode(t).T, rtol=0, atol=0)


@pytest.mark.parametrize("name", ["numbers", "several numbers", "few values, sharpened", "two values", "quantiles"])
def test_functions_without_single_rows_are_decoded_as_any_others(name):
    """Of shape (outputs, x, i)."""
    target, _ = CASES[name]
    t = some_values(target, 24).T.reshape(-1, 4, 6)
    expected = target.decode(t.flatten(1).T).T.reshape(-1, 4, 6)
    torch.testing.assert_close(target.decode(t, 0), expected, rtol=0, atol=1e-15)


@each_target
def test_responses_have_a_column_for_each_prediction(target, y):
    Y, T = columns_of(target, y)
    fitted = target.fitted(0.8 * T.nan_to_num(0.0), rows_with(Y))
    t = some_values(target)
    responses = fitted.responses(t)
    assert responses.shape == (30, len(target.predictions))
    if target.classes:
        probability = fitted.probabilities(t)
        np.testing.assert_allclose(probability.sum(1), 1)
        np.testing.assert_array_equal(responses, probability[:, 1:] if target.single else probability)
        assert np.array_equal(fitted.array[probability.argmax(1)], fitted.chosen(fitted.decode(t).numpy()))
        assert not fitted.calibrates
    else:
        np.testing.assert_array_equal(responses.reshape(30, -1), fitted.out(fitted.decode(t).numpy()).reshape(30, -1))


@each_target
def test_outputs_are_told_in_their_unit(target, y):
    base, scale = target.unit()
    assert len(base) == len(scale) == len(target.columns)
    t = some_values(target).sort(1).values * 0.9  # in order, and not clipped once offsets are added
    if type(target) in (Numbers, Quantiles):
        expected = target.in_unit(target.decode(t).numpy())
        np.testing.assert_allclose(base + scale * t.numpy(), expected)
        np.testing.assert_allclose(target.scale, scale)
    elif target.classes:
        assert (base == 0).all()
        assert (scale == 1).all()


@each_target
def test_refinements_contract_what_they_expand(target, y):
    Y, _ = columns_of(target, y)
    for refinement in target.refinements(Y, N):
        torch.testing.assert_close(refinement.contract(refinement.expand(Y)), Y)
        assert refinement.encode(y) == pytest.approx(target.encode(y))
        assert refinement.more_columns == (len(refinement.columns) > Y.shape[1])


# ------------------------------------------------------------------------------------------------------- numbers


@pytest.mark.parametrize("y", [NUMBERS, np.full(5, 3.5), np.array([-1e308, 1e308, 0.0]), np.array([1e-320, 2e-320])])
def test_scaling_there_and_back(y):
    scaling = Scaling.of(y[:, None])
    u = scaling(y[:, None])
    assert np.isfinite(u).all()
    assert np.abs(u).max() <= 1
    if np.ptp(y / 2) > 1e-300:
        assert (u.min(), u.max()) == pytest.approx((-1, 1))
        np.testing.assert_allclose(scaling.inverse(u)[:, 0], y, rtol=1e-14, atol=1e-14 * np.abs(y).max())
    else:
        assert (u == 0).all()
        np.testing.assert_allclose(scaling.inverse(u)[:, 0], y, atol=1e-319)
    assert np.isinf(scaling.inverse(np.array([[np.inf], [-np.inf]]))).all()


def test_scaling_is_of_the_rows_of_positive_weight():
    weight = 1.0 - (NUMBERS.argmax() == np.arange(N))
    target = Numbers.of(NUMBERS, weight)
    Y = target.encode(NUMBERS)
    assert Y[weight > 0].max() == pytest.approx(1)
    assert Y.max() > 1


def test_errors_of_numbers_are_those_in_their_unit():
    target, y = CASES["numbers"]
    weight = np.random.default_rng(2).uniform(0.5, 2, N)
    rows, t = rows_with(torch.from_numpy(target.encode(y)), weight), some_values(target, N)
    risk = target.measures(t, rows)["risk"]
    assert risk == pytest.approx(sum(weight[i] * float(rows.Y[i] - t[i]) ** 2 for i in range(N)) / weight.sum())
    told, said = target.explained(risk, rows), target.out(t.numpy())
    mean = np.average(y, weights=weight)
    assert told["rmse"] == pytest.approx(math.sqrt(np.average((y - said) ** 2, weights=weight)))
    r2 = 1 - np.average((y - said) ** 2, weights=weight) / np.average((y - mean) ** 2, weights=weight)
    assert told["r2"] == pytest.approx(r2)
    assert set(target.explained(risk, None)) == {"rmse"}
    assert "r2" not in target.explained(risk, rows_with(torch.zeros(N, 1, dtype=torch.float64)))  # of a constant
    several, _ = CASES["several numbers"]
    assert "rmse" not in several.explained(0.1, None)  # of outputs with different units


# ---------------------------------------------------------------------------------------------------- few values


@pytest.mark.parametrize("power", [1.0, 1.3, 4.0])
@pytest.mark.parametrize("y", [GRADES, TWO], ids=["three values", "two values"])
def test_few_values_are_predicted_by_their_formula(y, power):
    """t(x) = Σ v_k q_k^s / Σ q_l^s; a single column f of two values stands for -f and f."""
    target = replace(few_values(y), power=power)
    t, v = some_values(target), target.values.tolist()
    for row, said in zip(t.tolist(), target.decode(t)[:, 0].tolist(), strict=True):
        f = [-row[0], row[0]] if len(v) == 2 else row
        q = [min(max((1 + value) / 2, 0.0), 1.0) ** power for value in f]
        assert said == pytest.approx(sum(a * b for a, b in zip(v, q, strict=True)) / max(sum(q), 1e-300))


def test_columns_of_few_values_are_those_of_the_nearest():
    target = few_values(GRADES)
    Y = torch.linspace(-1, 1, 41, dtype=torch.float64)[:, None]
    T = target.expand(Y)
    for row, y in zip(T, Y[:, 0].tolist(), strict=True):
        nearest = min(range(3), key=lambda k: abs(float(target.values[k]) - y))
        assert row.tolist() == [1.0 if k == nearest else -1.0 for k in range(3)]
    assert target.columns == ["1", "2", "5"]  # in the unit of the labels


def test_few_values_are_offered_where_there_are_rows_for_each():
    numbers, Y = Numbers.of(GRADES, ONES), torch.from_numpy(Numbers.of(GRADES, ONES).encode(GRADES))
    assert len(numbers.refinements(Y, 3 * PER_VALUE)) == 1
    assert not numbers.refinements(Y, 3 * PER_VALUE - 1)
    assert not numbers.refinements(torch.cat([Y, Y], 1), 1e9)
    assert not numbers.refinements(torch.zeros_like(Y), 1e9)
    many = torch.linspace(-1, 1, MOST_VALUES + 1, dtype=torch.float64)[:, None]
    assert not numbers.refinements(many, 1e9)
    assert len(numbers.refinements(many[1:], 1e9)) == 1
    (rounded,) = numbers.refinements(Y + 1e-12 * torch.randn(Y.shape, dtype=torch.float64), N)
    assert len(rounded.values) == 3


@pytest.mark.parametrize("y", [GRADES, TWO], ids=["three values", "two values"])
def test_the_power_is_the_one_with_the_smallest_error(y):
    target, weight = few_values(y), np.random.default_rng(3).uniform(0.5, 2, N)
    Y, T = columns_of(target, y)
    t = (0.5 * T + 0.6 * torch.from_numpy(np.random.default_rng(4).standard_normal(T.shape))).clamp(-1, 1)
    errors = {
        power: float(torch.from_numpy(weight) @ ((replace(target, power=power).decode(t) - Y) ** 2)[:, 0])
        for power in target.powers
    }
    assert target.sharpened(t, rows_with(T, weight)).power == min(errors, key=errors.get)


def test_two_values_without_a_power_are_numbers():
    target = few_values(TWO)
    assert target.simplest is target.numbers
    t = some_values(target)
    torch.testing.assert_close(target.decode(t), target.numbers.decode(t))
    assert replace(target, power=1.2).simplest.power == 1.2
    assert few_values(GRADES).simplest.power == 1.0


# ------------------------------------------------------------------------------------------------------- classes


@pytest.mark.parametrize(
    "y",
    [
        np.array([3, 1, 3]),
        np.array([True, False, True]),
        np.array([2.0, 1.0, 2.0]),
        np.array(["b", "a", "b"]),
        np.array(["b", "a", "b"], dtype=object),
        np.array([2**63, 1, 2], dtype=np.uint64),
    ],
)
def test_classes_keep_their_type(y):
    target = Classes.of(y, np.ones(3), estimates=True)
    assert target.array.dtype == y.dtype
    assert target.array.tolist() == sorted(set(y.tolist()))
    assert np.array_equal(target.chosen(target.encode(y)), y)


def test_classes_are_of_rows_of_positive_weight_and_more_than_one():
    y = np.array(["a", "b", "c"])
    assert Classes.of(y, np.array([1.0, 0.0, 1.0]), True).array.tolist() == ["a", "c"]
    with pytest.raises(ValueError, match=r"holds the single class 'b' .* at least two classes"):
        Classes.of(y, np.array([0.0, 1.0, 0.0]), True)


def test_folds_should_have_all_classes():
    for name in ("two classes", "three classes", "pairs"):
        target, y = CASES[name]
        strata = target.strata(target.encode(y))
        assert len(set(zip(strata.tolist(), y.tolist(), strict=True))) == len(target.array)
    assert CASES["numbers"][0].strata(np.zeros((3, 1))) is None


@pytest.mark.parametrize("name", ["two classes", "three classes"])
def test_the_way_to_probabilities_is_the_calibration_of_values_and_labels(name):
    target, y = CASES[name]
    weight = np.random.default_rng(5).uniform(0.5, 2, N)
    Y, T = columns_of(target, y)
    t = 0.6 * T + 0.3 * torch.from_numpy(np.random.default_rng(6).standard_normal(T.shape))
    rows = rows_with(Y, weight)
    assert target.calibrates
    expected = Calibration.of(t.numpy(), Y.numpy(), weight, rows.size, target.estimates)
    fitted = target.fitted(t, rows)
    assert fitted.calibration == expected
    np.testing.assert_allclose(fitted.probabilities(t), expected.probabilities(t.numpy()))


@pytest.mark.parametrize("name", ["two classes", "three classes", "pairs"])
def test_wrong_classes_are_counted_by_weight(name):
    target, y = CASES[name]
    weight = np.random.default_rng(7).uniform(0.5, 2, N)
    said = target.decode(some_values(target, N))
    rows = rows_with(torch.from_numpy(target.encode(y)), weight)
    wrong = target.chosen(said.numpy()) != y
    assert target.measures(said, rows) == {"wrong": pytest.approx((wrong * weight).sum() / weight.sum())}


def test_a_threshold_is_for_the_second_of_two_classes():
    target, _ = CASES["two classes"]
    t = np.array([[-0.2], [0.1], [0.3]])
    assert target.chosen(t).tolist() == [-1, 7, 7]
    assert target.chosen(t, 0.1).tolist() == [-1, -1, 7]  # above, not at


def test_pairs_have_the_rows_of_two_classes_and_say_logarithms():
    target, y = CASES["pairs"]
    Y, T = columns_of(target, y)
    names = ["ash", "birch", "elm"]
    for j, (a, b) in enumerate(pairs_of(3).tolist()):
        assert target.columns[j] == f"{names[a]} against {names[b]}"
        expected = [1.0 if label == names[a] else -1.0 if label == names[b] else math.nan for label in y]
        np.testing.assert_array_equal(T[:, j].numpy(), expected)
    assert target.predictions == ["P(ash)", "P(birch)", "P(elm)"]
    t = some_values(target)
    np.testing.assert_allclose(target.probabilities(t), np.exp(target.decode(t).numpy()))
    fitted = target.fitted(0.5 * T.nan_to_num(0.0), rows_with(Y))
    assert fitted.calibration == Coupling.of(0.5 * T.nan_to_num(0.0).numpy(), Y.numpy(), ONES, float(N))


# ----------------------------------------------------------------------------------------------------- quantiles


def pinball(values, weight, level, at):
    r = values - at
    return float((weight * np.maximum(level * r, (level - 1) * r)).sum())


@pytest.mark.parametrize("level", [0.05, 0.3, 0.5, 0.95])
def test_a_weighted_quantile_minimises_the_pinball_loss(level):
    rng = np.random.default_rng(8)
    values, weight = rng.standard_normal(40).round(1), rng.integers(1, 4, 40).astype(float)
    at = quantile(values, weight, level)
    assert pinball(values, weight, level, at) <= min(pinball(values, weight, level, v) for v in values) + 1e-12
    assert weight[values <= at].sum() >= level * weight.sum() - 1e-9
    assert weight[values < at].sum() < level * weight.sum()
    assert at == quantile(np.repeat(values, weight.astype(int)), np.ones(int(weight.sum())), level)


def test_offsets_are_quantiles_of_residuals_where_rows_lie_beyond_the_level():
    target, y = CASES["quantiles"]
    weight = np.random.default_rng(9).uniform(0.5, 2, N)
    rows, t = rows_with(torch.from_numpy(target.encode(y)), weight), some_values(target, N)
    fitted = target.fitted(t, rows)
    assert rows.size * 0.1 >= BEYOND
    for j, level in enumerate(LEVELS):
        assert fitted.offsets[j] == quantile((rows.Y[:, 0] - t[:, j]).numpy(), weight, level)
    few = target.fitted(t[:40], rows[slice(0, 40)])
    assert few.offsets[[0, 2]].tolist() == [0, 0]  # fewer than five of forty rows
    assert few.offsets[1] != 0


def test_quantiles_are_shifted_clipped_and_put_in_order():
    target = replace(CASES["quantiles"][0], offsets=np.array([0.2, -0.1, 0.3]))
    t = some_values(target)
    for row, said in zip(t.tolist(), target.decode(t).tolist(), strict=True):
        shifted = [min(max(value + offset, -1.0), 1.0) for value, offset in zip(row, target.offsets, strict=True)]
        assert said == pytest.approx(sorted(shifted))
    base, scale = target.unit()
    t = torch.tensor([[-0.5, 0.0, 0.5]], dtype=torch.float64)
    np.testing.assert_allclose((base + scale * t.numpy())[0], target.out(target.decode(t).numpy())[0])


def test_errors_of_quantiles_are_pinball_losses_in_the_unit_of_the_labels():
    target, y = CASES["quantiles"]
    weight = np.random.default_rng(10).uniform(0.5, 2, N)
    rows, t = rows_with(torch.from_numpy(target.encode(y)), weight), some_values(target, N).sort(1).values
    said = target.out(t.numpy())
    told = target.measures(t, rows)
    losses = [pinball(y, weight / weight.sum(), level, said[:, j]) for j, level in enumerate(LEVELS)]
    assert told["pinball"] == pytest.approx(np.mean(losses))
    assert told["inside"] == pytest.approx(weight[(said[:, 0] <= y) & (y <= said[:, 2])].sum() / weight.sum())
    assert "inside" not in CASES["a quantile"][0].measures(t[:, :1], rows)


# ------------------------------------------------------------------------------------------- parts from elsewhere


ONE = torch.tensor([0.0, 1.0]).double()


@pytest.mark.parametrize(
    ("kind", "parts"),
    [
        (Scaling, {"middle": np.zeros(2), "half": np.ones(3)}),
        (Scaling, {"middle": np.array([np.nan]), "half": np.ones(1)}),
        (FewValues, {"values": ONE.flip(0)}),
        (FewValues, {"values": ONE[:1]}),
        (FewValues, {"values": ONE, "power": 0.0}),
        (FewValues, {"values": ONE, "power": 1e4}),
        (Classes, {"values": np.array([1, 1])}),
        (Classes, {"values": np.array([1])}),
        (Classes, {"values": ("a", "b"), "dtype": ""}),
        (Classes, {"values": ("a", "b"), "dtype": "<U99999999"}),
        (Classes, {"values": ("a", 3), "dtype": "<U3"}),
        (Classes, {"values": np.array([1, 2]), "calibration": Coupling(1.0)}),
        (Calibration, {"above": 0.0, "below": 1.0}),
        (Calibration, {"above": 1.0, "below": 1.0, "power": 1.0, "least": 0.0}),
        (Coupling, {"slope": -1.0}),
        (Quantiles, {"levels": np.array([0.5]), "offsets": np.zeros(2)}),
        (Quantiles, {"levels": np.array([1.0]), "offsets": np.zeros(1)}),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_parts_that_do_not_fit_are_refused(kind, parts):
    with pytest.raises(Malformed):
        kind.check_parts(parts)

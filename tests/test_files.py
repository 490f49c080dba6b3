"""Model files: what comes back is what was saved, and nothing else comes back."""

import copy
import io
import json
import os
import pickle
import resource
import signal
import stat
import warnings
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from sklearn.datasets import load_iris, make_friedman1
from sklearn.pipeline import make_pipeline

import hgk
from hgk import (
    Adam,
    Algorithm1,
    CompactModelError,
    HGKClassifier,
    HGKRegressor,
    HierarchicalKernel,
    ModelFileError,
    arrays,
    compose,
    inhomogeneous,
    isotropic,
    two_layers,
)
from hgk.events import Chosen, Step
from hgk.insight import learning_curves
from hgk.kernels import Oblique, Rough, Smooth, upgrade_architecture
from hgk.kernels.architecture import DEEPEST
from hgk.storable import Malformed
from hgk.storage import files, schema, upgrades, write_atomically
from hgk.storage.codec import DocumentReader, DocumentWriter
from tasks import quickly

pytest.importorskip("safetensors", reason="needs safetensors")

DATA = Path(__file__).parent / "data"
MUTATIONS = int(os.environ.get("HGK_FUZZ", "150"))
SHORT = Algorithm1(M=1, L=1, N1=10, N2=5, N3=2)


def friedman(n=60, d=6, seed=0):
    return make_friedman1(n, n_features=d, noise=0.1, random_state=seed)


def mixed(n=60):
    """A frame with text, missing cells and names that are no identifiers."""
    X, y = friedman(n)
    frame = pd.DataFrame(X, columns=["a b", "ü", "c", "d", "e", "f"])
    frame.loc[::7, "c"] = np.nan
    frame["kind"] = np.array(["red", "green", None], dtype=object)[np.arange(n) % 3]
    return frame, y + (frame["kind"] == "red")


def given_kernel():
    frame, y = mixed()
    return HGKRegressor("plain", random_state=0).fit(frame, y).kernel_


def several_outputs():
    X, y = friedman()
    return HGKRegressor("plain", random_state=0), X, np.column_stack([y, -(y**2), y > 10])


def on_centres(monkeypatch):
    monkeypatch.setattr(arrays.memory, "EXACT", 200)
    X, y = friedman(300)
    return HGKRegressor(random_state=0), X, np.column_stack([y, np.cos(y)])


CASES = {
    "default": lambda: (HGKRegressor(random_state=0), *friedman()),
    "default, mixed": lambda: (HGKRegressor(random_state=0), *mixed()),
    "plain": lambda: (HGKRegressor("plain", lam=1e-3, random_state=0), *friedman()),
    "algorithm1": lambda: (HGKRegressor("algorithm1", optimiser=SHORT, random_state=0), *friedman()),
    "paper": lambda: (
        HGKRegressor("paper", architecture=[inhomogeneous(6), two_layers(6, 2)], optimiser=SHORT, random_state=0),
        *friedman(),
    ),
    "deep": lambda: (
        HGKRegressor(architecture=compose([two_layers(6, 2), two_layers(6, 3)]), optimiser=Adam(steps=3)),
        *friedman(),
    ),
    "groups": lambda: (HGKRegressor(groups={"x": ["a b", "ü"], "y": ["kind"]}, random_state=0), *mixed()),
    "a kernel with inputs": lambda: (HGKRegressor(kernel=given_kernel(), random_state=0), *mixed()),
    "a bare kernel": lambda: (
        HGKRegressor(kernel=HierarchicalKernel.of(isotropic(6), [[1.0] * 6]), random_state=0),
        *friedman(),
    ),
    "several outputs": several_outputs,
    "polars": lambda: (HGKRegressor("plain"), pl.DataFrame(friedman()[0]), friedman()[1]),
    "two classes": lambda: (HGKClassifier("plain", random_state=0), mixed()[0], mixed()[1] > 14),
    "texts": lambda: (HGKClassifier(random_state=0), *texts()),
}


def texts():
    X, y = load_iris(return_X_y=True)
    return X[::3], np.array(["setosa", "versicolor", "virginica"])[y[::3]]


@pytest.fixture(scope="module")
def fitted():
    """Fitted once, by name of the case."""
    known = {}

    def get(name):
        if name not in known:
            model, X, y = CASES[name]()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                known[name] = model.fit(X, y), X
        return known[name]

    return get


def outcomes(model, X):
    """Everything that a model says."""
    said = [model.predict(X), model.loo_predictions_, model.node_shares_, model.exponent_shares_]
    said += [model.alpha_, model.lam_, model.gamma_, model.X_fit_, model.kernel_(X)]
    if isinstance(model, HGKRegressor):
        return [*said, model.predict_interval(X), model.predict_interval(X, 0.5)]
    return [*said, model.predict_proba(X), model.decision_function(X), model.classes_]


def assert_same(model, other, X):
    for one, two in zip(outcomes(model, X), outcomes(other, X), strict=True):
        assert np.array_equal(one, two, equal_nan=np.asarray(one).dtype.kind == "f")
        assert np.asarray(one).dtype == np.asarray(two).dtype
    assert str(model.kernel_) == str(other.kernel_)
    assert list(getattr(model, "feature_names_in_", [])) == list(getattr(other, "feature_names_in_", []))


# ----------------------------------------------------------------------------------------------- there and back


@pytest.mark.parametrize("name", CASES)
def test_a_round_trip_is_equal_bit_by_bit(fitted, name, tmp_path):
    model, X = fitted(name)
    hgk.save(model, tmp_path / "model.hgk")
    loaded = hgk.load(tmp_path / "model.hgk")
    assert type(loaded) is type(model)
    assert_same(model, loaded, X)
    parameters, others = model.get_params(), loaded.get_params()
    if isinstance(model.kernel, HierarchicalKernel):
        kernel, other = parameters.pop("kernel"), others.pop("kernel")
        assert np.array_equal(kernel(X), other(X))
    assert parameters == others
    hgk.save(loaded, tmp_path / "again.hgk")
    assert (tmp_path / "again.hgk").read_bytes() == (tmp_path / "model.hgk").read_bytes()


def test_nystroms_machine_comes_back_too_and_its_compact_file_has_no_training_rows(tmp_path, monkeypatch):
    model, X, y = on_centres(monkeypatch)
    with quickly():
        model.fit(X, y)
    assert type(model.machine_).__name__ == "OnCentres"
    hgk.save(model, tmp_path / "full.hgk")
    hgk.save(model, tmp_path / "compact.hgk", compact=True)
    assert_same(model, hgk.load(tmp_path / "full.hgk"), X)
    assert np.array_equal(hgk.load(tmp_path / "compact.hgk").predict(X), model.predict(X))
    assert (tmp_path / "compact.hgk").stat().st_size < 0.7 * (tmp_path / "full.hgk").stat().st_size


def test_weights_and_rows_without_weight_come_back(tmp_path):
    X, y = friedman()
    weight = np.random.default_rng(0).integers(0, 3, len(X))
    model = HGKRegressor("plain", random_state=0).fit(X, y, sample_weight=weight)
    hgk.save(model, tmp_path / "model.hgk")
    assert_same(model, hgk.load(tmp_path / "model.hgk"), X)


@pytest.mark.parametrize(
    "labels",
    [
        lambda y: y,
        lambda y: y.astype(np.uint8),
        lambda y: y.astype(float),
        lambda y: y > 0,
        lambda y: np.array(["a", "bb", "ü"])[y],
        lambda y: np.array(["a", "bb", "ü"], dtype=object)[y],
        lambda y: pd.Series(y).map({0: "a", 1: "bb", 2: "c"}),
        lambda y: pd.Series(y).map({0: "a", 1: "bb", 2: "c"}).astype("category"),
    ],
)
def test_labels_of_every_type_come_back(labels, tmp_path):
    X, y = load_iris(return_X_y=True)
    model = HGKClassifier("plain", random_state=0).fit(X[::3], labels(y[::3]))
    hgk.save(model, tmp_path / "model.hgk")
    assert_same(model, hgk.load(tmp_path / "model.hgk"), X)


def test_what_has_no_form_in_a_file_is_left_out_by_name(tmp_path):
    X, y = friedman()
    model = HGKRegressor("plain", random_state=np.random.RandomState(0), callback=lambda event: None).fit(X, y)
    hgk.save(model, tmp_path / "model.hgk", note={"target": "price"})
    loaded = hgk.load(tmp_path / "model.hgk")
    assert (loaded.random_state, loaded.callback, loaded.preset) == (None, None, "plain")
    assert np.array_equal(loaded.predict(X), model.predict(X))
    assert files.describe(tmp_path / "model.hgk")["note"] == {"target": "price"}


def test_the_description_tells_versions_columns_and_training(fitted, tmp_path):
    model, _ = fitted("default, mixed")
    hgk.save(model, tmp_path / "model.hgk")
    found = files.describe(tmp_path / "model.hgk")
    assert found["schema"] == upgrades.SCHEMA
    assert found["versions"]["hgk"] == hgk.__version__
    assert found["versions"]["torch"] == torch.__version__.split("+")[0] or "+" in found["versions"]["torch"]
    assert found["summary"]["columns"] == list(model.feature_names_in_)
    assert found["summary"]["rows"] == 60
    assert found["bytes"] == (tmp_path / "model.hgk").stat().st_size
    np.testing.assert_allclose(found["summary"]["exponent_shares"], model.exponent_shares_)


def test_the_history_keeps_first_and_last_steps_and_all_decisions(fitted, tmp_path):
    model, _ = fitted("default")
    steps = [Step(candidate="x", step=i, criterion=float(i), lam=1e-3) for i in range(1000)]
    told = (*steps, Chosen(candidates=("x",), risk=float("nan")))
    long = copy.copy(model)
    long.restore(replace(model.model_, history=told), None)
    hgk.save(long, tmp_path / "model.hgk")
    *kept, chosen = hgk.load(tmp_path / "model.hgk").history_
    assert len(kept) == files.STEPS_KEPT
    assert [event.step for event in kept][:: files.STEPS_KEPT - 1] == [0, 999]
    assert all(event == steps[event.step] for event in kept)
    assert chosen == Chosen(candidates=("x",), risk=None)  # a file holds finite numbers


# -------------------------------------------------------------------------------------------------- compact files


def test_a_compact_model_predicts_the_same_and_says_what_it_lacks(fitted, tmp_path):
    model, X = fitted("default")
    hgk.save(model, tmp_path / "full.hgk")
    hgk.save(model, tmp_path / "compact.hgk", compact=True)
    loaded = hgk.load(tmp_path / "compact.hgk")
    assert np.array_equal(loaded.predict(X), model.predict(X))
    assert np.array_equal(loaded.exponent_shares_, model.exponent_shares_)
    with pytest.raises(CompactModelError, match=r"^Intervals need the training labels.*without compact\.$"):
        loaded.predict_interval(X)
    with pytest.raises(CompactModelError, match=r"^Leave-one-out predictions need the training labels"):
        _ = loaded.loo_predictions_
    assert not hasattr(loaded, "loo_predictions_")
    assert (tmp_path / "compact.hgk").stat().st_size < (tmp_path / "full.hgk").stat().st_size
    hgk.save(loaded, tmp_path / "again.hgk")
    assert np.array_equal(hgk.load(tmp_path / "again.hgk").predict(X), model.predict(X))


def test_a_compact_classifier_keeps_its_probabilities(fitted, tmp_path):
    model, X = fitted("two classes")
    hgk.save(model, tmp_path / "compact.hgk", compact=True)
    assert np.array_equal(hgk.load(tmp_path / "compact.hgk").predict_proba(X), model.predict_proba(X))


def test_rows_in_single_precision_stay_within_the_tolerance(fitted, tmp_path):
    model, X = fitted("plain")
    hgk.save(model, tmp_path / "double.hgk", compact=True)
    hgk.save(model, tmp_path / "single.hgk", compact=True, single=True)
    half = float(model.model_.target.scaling.half[0])
    assert 0 < np.abs(hgk.load(tmp_path / "single.hgk").predict(X) - model.predict(X)).max() < files.TOLERANCE * half
    assert (tmp_path / "single.hgk").stat().st_size < (tmp_path / "double.hgk").stat().st_size
    with pytest.raises(ModelFileError, match="without compact=True"):
        hgk.save(model, tmp_path / "no.hgk", single=True)


def test_single_precision_is_refused_where_it_would_show(fitted, tmp_path, monkeypatch):
    monkeypatch.setattr(files, "TOLERANCE", 1e-12)
    with pytest.raises(ModelFileError, match="save without single"):
        hgk.save(fitted("plain")[0], tmp_path / "no.hgk", compact=True, single=True)
    assert not list(tmp_path.iterdir())


# ------------------------------------------------------------------------------------------------------- writing


def test_a_failed_write_leaves_the_old_file_and_nothing_else(fitted, tmp_path):
    model, _ = fitted("plain")
    path = tmp_path / "model.hgk"
    path.write_bytes(b"old")
    limits, before = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))  # as a full disk: writing fails half-way
    try:
        with pytest.raises(ModelFileError, match=r"could not be written .* is as it was before"):
            hgk.save(model, path, force=True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_an_interrupt_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "model.hgk"
    path.write_bytes(b"old")

    def interrupted(file):
        file.write(b"half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_atomically(path, interrupted)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_links_and_permissions_survive(fitted, tmp_path):
    model, X = fitted("plain")
    real, link = tmp_path / "real.hgk", tmp_path / "link.hgk"
    hgk.save(model, real)
    real.chmod(0o640)
    link.symlink_to(real)
    hgk.save(model, link, compact=True)
    assert link.is_symlink()
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    assert np.array_equal(hgk.load(real).predict(X), model.predict(X))


@pytest.mark.parametrize(
    ("what", "said"),
    [
        (lambda m, p: hgk.save(HGKRegressor(), p / "m"), "not fitted yet; call fit"),
        (lambda m, p: hgk.save(make_pipeline(m), p / "m"), "use joblib"),
        (lambda m, p: hgk.save(m, p), "is a folder"),
        (lambda m, p: hgk.save(m, p / "no" / "m.hgk"), "has no folder"),
        (lambda m, p: hgk.save(m, p / "m", note={"a": 1}), "dict of texts"),
        (lambda m, p: hgk.load(p / "none.hgk"), r"cannot be read \(No such file"),
        (lambda m, p: hgk.load(p), r"cannot be read \(Is a directory"),
        (lambda m, p: hgk.load("/dev/null"), "not a regular file"),
    ],
)
def test_what_cannot_be_saved_or_loaded_is_one_sentence(fitted, tmp_path, what, said):
    with pytest.raises(ModelFileError, match=said) as caught:
        what(fitted("plain")[0], tmp_path)
    assert_sentence(caught.value)
    assert not list(tmp_path.iterdir())


def assert_sentence(error):
    assert "\n" not in str(error)
    assert str(error).endswith(".")


# ------------------------------------------------------------------------------------------------- hostile files


@pytest.fixture(scope="module")
def blob(fitted, tmp_path_factory):
    path = tmp_path_factory.mktemp("blob") / "model.hgk"
    hgk.save(fitted("default, mixed")[0], path)
    return path.read_bytes()


def parted(blob):
    """The description, the rest of the header, the body."""
    length = int.from_bytes(blob[:8], "little")
    header = json.loads(blob[8 : 8 + length])
    return json.loads(header.pop("__metadata__")["hgk"]), header, blob[8 + length :]


def sealed(description, header, body):
    """A file with a checksum that fits, whatever it holds."""
    first = {"__metadata__": {"hgk": json.dumps({**description, "checksum": schema.BLANK})}}
    text = json.dumps({**first, **header}, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    blob = bytearray(len(text).to_bytes(8, "little") + text + body)
    blob[schema.digits(blob)] = schema.checksum(blob).encode()
    return bytes(blob)


def refused(tmp_path, content, said=None):
    path = tmp_path / "hostile.hgk"
    path.write_bytes(content)
    with pytest.raises(ModelFileError, match=said) as caught:
        hgk.load(path)
    assert_sentence(caught.value)


def test_taking_a_file_apart_and_sealing_it_gives_the_file(blob):
    assert sealed(*parted(blob)) == blob


@pytest.mark.parametrize(
    "content",
    [b"", b"x", b"a,b\n1,2\n", pickle.dumps({"a": 1}), b"PK\x03\x04" * 40, bytes(1000), b"\xff" * 1000],
    ids=["empty", "x", "csv", "pickle", "zip", "zeros", "ones"],
)
def test_other_files_are_not_model_files(tmp_path, content):
    refused(tmp_path, content, "is not a model file of hgk")


def test_a_safetensors_file_of_something_else_is_not_a_model_file(tmp_path):
    from safetensors.numpy import save

    refused(tmp_path, save({"weight": np.ones(3)}, {"format": "pt"}), "is not a model file of hgk")


def test_truncated_files_say_how_much_is_lacking(blob, tmp_path):
    refused(tmp_path, blob[:-1], f"has {len(blob) - 1} bytes and should have {len(blob)}")
    refused(tmp_path, blob + b"x", f"has {len(blob) + 1} bytes and should have {len(blob)}")
    refused(tmp_path, blob[:4000], "its header alone")
    for length in range(1, 200, 7):
        refused(tmp_path, blob[:length])


def test_a_newer_schema_asks_for_an_upgrade(blob, tmp_path):
    description, header, body = parted(blob)
    description["schema"], description["versions"]["hgk"] = 99, "9.9"
    refused(tmp_path, sealed(description, header, body), r"written by a newer hgk \(9\.9, schema 99\).*upgrade hgk")
    description["schema"] = 0
    refused(tmp_path, sealed(description, header, body), "unknown schema 0")


def test_a_file_larger_than_memory_is_refused_before_it_is_read(blob, tmp_path, monkeypatch):
    monkeypatch.setattr(schema, "available_memory", lambda *device: len(blob))
    refused(tmp_path, blob, "loading it needs three times")


def changed(document, path, value):
    """A copy with the entry at ``path`` replaced."""
    document = copy.deepcopy(document)
    *way, last = path
    target = document
    for step in way:
        target = target[step]
    target[last] = value
    return document


MODEL = ("model", "model")
MACHINE = (*MODEL, "machine")
KERNEL = (*MACHINE, "kernel", "kernels", 0)
TREE = (*KERNEL, "architecture")
# arrays of other places
ALPHA, TABLE = {"array": "model.machine.alpha"}, {"array": "model.training.table"}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ((*TREE, "d"), 10**15),
        ((*TREE, "d"), -1),
        ((*TREE, "parents"), [[10**15] * 8]),
        ((*TREE, "parents"), [[0]] * 100_000),
        ((*TREE, "kinds", 0), {"type": "Oblique", "rank": 10**15}),
        ((*TREE, "kinds", 0), {"type": "Rough", "q": 2.0}),
        ((*TREE, "kinds", 0), {"type": "Adam"}),
        ((*TREE, "kinds"), [{"type": "Smooth"}]),
        ((*TREE, "coordinates"), [[10**15]]),
        ((*TREE, "coordinates"), []),
        ((*KERNEL, "gamma"), 0),
        ((*KERNEL, "gamma"), "1.0"),
        ((*KERNEL, "inputs"), {"type": "system", "x": "rm"}),
        ((*MACHINE, "kernel", "kernels"), []),
        ((*MACHINE, "kernel", "proportions"), [1.0]),
        ((*MACHINE, "kernel", "proportions", 0), 10**400),
        ((*MACHINE, "kernel", "proportions", 0), -1.0),
        ((*MACHINE, "kernel", "proportions", 0), 1e300),
        ((*MACHINE, "kernel", "type"), "HierarchicalKernel"),
        ((*MACHINE, "type"), "Popen"),
        ((*MACHINE, "type"), "Numbers"),
        ((*MACHINE, "lam"), -1.0),
        ((*MACHINE, "ridge_added"), -1.0),
        ((*MACHINE, "X"), {"array": "no such"}),
        ((*MACHINE, "X"), ALPHA),
        ((*MACHINE, "alpha"), TABLE),
        ((*MACHINE, "parts"), [ALPHA]),
        ((*MACHINE, "parts"), []),
        (MACHINE, {"type": "MeanOfMachines", "machines": []}),
        ((*MODEL, "target", "single"), 1),
        ((*MODEL, "target", "scaling"), None),
        ((*MODEL, "target"), {"type": "Classes", "values": [True, False]}),
        ((*MODEL, "node_importances"), ALPHA),
        ((*MODEL, "history"), [{"type": "Step"}]),
        ((*MODEL, "history"), [{"type": "Adam"}]),
        ((*MODEL, "history"), [{"type": "Optimism", "ratio": {"deep": {}}}]),
        ((*MODEL, "history"), [{"type": "Held", "risk": -1.0}]),
        ((*MODEL, "training", "rows"), None),
        ((*MODEL, "training", "place"), TABLE),
        ((*MODEL, "training", "table"), ALPHA),
        ((*MODEL, "device"), "cuda"),
        ((*MODEL, "extra"), 1),
        ((*MODEL, "inputs", "columns"), []),
        ((*MODEL, "inputs", "columns", 0, "missing"), "no"),
        ((*MODEL, "inputs", "columns", 0, "type"), "Unchanged"),
        ((*MODEL, "inputs", "columns", 0, "type"), "Rows"),
        ((*MODEL, "inputs"), {"reader": [], "encoder": []}),
        (("model", "estimator"), "os.system"),
        (("model", "parameters"), {"pairs": [["preset", "default"], ["__class__", "x"]]}),
        (("model", "parameters"), {"pairs": [["kernel", {"type": "Adam"}]]}),
        (("model", "names"), ["a"]),
        (("model", "extra"), 1),
        (("model",), [[[[[[]]]]]]),
    ],
    ids=lambda value: ".".join(map(str, value)) if isinstance(value, tuple) else repr(value)[:20],
)
def test_a_hostile_description_with_a_fitting_checksum_is_refused(blob, tmp_path, path, value):
    description, header, body = parted(blob)
    assert {ALPHA["array"], TABLE["array"]} <= set(header)
    refused(tmp_path, sealed(changed(description, path, value), header, body), "damaged or was altered")


def test_a_tree_too_deep_to_walk_is_refused(blob, tmp_path):
    """Kernels and their printing go down a tree by recursion."""
    description, header, body = parted(blob)
    for layers, said in ((DEEPEST - 1, None), (DEEPEST, "more than 64 layers"), (50_000, "more than 64")):
        tree = {"type": "Architecture", "d": 7, "coordinates": [[0]], "parents": [[0]] * layers}
        hostile = changed(description, ("model", "parameters"), {"pairs": [["architecture", tree]]})
        if said is None:
            (tmp_path / "deep.hgk").write_bytes(sealed(hostile, header, body))
            assert hgk.load(tmp_path / "deep.hgk").architecture.depth == DEEPEST
        else:
            refused(tmp_path, sealed(hostile, header, body), said)


def test_nesting_beyond_recursion_and_numbers_beyond_bounds_are_refused(blob, tmp_path):
    _description, header, body = parted(blob)
    for inner in ("[" * 100_000, "[" * 100_000 + "]" * 100_000, '{"schema": 1' + "0" * 5000 + "}", "NaN", "[]", "3"):
        text = (
            json.dumps({"checksum": schema.BLANK})[:-1]
            + f', "schema": 1, "versions": {{"hgk": "0"}}, "model": {inner}}}'
        )
        content = {"__metadata__": {"hgk": text}, **header}
        raw = json.dumps(content, separators=(",", ":")).encode()
        whole = bytearray(len(raw).to_bytes(8, "little") + raw + body)
        whole[schema.digits(whole)] = schema.checksum(whole).encode()
        refused(tmp_path, bytes(whole), "damaged or was altered")


def test_hostile_places_of_arrays_are_refused(blob, tmp_path):
    description, header, body = parted(blob)
    name = next(iter(header))
    for entry in (
        {"dtype": "F64", "shape": [2**40, 2**40], "data_offsets": [0, 8]},
        {"dtype": "F64", "shape": [1], "data_offsets": [-8, 0]},
        {"dtype": "BF16", "shape": [4], "data_offsets": [0, 8]},
        {"dtype": "F64", "shape": [1], "data_offsets": [8, 0]},
        {"dtype": "F64", "shape": [1], "data_offsets": [0, 10**18]},
        {"dtype": "F64", "shape": "x", "data_offsets": None},
        [],
    ):
        refused(tmp_path, sealed(description, {**header, name: entry}, body), "damaged or was altered")


def test_infinite_weights_and_rows_are_refused(blob, tmp_path):
    description, header, body = parted(blob)
    for name in [n for n in header if n.split(".")[-1] in ("alpha", "X", "0", "weight", "knots")]:
        start, stop = header[name]["data_offsets"]
        if stop > start and header[name]["dtype"] == "F64":
            altered = body[:start] + np.array([np.nan]).tobytes() + body[start + 8 :]
            refused(tmp_path, sealed(description, header, altered), "damaged or was altered")


def test_every_mutation_of_the_bytes_is_noticed(blob, tmp_path):
    """Flipped, cut, doubled, overwritten and moved bytes, anywhere."""
    rng = np.random.default_rng(MUTATIONS)
    length = len(blob)
    for _ in range(MUTATIONS):
        content, at, size = bytearray(blob), int(rng.integers(length)), int(rng.integers(1, 64))
        match rng.integers(5):
            case 0:
                content[at] ^= 1 << int(rng.integers(8))
            case 1:
                del content[at : at + size]
            case 2:
                content[at:at] = content[at : at + size]
            case 3:
                content[at : at + size] = rng.bytes(len(content[at : at + size]))
            case 4:
                content[at : at + size], content[:size] = content[:size], content[at : at + size]
        if bytes(content) != blob:
            refused(tmp_path, bytes(content))


def leaves(document, way=()):
    """The ways to everything in a document."""
    parts = (
        document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    )
    for key, part in parts:
        yield (*way, key)
        yield from leaves(part, (*way, key))


@pytest.mark.parametrize("name", ["default, mixed", "texts"])
def test_mutations_with_a_fitting_checksum_are_refused_or_make_a_model_that_works(fitted, tmp_path, name):
    """Whoever can write a file can write its checksum: no entry of it may lead to anything but a sentence."""
    rng = np.random.default_rng(MUTATIONS)
    model, X = fitted(name)
    hgk.save(model, tmp_path / "mutant.hgk")
    description, header, body = parted((tmp_path / "mutant.hgk").read_bytes())
    ways = [way for way in leaves(description["model"]) if way[:2] != ("model", "history") or way[2:] < (3,)]
    values = [None, True, 0, 1, -1, 2**31, 10**30, 0.5, 1e308, "", "x", [], [0], {}, {"pairs": []}, {"type": "Exact"}]
    path, works = tmp_path / "mutant.hgk", 0
    for _ in range(MUTATIONS):
        if rng.random() < 0.8:
            way = ways[rng.integers(len(ways))]
            new = values[rng.integers(len(values))]
            if rng.random() < 0.3:  # something from elsewhere in the same file
                new = description["model"]
                for step in ways[rng.integers(len(ways))]:
                    new = new[step]
            content = sealed({**description, "model": changed(description["model"], way, new)}, header, body)
        else:
            start = int(rng.integers(len(body) // 8)) * 8
            content = sealed(description, header, body[:start] + rng.bytes(8) + body[start + 8 :])
        path.write_bytes(content)
        try:
            model = hgk.load(path)
        except ModelFileError as error:
            assert_sentence(error)
            continue
        works += 1
        learning_curves(model)
        # ValueError: such as a column that is now expected under another name
        with np.errstate(all="ignore"), suppress(ValueError):
            assert len(model.predict(X)) == len(X)
    assert works < MUTATIONS


# ------------------------------------------------------------------------------------- older schemas, other formats


def constant_intervals(model, X):
    """Those of the versions that wrote the files."""
    return model.predict_interval(X, method="jackknife+", bounds=None)


def test_a_file_of_schema_1_still_loads():
    """Written by ``tests/data/make_schema1.py``; never to be written again."""
    expected = json.loads((DATA / "schema1.json").read_text())
    for name, said in expected.items():
        model = hgk.load(DATA / f"{name}.hgk")
        X = pd.DataFrame(said["rows"])
        if "predict_proba" in said:
            assert model.predict(X).tolist() == said["predict"]
        else:
            np.testing.assert_allclose(model.predict(X), said["predict"], rtol=1e-6)
        np.testing.assert_allclose(model.exponent_shares_, said["importances"], rtol=1e-6)
        if "predict_proba" in said:
            np.testing.assert_allclose(model.predict_proba(X), said["predict_proba"], rtol=1e-5)
        else:
            np.testing.assert_allclose(constant_intervals(model, X), said["predict_interval"], rtol=1e-5)


def test_files_of_schema_3_still_load():
    """Written by ``tests/data/make_schema3.py``, with rows that are there twice; never to be written again."""
    expected = json.loads((DATA / "schema3.json").read_text())
    for name, said in expected.items():
        model = hgk.load(DATA / f"{name}.hgk")
        X = pd.DataFrame(said["rows"])
        if name == "schema3_pairs":
            assert model.predict(X).tolist() == said["predict"]
            np.testing.assert_allclose(model.predict_proba(X).sum(1), 1)
            continue
        np.testing.assert_allclose(model.predict(X), said["predict"], rtol=1e-6)
        np.testing.assert_allclose(model.loo_predictions_[:5], said["loo"], rtol=1e-5)
        if "interval" in said:
            np.testing.assert_allclose(constant_intervals(model, X), said["interval"], rtol=1e-5)


def test_files_of_schema_4_still_load_with_every_kind_of_column(tmp_path):
    """Written by ``tests/data/make_schema4_inputs.py``; never to be written again."""
    expected = json.loads((DATA / "schema4_inputs.json").read_text())
    for name, said in expected.items():
        model = hgk.load(DATA / f"{name}.hgk")
        np.testing.assert_allclose(model.predict(pd.DataFrame(said["rows"])), said["predict"], rtol=1e-6)
        assert list(model.kernel_.columns) == said["features"]
        if name != "schema4_kernel_by_hand":  # whose categories have no indicators, rare or not
            assert [column["words"] for column in model.model_.inputs.taken_for()] == said["taken_for"]
        hgk.save(model, tmp_path / "again.hgk")
        again = hgk.load(tmp_path / "again.hgk").predict(pd.DataFrame(said["rows"]))
        np.testing.assert_array_equal(again, model.predict(pd.DataFrame(said["rows"])))


def test_a_file_of_schema_4_still_loads_with_kinds_in_place_of_exponents():
    """Written by ``tests/data/make_schema4.py``, with smooth, rough and oblique nodes; never to be written again."""
    said = json.loads((DATA / "schema4.json").read_text())
    model = hgk.load(DATA / "schema4_kinds.hgk")
    kinds = (Smooth(), Rough(0.7), Oblique(2), Oblique(2))
    assert model.architecture.kinds == kinds
    assert all(kernel.architecture.kinds == kinds for _, kernel in model.kernel_.terms)
    np.testing.assert_allclose(model.predict(said["rows"]), said["predict"], rtol=1e-6)
    np.testing.assert_allclose(model.loo_predictions_[:5], said["loo"], rtol=1e-5)


@pytest.mark.parametrize(
    "parts",
    [{"exponents": [2.0]}, {"oblique": [1, 0], "rank": 1}, {"oblique": [2], "rank": 1}, {"oblique": [0, 0], "rank": 1}],
)
def test_kinds_of_schema_4_that_do_not_fit_are_refused(parts):
    with pytest.raises(Malformed, match="kinds of nodes do not fit"):
        upgrade_architecture({"type": "Architecture", "d": 3, "coordinates": [[0], [1, 2]], **parts})


@pytest.mark.parametrize("name", ["default, mixed", "texts", "a kernel with inputs"])
@pytest.mark.parametrize("way", ["pickle", "joblib", "deepcopy", "skops"])
def test_pickle_joblib_and_skops_work_too(fitted, name, way):
    model, X = fitted(name)
    if way == "pickle":
        other = pickle.loads(pickle.dumps(model))
    elif way == "deepcopy":
        other = copy.deepcopy(model)
    elif way == "joblib":
        buffer = io.BytesIO()
        joblib.dump(model, buffer)
        buffer.seek(0)
        other = joblib.load(buffer)
    else:
        skops = pytest.importorskip("skops.io", reason="needs skops")
        content = skops.dumps(model)
        trusted = skops.get_untrusted_types(data=content)
        assert all(kind.startswith("hgk.") for kind in trusted)
        other = skops.loads(content, trusted=trusted)
    assert_same(model, other, X)
    assert other.machine_.X is other.model_.training.rows.X  # shared, as they were


def test_a_read_only_memory_map_of_joblib_loads_without_a_warning(fitted, tmp_path):
    model, X = fitted("plain")
    joblib.dump(model, tmp_path / "model.joblib")
    assert_same(model, joblib.load(tmp_path / "model.joblib", mmap_mode="r"), X)


def test_the_codec_refuses_types_it_was_not_asked_for():
    encoder = DocumentWriter()
    document = encoder({"a": (1, 2.0, None, "x", True), "b": np.arange(3.0)})
    decoder = DocumentReader(encoder.arrays)
    entry = tuple[int, float, None, str, bool] | np.ndarray
    back = decoder(document, dict[str, entry])
    assert back["a"] == (1, 2.0, None, "x", True)
    assert np.array_equal(back["b"], np.arange(3.0))
    for wrong in (dict[str, int], list[int], dict[str, tuple[int, ...]]):
        with pytest.raises(Malformed):
            decoder(document, wrong)
    for strange in (object(), float("nan"), np.array(["a"]), {1: object()}, 1j):
        with pytest.raises(Malformed):
            DocumentWriter()(strange)

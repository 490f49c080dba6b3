"""Everything that can be given wrongly: what, how to provoke it, the error that comes.

``python tests/bad_inputs.py`` (``make errors``) provokes all of it and writes docs/errors.md; ``test_bad_inputs.py``
does the same and compares. A case works in a folder of its own that holds what ``prepared`` put there.
"""

import contextlib
import gzip
import io
import json
import os
import re
import sys
import tempfile
import warnings
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import numpy as np
import pandas as pd
import polars as pl
import scipy.sparse
import torch
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline

import hgk
from hgk import (
    Adam,
    Algorithm1,
    Architecture,
    CompactModelError,
    GaussianProcessKernel,
    HGKClassifier,
    HGKQuantileRegressor,
    HGKRegressor,
    HierarchicalKernel,
    ModelFileError,
    cli,
    compose,
    inhomogeneous,
    isotropic,
    two_layers,
    with_kinds,
)
from hgk.bench import datasets
from hgk.bench.datasets import DataError
from hgk.bench.peers.hkl import HKLRegressor
from hgk.bench.store import Store, StoreError
from hgk.insight import compare, contributions, evaluate, importance, reasons
from hgk.kernels import MeanKernel, Rough, Smooth
from hgk.losses import EpsilonInsensitive, Hinge, Pinball
from hgk.report.displays import EffectDisplay
from hgk.report.page import report
from hgk.storage import schema

PAGE = Path(__file__).parents[1] / "docs" / "errors.md"
RNG = np.random.default_rng(0)
X = RNG.uniform(size=(30, 3))
Y = np.sin(4 * X[:, 0]) + X[:, 1]
LABELS = (Y.mean() < Y).astype(int)
FRAME = pd.DataFrame(X, columns=["age", "height", "income"])
HOUSES = FRAME.assign(town=np.array(["Rom", "Ulm", "Bari"])[np.arange(30) % 3], price=Y.round(3))
PLAIN = HGKRegressor("plain", random_state=0)


@dataclass(frozen=True)
class Case:
    """``theirs``: the words are scikit-learn's, which its contract fixes. ``reason``: what is in brackets is another
    library's, and differs between its versions."""

    area: str
    given: str
    provoke: Callable[[], object]
    error: type[BaseException]
    theirs: bool = False
    reason: bool = False
    environment: tuple[tuple[str, str], ...] = ()


# ------------------------------------------------------------------------------------------------------ how to


def fit(X, y=Y, weight=None, model=PLAIN):
    return lambda: model.fit(X, y, weight)


def prepared(folder):
    """Tables and models for the cases."""
    HOUSES.to_csv(folder / "houses.csv", index=False)
    (folder / "other.csv").write_text("a,b\n1,2\n3,4\n")
    model = HGKRegressor("plain", random_state=0).fit(HOUSES[["age", "height", "town"]], HOUSES["price"])
    hgk.save(model, folder / "price.hgk", note={"target": "price"})
    hgk.save(model, folder / "compact.hgk", compact=True)
    sold = HOUSES["price"] > HOUSES["price"].mean()
    hgk.save(HGKClassifier("plain", random_state=0).fit(HOUSES[["age", "height"]], sold), folder / "sold.hgk")
    blob = (folder / "price.hgk").read_bytes()
    (folder / "cut.hgk").write_bytes(blob[:-100])
    (folder / "altered.hgk").write_bytes(blob[:-9] + bytes([blob[-9] ^ 1]) + blob[-8:])
    known, newer = (f'\\"schema\\": {number}'.encode() for number in (schema.SCHEMA, 9))
    (folder / "newer.hgk").write_bytes(blob.replace(known, newer))
    other_types = altered(blob, lambda text: re.sub(r'"products": \d+', '"products": ["many"]', text))
    (folder / "history.hgk").write_bytes(other_types)
    (folder / "entries.hgk").write_bytes(altered(blob, lambda text: text + 6_000_000 * ","))
    if hasattr(os, "mkfifo"):
        os.mkfifo(folder / "pipe.csv")
    tables = {
        "empty.csv": b"",
        "names.csv": b"a,price\n",
        "twice.csv": b"a,price,a\n1,2,3\n4,5,6\n",
        "nameless.csv": b"1,2\n3,4\n",
        "uneven.csv": b"a,price\n1,2\n3,4,5\n",
        "latin1.csv": "größe,price\n1,2\n".encode("latin-1"),
        "zero.csv": b"a,price\n1,\x002\n",
        "broken.csv.gz": gzip.compress(b"a,price\n" + b"1,2\n" * 99)[:20],
        "broken.parquet": b"PAR1nonsense",
        "broken.feather": b"ARROW1nonsense",
        "text.csv": b"a,price\n" + b"".join(b"%d,t%d\n" % (i, i) for i in range(40)),
        "commas.csv": b"a;price\n" + b"".join(b"%d;%d,%d\n" % (i % 7, i, 200 + i) for i in range(1, 41)),
        "word.csv": b"a,price\n" + b"".join(b"%d,%d\n" % (i % 7, i) for i in range(1, 41)) + b"3,twelve\n",
        "same.csv": b"a,price\n1,x\n2,x\n",
        "blank.csv": b"a,price\n1,\n2,\n",
        "only.csv": b"price\n1\n2\n",
        "infinite.csv": b"a,price\n" + b"inf,1\n2,3\n4,5\n",
        "times.parquet": HOUSES.assign(day=pd.to_timedelta(range(30), "D")).to_parquet(None),
        "dates.csv": b"day,price\n" + b"".join(b"%02d/05/2024,%d\n" % (i, i) for i in range(1, 12)),
        "broken.json": b'[{"a": 1}, {"a": ',
        "list.json": b"[1, 2, 3]",
        "columns.json": b'{"a": [1, 2], "price": [1]}',
        "none.json": b"[]",
        "twice.json": b'[{"a": 1, "a": 2}]',
        "broken.xlsx": b"PK\x03\x04nonsense",
        "zipped.zip": zipped("a.csv"),
        "sheet.xlsx": zipped("xl/workbook.xml"),
        "old.xls": b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",
        "ids.csv": HOUSES.assign(lower=1).to_csv(index=False).encode(),
        "rows.jsonl": b"",
        "one.jsonl": b'{"set": "mine", "split": 0, "method": "RF", "status": "ok", "mse": 0.25}\n',
        "zeros.parquet": pd.DataFrame({"a": np.zeros(10**6), "price": np.ones(10**6)}).to_parquet(None),
    }
    for name, content in tables.items():
        (folder / name).write_bytes(content)


def zipped(name):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as file:
        file.writestr(name, "a,price\n1,2\n")
    return packed.getvalue()


def altered(blob, change):
    """A model file with another description, and the checksum that fits it."""
    length = int.from_bytes(blob[:8], "little")
    header = json.loads(blob[8 : 8 + length])
    header["__metadata__"]["hgk"] = change(header["__metadata__"]["hgk"])
    head = json.dumps(header, separators=(",", ":")).encode()
    found = bytearray(len(head).to_bytes(8, "little") + head + blob[8 + length :])
    found[schema.digits(found)] = schema.BLANK.encode()
    found[schema.digits(found)] = schema.checksum(found).encode()
    return bytes(found)


def fitted():
    return hgk.load("price.hgk")


def command(*arguments):
    """``hgk …`` in this process; what it says is raised as a SystemExit with exit code 2."""

    def call():
        said = io.StringIO()
        with (
            mock.patch.object(sys, "argv", ["hgk", *arguments]),
            contextlib.redirect_stderr(said),
            contextlib.redirect_stdout(io.StringIO()),
        ):
            try:
                cli.run()
            except SystemExit as end:
                if end.code == 2:
                    raise SystemExit(said.getvalue().rstrip("\n")) from end

    return call


def hgk_fit(data, *more, target="price"):
    return command("fit", data, "--target", target, "--preset", "plain", "--quiet", "--out", "m.hgk", *more)


# -------------------------------------------------------------------------------------------------------- cases


def _tables():
    nan, inf = np.nan, np.inf
    yield "None", fit(None), ValueError
    yield "a text", fit("houses.csv"), ValueError
    yield "a dict", fit({"age": [1, 2]}), ValueError
    yield "a generator", fit(iter([])), ValueError
    yield "one column as a flat array", fit(X[:, 0]), ValueError
    yield "three dimensions", fit(X[:, :, None]), ValueError
    yield "rows of different lengths", fit([[1, 2], [3]] * 15), ValueError, "reason"
    yield "a sparse matrix", fit(scipy.sparse.csr_array(X)), TypeError
    yield "a LazyFrame of polars", fit(pl.LazyFrame({"a": [1.0] * 30})), TypeError
    yield "no columns", fit(np.empty((30, 0))), ValueError
    yield "a frame without columns", fit(pd.DataFrame(index=range(30))), ValueError
    yield "no rows", fit(np.empty((0, 3)), np.empty(0)), ValueError
    yield "one row", fit(X[:1], Y[:1]), ValueError
    yield "one row, many times", fit(X[[0] * 30], np.ones(30)), ValueError
    yield "infinite cells", fit(np.where(X > 0.9, inf, X)), ValueError
    yield "infinite cells of a frame", fit(FRAME.where(FRAME < 0.9, inf)), ValueError
    yield "whole numbers beyond 1e308", fit(np.array([[10**400], [1]] * 15, dtype=object)), ValueError
    yield "complex numbers", fit(X + 1j), ValueError
    yield "complex numbers in a frame", fit(FRAME.assign(z=1j)), ValueError
    yield "durations", fit(np.arange(30).astype("m8[D]")[:, None]), ValueError
    yield "durations in a frame", fit(FRAME.assign(day=pd.to_timedelta(range(30), "D"))), ValueError
    yield "dates of which day or month may come first", fit(_written("01/02/2024", "03/04/2024")), ValueError
    yield "dates with a time zone and without", fit(FRAME.assign(day=_zoned())), ValueError
    yield "a structured array", fit(np.zeros((30, 1), dtype=[("a", float)])), ValueError
    yield "cells that are dicts", fit(FRAME.assign(d=[{"k": 1}] * 30)), TypeError
    yield "cells that are lists (polars)", fit(pl.DataFrame({"a": [[1, 2]] * 30})), TypeError
    yield "cells that are bytes", fit(FRAME.assign(b=[b"x"] * 30)), TypeError
    yield "several columns of one name", fit(FRAME.set_axis(["a", "b", "a"], axis=1)), ValueError
    yield "numbers in which a comma may mean two things", fit(_written("1,234", "5,678")), ValueError
    yield "percents mixed with other numbers", fit(_written("88%", "0.5")), ValueError
    yield "several currencies in a column", fit(_written("$5", "€6")), ValueError
    yield "at predict: other names", lambda: fitted().predict(FRAME), ValueError, "theirs"
    yield "at predict: another number of columns", lambda: PLAIN.fit(X, Y).predict(X[:, :2]), ValueError
    yield "at predict: texts where numbers were", lambda: fitted().predict(_towns(age="old")), ValueError
    yield "at predict: numbers with other marks", lambda: _of_dollars().predict(_written("7.984,90", "€5")), ValueError
    yield "at predict: dates where texts were", lambda: fitted().predict(_towns(town=pd.Timestamp("2020"))), ValueError
    yield "at predict: texts where dates were", _at_dates("soon"), ValueError
    yield "at predict: numbers where dates were", _at_dates(2020.0), ValueError
    yield "at predict: times with a zone where there were none", _at_dates(pd.Timestamp("2020", tz="UTC")), ValueError
    yield "at predict: no rows", lambda: PLAIN.fit(X, Y).predict(X[:0]), ValueError
    yield "at predict: not fitted", lambda: HGKRegressor().predict(X), NotFittedError, "theirs"
    yield "names that are partly numbers", fit(FRAME.set_axis([0, "b", "c"], axis=1)), TypeError, "theirs"
    yield "missing cells with a kernel made by hand", fit(np.where(X > 0.9, nan, X), model=_by_hand()), ValueError
    yield "numbers beyond 1e100 with a kernel made by hand", fit(X * 1e200, model=_by_hand()), ValueError


def _written(*cells):
    return FRAME.assign(paid=(list(cells) * 30)[:30])


def _zoned():
    return pd.Series([pd.Timestamp("2024-01-01", tz="UTC"), pd.Timestamp("2024-01-01")] * 15, dtype=object)


def _at_dates(cell):
    """New cells for a model that was fitted on dates."""
    model = HGKRegressor("plain", random_state=0).fit(FRAME.assign(day=pd.date_range("2020", periods=30)), Y)
    return lambda: model.predict(FRAME.assign(day=cell))


def _of_dollars():
    return HGKRegressor("plain", random_state=0).fit(_written("$8,641.50", "$17.50"), Y)


def _towns(**columns):
    return HOUSES[["age", "height", "town"]].assign(**columns)


def _by_hand(d=3):
    return HGKRegressor(kernel=HierarchicalKernel.of(inhomogeneous(d), [[1.0] * d]))


def _labels():
    classifier = HGKClassifier("plain")
    yield "None", fit(X, None), ValueError
    yield "a single number", fit(X, 3.5), ValueError
    yield "another number of labels", fit(X, Y[:20]), ValueError
    yield "missing labels", fit(X, np.where(Y > 1, np.nan, Y)), ValueError
    yield "infinite labels", fit(X, np.where(Y > 1, np.inf, Y)), ValueError
    yield "complex labels", fit(X, Y + 1j), ValueError
    yield "dates", fit(X, np.arange(30).astype("M8[D]")), ValueError
    yield "texts, for regression", fit(X, np.array(["red", "blue"] * 15)), ValueError
    yield "numbers in which a comma may mean two things", fit(X, ["1,234", "5,678"] * 15), ValueError
    yield "a word among numbers, for regression", fit(X, ["$1", "$2.50", "$3"] * 9 + ["$4", "$5", "twelve"]), ValueError
    yield "missing labels as texts, for regression", fit(X, ["1,5", "2,25", "?"] * 10), ValueError
    yield "three dimensions", fit(X, Y[:, None, None]), ValueError
    yield "no columns", fit(X, np.empty((30, 0))), ValueError
    yield "sparse labels", fit(X, scipy.sparse.csr_array(Y[:, None])), TypeError
    yield "continuous numbers, for classes", fit(X, Y, model=classifier), ValueError
    yield "one class", fit(X, np.ones(30), model=classifier), ValueError
    yield "two columns, for classes", fit(X, np.column_stack([LABELS, LABELS]), model=classifier), ValueError
    yield "missing classes", fit(X, np.array(["a", None, "b"] * 10, dtype=object), model=classifier), ValueError
    yield "numbers as texts, for classes", fit(_rows(80), [f"${i}.50" for i in range(80)], model=classifier), ValueError
    yield "whole numbers beyond 64 bits, for classes", fit(X, [2**64, 2**64 + 1] * 15, model=classifier), ValueError
    yield "texts and numbers as classes", fit(X, np.array(["a", 1] * 15, dtype=object), model=classifier), ValueError


def _rows(n):
    return np.random.default_rng(0).uniform(size=(n, 2))


def _weights():
    yield "another number of weights", fit(X, Y, np.ones(20)), ValueError
    yield "a table of weights", fit(X, Y, np.ones((30, 1))), ValueError
    yield "missing weights", fit(X, Y, np.where(Y > 1, np.nan, 1)), ValueError
    yield "infinite weights", fit(X, Y, np.where(Y > 1, np.inf, 1)), ValueError
    yield "negative weights", fit(X, Y, -Y), ValueError
    yield "all weights zero", fit(X, Y, np.zeros(30)), ValueError
    yield "texts", fit(X, Y, np.array(["heavy"] * 30)), ValueError
    yield "one class left", fit(X, LABELS, LABELS, HGKClassifier("plain")), ValueError


def _parameters():
    def given(error=ValueError, **parameters):
        return lambda: HGKRegressor(**parameters).fit(X, Y), error

    yield "an unknown preset", *given(preset="papre")
    yield "λ that is not positive", *given(lam=-1)
    yield "a time budget of 0", *given(time_budget=0)
    yield "a time budget with another preset", *given(preset="plain", time_budget=3)
    yield "a kernel that is a word", *given(TypeError, kernel="rbf")
    yield "a kernel and an optimiser", *given(kernel=_by_hand().kernel, optimiser=Algorithm1())
    yield "a kernel for other columns", *given(kernel=_by_hand(5).kernel)
    yield "a kernel and groups", *given(kernel=_by_hand().kernel, groups={"a": [0]})
    yield "an architecture that is a word", *given(TypeError, architecture="deep")
    yield "an empty list of architectures", *given(architecture=[])
    yield "a list with something else", *given(TypeError, architecture=[isotropic(3), 8])
    yield "an architecture for other columns", *given(architecture=isotropic(5))
    yield "groups that are a list", *given(TypeError, groups=[[0, 1]])
    yield "a group of an unknown column", *given(groups={"a": [0, 9]})
    yield "a group without columns", *given(groups={"a": []})
    yield "the plain preset with groups", *given(preset="plain", groups={"a": [0]})
    yield "an optimiser that is a word", *given(TypeError, optimiser="sgd")
    yield "a callback that is no function", *given(TypeError, callback=3)
    yield "no jobs", *given(n_jobs=0)
    yield "a seed that is a word", *given(random_state="today")
    yield "Algorithm 1 with M = 0", lambda: Algorithm1(M=0), ValueError
    yield "Adam with batches of one row", lambda: Adam(batch=1), ValueError
    yield "a coverage of 90", lambda: PLAIN.fit(X, Y).predict_interval(X, 90), ValueError
    yield "intervals of another kind", lambda: PLAIN.fit(X, Y).predict_interval(X, method="cqr"), ValueError
    yield "bounds that cross", lambda: PLAIN.fit(X, Y).predict_interval(X, bounds=(1, 0)), ValueError
    yield "intervals of a compact model", lambda: hgk.load("compact.hgk").predict_interval(_towns()), CompactModelError
    yield "contributions of 0 rows", lambda: contributions(fitted(), _towns(), 0), ValueError
    yield "importance in no permutation", lambda: importance(fitted(), repeats=0), ValueError
    yield "importance of a group without columns", lambda: importance(fitted(), {"none": []}), ValueError
    yield "importance of a compact model", lambda: hgk.load("compact.hgk").feature_importances_, CompactModelError
    yield "reasons for nothing", lambda: reasons(fitted()), ValueError
    yield "reasons of an unknown scale", lambda: reasons(fitted(), _towns(), of="logits"), ValueError
    yield "log-odds of a regression", lambda: reasons(fitted(), _towns(), of="log_odds"), ValueError
    yield "reasons that are exact by half", lambda: reasons(fitted(), _towns(), exact=0.5), ValueError
    yield "reasons without a background", lambda: reasons(fitted(), _towns(), background=0), ValueError
    yield "reasons of an unknown training row", lambda: reasons(fitted(), rows=[999]), ValueError


def _losses():
    def refused(model, error=ValueError, y=Y):
        return lambda: model.fit(X, y), error

    yield "margins for numbers", *refused(HGKRegressor(loss="hinge"))
    yield "margins for numbers, as an object", *refused(HGKRegressor(loss=Hinge()))
    yield "quantiles of classes", *refused(HGKClassifier(loss="pinball"), y=LABELS)
    yield "an unknown loss", *refused(HGKRegressor(loss="huber"))
    yield "a loss that is a number", *refused(HGKRegressor(loss=3), TypeError)
    yield "a level of 1", *refused(HGKRegressor(loss="pinball", tau=1.0))
    yield "a level that is a word", *refused(HGKRegressor(loss="expectile", tau="high"), TypeError)
    yield "a negative tube", *refused(HGKRegressor(loss="epsilon_insensitive", tube=-1.0))
    yield "several levels for one regressor", *refused(HGKRegressor(loss=Pinball(torch.tensor([0.1, 0.9]))))
    yield "quantiles that would cross", *refused(HGKQuantileRegressor(quantiles=[0.9, 0.1]))
    yield "a quantile of 1", *refused(HGKQuantileRegressor(quantiles=[0.5, 1.0]))
    yield "no quantile", *refused(HGKQuantileRegressor(quantiles=[]), TypeError)
    yield "an unknown way with several classes", *refused(HGKClassifier(multi_class="crammer"), y=LABELS)
    yield "unknown class weights", *refused(HGKClassifier(class_weight="even"), y=LABELS)
    yield "the weight of an unknown class", *refused(HGKClassifier(class_weight={7: 1.0}), y=LABELS)
    hinge = HGKClassifier("plain", loss="hinge", lam=1e-3, random_state=0)
    yield "a false-alarm rate of 2", lambda: hinge.fit(X, LABELS).threshold_for(2), ValueError
    numbers = HGKRegressor("plain", loss="pinball", lam=1e-2, random_state=0)
    yield "jackknife intervals with another loss", lambda: numbers.fit(X, Y).predict_interval(X), ValueError
    yield "an unknown device", *refused(HGKRegressor("plain", device="gpu"))


def _kernels():
    kernel = _by_hand().kernel
    yield "weights of another shape", lambda: HierarchicalKernel.of(inhomogeneous(3), [[1.0]]), ValueError
    yield "a width of 0", lambda: HierarchicalKernel.of(inhomogeneous(3), [[1.0] * 3], gamma=0.0), ValueError
    yield "rows with another number of columns", lambda: kernel(X[:, :2]), ValueError
    yield "rows with missing cells", lambda: kernel(np.where(X > 0.9, np.nan, X)), ValueError
    yield "rows beyond 1e77", lambda: kernel(X * 1e90), ValueError
    yield "rows of texts", lambda: kernel(np.array([["a", "b", "c"]])), ValueError, "reason"
    yield "one row, flat, for a learned kernel", lambda: fitted().kernel_(X[0]), ValueError
    yield "infinite cells, for a learned kernel", lambda: fitted().kernel_(_towns(age=np.inf)), ValueError
    yield "a gradient between two sets", lambda: GaussianProcessKernel(kernel)(X, X, True), ValueError
    yield "a node without columns", lambda: Architecture(3, ((),)), ValueError
    yield "a node with unknown columns", lambda: Architecture(3, ((0, 7),)), ValueError
    yield "an architecture without nodes", lambda: Architecture(3, ()), ValueError
    yield "parents with gaps", lambda: Architecture(3, ((0,), (1,)), ((0, 2),)), ValueError
    yield "two top nodes", lambda: Architecture(3, ((0,), (1,)), ((0, 1),)), ValueError
    yield "labels for other nodes", lambda: Architecture(3, ((0,),), labels=("a", "b")), ValueError
    yield "kinds for other nodes", lambda: Architecture(3, ((0,),), kinds=(Smooth(), Rough())), ValueError
    yield "an exponent of 3", lambda: with_kinds(two_layers(3, 2), rough=[0], q=3.0), ValueError
    yield "a map of rank 0", lambda: with_kinds(two_layers(3, 2), oblique=[0], rank=0), ValueError
    yield "a kind for an unknown node", lambda: with_kinds(two_layers(3, 2), rough=[2]), ValueError
    yield "a mean with a proportion too few", lambda: MeanKernel((kernel, kernel), (1.0,)), ValueError
    yield "a mean on other columns", lambda: MeanKernel((kernel, _by_hand(2).kernel), (1.0, 1.0)), ValueError
    yield "no nodes", lambda: two_layers(3, 0), ValueError
    yield "more columns per node than there are", lambda: two_layers(3, 2, 5), ValueError
    yield "an unknown scheme", lambda: two_layers(3, 2, scheme="even"), ValueError
    yield "trees of different depths", lambda: compose([isotropic(3), two_layers(3, 2)]), ValueError
    yield "something else than trees", lambda: compose([isotropic(3), "deep"]), TypeError
    yield "a quantile level of 1", lambda: Pinball(1.0), ValueError
    yield "a tube below 0", lambda: EpsilonInsensitive(-1.0), ValueError
    yield "hinge loss with labels 0 and 1", lambda: Hinge().check(torch.tensor([0.0, 1.0])), ValueError


def _files():
    def load(name):
        return lambda: hgk.load(name), ModelFileError

    yield "saving a model that is not fitted", lambda: hgk.save(HGKRegressor(), "m.hgk"), ModelFileError
    yield "saving a pipeline", lambda: hgk.save(make_pipeline(PLAIN), "m.hgk"), ModelFileError
    yield "saving to a folder", lambda: hgk.save(fitted(), "."), ModelFileError
    yield "saving to a folder that is not there", lambda: hgk.save(fitted(), "no/m.hgk"), ModelFileError
    yield "saving to None", lambda: hgk.save(fitted(), None), ModelFileError, "reason"
    yield "saving to a name of 300 letters", lambda: hgk.save(fitted(), 300 * "x"), ModelFileError
    yield "saving to a name with a zero byte", lambda: hgk.save(fitted(), "a\0b"), ModelFileError
    yield "loading None", lambda: hgk.load(None), ModelFileError, "reason"
    yield "saving over a file that is no model", lambda: hgk.save(fitted(), "houses.csv"), ModelFileError
    yield "a note that is not text", lambda: hgk.save(fitted(), "m.hgk", note={"a": 1}), ModelFileError
    yield "single precision without compact", lambda: hgk.save(fitted(), "m.hgk", single=True), ModelFileError
    yield "loading a file that is not there", *load("none.hgk")
    yield "loading a folder", *load(".")
    yield "loading a device", *load("/dev/null")
    yield "loading something else", *load("houses.csv")
    yield "loading a truncated file", *load("cut.hgk"), "reason"
    yield "loading an altered file", *load("altered.hgk")
    yield "loading a file of a newer hgk", *load("newer.hgk")
    yield "loading a file whose history is of other types", *load("history.hgk")
    yield "loading a file of millions of entries", *load("entries.hgk")


def _command_line():
    yield "no table", command("fit", "--target", "price", "--out", "m.hgk"), SystemExit
    yield "an unknown command", command("fti"), SystemExit
    yield "an unknown option", hgk_fit("houses.csv", "--tsak", "auto"), SystemExit
    yield "an unknown task", hgk_fit("houses.csv", "--task", "guess"), SystemExit, "reason"
    yield "an unknown device", hgk_fit("houses.csv", "--device", "gpu"), SystemExit
    yield "a table that is not there", hgk_fit("nowhere.csv"), SystemExit
    yield "an empty file", hgk_fit("empty.csv"), SystemExit
    yield "names without rows", hgk_fit("names.csv"), SystemExit
    yield "a name twice", hgk_fit("twice.csv"), SystemExit
    yield "no line of names", hgk_fit("nameless.csv"), SystemExit
    yield "a line with too many cells", hgk_fit("uneven.csv"), SystemExit, "reason"
    yield "another encoding", hgk_fit("latin1.csv"), SystemExit
    yield "a zero byte", hgk_fit("zero.csv"), SystemExit
    yield "a truncated gzip file", hgk_fit("broken.csv.gz"), SystemExit, "reason"
    yield "a damaged Parquet file", hgk_fit("broken.parquet"), SystemExit, "reason"
    yield "a damaged Feather file", hgk_fit("broken.feather"), SystemExit, "reason"
    yield "a target that is not a column", hgk_fit("houses.csv", target="prise"), SystemExit
    yield "a target without values", hgk_fit("blank.csv"), SystemExit
    yield "a target with one class", hgk_fit("same.csv"), SystemExit
    yield "a target with as many classes as rows", hgk_fit("text.csv"), SystemExit
    yield "a target with a word among numbers", hgk_fit("word.csv"), SystemExit
    yield "a comma that may mean two things", hgk_fit("commas.csv"), SystemExit
    yield "texts for regression", hgk_fit("houses.csv", "--task", "regression", target="town"), SystemExit
    yield "nothing but the target", hgk_fit("only.csv"), SystemExit
    yield "infinite cells", hgk_fit("infinite.csv", "--task", "regression"), SystemExit
    yield "an encoding that is not that of the file", hgk_fit("latin1.csv", "--encoding", "ascii"), SystemExit
    yield "an unknown encoding", hgk_fit("houses.csv", "--encoding", "latin9000"), SystemExit
    yield "a comment mark that is none", hgk_fit("houses.csv", "--comment", '"'), SystemExit
    yield "an order of dates that is none", hgk_fit("houses.csv", "--dates", "ymd"), SystemExit
    yield "dates of which day or month may come first", hgk_fit("dates.csv"), SystemExit
    yield "a column of durations", hgk_fit("times.parquet"), SystemExit
    yield "damaged JSON", hgk_fit("broken.json"), SystemExit, "reason"
    yield "JSON that is no table", hgk_fit("list.json"), SystemExit
    yield "JSON of columns of different lengths", hgk_fit("columns.json"), SystemExit
    yield "JSON without rows", hgk_fit("none.json"), SystemExit
    yield "JSON that names a column twice", hgk_fit("twice.json"), SystemExit, "reason"
    yield "a damaged Excel file", hgk_fit("broken.xlsx"), SystemExit, "reason"
    yield "a zip file", hgk_fit("zipped.zip"), SystemExit
    yield "an Excel file without the package that reads it", _sheet(ImportError("openpyxl")), SystemExit
    yield "an Excel file that its package cannot read", _sheet(ValueError("no sheet")), SystemExit, "reason"
    yield "a file of Excel before 2007", hgk_fit("old.xls"), SystemExit
    yield "an unknown column to drop", hgk_fit("houses.csv", "--drop", "twon"), SystemExit
    yield "a group without columns", hgk_fit("houses.csv", "--group", "town"), SystemExit
    yield "a group twice", hgk_fit("houses.csv", "--group", "a=age", "--group", "a=town"), SystemExit
    yield "a time that is none", hgk_fit("houses.csv", "--time-budget", "soon"), SystemExit
    yield "a delimiter of two characters", hgk_fit("houses.csv", "--delimiter", "::"), SystemExit
    yield "a decimal mark that is none", hgk_fit("houses.csv", "--decimal", "x"), SystemExit
    yield "one mark for cells and decimals", hgk_fit("houses.csv", "--decimal", ",", "--delimiter", ","), SystemExit
    yield "a model in a folder that is not there", hgk_fit("houses.csv", "--out", "no/m.hgk"), SystemExit
    yield "a model in place of its table", hgk_fit("houses.csv", "--out", "houses.csv"), SystemExit
    yield "a report in place of the model", hgk_fit("houses.csv", "--report", "m.hgk"), SystemExit
    yield "a model in place of a file of yours", hgk_fit("houses.csv", "--out", "other.csv"), SystemExit
    yield "a report in place of a file of yours", hgk_fit("houses.csv", "--report", "other.csv"), SystemExit
    yield (
        "predictions in place of a file of yours",
        command("predict", "price.hgk", "houses.csv", "--out", "other.csv"),
        SystemExit,
    )
    yield (
        "predictions in place of the table",
        command("predict", "price.hgk", "houses.csv", "--out", "houses.csv"),
        SystemExit,
    )
    yield (
        "predictions in a form that is not written",
        command("predict", "price.hgk", "houses.csv", "--out", "p.xlsx"),
        SystemExit,
    )
    yield "a table that is a folder", hgk_fit("."), SystemExit
    yield "a table that is a pipe", hgk_fit("pipe.csv"), SystemExit
    yield "a model that is none", command("predict", "houses.csv", "houses.csv"), SystemExit
    yield "a model that is not there", command("predict", "none.hgk", "houses.csv"), SystemExit
    yield "a table of other columns", command("predict", "price.hgk", "other.csv"), SystemExit
    yield "an interval of 90", command("predict", "price.hgk", "houses.csv", "--interval", "90"), SystemExit
    wanted = ("predict", "price.hgk", "houses.csv", "--interval", "0.9")
    yield "an interval of another kind", command(*wanted, "--interval-method", "cqr"), SystemExit
    yield "bounds of intervals that are no numbers", command(*wanted, "--interval-bounds", "0-9"), SystemExit
    yield "bounds without an interval", command(*wanted[:3], "--interval-bounds", "0:"), SystemExit
    yield "an interval of classes", command("predict", "sold.hgk", "houses.csv", "--interval", "0.9"), SystemExit
    yield "probabilities of a regression", command("predict", "price.hgk", "houses.csv", "--proba"), SystemExit
    yield (
        "an interval of a compact model",
        command("predict", "compact.hgk", "houses.csv", "--interval", "0.9"),
        SystemExit,
    )
    yield "--keep of an unknown column", command("predict", "price.hgk", "houses.csv", "--keep", "twon"), SystemExit
    yield "--keep of a name of predictions", command("predict", "price.hgk", "ids.csv", "--keep", "lower"), SystemExit
    yield "scores without a target", command("evaluate", "sold.hgk", "houses.csv"), SystemExit
    yield "scores of a target that is not there", _scores("--target", "prise"), SystemExit
    yield "scores of two targets for one output", _scores("--target", "price,age"), SystemExit
    yield "scores of texts", _scores("--target", "town"), SystemExit
    yield "scores at an interval of 90", _scores("--interval", "90"), SystemExit
    yield (
        "scores with intervals of classes",
        command("evaluate", "sold.hgk", "houses.csv", "--target", "town", "--interval", "0.9"),
        SystemExit,
    )
    yield (
        "scores of unknown classes",
        command("evaluate", "sold.hgk", "houses.csv", "--target", "town"),
        SystemExit,
    )
    yield "scores in place of a file of yours", _scores("--out", "other.csv"), SystemExit
    yield "a comparison with an unknown method", _comparison("--methods", "lightbgm"), SystemExit
    yield "a comparison by an unknown metric", _comparison("--metric", "auc"), SystemExit
    yield "a comparison of more folds than rows", _comparison("--folds", "40"), SystemExit
    yield "a comparison in place of a file of yours", _comparison("--out", "other.csv"), SystemExit
    yield "test rows that are not there", hgk_fit("houses.csv", "--test", "nowhere.csv"), SystemExit
    yield "a table and test rows from one input", hgk_fit("-", "--test", "-"), SystemExit
    yield "a model in place of its test rows", hgk_fit("houses.csv", "--test", "t.csv", "--out", "t.csv"), SystemExit
    yield "a row beyond the table", command("explain", "price.hgk", "--row", "99", "--data", "houses.csv"), SystemExit
    yield "a row that the model did not see", command("explain", "price.hgk", "--row", "99"), SystemExit
    yield "terms without a row", command("explain", "price.hgk", "--terms"), SystemExit
    yield "a table to explain without a row", command("explain", "price.hgk", "--data", "houses.csv"), SystemExit


def _scores(*more):
    return command("evaluate", "price.hgk", "houses.csv", *more)


def _comparison(*more):
    return command("compare", "houses.csv", "--target", "price", "--quiet", "--methods", "plain", *more)


def _sheet(error):
    def call():
        with mock.patch.object(pd, "read_excel", side_effect=error):
            hgk_fit("sheet.xlsx")()

    return call


def _of_levels():
    return HGKQuantileRegressor("plain", quantiles=[0.1, 0.9], lam=1e-2, random_state=0).fit(X, Y)


def _bench():
    run = "bench", "run", "--preset", "quick"
    yield "an unknown data set", command(*run, "--sets", "irsi"), SystemExit
    yield "an unknown method", command(*run, "--methods", "SVN"), SystemExit
    yield "a table without its target", command(*run, "--file", "houses.csv"), SystemExit
    yield "a target that the table lacks", command(*run, "--file", "houses.csv", "--target", "prise"), SystemExit
    yield "a table of another kind", command(*run, "--file", "cut.hgk", "--target", "price"), SystemExit
    yield "a data folder that is not there", command(*run, "--data", "no"), SystemExit
    yield "a store in a folder that is not there", command(*run, "--out", "no/rows.jsonl"), SystemExit
    yield "a table of a store that is not there", command("bench", "table", "none.jsonl"), SystemExit
    yield "a table of an empty store", command("bench", "table", "rows.jsonl"), SystemExit
    yield "a page in place of its store", command("bench", "page", "one.jsonl", "--out", "one.jsonl"), SystemExit
    yield "a page in place of a file of yours", command("bench", "page", "one.jsonl", "--out", "other.csv"), SystemExit
    yield "a store in place of a file of yours", command(*run, "--out", "other.csv"), SystemExit
    yield "a store that is a folder", lambda: Store("."), StoreError
    yield "an unknown data set, in Python", lambda: datasets.load("irsi"), DataError


def _others():
    yield "HKL: an unknown basis", lambda: HKLRegressor("splines").fit(X, Y), ValueError
    yield "HKL: a degree of 0", lambda: HKLRegressor(degree=0).fit(X, Y), ValueError
    yield "HKL: λ of 0", lambda: HKLRegressor(lam=0).fit(X, Y), ValueError
    yield "HKL: an unknown device", lambda: HKLRegressor(device="abacus").fit(X, Y), ValueError
    yield "HKL: an unknown dtype", lambda: HKLRegressor(dtype="float8").fit(X, Y), ValueError
    yield "HKL: missing cells", lambda: HKLRegressor().fit(np.where(X > 0.9, np.nan, X), Y), ValueError
    yield "HKL: texts", lambda: HKLRegressor().fit(HOUSES[["town"]], Y), ValueError
    yield "HKL: infinite cells", lambda: HKLRegressor().fit(np.where(X > 0.9, np.inf, X), Y), ValueError
    yield "report: something else than a model", lambda: report(3), TypeError
    yield "report: X without y", lambda: report(fitted(), _towns()), ValueError
    yield "report: more labels than rows", lambda: report(fitted(), _towns()[:9], Y), ValueError
    yield (
        "report: unknown classes",
        lambda: report(hgk.load("sold.hgk"), FRAME[["age", "height"]], ["x"] * 30),
        ValueError,
    )
    yield "report: a compact model", lambda: report(hgk.load("compact.hgk")), CompactModelError
    yield "evaluate: something else than a model", lambda: evaluate(3, X, Y), TypeError
    yield "evaluate: another number of labels", lambda: evaluate(fitted(), _towns(), Y[:9]), ValueError
    yield "evaluate: a single label", lambda: evaluate(fitted(), _towns(), 3.5), ValueError
    yield "evaluate: no labels", lambda: evaluate(fitted(), _towns(), Y * np.nan), ValueError
    yield "evaluate: two labels for one output", lambda: evaluate(fitted(), _towns(), X[:, :2]), ValueError
    yield "evaluate: a coverage of 90", lambda: evaluate(fitted(), _towns(), Y, coverage=90), ValueError
    yield (
        "evaluate: a coverage for classes",
        lambda: evaluate(hgk.load("sold.hgk"), FRAME[["age", "height"]], Y > 1, coverage=0.9),
        ValueError,
    )
    yield "evaluate: a coverage for quantiles", lambda: evaluate(_of_levels(), X, Y, coverage=0.9), ValueError
    yield "evaluate: an unknown score", lambda: evaluate(fitted(), _towns(), Y)["rmsle"], ValueError
    yield "compare: an unknown task", lambda: compare(X, Y, task="guess"), ValueError
    yield "compare: several outputs", lambda: compare(X, X), ValueError
    yield "compare: no labels", lambda: compare(X, Y * np.nan), ValueError
    yield "compare: one class", lambda: compare(X, ["a"] * 30), ValueError
    yield "compare: a class of one row", lambda: compare(X, ["a", *["b"] * 29]), ValueError
    yield "compare: one fold", lambda: compare(X, Y, folds=1), ValueError
    yield "compare: more folds than rows of any class", lambda: compare(X, list("abcdefghij") * 3, folds=4), ValueError
    yield "compare: an unknown metric", lambda: compare(X, Y, metric="rmsle"), ValueError
    yield "compare: no methods", lambda: compare(X, Y, []), ValueError
    yield "compare: an unknown method", lambda: compare(X, Y, ["catbost"]), ValueError
    yield "displays: an unknown column", lambda: EffectDisplay.from_estimator(fitted(), columns=["twon"]), ValueError


def _memory():
    little = (("HGK_MEMORY", "1k"),)
    kernel = HierarchicalKernel.of(inhomogeneous(3), [[1.0, 1.0, 1.0]])
    yield "a kernel matrix that needs more memory than there is", lambda: kernel(X), MemoryError, little
    yield "a model file that does", lambda: hgk.load("price.hgk"), ModelFileError, little
    yield "a table that does", hgk_fit("houses.csv"), SystemExit, little
    some = (("HGK_MEMORY", "20M"),)
    yield "a small file of a large table", hgk_fit("zeros.parquet"), SystemExit, some
    yield "such a file in the bench", lambda: datasets.from_file("zeros.parquet", "price"), DataError, some
    yield "a limit that is none", fit(X), ValueError, (("HGK_MEMORY", "lots"),)


AREAS = {
    "Tables": _tables,
    "Labels": _labels,
    "Sample weights": _weights,
    "Parameters": _parameters,
    "Losses and devices": _losses,
    "Kernels and architectures": _kernels,
    "Model files": _files,
    "The command line": _command_line,
    "The bench": _bench,
    "Hierarchical kernel learning, reports and displays": _others,
    "Memory": _memory,
}


def cases():
    for area, listed in AREAS.items():
        for given, provoke, error, *more in listed():
            flags = {flag: True for flag in more if isinstance(flag, str)}
            environment = next((flag for flag in more if isinstance(flag, tuple)), ())
            yield Case(area, given, provoke, error, **flags, environment=environment)


CASES = list(cases())


def provoked(case):
    """What is raised; warnings on the way do not count."""
    with warnings.catch_warnings(), mock.patch.dict(os.environ, dict(case.environment)):
        warnings.simplefilter("ignore")
        try:
            case.provoke()
        except BaseException as error:
            return error
    return None


def sentence(case, error):
    """As the table shows it."""
    text = " ".join(str(error).split()).replace(f"{Path.cwd()}/", "")
    return re.sub(r"\(.*\)", "(…)", text) if case.reason else text


# --------------------------------------------------------------------------------------------------------- the page

HEAD = """# Errors

What is given wrongly is refused in one sentence: what was given, what is expected, what to do. The command line prints
it after `hgk:` and ends with exit code 2. This page is written by `make errors`, which provokes every case; the tests
do the same. The words of the cases marked * are scikit-learn's, which its contract fixes, and "…" in brackets
stands for what another library says.

`HGK_MEMORY` (`500M`, `4G`) is the most memory that a fit may add to the process; without it, what the system says is
free.
"""


def page():
    """The whole page, in a folder that holds what the cases need."""
    lines = [HEAD]
    for area in AREAS:
        lines += [f"\n## {area}\n", "| given | error | sentence |", "|---|---|---|"]
        for case in (c for c in CASES if c.area == area):
            error = provoked(case)
            kind = "exit code 2" if isinstance(error, SystemExit) else f"`{type(error).__name__}`"
            said = re.sub(r"([|*_<>])", r"\\\1", sentence(case, error))
            star = " \\*" if case.theirs else ""
            lines.append(f"| {case.given}{star} | {kind} | {said} |")
    return "\n".join(lines) + "\n"


@contextlib.contextmanager
def workplace(folder):
    """The folder, prepared and current."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            prepared(Path(folder))
        yield
    finally:
        os.chdir(before)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, workplace(folder):
        text = page()
    place = Path(sys.argv[1]) if len(sys.argv) > 1 else PAGE
    place.write_text(text, encoding="utf-8")
    print(f"{len(CASES)} cases in {place}")

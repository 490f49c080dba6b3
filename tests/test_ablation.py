"""Variants of the default learner, the rows they are judged on, and the table of experiments/default/ablate.py."""

import json
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
import torch

from hgk import HGKRegressor
from hgk.bench.protocol import clipped_error, split_rows, training_rows
from hgk.inputs import Feature
from hgk.learners import Settings
from hgk.learners.default.kinds import kinds_for
from hgk.targets import Numbers

FOLDER = Path(__file__).parents[1] / "experiments" / "default"


@pytest.fixture
def ablate(monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)
    import ablate

    return ablate


def test_a_variant_changes_what_it_says_and_nothing_else(ablate):
    default = Settings()
    assert ablate.VARIANTS["default"].settings == default
    for name, variant in ablate.VARIANTS.items():
        changed = {f.name for f in fields(Settings) if getattr(variant.settings, f.name) != getattr(default, f.name)}
        assert changed == set(variant.changes), name
        assert set(variant.sets) <= set(ablate.SETS)
        assert json.loads(json.dumps(variant.told)).keys() == variant.changes.keys()


def test_variants_of_kinds_learn_the_kinds_that_they_name(ablate):
    narrow = [Feature(0, "x", "scaled"), Feature(0, "x", "rank"), Feature(0, "x", "step")]
    wide = [Feature(j, f"x{j}", "scaled") for j in range(40)] + narrow

    def tried(variant, features):
        settings = ablate.VARIANTS[variant].settings
        return [kind.name for kind in kinds_for(5000, features, settings)]

    assert tried("all kinds alone", wide) == ["all kinds"]
    assert tried("without all kinds", wide) == ["maps", "oblique", "warped"]
    assert tried("without maps", narrow) == ["all kinds", "warped"]
    assert tried("without oblique", wide) == ["all kinds", "maps", "warped"]
    assert tried("without warped", narrow) == ["all kinds", "maps"]
    assert len(tried("oblique for few features, too", narrow)) == len(tried("default", narrow)) + 1
    *_, warped = ablate.VARIANTS["warped without oblique nodes"].settings.kinds
    *_, usual = Settings().kinds
    assert warped.build(narrow).coordinates == usual.build(narrow).coordinates[:8]


def test_variants_of_labels_treat_them_as_they_say(ablate):
    y = np.repeat([0.0, 1.0], 40)
    target = Numbers.of(y, np.ones(80))
    Y = torch.from_numpy(target.encode(y))

    def refinements(variant):
        return ablate.VARIANTS[variant].settings.refinements(target, Y, 80.0)

    assert refinements("two values without a power") == []
    (usual,), (wider,) = refinements("default"), refinements("two values with powers up to 2")
    assert {v.power for v in usual.variants()} < {v.power for v in wider.variants()}
    assert max(v.power for v in wider.variants()) == 2
    assert torch.equal(wider.decode(Y), usual.decode(Y))


@pytest.mark.parametrize("split", [0, 5])
def test_rows_are_training_rows_of_the_split(ablate, split):
    n = 9000
    train, test = split_rows(n, training_rows("satimage", n), split)
    X, y, X_judge, y_judge = ablate.parts("satimage", np.arange(n)[:, None], np.arange(n), split)
    assert [len(y), len(y_judge), len(X), len(X_judge)] == [4000, 1000, 4000, 1000]
    assert set(y) | set(y_judge) == set(train)
    assert not (set(y) | set(y_judge)) & set(test)
    assert [X.min(), X.max()] == [-1, 1]


def rows_of(variant, name, errors):
    return [{"set": name, "split": i, "seed": 0, "variant": variant, "error": e} for i, e in enumerate(errors)]


def test_the_table_has_geometric_means_of_ratios(ablate):
    default, variant = [0.1, 0.2, 0.4], [0.2, 0.2, 0.2]
    rows = rows_of("default", "magic", default) + rows_of("no pruning", "magic", variant)
    rows += rows_of("default", "cadata", [0.5]) + rows_of("no pruning", "cadata", [0.5, 7.0])  # no pair for the last
    logs = ablate.log_ratios(rows)["no pruning"]
    np.testing.assert_allclose(logs["magic"], np.log([2, 1, 0.5]), atol=1e-12)
    np.testing.assert_allclose(logs["cadata"], [0])
    error = np.std(np.log([2, 1, 0.5]), ddof=1) / 3**0.5
    assert ablate.table(rows).splitlines()[-1] == f"| no pruning | 1.000 | 1.000 | 1.000 ± {error:.3f} |"
    both = [row for row in rows if row["set"] == "magic"]
    twice = both + [{**row, "set": "higgs", "error": row["error"] ** 2} for row in both]
    overall = (error**2 + (2 * error) ** 2) ** 0.5 / 2
    assert f"| no pruning | 1.000 ± {overall:.3f} |" in ablate.table(twice)


def test_the_table_goes_between_the_marks_of_the_readme(ablate):
    page = (FOLDER / "README.md").read_text()
    once = ablate.written_into(page, "| new |")
    assert ablate.written_into(once, "| new |") == once
    head, tail = page.split(ablate.MARKS[0])[0], page.split(ablate.MARKS[1])[1]
    assert once == f"{head}{ablate.MARKS[0]}\n\n| new |\n\n{ablate.MARKS[1]}{tail}"


def test_the_table_of_the_readme_is_that_of_the_record(ablate):
    """No record, no table."""
    path = FOLDER / "ablations.jsonl"
    between = re.search(f"{ablate.MARKS[0]}(.*){ablate.MARKS[1]}", (FOLDER / "README.md").read_text(), re.DOTALL)
    assert between.group(1).strip() == (ablate.table(ablate.stored(path)) if path.exists() else "")


def test_the_variant_default_is_the_default_and_runs_are_not_repeated(ablate, tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (180, 3))
    y = X[:, 0] * X[:, 1]
    sets, out = tmp_path / "sets.npz", tmp_path / "rows.jsonl"
    np.savez(sets, **{"cadata/X": X, "cadata/y": y, "cadata/data": np.array("f")})
    options = ["ablate.py", "run", "--data", str(sets), "--out", str(out), "--splits", "1", "--threads", "1"]
    for variants in (["default"], ["default", "one member", "few values as numbers"]):
        monkeypatch.setattr(sys, "argv", [*options, "--variants", *variants])
        ablate.main()
    default, other = [json.loads(line) for line in out.read_text().splitlines()]
    assert [default["variant"], other["variant"]] == ["default", "one member"]
    assert [default["changed"], other["changed"]] == [{}, {"members": 1}]
    assert len(other["averaged"]) == 1
    X, y, X_judge, y_judge = ablate.parts("cadata", X, y, 1)
    assert [default["n_train"], default["n_judge"]] == [len(y), len(y_judge)] == [96, 24]
    expected, _ = clipped_error(HGKRegressor(random_state=0).fit(X, y).predict(X_judge), y_judge)
    assert default["error"] == pytest.approx(expected, rel=1e-9)


def test_runs_need_no_pandas(tmp_path):
    (tmp_path / "pandas.py").write_text("raise ImportError('there is none')")
    path = ":".join([str(tmp_path), str(FOLDER), str(FOLDER.parents[1] / "src")])
    run = subprocess.run([sys.executable, "-c", "import ablate"], env={"PYTHONPATH": path}, capture_output=True)
    assert run.returncode == 0, run.stderr

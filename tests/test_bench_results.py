"""The experiment's results: published numbers, marks, ranks, tables, figures, and the page in a real browser."""

import json
import math
import os
import re
import shutil
import subprocess
from itertools import combinations
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from scipy import stats

from browsing import Tags, assert_quiet, forget, keys
from hgk.bench import published
from hgk.bench.figures import PAPERS_THREE, write_figures
from hgk.bench.page import page, write_page
from hgk.bench.palette import LOOKS, looks
from hgk.bench.published import BEST_MARK, SECOND_MARK
from hgk.bench.summary import (
    ORDER,
    Ranks,
    critical_difference,
    friedman_test,
    gain,
    lag,
    mark,
    paired_p,
    summarise,
)
from hgk.bench.tables import table_latex, table_markdown
from result_rows import failed, made_up, recorded, row

ROOT = Path(__file__).parents[1]
PAPER = Path(os.environ.get("HGK_PAPER", ROOT.parent / "shared" / "paper"))
HOSTILE = "<script>alert('x')</script>&\"|_{}$%"


# Published numbers


@pytest.fixture(scope="module")
def tex():
    found = sorted(PAPER.glob("*hierarchical-gaussian*.tex"))
    if not found:
        pytest.skip(f"the paper's source is not in {PAPER}; set HGK_PAPER to its folder")
    return found[0].read_text()


def the_set(short):
    (name,) = [s for s in published.SETS if s.startswith(short.lower())]
    return name


def test_errors_and_marks_are_those_of_the_paper(tex):
    table = tex[tex.index("raw_error_table") : tex.index("Average least squares error")]
    lines = [line for line in table.splitlines() if r"{\sc" in line]
    assert len(lines) == len(published.SETS) == 15
    for line in lines:
        name = the_set(re.search(r"\\sc (\w+)", line)[1])
        for method, cell in zip(published.METHODS, line.split("&")[1:], strict=True):
            mean, sd = map(float, re.findall(r"\.\d{5}", cell))
            printed = SECOND_MARK if "textit" in cell else BEST_MARK if "textbf" in cell else 0
            assert published.ERRORS[name][method] == published.PublishedError(mean, sd, printed)


def test_sizes_are_those_of_the_paper(tex):
    lines = re.findall(r"\{\\sc ([\w-]+)\}\s*&(.*?)&[^&]*\\\\", tex[tex.index("Data Set &  Size") :])
    assert len(lines) == 15
    for name, cells in lines:
        rows, columns, kind, n_train, n_test = (cell.strip() for cell in cells.split("&"))
        expected = published.Size(int(rows), int(columns), kind, int(n_train), int(n_test))
        assert published.SIZES[name.lower()] == expected


def test_seconds_are_those_of_the_paper(tex):
    text = " ".join(tex.split())
    assert published.SECONDS["RF"] == tuple(
        map(int, re.search(r"RF run took between (\d+) and (\d+) sec", text).groups())
    )
    for method, pattern, unit in [
        ("SVM", r"average SVM run took about (\d+) seconds", 1),
        ("DNN", r"the average experiment ran for about (\d+) minutes", 60),
        ("Ours", r"On average, a single run took about (\d+) minutes", 60),
        ("HKL", r"an average run took about (\d+) minutes", 60),
    ]:
        assert published.SECONDS[method] == (unit * int(re.search(pattern, text)[1]),) * 2


def test_the_papers_marks_follow_from_its_numbers_by_welchs_test():
    for errors in published.ERRORS.values():

        def worse(b, a, errors=errors):
            one, two = errors[b], errors[a]
            return stats.ttest_ind_from_stats(one.mean, one.sd, 30, two.mean, two.sd, 30, equal_var=False).pvalue < 0.05

        found = mark({m: e.mean for m, e in errors.items()}, worse)
        assert found == {m: e.mark for m, e in errors.items() if e.mark}


def test_gain_and_lag_of_the_papers_numbers():
    errors = np.array([[published.ERRORS[s][m].mean for m in ("Ours", "RF", "DNN")] for s in published.SETS])
    assert gain(errors, np.array([0.05]))[:, 0].tolist() == [5, 3, 1]  # as the caption of Figure 2 says
    assert lag(errors, np.array([0.1]))[:, 0].tolist() == [4, 6, 11]  # the caption says 4, 5, 9


# Statistics


@pytest.mark.parametrize("n", [2, 3, 10, 30])
def test_the_paired_test_is_scipys(n):
    rng = np.random.default_rng(n)
    a, b = rng.normal(1, 0.1, (2, n))
    only_a = {100: 5.0, 101: 7.0}  # splits that b has not must not matter
    difference, p, common = paired_p(dict(enumerate(a)) | only_a, dict(enumerate(b)))
    assert common == n
    assert difference == pytest.approx((b - a).mean(), rel=1e-12)
    assert p == pytest.approx(stats.ttest_rel(a, b).pvalue, rel=1e-9)


def test_equal_errors_do_not_differ_and_constant_differences_do():
    a = dict.fromkeys(range(5), 0.5)
    assert paired_p(a, dict(a))[1] == 1
    assert paired_p(a, dict.fromkeys(range(5), 0.75))[:2] == (0.25, 0)
    assert math.isnan(paired_p(a, {0: 1.0})[1])


def brute_force_marks(errors):
    """By every pair and scipy: who beats whom, then the caption's rule on sets of methods."""
    means = {m: np.mean(e) for m, e in errors.items()}
    beats = {
        (a, b)
        for a in errors
        for b in errors
        if a != b and means[a] < means[b] and stats.ttest_rel(errors[a], errors[b]).pvalue < 0.05
    }
    best = min(means, key=means.get)
    firsts = {m for m in errors if (best, m) not in beats}
    if len(firsts) > 1 or len(errors) == 1:
        return dict.fromkeys(firsts, BEST_MARK)
    rest = {m: v for m, v in means.items() if m != best}
    second = min(rest, key=rest.get)
    return {best: BEST_MARK} | {m: SECOND_MARK for m in rest if (second, m) not in beats}


@pytest.mark.parametrize("seed", range(5))
def test_marks_are_those_of_brute_force(seed):
    rows = made_up(splits=5 + 5 * seed, seed=seed, sets=published.SETS[:8])
    summary = summarise(rows)
    kinds = set()
    for name in published.SETS[:8]:
        errors = {m: [r["mse"] for r in rows if (r["set"], r["method"]) == (name, m)] for m in ORDER}
        expected = brute_force_marks(errors)
        assert {m: summary.marks[name, m] for m in ORDER if (name, m) in summary.marks} == expected
        kinds.add(tuple(sorted(expected.values())))
    assert len(kinds) > 1  # ties and clear cases both occurred
    assert not summary.untested


def test_with_few_common_splits_the_means_decide_and_the_set_is_named():
    rows = [row("magic", s, m, e) for m, e in [("RF", 0.3), ("SVM", 0.31), ("DNN", 0.4)] for s in range(2)]
    summary = summarise(rows)
    assert summary.untested == ("magic",)
    assert summary.marks == {("magic", "RF"): BEST_MARK, ("magic", "SVM"): SECOND_MARK}
    assert "magic some marks are by the means alone" in table_markdown(rows)


def test_ranks_are_scipys_with_ties_and_without():
    rng = np.random.default_rng(0)
    for errors in (rng.normal(size=(12, 5)), rng.integers(0, 4, (12, 5)).astype(float)):
        average, chi2, p = friedman_test(stats.rankdata(errors, axis=1))
        expected = stats.friedmanchisquare(*errors.T)
        np.testing.assert_allclose(average, stats.rankdata(errors, axis=1).mean(axis=0), rtol=1e-12)
        assert chi2 == pytest.approx(expected.statistic, rel=1e-10)
        assert p == pytest.approx(expected.pvalue, rel=1e-8)
    assert friedman_test(np.full((3, 4), 2.5))[1:] == (0, 1)


def test_a_method_that_fails_on_the_hard_splits_gains_nothing_by_it():
    rows = []
    for name in ("magic", "higgs", "cadata"):
        for s in range(30):
            error = (0.1 if s < 20 else 0.5) + 0.001 * (s % 7)
            rows.append(row(name, s, "RF", error))
            rows.append(row(name, s, "SVM", error + 0.02 + 0.001 * (s % 3)) if s < 20 else failed(name, s, "SVM", "no"))
    summary = summarise(rows)
    assert summary.marks["magic", "RF"] == BEST_MARK
    assert summary.marks["magic", "SVM"] == SECOND_MARK
    assert dict(zip(summary.ranks.methods, summary.ranks.average, strict=True)) == {"RF": 1.0, "SVM": 2.0}


def test_ranks_of_complete_runs_are_those_of_the_means():
    summary = summarise(made_up())
    errors = summary.errors(summary.ranks.sets, summary.ranks.methods)
    np.testing.assert_allclose(summary.ranks.average, stats.rankdata(errors, axis=1).mean(axis=0))


def test_the_critical_difference_counts_the_sets_that_all_ranked_methods_have():
    rows = [r for r in made_up() if (r["set"], r["method"]) != ("magic", "RF")]
    ranks = summarise(rows).ranks
    assert len(ranks.sets) == len(published.SETS) - 1
    assert ranks.cd == critical_difference(len(ranks.methods), len(ranks.sets))


def test_the_critical_difference_is_that_of_demsars_table():
    for k, q in {2: 1.960, 3: 2.343, 5: 2.728, 10: 3.164}.items():
        assert critical_difference(k, 14) == pytest.approx(q * math.sqrt(k * (k + 1) / (6 * 14)), rel=3e-4)


@pytest.mark.parametrize("cd", [0.1, 0.5, 1.0, 3.0, 20.0])
def test_groups_join_exactly_the_pairs_within_the_critical_difference(cd):
    average = tuple(np.sort(np.random.default_rng(0).uniform(1, 11, 11)))
    ranks = Ranks(ORDER, (), average, 0.0, 1.0, cd, {})
    joined = {pair for a, b in ranks.groups for pair in combinations(range(a, b + 1), 2)}
    assert joined == {(i, j) for i, j in combinations(range(11), 2) if average[j] - average[i] <= cd}


def test_ranks_need_every_method_on_every_set_and_say_who_is_left_out():
    rows = made_up(["SVM", "RF", "DNN"], splits=2)
    rows = [r for r in rows if r["method"] != "DNN" or r["set"] in ("magic", "higgs")]
    rows = [r for r in rows if (r["method"], r["set"]) != ("SVM", "cadata")]
    ranks = summarise(rows).ranks
    assert set(ranks.methods) == {"SVM", "RF"}
    assert set(ranks.sets) == set(published.SETS) - {"cadata"}
    assert ranks.left_out == {"DNN": 2}
    assert "DNN (2 sets)" in table_markdown(rows)
    assert summarise(rows[:1]).ranks is None


@pytest.mark.parametrize("count", [gain, lag])
def test_gain_and_lag_against_loops(count):
    errors = np.random.default_rng(1).uniform(1, 2, (9, 4))
    x = np.array([0.0, 0.1, 0.3])
    for j in range(4):
        for i, level in enumerate(x):
            others = [min(e[m] for m in range(4) if m != j) for e in errors]
            better = sum(e[j] < (1 - level) * o for e, o in zip(errors, others, strict=True))
            worse = sum(e[j] > (1 + level) * min(e) for e in errors)
            assert count(errors, x)[j, i] == (better if count is gain else worse)


# Rows that are not as they should be


@pytest.fixture
def troubled():
    rows = made_up(["SVM", "RF"], ["magic", "higgs"], splits=6)
    rows = [r for r in rows if (r["set"], r["method"], r["split"]) != ("higgs", "SVM", 4)]
    return [
        *rows,
        failed("magic", 6, "RF", HOSTILE),
        row("higgs", 6, "RF", math.nan),
        row("magic", 0, "SVM", 0.4),  # again
        {"set": "magic", "split": "0", "method": "RF"},
        {"split": 1},
        row("own set", 0, HOSTILE, 0.5, versions={"<i>": "1"}, machine=HOSTILE),
    ]


def test_nothing_is_dropped_in_silence(troubled):
    summary = summarise(troubled)
    assert summary.cells["magic", "RF"].failed == {6: HOSTILE}
    assert "mse nan" in summary.cells["higgs", "RF"].failed[6]
    assert summary.cells["higgs", "RF"].n == 6
    assert summary.cells["higgs", "SVM"].missing == (4, 6)
    assert summary.cells["magic", "SVM"].errors[0] == 0.4
    assert summary.superseded == 1
    assert len(summary.damaged) == 2
    placed = sum(c.n + len(c.failed) for c in summary.cells.values())
    assert placed + summary.superseded + len(summary.damaged) == len(troubled)
    markdown = table_markdown(troubled)
    for text in [
        "(6, 1 failed)",
        "(5, 2 missing)",
        "4, 6 of higgs",
        "1 row superseded",
        "'split' is '0'",
        "Not run: HKL",
    ]:
        assert text in markdown
    assert "1 missing" in page(troubled)
    assert "2 runs failed" in table_latex(troubled)
    assert "(6/7)" in table_latex(troubled)


@pytest.mark.parametrize("first", [0, 1])
def test_a_result_counts_more_than_a_failure_and_the_later_of_two_results(first):
    again = [failed("magic", 0, "RF", "no"), row("magic", 0, "RF", 0.3)]
    summary = summarise([row("magic", 0, "RF", 0.2), again[first], again[1 - first]])
    assert summary.cells["magic", "RF"].errors == {0: 0.3}
    assert summary.superseded == 2


def test_an_unknown_status_is_a_failed_run():
    (cell,) = [c for c in summarise([row("magic", 0, "RF", 0.3, status="late")]).cells.values() if c.failed]
    assert cell.failed == {0: "status 'late': no reason recorded"}


# Tables


def test_markdown_has_one_width_and_shows_ours_beside_the_papers(troubled):
    for rows in ([], made_up(), recorded(), troubled):
        lines = table_markdown(rows).splitlines()
        table = lines[: lines.index("")]
        widths = {len(re.findall(r"(?<!\\)\|", line)) for line in table}
        assert len(widths) == 1
        assert len(table) >= 2 + 15
    head = table_markdown(made_up()).splitlines()[0].split(" | ")
    assert head[head.index("Ours (paper)") + 1] == "paper: Ours"


def test_markdown_gives_mean_deviation_and_number_of_splits():
    errors = [0.31, 0.33, 0.38, 0.3, 0.32, 0.29]
    text = table_markdown([row("magic", s, "RF", e) for s, e in enumerate(errors)])
    assert f"**{np.mean(errors):.5f} ± {np.std(errors, ddof=1):.5f}** (6)" in text


def test_latex_has_matching_braces_environments_and_columns(troubled):
    for rows in ([], made_up(splits=2), troubled):
        text = table_latex(rows)
        bare = re.sub(r"\\.", "", text)
        assert bare.count("{") == bare.count("}")
        assert sorted(re.findall(r"\\begin\{(\S+?)\}", text)) == sorted(re.findall(r"\\end\{(\S+?)\}", text))
        tabulars = re.findall(r"\\begin\{tabular\}\{(l?r+)\}\n(.*?)\\end\{tabular\}", text, re.S)
        assert tabulars
        for format, body in tabulars:
            lines = [line for line in body.splitlines() if line != r"\hline"]
            assert {len(re.findall(r"(?<!\\)&", line)) for line in lines} == {len(format) - 1}


def test_latex_compiles(tmp_path, troubled):
    if not (latex := shutil.which("pdflatex")):
        pytest.skip("no pdflatex here")
    tables = table_latex(troubled) + table_latex(recorded())
    source = rf"\documentclass{{article}}\usepackage[utf8]{{inputenc}}\begin{{document}}{tables}\end{{document}}"
    (tmp_path / "t.tex").write_text(source)
    run = subprocess.run([latex, "-halt-on-error", "t.tex"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout[-2000:]
    assert (tmp_path / "t.pdf").stat().st_size > 0


# Figures


def test_no_two_methods_look_alike():
    found = looks([*ORDER, "one", "two", "three"])
    assert set(LOOKS) == set(ORDER)
    for of in ("light", "dark", "shape"):
        assert len({getattr(look, of) for look in found.values()}) == len(found)


def test_figures_are_written_and_name_what_they_show(tmp_path):
    rows = made_up(splits=2)
    names = {path.name for path in write_figures(rows, tmp_path)}
    stems = {"figure2-left", "figure2-middle", "figure2-right", "ranks", "seconds"}
    stems |= {"figure2-middle-papers-three", "figure2-right-papers-three"}
    assert names == {f"{stem}.{kind}" for stem in stems for kind in ("png", "svg")}
    for stem in stems:
        assert (tmp_path / f"{stem}.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    texts = {stem: " ".join(ElementTree.parse(tmp_path / f"{stem}.svg").getroot().itertext()) for stem in stems}
    assert all(name in texts["figure2-left"] for name in published.SETS)
    assert all(m in texts["ranks"] for m in ORDER)
    assert all(m in texts["figure2-right-papers-three"] for m in PAPERS_THREE)
    assert "CD = 3.90" in texts["ranks"]


def test_the_same_rows_give_the_same_figures(tmp_path):
    rows = made_up(["SVM", "RF"], splits=2)
    for folder in ("one", "two"):
        write_figures(rows, tmp_path / folder)
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes(), path.name


def test_figures_of_little_and_of_hostile_text(tmp_path, troubled):
    assert write_figures([], tmp_path) == []
    assert write_figures(troubled, tmp_path)
    assert write_figures([failed("magic", 0, "RF", "no")], tmp_path) == []
    zeros = [row(s, 0, m, 0.0, seconds=0.0) for s in ("magic", "higgs") for m in ("SVM", "RF", r"$\frac$ & $x$")]
    assert write_figures(zeros, tmp_path)


# The page


def test_the_page_takes_nothing_from_rows_as_markup_and_names_no_other_file(tmp_path, troubled):
    text = write_page(troubled, tmp_path / "new" / "page.html").read_text()
    assert len(text) < 3_000_000
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert" in text
    tags = Tags(text).found
    assert [a for t, a in tags if t == "script"] == [{"type": "application/json", "id": "data"}, {}]
    assert not [a for t, a in tags if "src" in a or (a.get("href") or "data:").split(",")[0] != "data:"]
    assert set(re.findall(r"https?://[^\"' ]+", text)) == {"http://www.w3.org/2000/svg"}  # a name, not an address
    policy = next(a["content"] for t, a in tags if a.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none';")
    assert set(re.findall(r"-src ([^;]*)", policy)) == {"'none'", "'unsafe-inline'", "data:"}
    raw = re.search(r'id="data">(.*?)</script>', text, re.S)[1]
    assert not set(raw) & set("<>&")
    data = json.loads(raw)
    assert HOSTILE in [m["name"] for m in data["methods"]]


def test_the_page_has_headers_and_every_number():
    rows = made_up(["SVM", "RF"], ["magic"])
    text, summary = page(rows), summarise(rows)
    tags = Tags(text).found
    assert all(a.get("scope") in ("col", "row") for t, a in tags if t == "th")
    for cell in summary.cells.values():
        assert not cell.n or f"{cell.mean:.5f}<small>± {cell.sd:.5f}, 5 splits" in text
    for error in published.ERRORS["magic"].values():
        assert f"{error.mean:.5f}<small>± {error.sd:.5f}, 30 splits" in text


@pytest.fixture
def shown(browser, tmp_path):
    """Open the page of some rows; afterwards: no word on the console, no request but for the page."""
    addresses = []

    def show(rows):
        forget(browser)
        addresses.append(write_page(rows, tmp_path / "page.html").as_uri())
        browser.get(addresses[-1])
        # Figures are drawn when the page knows its width, in the frame after it has loaded.
        browser.execute_async_script("requestAnimationFrame(() => requestAnimationFrame(arguments[0]))")
        return lambda script, *arguments: browser.execute_script(f"return {script}", *arguments)

    yield show
    assert_quiet(browser, addresses)


def column(ask, name):
    return ask(
        "[...document.querySelector('table').tBodies[0].rows].map(r => r.cells[[...document.querySelectorAll("
        "'table:first-of-type thead th')].findIndex(h => h.textContent === arguments[0])].dataset.value ?? null)",
        name,
    )


def test_headings_sort_by_click_and_by_key(browser, shown):
    rows = [r for r in made_up(["SVM", "RF"], splits=2) if r["set"] != "magic"]
    ask = shown(rows)
    values = sorted(c.mean for (s, m), c in summarise(rows).cells.items() if m == "RF" and c.n)
    button = "[...document.querySelectorAll('th button')].find(b => b.textContent === 'RF')"
    ask(f"{button}.click()")
    found = column(ask, "RF")
    assert [float(v) for v in found[:-1]] == values
    assert found[-1] is None  # magic has none and stays last
    assert ask(f"{button}.closest('th').ariaSort") == "ascending"
    ask(f"{button}.focus()")
    keys(browser, " ")
    found = column(ask, "RF")
    assert [float(v) for v in found[:-1]] == values[::-1]
    assert found[-1] is None
    ask("document.querySelector('th button').focus()")
    keys(browser, "\ue007")  # enter
    assert column(ask, "set") == sorted(published.SETS)


def test_the_papers_numbers_are_shown_on_demand(browser, shown):
    ask = shown(made_up(["SVM", "RF"], splits=2))
    seen = "[...document.querySelectorAll('td.published')].filter(c => c.offsetWidth > 0).length"
    assert ask(seen) == 0
    ask("document.getElementById('published').focus()")
    keys(browser, " ")
    assert ask(seen) == 15 * 5


def test_points_say_what_they_are_under_the_pointer_and_by_key(browser, shown):
    from selenium.webdriver import ActionChains
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.wait import WebDriverWait

    rows = made_up(["SVM", "RF", "DNN"], splits=3)
    ask, summary = shown(rows), summarise(rows)
    tip = "document.getElementById('tip').textContent"
    for figure in ("relative", "gains", "lags"):
        point = browser.find_element(By.CSS_SELECTOR, f"#{figure} .point:last-of-type")
        # Scrolling hides what was shown, in the frame after it: wait for that frame.
        scroll = "arguments[0].scrollIntoView({block: 'center'});"
        frames = "requestAnimationFrame(() => requestAnimationFrame(arguments[1]));"
        browser.execute_async_script(scroll + frames, point)
        ActionChains(browser).move_to_element(point).perform()
        WebDriverWait(browser, 30).until(lambda _: ask(tip))
        name, method = re.match(r"(.*), (.*)\n", ask(tip)).groups()
        cell = summary.cells[name, method]
        mean, sd = map(float, re.search(r"\n(\S+) ± (\S+), 3 splits", ask(tip)).groups())
        assert (mean, sd) == pytest.approx((cell.mean, cell.sd), rel=1e-3)
    ask("document.querySelector('#seconds svg').focus({preventScroll: true})")  # scrolling would hide it a frame later
    texts = []
    for _ in range(2):
        keys(browser, "\ue014")  # arrow right
        texts.append(ask(tip))
    assert texts[0] != texts[1]
    assert all("s on average" in text for text in texts)
    keys(browser, "\ue00c")  # escape
    assert ask(tip) == ""


def test_the_lines_count_what_gain_and_lag_count(browser, shown):
    rows = made_up(["SVM", "RF", "DNN", "HKL"], splits=2)
    ask, summary = shown(rows), summarise(rows)
    errors = summary.errors(summary.sets, summary.methods)
    for figure, count in (("gains", gain), ("lags", lag)):
        within = count(errors, np.array([0.0])) - count(errors, np.array([0.5]))
        assert ask(f"document.querySelectorAll('#{figure} .point').length") == within.sum()
    box = "document.querySelectorAll('#choice input')[1]"  # without HKL the lines are those of the other three
    assert ask(f"{box}.parentElement.textContent") == "HKL"
    ask(f"{box}.click()")
    errors = np.delete(errors, 1, axis=1)
    expected = gain(errors, np.array([0.0])) - gain(errors, np.array([0.5]))
    assert ask("document.querySelectorAll('#gains .point').length") == expected.sum()


def test_the_page_is_dark_where_asked_and_never_wider_than_the_window(browser, shown):
    ask = shown(made_up(splits=2))
    grounds = []
    try:
        for scheme, width in (("light", 1200), ("dark", 360)):
            features = [{"name": "prefers-color-scheme", "value": scheme}]
            size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": False}
            browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
            browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
            grounds.append(ask("getComputedStyle(document.body).backgroundColor"))
            assert ask("document.documentElement.scrollWidth") <= width
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    assert grounds == ["rgb(255, 255, 255)", "rgb(20, 23, 28)"]


def test_hostile_damaged_and_empty_rows_are_shown_without_harm(browser, shown, troubled):
    ask = shown(troubled)
    assert HOSTILE in ask("document.body.innerText")
    assert ask("document.querySelectorAll('script').length") == 2
    zeros = [row(s, 0, m, 0.0, seconds=0.0) for s in ("magic", "higgs") for m in ("SVM", "RF")]
    for rows in ([], [failed("magic", 0, "RF", "no")], zeros, recorded()):
        ask = shown(rows)
        assert ask("document.querySelector('table').tBodies[0].rows.length") == 15

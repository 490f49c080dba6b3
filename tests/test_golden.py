"""Small fits give what they gave: see ``tests/golden.py``."""

import json

import pytest

from golden import CASES, LARGE, RECORD, fingerprint, fitted, largest_difference

# The sums of a refactored formula may be taken in another order; another processor rounds thousands of steps otherwise.
SAME, ELSEWHERE = 1e-9, 0.2


@pytest.fixture(scope="module")
def recorded():
    return json.loads(RECORD.read_text())


def test_every_case_is_recorded(recorded):
    assert set(recorded["cases"]) == set(CASES | LARGE)


@pytest.mark.parametrize("name", CASES)
def test_a_fit_gives_what_it_gave(name, recorded):
    pytest.importorskip("pandas", reason="needs pandas for categories")
    alike = recorded["made_with"] == fingerprint()
    assert largest_difference(fitted(CASES[name]), recorded["cases"][name]) <= (SAME if alike else ELSEWHERE)


def test_differences_are_noticed():
    assert largest_difference({"a": [1.0, 2.0]}, {"a": [1.0, 2.0 + 1e-6]}) == pytest.approx(5e-7, rel=1e-3)
    assert largest_difference({"a": ["x"]}, {"a": ["y"]}) == float("inf")
    assert largest_difference({"a": [1.0]}, {"b": [1.0]}) == float("inf")

# Two commands on a machine with Python 3.11+ and make: make demo, make test.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test lint types tests errors fuzz clean

demo: .venv/library
	$(BIN)/python examples/demo.py

test: lint types tests

lint: .venv/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/dev
	$(BIN)/mypy

tests: .venv/dev
	$(BIN)/python -m pytest -n 2

# docs/errors.md: every bad input and the sentence it gets
errors: .venv/dev
	$(BIN)/python tests/bad_inputs.py

# hours, if need be: other examples each time; the tests take a few, always the same
fuzz: .venv/dev
	HGK_FUZZ=5000 $(BIN)/python -m pytest tests/test_files.py -k mutation
	HGK_FUZZ=$(or $(EXAMPLES),300) $(BIN)/python -m pytest tests/test_properties.py tests/test_table_properties.py

.venv/library: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/pip install -q -c constraints.txt -e .
	touch $@

.venv/dev: .venv/library
	$(BIN)/pip install -q -c constraints.txt -e ".[dev]"
	touch $@

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache

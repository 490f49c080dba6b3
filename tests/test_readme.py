"""The README's code runs, and its objects fit."""

import re
import warnings
from pathlib import Path

README = (Path(__file__).parents[1] / "README.md").read_text()


def test_the_code_of_the_readme_runs_and_every_object_in_it_fits():
    first, second = re.findall(r"```python\n(.*?)```", README, re.S)
    names = {}
    exec(first, names)
    assert names["model"].score(names["X_test"], names["y_test"]) > 0.3
    exec(second, names)
    lines = [line.split("  #")[0] for line in second.splitlines() if "(" in line and "import" not in line]
    assert len(lines) >= 8
    for line in lines:
        if '"paper"' not in line:  # hours
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # Gaussian processes remark on weights at their bounds
                model = eval(line, names).fit(names["X"], names["y"])
            assert len(model.predict(names["X_test"])) == len(names["X_test"])

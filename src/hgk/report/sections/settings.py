"""Parameters and versions."""

from __future__ import annotations

import platform
from importlib.metadata import version

from hgk.report.sections.base import Section
from hgk.report.web import plain_table

SOFTWARE = ("hgk", "numpy", "scikit-learn", "torch")


class SettingsSection(Section):
    """The estimator's parameters, what was chosen, and the software."""

    title, key = "Settings", "settings"

    def html(self) -> str:
        estimator, machine = self.subject.estimator, self.subject.model.machine
        settings = [[name, repr(value)] for name, value in estimator.get_params(deep=False).items()]
        mean = " (geometric mean)" if len(machine.terms) > 1 else ""
        settings += [
            [f"λ{mean}", f"{estimator.lam_:.6g}"],
            [f"γ{mean}", f"{estimator.gamma_:.6g}"],
            ["kernels averaged", str(len(machine.terms))],
            ["distinct rows", str(len(self.subject.training.rows))],
        ]
        versions = [["python", platform.python_version()], *([name, version(name)] for name in SOFTWARE)]
        return f"""<div class="figures"><div>{plain_table("Settings", ["setting", "value"], settings)}</div>
<div>{plain_table("Versions", ["software", "version"], versions)}</div></div>"""

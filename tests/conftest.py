"""One thread per test process, since two processes of two threads fight over two cores; data; a browser."""

import io
import os
import shutil
import signal
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

if "PYTEST_XDIST_WORKER" in os.environ:
    torch.set_num_threads(1)

# Tests on the paper's sets skip without them; a folder beside the checkout is taken where there is one.
BESIDE = Path(__file__).parents[2] / "shared" / "data"
if BESIDE.is_dir():
    os.environ.setdefault("HGK_DATA_HOME", str(BESIDE))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup():
    """What is drawn without a seed is the same whichever tests ran before, also in fixtures of a module."""
    np.random.seed(0)  # noqa: NPY002, that of estimators without a random_state
    torch.manual_seed(0)


# Shells let background jobs ignore Ctrl-C, and processes that tests start would inherit that.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="module")
def browser():
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    programs = [shutil.which(name) for name in ("chromium", "chromedriver")]
    if None in programs:
        pytest.skip("no chromium with chromedriver here")
    options = webdriver.ChromeOptions()
    options.binary_location = programs[0]
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--window-size=1200,900"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(programs[1]))
    driver.implicitly_wait(30)  # busy machines draw late
    driver.set_script_timeout(60)
    yield driver
    driver.quit()


@pytest.fixture
def call(monkeypatch, capfd):
    """``hgk …`` in this process: exit code, standard output, standard error."""
    cli = pytest.importorskip("hgk.cli", reason="needs the extra cli")

    def call(*arguments, stdin=b""):
        monkeypatch.setattr(sys, "argv", ["hgk", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        with pytest.raises(SystemExit) as ended:
            cli.run()
        return ended.value.code, *capfd.readouterr()

    return call

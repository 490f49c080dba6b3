"""One thread per test process: two processes of two threads each fight over two cores. And where data may lie."""

import os
from pathlib import Path

import torch

if "PYTEST_XDIST_WORKER" in os.environ:
    torch.set_num_threads(1)

# Tests on the paper's sets skip without them; a folder beside the checkout is taken where there is one.
BESIDE = Path(__file__).parents[2] / "shared" / "data"
if BESIDE.is_dir():
    os.environ.setdefault("HGK_DATA_HOME", str(BESIDE))

"""One thread per test process: two processes of two threads each fight over two cores."""

import os

import torch

if "PYTEST_XDIST_WORKER" in os.environ:
    torch.set_num_threads(1)

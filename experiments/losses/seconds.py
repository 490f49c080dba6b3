"""How long a classifier's default fit takes, compared with the regressor's on the same rows.

    python experiments/losses/seconds.py --data FOLDER --out experiments/losses/seconds.jsonl [--threads 2]

7000 training rows of split 0 each, classes as numbers for the regressor; the fit alone, with nothing else running. One
row per set and estimator is appended; what the file has is not done again.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from functools import partial
from pathlib import Path

import torch

from hgk import HGKClassifier, HGKRegressor

sys.path.append(str(Path(__file__).parents[1]))
from records import Row, circumstances, fill
from run import split, table

SETS = ("magic", "pendigits", "letter-recognition")
ESTIMATORS = {"regressor": HGKRegressor, "classifier": HGKClassifier}


def one(data: Path, threads: int, device: str, name: str, estimator: str) -> Row:
    X, _, y, _ = split(name, *table(name, data), 0, None)
    begun = time.perf_counter()
    ESTIMATORS[estimator](random_state=0, device=device).fit(X, y.astype(float) if estimator == "regressor" else y)
    seconds = round(time.perf_counter() - begun, 1)
    return {"set": name, "estimator": estimator, "rows": len(y), "seconds": seconds} | circumstances(device, threads)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    warnings.simplefilter("ignore")
    runs = [(name, estimator) for name in SETS for estimator in ESTIMATORS]
    fill(options.out, runs, partial(one, options.data, options.threads, options.device), ("set", "estimator"))


if __name__ == "__main__":
    main()

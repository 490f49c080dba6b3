"""The picture of the README: a learned kernel, and recorded errors beside hgk's; light and dark.

    python docs/picture.py

writes docs/_static/hgk-light.svg and hgk-dark.svg; building the site does so, too. The errors are those of
experiments/default/rows.jsonl, from which the README's table is quoted, means over the splits that both methods have.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.colors import to_hex
from sklearn.datasets import make_friedman1

from hgk import HGKRegressor
from hgk.bench import store
from hgk.bench.palette import LOOKS
from hgk.report.displays import KernelTreeDisplay

ROOT = Path(__file__).resolve().parents[1]
OURS = "Ours (default)"
PEERS = ["CatBoost", "LightGBM", "XGBoost", "RF", "xRFM", "RealMLP"]
INK = {"light": "#1f2328", "dark": "#e6edf3"}
GROUND = {"light": "#ffffff", "dark": "#14181e"}


def model() -> HGKRegressor:
    """Friedman's first problem: y = 10 sin(π a b) + 20 (c - ½)² + 10 d + 5 e + noise; f, g and h do not matter."""
    X, y = make_friedman1(500, n_features=8, noise=1.0, random_state=0)
    return HGKRegressor(random_state=0).fit(pd.DataFrame(X, columns=list("abcdefgh")), y)


def ratios() -> dict[str, dict[str, float]]:
    """Set -> method -> its mean error as a multiple of ours, over the splits that both have."""
    errors: dict[tuple[str, str], dict[int, float]] = {}
    for row in store.latest(store.read(ROOT / "experiments" / "default" / "rows.jsonl")[0]):
        if row["status"] == "ok":
            errors.setdefault((row["set"], row["method"]), {})[row["split"]] = row["mse"]
    found: dict[str, dict[str, float]] = {}
    for name in sorted({name for name, _ in errors}):
        ours = errors[name, OURS]
        for peer in PEERS:
            theirs = errors.get((name, peer), {})
            common = sorted(ours.keys() & theirs.keys())
            if common:
                ratio = np.mean([theirs[s] for s in common]) / np.mean([ours[s] for s in common])
                found.setdefault(name, {})[peer] = float(ratio)
    return found


def in_order(found: dict[str, dict[str, float]]) -> list[str]:
    """The sets from top to bottom, those where hgk is ahead by least first."""
    return sorted(found, key=lambda name: min(found[name].values()))


def draw_errors(ax, found: dict[str, dict[str, float]], mode: str) -> None:
    names = in_order(found)
    for peer in PEERS:
        look = LOOKS[peer]
        places = [(found[name][peer], i) for i, name in enumerate(names) if peer in found[name]]
        shown = {"color": getattr(look, mode), "markersize": 5.5, "alpha": 0.9, "label": peer, "gid": f"errors-{peer}"}
        ax.plot(*zip(*places, strict=True), look.shape, **shown)
    ax.axvline(1.0, color=getattr(LOOKS[OURS], mode), linewidth=2)
    ax.text(1.03, -0.8, "hgk", color=getattr(LOOKS[OURS], mode), fontsize=10, weight="bold", va="center")
    ax.set_xscale("log")
    every = [ratio for ratios in found.values() for ratio in ratios.values()]
    ax.set_xlim(min(0.8, min(every) / 1.2), max(every) * 1.15)
    ax.set_xticks([1, 2, 4, 8, 16], ["1", "2", "4", "8", "16"])
    ax.minorticks_off()
    ax.set_yticks(range(len(names)), names)
    ax.set_ylim(len(names) - 0.5, -1.4)
    ax.grid(axis="x", alpha=0.25)
    ax.set_xlabel("test error as a multiple of hgk's (log scale)")
    # above the axes, where no point can be
    ax.legend(
        frameon=False, ncols=6, loc="lower right", bbox_to_anchor=(1.0, 1.0), handletextpad=0.1, columnspacing=0.9
    )
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)


def recoloured(ax, mode: str) -> None:
    """The display draws for light ground; on dark, colours are the lighter ones and boxes dark."""
    lighter = {look.light: getattr(look, mode) for look in LOOKS.values()}
    for text in ax.texts:
        text.set_color(INK[mode])
        box = text.get_bbox_patch()
        if box is not None:
            box.set(facecolor=GROUND[mode], edgecolor=lighter[to_hex(box.get_edgecolor())])
    for line in ax.lines:
        line.set_color(lighter.get(to_hex(line.get_color()), line.get_color()))
        line.set_markerfacecolor(GROUND[mode])


def draw(mode: str, fitted: HGKRegressor, found: dict[str, dict[str, float]]) -> None:
    inked = ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color", "grid.color")
    colours = {**dict.fromkeys(inked, INK[mode]), "axes.facecolor": "none"}
    with plt.rc_context({**colours, "font.size": 9.5, "svg.hashsalt": "hgk"}):
        figure, (tree, errors) = plt.subplots(1, 2, figsize=(10.5, 4.1), layout="constrained", width_ratios=[1, 1.35])
        KernelTreeDisplay.from_estimator(fitted, ax=tree)
        tree.set_title("a learned kernel: columns, nodes, kernel", fontsize=10)
        recoloured(tree, mode)
        draw_errors(errors, found, mode)
        path = ROOT / "docs" / "_static" / f"hgk-{mode}.svg"
        figure.savefig(path, transparent=True, metadata={"Date": None})
        plt.close(figure)
        print(f"{path.relative_to(ROOT)}: {path.stat().st_size / 1000:.0f} kB")


def main() -> None:
    fitted, found = model(), ratios()
    for mode in INK:
        draw(mode, fitted, found)


if __name__ == "__main__":
    main()

"""The averaged kernels as trees."""

from __future__ import annotations

from dataclasses import asdict
from html import escape
from typing import Any

import numpy as np

from hgk.insight import Edge, Tree, kernel_trees
from hgk.report.palette import node_colours
from hgk.report.sections.base import Section, choice, script_of
from hgk.report.values import cut_name, plain
from hgk.report.web import colours, figure

# Columns of a tree, and features of a line, that are shown at most.
TREE_COLUMNS, LINE_FEATURES = 16, 6


class KernelSection(Section):
    """Columns, nodes and the kernel, and the weights between them."""

    title, key = "Kernel", "trees"
    draws = (("tree", "drawTree"),)
    script = script_of("kernel")

    def compute(self):
        # a tree of equal weights would look as if they had been learned
        trees = [] if self.subject.plain else kernel_trees(self.subject.estimator)
        self.colours = node_colours(node.family for tree in trees for layer in tree.layers for node in layer)
        return [plain(self._tree(tree)) for tree in trees]

    def style(self) -> str:
        return colours({f"node-{i}": colour for i, colour in enumerate(self.colours.values())})

    def _tree(self, tree: Tree) -> dict[str, Any]:
        """The most important columns of this kernel; what the others carry is summed up in one."""
        shares = tree.column_shares
        kept = list(shares)[: TREE_COLUMNS if len(shares) <= TREE_COLUMNS else TREE_COLUMNS - 1]
        columns = [{"name": self.subject.columns[j], "share": shares[j]} for j in kept]
        others = list(shares)[len(kept) :]
        if others:
            columns.append({"name": f"{len(others)} other columns", "share": sum(shares[j] for j in others)})
        place = {j: p for p, j in enumerate(kept)} | dict.fromkeys(others, len(kept))
        lines: dict[tuple[int, int], list[Edge]] = {}
        for edge in tree.edges:
            lines.setdefault((place[edge.column], edge.node), []).append(edge)
        looks = {family: f"node-{i}" for i, family in enumerate(self.colours)}
        return {
            "name": tree.name,
            "share": tree.share,
            "gamma": tree.gamma,
            "lam": tree.lam,
            "columns": columns,
            "layers": [
                [{**asdict(node), "family": node.family, "look": looks[node.family]} for node in layer]
                for layer in tree.layers
            ],
            "edges": [{"place": p, "node": i, **_line(edges)} for (p, i), edges in lines.items()],
        }

    def html(self) -> str:
        if self.subject.plain:
            sentence = f"{self.subject.plain[:1].upper()}{self.subject.plain[1:]}"
            said = (
                f"{sentence}. Its γ is {self.subject.estimator.gamma_:.4g}, and λ is {self.subject.estimator.lam_:.4g}."
            )
            return f"<p>{escape(said)}</p>"
        kernels = {str(i): f"{t['name']}, {t['share']:.0%} of the average" for i, t in enumerate(self.data)}
        controls = choice("tree", "Kernel", kernels)
        controls += choice("by", "Lines show", {"weight": "weights", "share": "shares of the exponent"})
        caption = (
            "From the columns through the nodes to the kernel. The wider a line, the larger its weight; that of a "
            "column with several features (scaled, rank, steps, categories) is the root of the sum of their squared "
            "weights. Point at a line or a node, or use the arrow keys, to see its values."
        )
        return figure("tree", "The kernel as a tree", caption, f'<div class="controls">{controls}</div>')


def _line(edges: list[Edge]) -> dict[str, Any]:
    """What several columns have to do with a node, as one."""
    terms = sorted((term for edge in edges for term in edge.features), key=lambda term: -term[1])
    return {
        "weight": float(np.linalg.norm([edge.weight for edge in edges])),
        "share": sum(edge.share for edge in edges),
        "features": [(cut_name(name), float(f"{v:.6g}")) for name, v in terms[:LINE_FEATURES]],
        "more": max(0, len(terms) - LINE_FEATURES),
    }

"""Formulas as MathML, which browsers draw by themselves.

MathJax and KaTeX would be scripts and fonts of megabytes, from a network or in every copy of the site; images need a
LaTeX. MathML is text in the page: it works from disk, takes the colour of the text, and can be read aloud.
"""

from __future__ import annotations

import re
from itertools import cycle

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform
from sphinx.util.math import get_node_equation_number
from sphinx.writers.html5 import HTML5Translator

# What the converter leaves to the browser, which would take these as binary operators and put space around them: a
# minus that opens an expression, and bars, of which every second one closes.
OPENING = re.compile(r"((?:<mrow>|>(?:\(|\[|&#x00028;|&#x0005B;|=|&#x0003D;|,|&#x0002C;)</mo>))<mo>(?=&#x02212;)")
BAR = re.compile(r"<mo>(?=&#x0007C;|&#x02016;)")


def mathml(latex: str, display: str) -> str:
    """The formula as an element; bars come in pairs."""
    sides = cycle(["prefix", "postfix"])
    text = OPENING.sub(r'\1<mo form="prefix">', convert(latex, display=display))
    return BAR.sub(lambda _: f'<mo form="{next(sides)}" stretchy="false">', text)


def _inline(self: HTML5Translator, node: nodes.math) -> None:
    self.body.append(mathml(node.astext(), "inline"))
    raise nodes.SkipNode


def _block(self: HTML5Translator, node: nodes.math_block) -> None:
    number = get_node_equation_number(self, node) if node["number"] else ""
    self.body.append(self.starttag(node, "div", CLASS="math"))
    self.body.append(mathml(node.astext(), "block"))
    self.body.append(f'<span class="eqno">({number})</span></div>' if number else "</div>")
    raise nodes.SkipNode


class Joined(SphinxTransform):
    """Browsers break lines between a formula and the comma after it; keep the two in one unbreakable piece."""

    default_priority = 900

    def apply(self, **_: object) -> None:
        for formula in list(self.document.findall(nodes.math)):
            place, parent = formula.parent.index(formula), formula.parent
            after = parent[place + 1] if place + 1 < len(parent) else None
            if isinstance(after, nodes.Text) and after[:1] in (",", ".", ";", ":", ")"):
                piece = nodes.inline("", "", formula, nodes.Text(after[:1]), classes=["unbroken"])
                parent[place : place + 2] = [piece, nodes.Text(after[1:])]


def setup(app: Sphinx) -> dict:
    app.add_transform(Joined)
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

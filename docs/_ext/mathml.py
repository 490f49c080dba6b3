"""Formulas as MathML, which browsers draw by themselves.

MathJax and KaTeX would be scripts and fonts of megabytes, from a network or in every copy of the site; images need a
LaTeX. MathML is text in the page: it works from disk, takes the colour of the text, and can be read aloud.
"""

from __future__ import annotations

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.util.math import get_node_equation_number
from sphinx.writers.html5 import HTML5Translator


def _inline(self: HTML5Translator, node: nodes.math) -> None:
    self.body.append(convert(node.astext(), display="inline"))
    raise nodes.SkipNode


def _block(self: HTML5Translator, node: nodes.math_block) -> None:
    number = get_node_equation_number(self, node) if node["number"] else ""
    self.body.append(self.starttag(node, "div", CLASS="math"))
    self.body.append(convert(_aligned(node.astext()), display="block"))
    self.body.append(f'<span class="eqno">({number})</span></div>' if number else "</div>")
    raise nodes.SkipNode


def _aligned(latex: str) -> str:
    """Several lines are one table, as MathJax takes them."""
    several = r"\\" in latex and r"\begin" not in latex
    return rf"\begin{{aligned}}{latex}\end{{aligned}}" if several else latex


def setup(app: Sphinx) -> dict:
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

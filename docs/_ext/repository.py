"""Texts that live elsewhere in the repository and are pages of the site, too.

Such a page holds nothing but ``{include}`` of the text; ``repository_pages`` says which file is which page. A link to
the file, from wherever, leads to the page: texts link to each other as they lie in the repository, and work on the
site.
"""

from __future__ import annotations

from pathlib import Path

from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform


class LinksToPages(SphinxTransform):
    """MyST takes a link to a Markdown file as one to a page, wherever the file is; give it the page."""

    default_priority = 500

    def apply(self, **_: object) -> None:
        for link in self.document.findall(addnodes.pending_xref):
            if link.get("refdomain") == "doc":
                file = Path(self.env.srcdir, f"{link['reftarget']}.md").resolve()
                link["reftarget"] = self.config.repository_pages.get(str(file), link["reftarget"])


def setup(app: Sphinx) -> dict:
    app.add_config_value("repository_pages", {}, "env")
    app.add_transform(LinksToPages)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

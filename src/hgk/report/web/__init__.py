"""Pages that need nothing else: no server, no network; light and dark, printable. What all pages of hgk share.

    shell.html    the skeleton, with a content security policy that forbids every request
    base.css      the look
    base.js       sorting of tables; figures as SVG with hover and keys

A page is the shell around a body of plain HTML written in Python, and a script that draws the numbers it gets as JSON.
All text from data passes :func:`html.escape`, or is JSON in which <, > and & are written as \\u003c and so on; scripts
set text, never markup.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any, BinaryIO

from hgk.storage import write_atomically


def td(text: str, value: object = None, kind: str = "", title: str = "") -> str:
    """A cell; ``text`` is HTML, ``value`` is what it is sorted by."""
    extra = f' title="{escape(title)}"' if title else ""
    sort = "" if value is None else f' data-value="{escape(str(value))}"'
    return f'<td class="{kind}"{sort}{extra}>{text}</td>'


def th(name: str, kind: str = "number") -> str:
    is_text = "" if kind.startswith("number") else ' data-kind="text"'
    return f'<th scope="col" class="{kind}"{is_text}><button type="button">{escape(name)}</button></th>'


def row_head(name: str) -> str:
    return f'<th scope="row" data-value="{escape(name)}">{escape(name)}</th>'


def table(caption: str, head: Sequence[str], body: Iterable[Sequence[str]]) -> str:
    lines = "\n".join(f"<tr>{''.join(cells)}</tr>" for cells in body)
    name = escape(caption)
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{name}"><table aria-label="{name}">'
        f"<thead><tr>{''.join(head)}</tr></thead><tbody>\n{lines}\n</tbody></table></div>"
    )


def plain_table(caption: str, head: Sequence[str], body: Iterable[Sequence[str]], numbers: Sequence[int] = ()) -> str:
    """A table of text; the columns in ``numbers`` are sorted and aligned as numbers."""
    names = [th(name, "number" if i in numbers else "") for i, name in enumerate(head)]

    def cell(i: int, text: str) -> str:
        if i == 0:
            return row_head(text)
        value = text.replace(",", "").replace("–", "") if i in numbers else text
        return td(escape(text), value or None, "number" if i in numbers else "wrap" if len(text) > 30 else "line")

    return table(caption, names, [[cell(i, text) for i, text in enumerate(line)] for line in body])


def figure(key: str, title: str, caption: str, controls: str = "") -> str:
    """A place that the page's script draws into; ``controls`` is HTML."""
    return f'<figure id="{key}"><h3>{escape(title)}</h3>{controls}<figcaption>{escape(caption)}</figcaption></figure>'


def as_json(value: Any) -> str:
    """JSON that cannot end the script element it stands in."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def or_none(x: float) -> float | None:
    return x if math.isfinite(x) else None


def colours(shades: Mapping[str, tuple[str, str]]) -> str:
    """CSS that gives each class its colour ``--c`` on light and on dark ground."""
    light = " ".join(f".{name} {{ --c: {colour}; }}" for name, (colour, _) in shades.items())
    dark = " ".join(f".{name} {{ --c: {colour}; }}" for name, (_, colour) in shades.items())
    return f"{light}\n@media screen and (prefers-color-scheme: dark) {{ {dark} }}\n"


def text_of(name: str, package: str = "hgk.report.web") -> str:
    """A file that lies in this folder, or in that of another package."""
    return files(package).joinpath(name).read_text(encoding="utf-8")


def assemble(title: str, heading: str, style: str, body: str, data: Any, script: str) -> str:
    """A page as text; ``title`` and ``heading`` are text, ``body`` is HTML, ``data`` becomes JSON."""
    places = {
        "<!-- TITLE -->": escape(title),
        "/* STYLE */": text_of("base.css") + style,
        "<!-- HEADING -->": escape(heading),
        "<!-- BODY -->": body,
        "/* DATA */": as_json(data),
        "/* SCRIPT */": text_of("base.js") + script,
    }
    # From the front, each in what is left of the shell: what was put in is not searched for further places.
    parts, rest = [], text_of("shell.html")
    for place, text in places.items():
        before, rest = rest.split(place)
        parts += [before, text]
    return "".join([*parts, rest])


def is_page(file: BinaryIO) -> bool:
    """Whether an opened file is a page of hgk."""
    return b'<meta name="generator" content="hgk">' in file.read(1000)


def write(text: str, path: str | Path) -> Path:
    """Write a page, whole or not at all; its folder is made if it is not there."""
    path, content = Path(path), text.encode("utf-8", errors="replace")
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, lambda file: file.write(content))
    return path

"""Numbers as people write them: 1,234.50 and 1.234,50, $17.50, 88%, (12), and placeholders for missing ones.

    texts of a column  --reading-->  marks (which character means what), or a question, or no numbers
    texts and marks    --numbers-->  floats, NaN for missing cells

A column is read as a whole: its marks must fit all its cells. A cell such as 1,5 proves a decimal comma; 8,641.50 and
17,766,120 prove that commas separate thousands, and so do 863 and 6,511 together: with a decimal comma, some numbers
would have one or two decimals. Where nothing decides, the user is asked. A dot is a decimal mark wherever it can be
one, unless other columns prove a decimal comma; only a column with many cells such as 6.511 and some such as 863 is
asked about, too.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from hgk.storable import expect, storable

# What stands in place of a number, in any case.
PLACEHOLDERS = (
    "na n/a n.a. n.a #n/a #na <na> nan -nan nat null (null) #null! nil none (none) #div/0! #value! "
    "? ?? ??? - -- --- — . .. ... * missing (missing) unknown (unknown) unk"
)
NO_NUMBER = frozenset([*PLACEHOLDERS.split(), "", "not available", "not applicable", "not known"])
# Signs and common codes of currencies.
SIGNS = "$€£¥¢₹₽₩₺₪₫฿₴₦₱₡₲₵₸₭₮₼₾₿"
CODES = "AUD BRL CAD CHF CNY CZK DKK EUR GBP HKD HUF IDR ILS INR JPY KRW MXN NOK NZD PLN RUB SEK SGD THB TRY USD ZAR"
# The largest share of cells that are no numbers in a column of numbers with strays.
STRAY = 0.1
# So many cells with three digits after the comma, and so small a share of others, make slips of the others.
MANY_COMMAS, SLIPS = 50, 0.02
# Different cells such as 6.511, in a column with some such as 863, from which the dot may be a thousands mark: of true
# decimals, one in ten would end in 0 and be shorter, one in a thousand whole, so that a whole one counts for more.
FEW_DOTS, MANY_DOTS, WHOLE_COUNTS = 2, 30, 3
# The first whole number whose successor is no float.
INEXACT = 2**53

# The shape of a cell: 9 for every digit but 0, one form of the signs. A column has few shapes, however many cells.
_SHAPE = str.maketrans(
    {
        **dict.fromkeys("123456789", "9"),
        **dict.fromkeys("−﹣－–", "-"),
        **dict.fromkeys("\u00a0\u2007\u2009\u202f", " "),
        **dict.fromkeys("’ʼ′´`", "'"),
    }
)
# Characters between digits that a number may have in any shape.
_BETWEEN = ",. '_\u00a0\u2007\u2009\u202f’ʼ′´`"
_MONEY = rf"(?:[A-Z]{{0,2}}[{SIGNS}]|{'|'.join(CODES.split())})"
_CELL = re.compile(
    rf"\s*(\()?([-+]?)\s?({_MONEY})?\s?([-+]?)(\d+(?:[.,' _]\d+)*[.,]?|[.,]\d+|[iI]nf(?:inity)?)((?:[eE][-+]?\d+)?)"
    rf"\s?({_MONEY}|%)?(\))?\s*"
)
_PADDED = re.compile(r"0\d+")


@storable
@dataclass(frozen=True)
class Marks:
    """How a column writes its numbers; "" for a mark that does not occur."""

    decimal: str = ""
    thousands: str = ""
    currency: str = ""
    percent: bool = False

    @classmethod
    def check_parts(cls, parts: Mapping[str, Any]) -> None:
        decimal, thousands = parts.get("decimal", ""), parts.get("thousands", "")
        known = decimal in ("", ".", ",") and thousands in ("", ",", ".", " ", "'", "_")
        expect(known and (decimal != thousands or not decimal), "a column's marks are unknown")

    @property
    def words(self) -> str:
        """The marks as a list of words, "" if there are none."""
        said = [f"{what} {mark!r}" for what in ("thousands", "decimal", "currency") if (mark := getattr(self, what))]
        return ", ".join([*said, *(["percents as written, 88 for 88%"] if self.percent else [])])


@dataclass(frozen=True)
class Reading:
    """What the texts of a column are: numbers where there are ``marks``; where it is ``unclear``, the user is asked."""

    marks: Marks | None = None
    such: str = ""  # a typical cell
    lacking: tuple[str, int] | None = None  # a placeholder for missing cells, and how many there are
    stray: tuple[str, int, int] | None = None  # among numbers: a cell that is none, its row, how many numbers
    padded: bool = False  # codes such as 00123
    proven: str = ""  # the decimal mark, where a cell proves it
    borrowed: bool = False  # whether other columns decided on the marks
    unclear: str = ""  # what may be meant
    advice: str = ""  # what to do about it; "" if the caller knows
    merged: bool = False  # whether different whole numbers become the same float

    def remark(self, name: str) -> str:
        """A sentence on what was done with the column, "" if nothing that needs one."""
        if self.stray is not None:
            cell, row, count = self.stray
            return (
                f"Column {name!r} holds {cut(repr(cell))} (row {row}, counted from 0) among {count} numbers and is "
                "therefore taken as categories; correct this cell and others like it, or leave them empty."
            )
        if self.padded:
            return (
                f"Column {name!r} holds codes with leading zeros such as {cut(repr(self.such))} and is taken as "
                "categories; turn it into numbers if it measures something."
            )
        if self.marks is None:
            return ""
        how = self.marks.words + (", as in other columns" if self.borrowed else "")
        said = f"Column {name!r} is read as numbers from texts such as {cut(repr(self.such))}{how and f' ({how})'}"
        if self.lacking is not None:
            cell, count = self.lacking
            cells = "1 cell such as {} counts" if count == 1 else f"{count} cells such as {{}} count"
            return f"{said}; {cells.format(repr(cell))} as missing."
        return f"{said}; give it as categories if these are codes."

    def question(self, name: str, answer: str) -> str:
        """A sentence that asks for what the cells leave open; ``answer`` is how to say what the marks mean."""
        return f"{name} holds numbers such as {cut(repr(self.such))}, {self.unclear}; {self.advice or answer}."


def cut(text: str, most: int = 60) -> str:
    """One line of few characters."""
    text = " ".join(text.split())
    return text if len(text) <= most else f"{text[: most - 1]}…"


def may_be_number(cell: str) -> bool:
    """Whether a text is a number under some marks."""
    return _parts(cell.translate(_SHAPE)) is not None


def stands_for_nothing(cell: str) -> bool:
    """Whether a text in a column of numbers means that there is none."""
    return cell.strip().lower() in NO_NUMBER


# ------------------------------------------------------------------------------------------------- one shape


class _Parts(NamedTuple):
    """A shape that may be a number under some marks."""

    negative: bool
    body: str  # digits and the marks between them
    span: tuple[int, int]  # where they stand, an exponent included
    currency: str
    percent: bool
    bracketed: bool


def _parts(shape: str) -> _Parts | None:
    match = _CELL.fullmatch(shape)
    if match is None:
        return None
    opened, sign, before, inner, body, _, after, closed = match.groups()
    signs, money = sign + inner, [m for m in (before, after) if m and m != "%"]
    if bool(opened) != bool(closed) or len(signs) + bool(opened) > 1 or (before and after):
        return None
    span = match.start(5), match.end(6)
    return _Parts(signs == "-" or bool(opened), body, span, "".join(money), after == "%", bool(opened))


def _fits(decimal: str, thousands: str) -> Callable[[str], Any]:
    """Whether the body of a cell is a number with these marks; with "" for a mark there is none."""
    whole = r"\d+"
    if thousands:
        group = f"[{re.escape(thousands)}]"  # one of them, the same in all of a cell
        whole += rf"|[1-9]\d{{0,2}}({group})\d{{3}}(?:\1\d{{3}})*"
        whole += r"|[1-9]\d?(?:,\d\d)+,\d{3}" if "," in thousands else ""  # lakhs and crores
    fraction = rf"(?:{re.escape(decimal)}\d*)?" if decimal else ""
    return re.compile(rf"(?:{whole}|(?=.\d)){fraction}|[iI]nf(?:inity)?").fullmatch


# ------------------------------------------------------------------------------------------------ one column


def reading(cells: Sequence[str | None], decimal: str = "") -> Reading:
    """What the texts of a column are, missing cells being None.

    ``decimal`` is the mark that other columns of the table prove; it is taken where the cells leave it open.

    Examples
    --------
    >>> from hgk.inputs.numerals import reading
    >>> reading(["$8,641.50", "$17.50", "?"]).marks
    Marks(decimal='.', thousands=',', currency='$', percent=False)
    >>> reading(["1,234", "5,678"]).unclear
    "in which ',' may mark thousands or decimals"
    >>> reading(["10-20", "1.2.3", "5 kg"]).marks is None
    True
    """
    count, first = _shapes(cells)
    lacking = {shape: n for shape, n in count.items() if stands_for_nothing(shape)}
    present = {shape: n for shape, n in count.items() if shape not in lacking}
    parts = {shape: p for shape in present if (p := _parts(shape)) is not None}
    if not parts or sum(present[shape] for shape in parts) < (1 - STRAY) * sum(present.values()):
        return Reading()
    if (code := _code(present)) is not None:
        return Reading(such=cells[first[code]] or "", padded=True)
    r = _marked(parts, present, decimal)
    if r.marks is None and not r.unclear:
        return r
    fits = _fits_all(r.marks) if r.marks is not None else bool
    if odd := [shape for shape in present if shape not in parts or not fits(parts[shape].body)]:
        return _strayed(cells, min(first[shape] for shape in odd), sum(present[shape] for shape in odd), present)
    r = replace(r, such=cells[first[r.such]] or "", merged=_merge(cells, parts))
    if not decimal and r.marks is not None and _like_thousands(cells, [p.body for p in parts.values()]):
        return Reading(such=r.such, unclear="in which '.' may mark thousands or decimals")
    if lacking:
        most = max(lacking, key=lacking.__getitem__)
        r = replace(r, lacking=(str(cells[first[most]]), sum(lacking.values())))
    return r


def _strayed(cells: Sequence[str | None], row: int, strays: int, present: dict[str, int]) -> Reading:
    """Numbers with a few cells that are none, of which the first stands in ``row``; no numbers, if they are many."""
    rows = sum(present.values())
    return Reading(stray=(str(cells[row]), row, rows - strays)) if strays < STRAY * rows else Reading()


def _shapes(cells: Sequence[str | None]) -> tuple[dict[str, int], dict[str, int]]:
    """How often each shape occurs, and the first row where it does."""
    shapes = [None if cell is None else cell.translate(_SHAPE) for cell in cells]
    count = Counter(shape for shape in shapes if shape is not None)
    first: dict[str, int] = {}
    for row, shape in enumerate(shapes):
        if shape is not None:
            first.setdefault(shape, row)
    return count, first


def _code(present: dict[str, int]) -> str | None:
    """A code with leading zeros, if the column holds codes: digits, all of one length or more than a few with zeros."""
    padded = [shape for shape in present if _PADDED.fullmatch(shape.strip())]
    if not padded or not all(shape.strip().isdigit() for shape in present if _parts(shape) is not None):
        return None
    one_length = len({len(shape.strip()) for shape in present}) == 1
    often = sum(present[shape] for shape in padded) >= 0.01 * sum(present.values())
    return padded[0] if one_length or often else None


def _marked(parts: dict[str, _Parts], present: dict[str, int], hint: str) -> Reading:
    """Marks that fit most cells, if there is one way to read them."""
    such = _telling(parts)
    currencies = {p.currency for p in parts.values()} - {""}
    percents = {p.percent for p in parts.values() if p.body.strip("0.,")}
    if all(p.bracketed for p in parts.values()):
        return Reading()
    for several, what in ((currencies, "of several currencies"), (percents, "some of them percents and others not")):
        if len(several) > 1:
            return Reading(such=such, unclear=what, advice="turn all of them into numbers of one unit")
    bodies: dict[str, int] = {}
    for shape, p in parts.items():
        bodies[p.body] = bodies.get(p.body, 0) + present[shape]
    fits = _fitting(bodies)
    decimal, proven, borrowed = _decided(bodies, [pair for pair, n in fits.items() if n == max(fits.values())], hint)
    if decimal is None:
        return Reading(such=such, unclear="in which ',' may mark thousands or decimals")
    thousands = max((t for d, t in fits if d == decimal), key=lambda t: (fits[decimal, t], -len(t)))
    amounts = decimal or currencies or any(p.negative or p.percent for p in parts.values())
    if thousands in (" ", "_") and not amounts and _one_length(bodies):  # a phone number, an id
        return Reading()
    marks = Marks(decimal, thousands, next(iter(currencies), ""), True in percents)
    return Reading(marks, such, proven=decimal if proven else "", borrowed=borrowed)


def _fitting(bodies: dict[str, int]) -> dict[tuple[str, str], int]:
    """How many cells fit each pair of a decimal mark and one of thousands that may be meant."""
    used = set("".join(bodies)) & set(",. '_")
    pairs = [(d, t) for d in sorted(used & {".", ","}) or [""] for t in ("", *sorted(used - {d}))]
    if used == {"."} or used == {","}:  # the other one may be the decimal mark, which no cell has
        pairs += [(",", ".") if "." in used else (".", ",")]
    fitting = {}
    for pair in pairs:
        match = _fits(*pair)
        fitting[pair] = sum(n for body, n in bodies.items() if match(body))
    return fitting


def _telling(parts: dict[str, _Parts]) -> str:
    """The most telling shape: the one with the most characters that are no digits."""
    return max(parts, key=lambda shape: (sum(not c.isdigit() for c in shape.strip()), "9" in shape, -len(shape)))


def _decided(bodies: dict[str, int], best: list[tuple[str, str]], hint: str) -> tuple[str | None, bool, bool]:
    """The decimal mark (None: unclear), whether the cells prove it, whether other columns decided."""
    decimals = {decimal for decimal, _ in best}
    commas = {body: n for body, n in bodies.items() if "," in body}
    if len(decimals) == 1:
        (decimal,) = decimals
        if decimal == "," and _by_slips_alone(commas):
            return (None, False, False) if hint not in (".", ",") else (hint, False, True)
        return decimal, decimal != "", False
    if hint in decimals:
        return hint, False, bool(commas) or hint == ","
    if not commas:
        return ".", False, False
    whole = [body for body in bodies if body.isdigit() and body.strip("0")]
    if whole and max(map(len, whole)) <= 3 and "." not in "".join(bodies):
        return ".", True, False
    return None, False, False


def _by_slips_alone(commas: dict[str, int]) -> bool:
    """Whether only a few cells such as 1,5 among many such as 6,511 speak for a decimal comma."""
    short = sum(n for body, n in commas.items() if len(body.rpartition(",")[2]) != 3)
    thousands, total = _fits("", ","), sum(commas.values())
    others = all(thousands(body) or len(body.rpartition(",")[2]) != 3 for body in commas)
    return others and total >= MANY_COMMAS and 0 < short <= SLIPS * total


def _like_thousands(cells: Sequence[str | None], bodies: Sequence[str]) -> bool:
    """Whether all dots could separate thousands, in many numbers, and all others are whole and below 1000."""
    whole = [body for body in bodies if body.isdigit() and body.strip("0")]
    if not whole or max(map(len, whole)) > 3 or not any("." in body for body in bodies):
        return False
    match = _fits("", ".")
    if not all(match(body) for body in bodies):
        return False
    distinct = {cell for cell in cells if cell is not None}
    dotted = sum("." in cell for cell in distinct)
    return dotted >= FEW_DOTS and dotted + WHOLE_COUNTS * (len(distinct) - dotted) >= MANY_DOTS


def _one_length(bodies: dict[str, int]) -> bool:
    lengths = {len(body) for body in bodies}
    return len(lengths) == 1 and min(lengths) >= 8 and sum(bodies.values()) > 1


def _merge(cells: Sequence[str | None], parts: dict[str, _Parts]) -> bool:
    """Whether different whole numbers beyond 2^53 become one float."""
    if not any(p.body.isdigit() and len(p.body) > 15 for p in parts.values()):
        return False
    long = {digits for cell in cells if cell is not None and len(digits := cell.strip().lstrip("+-")) > 15}
    whole = {digits for digits in long if digits.isdigit()}
    return len(whole) > len({float(digits) for digits in whole})


# ------------------------------------------------------------------------------------------------ its numbers


def _fits_all(marks: Marks) -> Callable[[str], Any]:
    """Whether the marks allow a cell; new rows may have a thousands mark that the column did not need."""
    if not marks.decimal:
        return _fits(".", marks.thousands)
    return _fits(marks.decimal, marks.thousands or "".join(set(",. '_") - {marks.decimal}))


def numbers(cells: Sequence[str | None], marks: Marks) -> tuple[np.ndarray, list[int]]:
    """Floats, NaN for missing cells; and the rows of cells that the marks do not allow.

    Examples
    --------
    >>> from hgk.inputs.numerals import Marks, numbers
    >>> numbers(["1.234,5", "(7)", "n/a", None], Marks(decimal=","))
    (array([1234.5,   -7. ,    nan,    nan]), [])
    """
    fits, decimal = _fits_all(marks), marks.decimal or "."
    drop = str.maketrans({**dict.fromkeys(_BETWEEN), decimal: "."})
    plans: dict[str, _Parts | None] = {}
    values, bad = np.full(len(cells), np.nan), []
    for row, cell in enumerate(cells):
        if cell is None:
            continue
        shape = cell.translate(_SHAPE)
        if shape not in plans:
            plans[shape] = None if stands_for_nothing(shape) else _plan(shape, marks, fits)
        plan = plans[shape]
        if plan is not None:
            value = float(cell[plan.span[0] : plan.span[1]].translate(drop))
            values[row] = -value if plan.negative else value
        elif not stands_for_nothing(shape):
            bad.append(row)
    return values, bad


def _plan(shape: str, marks: Marks, fits: Callable[[str], Any]) -> _Parts | None:
    """The parts of a shape that the marks allow."""
    parts = _parts(shape)
    if parts is None or not fits(parts.body):
        return None
    if parts.currency not in ("", marks.currency) or (parts.percent and not marks.percent):
        return None
    return parts

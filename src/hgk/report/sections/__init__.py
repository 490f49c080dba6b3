"""The sections of the report, in their order, and the way to add one."""

from __future__ import annotations

from hgk.report.sections.base import Section, Subject
from hgk.report.sections.columns import ColumnsSection
from hgk.report.sections.data import DataSection
from hgk.report.sections.effects import EffectsSection
from hgk.report.sections.error import ErrorSection
from hgk.report.sections.evaluation import EvaluationSection
from hgk.report.sections.interactions import InteractionsSection
from hgk.report.sections.kernel import KernelSection
from hgk.report.sections.learning import LearningSection
from hgk.report.sections.predictions import PredictionsSection
from hgk.report.sections.regions import RegionsSection
from hgk.report.sections.settings import SettingsSection
from hgk.report.sections.worst import WorstRowsSection

__all__ = ["Section", "Subject", "register", "registered", "unregister"]

# The key under which a page holds what all scripts share.
SHARED = "about"
_sections: list[type[Section]] = [
    ErrorSection,
    ColumnsSection,
    EffectsSection,
    InteractionsSection,
    KernelSection,
    RegionsSection,
    LearningSection,
    PredictionsSection,
    EvaluationSection,
    WorstRowsSection,
    DataSection,
    SettingsSection,
]


def registered() -> list[type[Section]]:
    """The sections of a report, in their order."""
    return list(_sections)


def register(section: type[Section], after: str | None = None) -> type[Section]:
    """Add a section to all reports that are written from now on.

    Parameters
    ----------
    section : subclass of Section
    after : str, optional
        The title of the section that it follows; by default it comes last.

    Returns
    -------
    type
        The section, so that this may decorate a class.

    Examples
    --------
    >>> from hgk.report import Section, register, registered, unregister
    >>> class Rows(Section):
    ...     title, key = "Rows", "rows"
    ...     def html(self):
    ...         return f"<p>{len(self.subject.training.rows)} distinct rows.</p>"
    >>> register(Rows, after="Effects") is Rows
    True
    >>> [s.title for s in registered()][2:4]
    ['Effects', 'Rows']
    >>> unregister("Rows")
    """
    if section.title in _titles() or section.key in {SHARED, *(s.key for s in _sections)}:
        raise ValueError(
            f"A section with the title {section.title!r} and the key {section.key!r} was given, and the report has one "
            "of this title or key; choose others."
        )
    unnamed = [name for _, name in section.draws if not name.isidentifier()]
    if unnamed:
        raise ValueError(f"draws names the function {unnamed[0]!r}; the name of a JavaScript function is expected.")
    _sections.insert(len(_sections) if after is None else _place(after) + 1, section)
    return section


def unregister(title: str) -> None:
    """Leave a section out of all reports that are written from now on."""
    del _sections[_place(title)]


def _titles() -> list[str]:
    return [section.title for section in _sections]


def _place(title: str) -> int:
    if title not in _titles():
        raise ValueError(f"The section {title!r} was named; the report has {', '.join(_titles())}.")
    return _titles().index(title)

"""A fitted model as one HTML page (:func:`write_report`) and in matplotlib (:mod:`hgk.report.displays`); scores on test
rows (:func:`write_evaluation`) and comparisons with other methods (:func:`write_comparison`) as pages."""

from hgk.report.comparison import write_comparison
from hgk.report.page import report, write_evaluation, write_report
from hgk.report.sections import Section, Subject, register, registered, unregister

__all__ = [
    "Section",
    "Subject",
    "register",
    "registered",
    "report",
    "unregister",
    "write_comparison",
    "write_evaluation",
    "write_report",
]

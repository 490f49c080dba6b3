"""A fitted model as one HTML page (:func:`write_report`) and in matplotlib (:mod:`hgk.report.displays`)."""

from hgk.report.page import report, write_report

__all__ = ["report", "write_report"]

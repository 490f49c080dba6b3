"""A fitted model as one HTML page (:func:`write_report`) and in matplotlib (:mod:`hgk.report.displays`)."""

from hgk.report.page import report, write_evaluation, write_report
from hgk.report.sections import Section, Subject, register, registered, unregister

__all__ = ["Section", "Subject", "register", "registered", "report", "unregister", "write_evaluation", "write_report"]

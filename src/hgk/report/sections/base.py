"""What a section of the report is, and what it is about."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from typing import Any, ClassVar

from hgk.insight import Assessment, NewRows, plain_remark
from hgk.insight.errors import LOO
from hgk.insight.fitted import Estimator, column_names, most_important, output_names, training_of
from hgk.model import Model, Training
from hgk.report.values import cut_name
from hgk.report.web import text_of

# Columns that figures and tables show at most.
IMPORTANT = 20


@dataclass(frozen=True)
class Subject:
    """What a page is about: a fitted estimator; rows that it has not seen and scores on them, where they were given."""

    estimator: Estimator
    new: NewRows | None = None
    evaluation: Assessment | None = None

    @cached_property
    def model(self) -> Model:
        return self.estimator.model_

    @property
    def training(self) -> Training:
        return training_of(self.estimator)

    @property
    def classes(self) -> bool:
        return self.model.target.classes

    @property
    def judged(self) -> str:
        """With another loss than least squares the predictions are of held-out folds."""
        return LOO if self.model.machine.held_out is None else "held-out"

    @cached_property
    def columns(self) -> list[str]:
        return [cut_name(name) for name in column_names(self.estimator)]

    @cached_property
    def outputs(self) -> list[str]:
        return [cut_name(name) for name in output_names(self.estimator)]

    @cached_property
    def order(self) -> list[int]:
        """The most important columns, largest first."""
        return most_important(self.estimator, IMPORTANT)

    @cached_property
    def plain(self) -> str | None:
        """A sentence where the kernels tell nothing about columns."""
        return plain_remark(self.estimator)


class Section(ABC):
    """A part of the report: a heading, HTML, and what its script draws.

    A section from outside the package is a subclass that is registered by :func:`hgk.report.register`. It asks
    ``self.subject`` for the model. All text from data must pass :func:`html.escape`.

    Attributes
    ----------
    title : str
        The heading, and the text of the link to it.
    key : str
        Where ``data`` stands in the JSON of the page.
    draws : sequence of (str, str)
        The ``id`` of each ``<figure>`` in the HTML, and the script function that draws it, called with ``data``
        whenever the page is laid out anew. A figure that is not in the HTML is not drawn.
    script : str
        JavaScript with these functions. It may call what ``web/base.js`` and ``web/report.js`` define.
    data
        What :meth:`compute` returned.

    Examples
    --------
    >>> from hgk.report import Section
    >>> class Rows(Section):
    ...     title, key = "Rows", "rows"
    ...     def html(self):
    ...         return f"<p>{len(self.subject.training.rows)} distinct rows.</p>"
    """

    title: ClassVar[str]
    key: ClassVar[str]
    draws: ClassVar[Sequence[tuple[str, str]]] = ()
    script: ClassVar[str] = ""

    @classmethod
    def applies(cls, subject: Subject) -> bool:
        """Whether a page about this has the section."""
        return True

    def __init__(self, subject: Subject):
        self.subject = subject
        self.data = self.compute()

    def compute(self) -> Any:
        """Numbers and texts for the HTML and the script, as JSON can hold them; None if the script needs none."""
        return None

    @abstractmethod
    def html(self) -> str:
        """What stands under the heading."""

    def lead(self) -> str:
        """What is told of it above all sections, as text."""
        return ""

    def style(self) -> str:
        """CSS of its own."""
        return ""


def script_of(name: str) -> str:
    """A script that lies in this folder."""
    return text_of(f"{name}.js", "hgk.report.sections")


def choice(key: str, label: str, options: Mapping[str, str]) -> str:
    """A choice that scripts find in ``state[key]``; ``options`` are texts by value."""
    lines = "".join(f'<option value="{escape(value)}">{escape(text)}</option>' for value, text in options.items())
    return f'<label>{escape(label)} <select name="{key}" id="choose-{key}" autocomplete="off">{lines}</select></label>'


def choose_output(subject: Subject) -> str:
    """A choice among several outputs."""
    if len(subject.outputs) < 2:
        return ""
    options = {str(k): name for k, name in enumerate(subject.outputs)}
    return f'<div class="controls">{choice("output", "Output", options)}</div>'

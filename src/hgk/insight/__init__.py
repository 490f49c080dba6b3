"""What there is to know about a fitted model, as numbers: contributions, influence, errors, effects, importance."""

from hgk.insight.errors import in_words, verdict
from hgk.insight.explanations import (
    Contributions,
    contributions,
    given_rows,
    influence,
    node_terms,
    plain_remark,
    remark_on_plain,
)

__all__ = [
    "Contributions",
    "contributions",
    "given_rows",
    "in_words",
    "influence",
    "node_terms",
    "plain_remark",
    "remark_on_plain",
    "verdict",
]

"""What there is to know about a fitted model, as numbers.

explanations    predictions as sums over training rows, the influence of a row, nodes between rows
errors          the error on rows not seen, compared with other methods
evaluation      scores on labelled rows, compared with what the fit had promised;  measures: scores, standard errors
importance      how much columns matter;  interactions: which stand together
effects         what is predicted as one column moves
regions         where which column matters, for models in leaves
trees           kernels as trees, for pictures
learning        training curves, and the optimism of the criterion
comparison      other methods beside hgk, by the same folds;  peers: these methods
coverage        how often intervals hold the label
"""

from hgk.insight.comparison import Comparison, MethodScores, compare
from hgk.insight.coverage import Coverage, interval_coverage
from hgk.insight.effects import Effect, effect
from hgk.insight.errors import NewRows, Score, in_words, new_rows, scores, verdict
from hgk.insight.evaluation import Assessment, Promise, evaluate, promise
from hgk.insight.explanations import (
    Contributions,
    contributions,
    given_rows,
    influence,
    node_terms,
    plain_remark,
    remark_on_plain,
)
from hgk.insight.importance import Relevance, relevance
from hgk.insight.interactions import pairs
from hgk.insight.learning import Learning, LearningRun, TriedKind, learning_curves
from hgk.insight.measures import Measure
from hgk.insight.regions import Region, regions
from hgk.insight.trees import Edge, Node, Tree, kernel_trees

__all__ = [
    "Assessment",
    "Comparison",
    "Contributions",
    "Coverage",
    "Edge",
    "Effect",
    "Learning",
    "LearningRun",
    "Measure",
    "MethodScores",
    "NewRows",
    "Node",
    "Promise",
    "Region",
    "Relevance",
    "Score",
    "Tree",
    "TriedKind",
    "compare",
    "contributions",
    "effect",
    "evaluate",
    "given_rows",
    "in_words",
    "influence",
    "interval_coverage",
    "kernel_trees",
    "learning_curves",
    "new_rows",
    "node_terms",
    "pairs",
    "plain_remark",
    "promise",
    "regions",
    "relevance",
    "remark_on_plain",
    "scores",
    "verdict",
]

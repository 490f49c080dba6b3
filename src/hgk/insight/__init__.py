"""What there is to know about a fitted model, as numbers.

explanations    predictions as sums over training rows, the influence of a row, nodes between rows
errors          the error on rows not seen, compared with other methods
importance      what predictions of unseen rows lose without a column
interactions    the same without what two columns do only together
reasons         what each column adds to a prediction
effects         what is predicted as one column moves, or two
evaluation      scores on labelled rows, compared with what the fit had promised;  measures: scores, standard errors
regions         where which column matters, for models in leaves
trees           kernels as trees, for pictures
learning        training curves, and the optimism of the criterion
comparison      other methods beside hgk, by the same folds;  peers: these methods
coverage        how often intervals hold the label
"""

from hgk.importance import Importance
from hgk.insight.comparison import Comparison, MethodScores, compare
from hgk.insight.coverage import Coverage, interval_coverage
from hgk.insight.effects import Effect, JointEffect, effect, joint_effect
from hgk.insight.errors import NewRows, Score, in_words, new_rows, scores, verdict
from hgk.insight.evaluation import Assessment, Promise, evaluate, promise
from hgk.insight.explanations import (
    Contributions,
    Without,
    contributions,
    given_rows,
    influence,
    node_terms,
    plain_remark,
    predictions_without,
    remark_on_plain,
)
from hgk.insight.importance import Relevance, importance, relevance
from hgk.insight.interactions import Interactions, interactions
from hgk.insight.learning import Learning, LearningRun, TriedKind, learning_curves
from hgk.insight.measures import Measure
from hgk.insight.reasons import Reasons, reasons
from hgk.insight.regions import Region, regions
from hgk.insight.trees import Edge, Node, Tree, kernel_trees

__all__ = [
    "Assessment",
    "Comparison",
    "Contributions",
    "Coverage",
    "Edge",
    "Effect",
    "Importance",
    "Interactions",
    "JointEffect",
    "Learning",
    "LearningRun",
    "Measure",
    "MethodScores",
    "NewRows",
    "Node",
    "Promise",
    "Reasons",
    "Region",
    "Relevance",
    "Score",
    "Tree",
    "TriedKind",
    "Without",
    "compare",
    "contributions",
    "effect",
    "evaluate",
    "given_rows",
    "importance",
    "in_words",
    "influence",
    "interactions",
    "interval_coverage",
    "joint_effect",
    "kernel_trees",
    "learning_curves",
    "new_rows",
    "node_terms",
    "plain_remark",
    "predictions_without",
    "promise",
    "reasons",
    "regions",
    "relevance",
    "remark_on_plain",
    "scores",
    "verdict",
]

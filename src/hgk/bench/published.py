"""What the paper printed: errors, sizes and times, transcribed from its tables and text.

Errors are means ± standard deviations over 30 splits of the mean squared error of the clipped prediction, y scaled to
[-1, 1]. ¹ is the paper's bold face (smallest error), ² its bold italics (second smallest). The caption says that more
than two errors are marked where "the differences were not statistically significant", and does not name the test.
The marks printed are those of Welch's test at 5 % on the means and deviations printed (``tests`` check it): all that
are not significantly worse than the smallest get ¹, and if that is one alone, all that are not significantly worse
than the smallest of the others get ².
"""

from dataclasses import dataclass

METHODS = ("SVM", "HKL", "Ours", "RF", "DNN")
SPLITS = 30
BEST_MARK, SECOND_MARK = 1, 2
# Who in our rows stands beside a published column.
TWIN = {"SVM": "SVM", "HKL": "HKL", "Ours (paper)": "Ours", "RF": "RF", "DNN": "DNN"}

_ERRORS = """
bank-marketing      .29780±.00240   .29387±.00283   .25959±.00388¹  .26868±.00269²  .29310±.00247
cadata              .05382±.00156   .06247±.00138   .05252±.00186²  .05087±.00153¹  .05500±.00146
cod-rna             .15745±.00234   .17336±.00126   .13093±.00498²  .17248±.00198   .11544±.00131¹
covtype             .52055±.00433   .60997±.00418   .39955±.01484¹  .48784±.00412²  .50274±.00629
cpusmall            .00361±.00022   .00460±.00041   .00335±.00018²  .00323±.00016¹  .00375±.00015
cycle-power-plant   .01048±.00035   .01215±.00032   .00984±.00047²  .00838±.00031¹  .01208±.00035
higgs               .90208±.00169   .81782±.00739   .80235±.01746²  .77696±.00237¹  .91619±.00237
letter-recognition  .04508±.00149²  .11505±.00176   .03394±.00136¹  .05770±.00154   .04484±.00185²
magic               .40070±.00828   .42824±.00819   .38999±.00930   .37719±.00787¹  .37829±.00846¹
pendigits           .00793±.00075²  .02433±.00125   .00705±.00069¹  .01266±.00121   .00789±.00097²
satimage            .04883±.00289²  .10783±.00588   .04670±.00300¹  .05246±.00261   .05247±.00334
seismic             .31134±.00132   .31893±.00221   .29809±.00160²  .29555±.00121¹  .29746±.00141²
shuttle             .00457±.00035   .01293±.00071   .00422±.00037²  .00083±.00017¹  .00593±.00038
thyroid-ann         .17504±.00810   .16368±.00832   .15380±.00800²  .02515±.00315¹  .15216±.00803²
updrs-motor         .05372±.00517   .17739±.00896   .00588±.00215¹  .03047±.00160²  .05306±.00424
"""

# rows, columns, type (REG regression, BC two classes, MC-k k classes), training rows, test rows
_SIZES = """
bank-marketing      45211   16  BC     7000   24212
cadata              20640    8  REG    7000    6640
cod-rna            331152    8  BC     7000  310154
covtype            581012   55  BC     7000  560014
cpusmall             8192   12  REG    6000    2192
cycle-power-plant    9568    4  REG    6000    3568
higgs              500000   28  BC     7000  479002
letter-recognition  20000   16  MC-26  7000    6000
magic               19020   10  BC     7000    5022
pendigits           10992   16  MC-10  7000    3992
satimage             6435   36  MC-6   5000    1435
seismic             98528   50  MC-3   7000   77530
shuttle             43500    8  MC-6   7000   22500
thyroid-ann          7200   21  BC     5000    2001
updrs-motor          5875   19  REG    5000     875
"""


@dataclass(frozen=True)
class PublishedError:
    """One cell of the paper's Table 1; ``mark`` is ``BEST_MARK``, ``SECOND_MARK`` or 0."""

    mean: float
    sd: float
    mark: int


@dataclass(frozen=True)
class Size:
    """One line of the paper's table of data sets."""

    rows: int
    columns: int
    type: str
    n_train: int
    n_test: int


def _error(text: str) -> PublishedError:
    mean, sd = text.rstrip("¹²").split("±")
    return PublishedError(float(mean), float(sd), " ¹²".find(text[-1]) if text[-1] in "¹²" else 0)


def _errors(line: str) -> dict[str, PublishedError]:
    return dict(zip(METHODS, map(_error, line.split()[1:]), strict=True))


def _size(line: str) -> Size:
    rows, columns, kind, n_train, n_test = line.split()[1:]
    return Size(int(rows), int(columns), kind, int(n_train), int(n_test))


ERRORS = {line.split()[0]: _errors(line) for line in _ERRORS.strip().splitlines()}
SIZES = {line.split()[0]: _size(line) for line in _SIZES.strip().splitlines()}
SETS = tuple(ERRORS)

# Seconds of one run, from and to, on the machines of the paper; where it gives an average alone, both are that.
# SVM and RF on a desktop, HKL on an i7-3770, DNN on a Titan, Ours on a GTX 980 (45 minutes on the Titan).
SECONDS = {"SVM": (60, 60), "HKL": (3600, 3600), "Ours": (4860, 4860), "RF": (5, 60), "DNN": (2700, 2700)}

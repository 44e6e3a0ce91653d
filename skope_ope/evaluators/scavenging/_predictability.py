# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Whether the logged action can be predicted from the context.

Scavenging is possible only where the logger did not look at the context. That cannot
be proved from a log, but it can be refuted: a classifier that predicts the logged
actions of rounds it did not see better than their frequencies do has found what the
logger looked at.
"""

import warnings
from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse

from skope_ope.evaluators.scavenging._pages import item_codes, item_labels
from skope_ope.exceptions import ExplorationWarning
from skope_ope.logs._folds import repeated_positions
from skope_ope.logs._frames import import_narwhals
from skope_ope.logs._validation import EMPTY, is_frame

HIGH_Z = 4  # gain in log-loss, in its paired standard errors: it is certain
LOW_Z = 2  # it is likely
MATERIAL_BIAS = 0.25  # standard errors: a smaller bias takes .007 off a coverage of .95
ROWS_OF_TREES = 10_000  # enough to see what would matter; the time stays bounded
MOST_CLASSES = 10  # frequent actions; the others count as one
MOST_SLOTS = 3  # the first slots of a page, each of them a classification of its own
FEWEST_ROWS = 20
FOLDS_OF_TREES = 5
SEED = 0  # of the sampled rows, and of their folds
WIDE = 500  # columns; a tree looks at all of them in every node
SURE_ARM, UNLIKELY_ARM = 0.9, 0.1  # probabilities of an arm
OFTEN, HARDLY = 0.3, 0.0025  # shares of the rounds
FEWEST_SURE = 500  # rounds, of fewer the shares tell too little
TRUST = 0.95  # of the classifier; the rest is the frequencies, so no loss is infinite
ARMS = {
    "action": ("the logged action", "the logger looks at the context"),
    "logger": ("the logger that acted", "the context decides who acts"),
    "slate": ("the logged slate", "the logger looks at the context"),
    "item": ("the logged item", "the logger looks at the context"),
}
REMEDIES = {
    "action": (
        "Pass strata that hold what the logger looked at, or estimate "
        "propensities with PropensityEstimator and use SNIPS."
    ),
    "logger": (
        "Pass strata that hold what decided who acted. Or use "
        "MultiLoggerIPS, whose weights need the loggers' probabilities of "
        "the actions."
    ),
    "slate": (
        "Pass strata that hold what the logger looked at. Or, if you know the "
        "logger, pass logging_policy=... to SlateLogs and use SlateIPS or "
        "PseudoInverse."
    ),
    "item": (
        "Take rounds that agree in what the logger looked at. Or, if you know "
        "the logger, pass logging_policy=... to SlateLogs and use SlateIPS or "
        "PseudoInverse."
    ),
}


@dataclass
class Predictability:
    r"""How much better than by frequencies the logged arm is predicted."""

    # Fitting costs gain, so that a logger that ignored the context hardly ever shows a
    # z above 2. What a dependence does to a value follows from the fitted probabilities
    # :math:`\hat p` and the frequencies f of the logged arms: with the rounds weighted
    # by :math:`f / \hat p` the arms would not depend on the context. To first order,
    # with round values :math:`z_i`, the value is too high by
    #
    # .. math:: \hat b = -\frac{1}{n} \sum_i (f_i / \hat p_i - 1) (z_i - \hat V).

    gain: float = float("nan")  # mean gain in out-of-fold log-loss, per round
    z: float = float("nan")  # the gain in standard errors of the paired differences
    arm: str = "action"  # what was predicted
    rows: np.ndarray | None = None  # the rounds that were asked
    # Frequency of the logged arm over its fitted probability in these rounds
    ratio: np.ndarray | None = None
    p: np.ndarray | None = None  # the fitted probability of the logged arm

    @property
    def certain(self):
        """Whether the arm seems to follow from the context, without any chance."""
        # The classifier is sure of many rounds, and what it calls unlikely does not
        # occur. A logger that explores goes against it in some of them.
        if self.p is None or len(self.p) < FEWEST_SURE:
            return False
        sure, against = (self.p > SURE_ARM).mean(), (self.p < UNLIKELY_ARM).mean()
        return bool(sure > OFTEN and against < HARDLY)

    def bias(self, value, round_values):
        """Return how much too high a value is by what was found, NaN: not known."""
        if self.rows is None or self.ratio is None:
            return float("nan")
        change = round_values[self.rows] - value
        return -float(np.mean((self.ratio - 1) * change))

    def warnings(self, bias=float("nan"), error=float("nan")):
        """Return the warning that is due, in a list, or an empty one."""
        # A clear dependence is told in any case. A weak one where its bias matters
        # beside the standard error, or is not known.
        if not self.z > LOW_Z:
            return []
        if self.z <= HIGH_Z and abs(bias) < MATERIAL_BIAS * error:
            return []
        what, looked = ARMS[self.arm]
        found = (
            f"on held-out rounds a classifier has {self.gain:.3g} less log-loss "
            f"per round than the frequencies of the {self.arm}s, a gain of "
            f"{self.z:.1f} standard errors."
        )
        if self.z > HIGH_Z:
            text = (
                f"{what} can be predicted from the context: {found} Scavenging is "
                f"biased, or impossible, if {looked}."
            )
        else:
            text = (
                f"{what} may depend on the context: {found} More than {LOW_Z} "
                f"standard errors are rare unless {looked}."
            )
        if np.isfinite(bias):
            times = ""
            if error > 0:
                times = f" ({abs(bias) / error:.1f} standard errors)"
            way = "high" if bias > 0 else "low"
            text += (
                f" This classifier suggests that the value is too {way} by "
                f"{abs(bias):.2g}{times}."
            )
        return [ExplorationWarning(f"{text} {REMEDIES[self.arm]}", self.z)]


def predictability(logs, code, stratum=None, arm="action"):
    """Ask whether arms can be predicted from the context."""
    # A logistic regression and, on up to 500 columns, a small tree are tried; the
    # better one counts.
    n_rounds = len(code)
    if n_rounds < FEWEST_ROWS or logs.n_features == 0:
        return Predictability()
    rows = _sampled(n_rounds)
    logs = logs[rows]
    y = _frequent(code[rows])
    X = _features(logs.context)
    if y.max() == 0 or X is None:
        return Predictability()
    frequency = _frequencies(y, None if stratum is None else stratum[rows])
    chance = frequency[np.arange(len(y)), y]
    unit = _units(logs)
    fold = _folds_of_units(y, unit)
    best = Predictability()
    for model in _models(X):
        p = _out_of_fold(model, X, y, frequency, fold)
        gains = np.log(p / chance)
        error = _error_of_mean(gains, unit)
        z = float(gains.mean() / error) if error > 0 else 0.0
        if not best.z >= z:
            best = Predictability(float(gains.mean()), z, arm, rows, chance / p, p)
    return best


def item_predictability(logs):
    """Ask whether the items of the first slots can be predicted from the context."""
    # The slots are tested in turn until one of them is predictable; the largest z
    # counts. Only rounds that fill the slot count: which slots there are is often known
    # from the context (a page of a certain length, one logged position a row).
    sampled = _sampled(len(logs))
    if len(sampled) < len(logs):
        logs = logs[sampled]
    code = item_codes(logs, logs.slate, item_labels(logs))
    best = Predictability(arm="item")
    for slot in range(min(logs.n_slots, MOST_SLOTS)):
        filled = np.flatnonzero(logs.slate[:, slot] != EMPTY)
        found = predictability(logs[filled], code[filled, slot], arm="item")
        if not best.z >= found.z:
            best = found
            if found.rows is not None:
                best = replace(found, rows=sampled[filled[found.rows]])
        if best.z > HIGH_Z:
            break
    return best


def _sampled(n_rounds):
    """Return the rows that are tested: all, or a random sample."""
    # Rows at equal distances would be rounds of one arm where arms take turns.
    if n_rounds <= ROWS_OF_TREES:
        return np.arange(n_rounds)
    drawn = np.random.default_rng(SEED)
    return np.sort(drawn.choice(n_rounds, ROWS_OF_TREES, replace=False, shuffle=False))


def _frequent(code):
    """Codes of the frequent arms from 1, of all others 0; from 0 where none is rare."""
    arms, inverse, counts = np.unique(code, return_inverse=True, return_counts=True)
    if len(arms) <= MOST_CLASSES:
        return inverse.ravel()
    kept = np.argsort(-counts, kind="stable")[:MOST_CLASSES]
    number = np.zeros(len(arms), dtype=np.intp)
    number[kept] = np.arange(1, MOST_CLASSES + 1)
    return number[inverse.ravel()]


def _frequencies(y, stratum):
    """Return the frequency of every class in the stratum of every round."""
    if stratum is None:
        stratum = np.zeros(len(y), dtype=np.intp)
    _, stratum = np.unique(stratum, return_inverse=True)
    stratum = stratum.ravel()
    counts = np.zeros((stratum.max() + 1, y.max() + 1))
    np.add.at(counts, (stratum, y), 1.0)
    return (counts / counts.sum(axis=1, keepdims=True))[stratum]


def _features(context):
    """Return the context as numbers, without constant columns, or None."""
    if is_frame(context):
        frame = import_narwhals().from_native(context, eager_only=True)
        columns = [frame.get_column(name).to_numpy() for name in frame.columns]
        context = np.column_stack([_column_numbers(column) for column in columns])
    if sparse.issparse(context):
        from sklearn.preprocessing import MaxAbsScaler

        return MaxAbsScaler().fit_transform(context.astype(float))
    X = np.asarray(context, dtype=float)
    missing = ~np.isfinite(X)  # being missing may be what the logger looked at
    X = np.column_stack([np.where(missing, 0.0, X), missing])
    spread = X.std(axis=0)
    varies = spread > 1e-12 * np.abs(X).max(axis=0, initial=0.0)
    if not varies.any():
        return None
    return (X[:, varies] - X[:, varies].mean(axis=0)) / spread[varies]


def _column_numbers(column):
    if column.dtype.kind in "biuf":
        return column.astype(float)
    return np.unique(column.astype(str), return_inverse=True)[1].ravel().astype(float)


def _models(X):
    from sklearn.linear_model import LogisticRegression
    from sklearn.tree import DecisionTreeClassifier

    linear = LogisticRegression(C=0.1, max_iter=50)
    if X.shape[1] > WIDE:
        return (linear,)
    leaf = max(20, X.shape[0] // 50)
    return linear, DecisionTreeClassifier(min_samples_leaf=leaf, random_state=0)


def _units(logs):
    """Return what is held out as a whole: the group of every round, or the round."""
    if logs.group is not None:
        return logs.group_index
    units = repeated_positions(logs)  # a round drawn twice stays on one side
    if units is None:
        return np.arange(len(logs))
    return np.unique(units, return_inverse=True)[1].ravel()


def _error_of_mean(gains, unit):
    """Return the standard error of a mean, where a unit's rounds may go together."""
    n = len(gains)
    square = gains.var(ddof=1) / n
    n_units = int(unit.max()) + 1
    if 1 < n_units < n:
        total = np.bincount(unit, gains - gains.mean())
        square = max(square, total @ total / n**2 * n_units / (n_units - 1))
    return np.sqrt(square)


def _folds_of_units(y, unit):
    """Return the fold of every round, whole units by chance, class by class."""
    # In folds of neighbours, rounds that are stored arm after arm would be held out
    # together with all others of their arm.
    counts = np.zeros((int(unit.max()) + 1, int(y.max()) + 1))
    np.add.at(counts, (unit, y), 1.0)
    order = np.random.RandomState(SEED).permutation(len(counts))
    order = order[np.argsort(counts.argmax(axis=1)[order], kind="stable")]
    fold = np.empty(len(counts), dtype=np.intp)
    fold[order] = np.arange(len(counts)) % FOLDS_OF_TREES
    return fold[unit]


def _out_of_fold(model, X, y, frequency, fold):
    """Probability of the logged class, by models that did not see the round."""
    from sklearn.base import clone

    out = np.empty(len(y))
    if fold.max() == 0:
        return frequency[np.arange(len(y)), y]
    for k in range(fold.max() + 1):
        train, test = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
        proba = (1 - TRUST) * frequency[test]
        seen = np.unique(y[train])
        if len(seen) == 1:
            proba[:, seen[0]] += TRUST
        else:
            with warnings.catch_warnings():  # a model that is not done is a model
                warnings.simplefilter("ignore")
                fitted = clone(model).fit(X[train], y[train])
            proba[:, fitted.classes_] += TRUST * fitted.predict_proba(X[test])
        out[test] = proba[np.arange(len(test)), y[test]]
    return out

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
r"""Weights that a log implies and may not hold: holes that its own weights do not show.

Where a log tells the propensity p of the logged action alone, all other actions share
1 - p. If the policy takes them with probability 1 - pi, one of them has at least the
weight

.. math:: u = \frac{1 - \pi}{1 - p},

and with two actions just that. The largest logged weight :math:`w_0` bounds the others
only if such rounds were logged. If not, a share

.. math:: M(\tau) = \frac1n \sum_i \omega_i (1 - \pi_i)\, 1\{u_i > \tau\}, \qquad
    \tau \ge w_0,

of what the policy does may be missing, and larger weights up to :math:`\tau` may be
rare: with h from the value to its limit, and R from it to the end of the range,

.. math:: h' = \min_\tau \sqrt{h^2 + (3 R / n)^2 (\tau^2 - w_0^2)} + M(\tau) R.

Each side has its own R, from what a round of weight zero counts as: a policy whose
missing rounds count as zero can only be better than its value, where rewards are.

With more than two actions, others may share 1 - p, and u is below the largest weight.
Then contexts help: weights average to one in every region of them. A region that trees
find, on other rounds, where they average to 1 - d, and where n_R rounds are too many
for chance, lacks

.. math:: S = \frac{n_R d}{n}, \qquad \frac{n_R ((1 - d) \ln(1 - d) + d)}{\ln 40} >
    \max(w_0,\; q_{.9}(u)).

Of users whose rounds share a draw, n_R counts less: it is divided by the design effect
of w - 1, the mean square of its sums by user over that of independent rounds.
"""

from copy import copy
from dataclasses import dataclass, replace
from math import log

import numpy as np
from sklearn.utils import check_random_state

from skope_ope.exceptions import LowOverlapWarning, SupportWarning
from skope_ope.logs._row_container import known_range
from skope_ope.logs._shown_numbers import figure
from skope_ope.logs.checks._context_columns import context_columns, sampled_rows
from skope_ope.logs.sums._log_sums import has_field

EDGES = 2.0 ** (np.arange(57) / 4)  # of implied weights: 1 to 16,384
ROUNDED_STEPS = 1000, 100  # per one, of propensities that were rounded to 3 or 2 digits
ROUNDED = 1e-7  # relative, of a multiple of such a step, that a float32 keeps
TO_INTEGER = 1.5 * 2.0**52  # what is added to it and subtracted loses its fraction
TWICE = 2.0  # an interval that is so much wider warns
FURTHER, HALVINGS = 1.5, 40  # a limit that is so much further is of what may be missing
MISSING_WEIGHT = "missing_weight"


def only_propensities(logs):
    """Whether propensities are all that tells what a log may lack."""
    loggers = getattr(logs, "loggers", None)
    if loggers is not None and len(loggers) > 1:
        return False
    return has_field(logs, "propensity") and not has_field(logs, "logging_proba")


def left_and_rest(w, p):
    """Return 1 - pi and 1 - p of rounds, or columns; rounded p are taken as smaller."""
    half = 0.0
    for step in ROUNDED_STEPS:  # the coarser one stays
        near = np.absolute(p * step - ((p * step + TO_INTEGER) - TO_INTEGER))
        half = np.where(near <= ROUNDED * step, 0.5 / step, half)
    return np.maximum(1.0 - w * p, 0.0), 1.0 - p + half


def implied_mass(w, p, omega, entering, largest, most_p):
    """Return the mass of 1 - pi by bin of implied weights, and last that of all."""
    # `largest`: a weight that was logged. Implied ones up to it do not matter.
    found = np.zeros(len(EDGES) + 1)
    found[-1] = len(w) if omega is None else omega.sum()
    if most_p < 1 and largest * (1.0 - most_p) >= 1.0:
        return found  # whatever the policy does
    mask = (1.0 - w * p > largest * (1.0 - p)) & (p < 1.0)
    if entering is not None:
        mask &= entering
    rows = np.flatnonzero(mask)
    if len(rows):
        left, rest = left_and_rest(w[rows], p[rows])
        bins = np.searchsorted(EDGES, left / rest)  # at an edge: not above it
        mass = left if omega is None else left * omega[rows]
        found[:-1] = np.bincount(bins, mass, len(EDGES) + 1)[1:]
    return found


def shares_above(mass):
    """Return the shares above every edge, of what `implied_mass` returns."""
    return np.cumsum(mass[-2::-1])[::-1] / mass[-1]


@dataclass(frozen=True)
class ImpliedWeights:
    """What a log may lack of a policy, and how far that may move a value."""

    mass: tuple  # share of the policy above each of `EDGES`
    largest: float  # weight that was logged
    n_rounds: int
    down: float  # by how much the part that is missing may be worse than it counts
    up: float  # or better
    regional: float = 0.0  # share of the policy that regions of contexts lack

    @property
    def share(self):
        """Share of the policy that may be missing."""
        return max(*self._above[1][:1], self.regional, 0.0)

    @property
    def _above(self):
        """Edges from the largest logged weight on, and the shares above each."""
        # The bin that has that weight is left out: which of its rounds were kept
        # depends on their order.
        first = int(np.searchsorted(EDGES, self.largest))
        return EDGES[first:], np.array(self.mass[first:])

    @property
    def turned(self):
        """Return the same for the value with its sign turned."""
        return replace(self, down=self.up, up=self.down)

    def further(self, below, above):
        """Return by how much further the limits below and above a value may lie."""
        return self._further(below, self.down), self._further(above, self.up)

    def _further(self, size, most):
        if not most > 0:
            return 0.0
        missing = self.regional * most
        larger, mass = self._above
        if not mass.any():
            return missing
        jump = (3 * most / self.n_rounds) ** 2 * (larger**2 - self.largest**2)
        return float(np.min(np.sqrt(size**2 + jump) - size + mass * most)) + missing


def further(implied, low, high, value):
    """Return limits of a value that allow for what its log may lack; and warnings."""
    width = high - low
    for one in implied:
        down, up = one.further(value - low, high - value)
        low, high = low - down, high + up
    share = max((one.share for one in implied), default=0.0)
    if not width > 0 or (high - low < TWICE * width and not _regional(implied)):
        return low, high, []
    largest = figure(max(one.largest for one in implied))
    why = (
        "in a region of contexts the weights average far below one"
        if _regional(implied)
        else f"no logged round has a weight above {largest}, and the other actions "
        "of these rounds may have larger ones"
    )
    text = (
        f"the log may lack {share:.1%} of what this policy does: {why}. "
        "The interval allows for it and is "
        f"{figure((high - low) / width)} times as wide. Give logging_proba, the "
        "probabilities of all actions, or collect more rounds."
    )
    return low, high, [LowOverlapWarning(text, share, MISSING_WEIGHT)]


def _regional(implied):
    return any(one.regional > 0 for one in implied)


def share_behind(implied, distance, side):
    """Return the share of a policy behind most of a limit's distance, or 0."""
    # the distance that the limit would have without it is found by bisection
    low, high = 0.0, distance
    for _ in range(HALVINGS):
        size = middle = (low + high) / 2
        for one in implied:
            size += one.further(size, size)[side]
        low, high = (middle, high) if size < distance else (low, middle)
    hidden = distance > FURTHER * high
    return max((one.share for one in implied), default=0.0) if hidden else 0.0


def lasting(implied):
    """Return by how much the limits are further, however many rounds come."""
    pairs = [(one.regional * one.down, one.regional * one.up) for one in implied]
    return sum(down for down, _ in pairs), sum(up for _, up in pairs)


# -- regions of contexts in which weights are missing ----------------------------------
MOST_ROWS = 20_000  # of a log: a sample of more
N_BINS = 256  # of a column
INNER = np.linspace(0, 1, N_BINS + 1)[1:-1]  # quantiles between them
MOST_KEYS = 16  # columns that tell rows apart
CLIPPED_AT = 10.0  # weights that trees learn
LEAVES, LEAST_ROWS, LEAST_SHARE = 16, 20, 200  # of a tree; rounds of a leaf
N_FOLDS = 5
LOW_SHARES = 0.25, 0.5  # of the mean weight: what a region predicts
CHANCE = log(2 / 0.05)
LACKING = "share that regions of contexts lack"  # a fact of an audit


def are_codes(pi):
    """Whether all probabilities of logged actions are 0 or 1, as codes are."""
    return bool((np.abs(pi - np.rint(pi)) <= ROUNDED).all())


def regional_share(logs, w, omega=None, random_state=0, least_actions=3):
    """Return the share of a policy that regions of contexts lack, with their rounds."""
    # the trees are fitted on other rounds, of other groups, than those of a region
    rows, random = np.arange(len(logs)), check_random_state(random_state)
    rows = rows if omega is None else rows[omega > 0]
    if len(rows) < N_FOLDS * LEAST_ROWS or not logs.n_features:
        return 0.0, 0
    if logs.n_actions < least_actions:  # their implied weights say all
        return 0.0, 0
    rows = rows[sampled_rows(len(rows), MOST_ROWS, random)]
    p, w = logs.propensity[rows], w[rows]
    X = np.array([_bins_of(x.values) for x in context_columns(logs.context, rows)])
    order = np.lexsort([*X[:MOST_KEYS], w, p])  # folds depend on no order of rows
    X, w, p, rows = X.T[order], w[order], p[order], rows[order]
    omega = np.ones(len(rows)) if omega is None else omega[rows]
    group = None if logs.group_index is None else logs.group_index[rows]
    if group is not None and len(np.unique(group)) < N_FOLDS:
        return 0.0, 0
    effect = 1.0 if group is None else _design_effect(omega * (w - 1), group)
    predicted = _predicted(X, np.minimum(w, CLIPPED_AT), omega, group, random)
    u = np.divide(*left_and_rest(w, p))
    mean, found = float(omega @ np.minimum(w, CLIPPED_AT)) / omega.sum(), (0.0, 0)
    for share in LOW_SHARES:
        inside = predicted < share * mean
        mass, rounds = float(omega[inside].sum()), int(inside.sum())
        d = 1 - float(omega[inside] @ w[inside]) / mass if mass else 0.0
        if not d > 0:
            continue
        surprise = (1 - d) * log(1 - d) + d if d < 1 else 1.0
        largest = max(float(w.max()), float(np.quantile(u[inside], 0.9)))
        if rounds / effect * surprise / CHANCE > largest:
            found = max(found, (mass * d / float(omega.sum()), rounds))
    return found


def _bins_of(values):
    """Return the bins of a column: a tree sorts these much faster than numbers."""
    order = np.argsort(values)  # what is missing comes last
    ordered, n_known = values[order], np.count_nonzero(~np.isnan(values))
    edges = np.unique(ordered[(INNER * (n_known - 1)).astype(int)])
    bins = np.empty(len(values), np.uint8)
    bins[order] = np.searchsorted(edges, ordered)
    return bins


def _design_effect(change, group):
    """Return how much more sums by group vary than those of independent rounds."""
    sums = np.bincount(np.unique(group, return_inverse=True)[1], change)
    alone = float(change @ change)
    return max(float(sums @ sums) / alone, 1.0) if alone else 1.0


def with_regions(value, logs, weights, share=None, of_logged=False):
    """Return a value that allows for what regions of contexts lack."""
    # In the interval, where it knows implied weights; otherwise a warning tells of
    # both. `weights` finds the importance weights of the rounds and sample weights,
    # `share` is what regions lack, where it is known. `of_logged`: the policy was given
    # as probabilities of the logged actions, which may be codes of actions.
    find, terms = value._find_reach, getattr(value._rows, "_terms", None)
    known = getattr(find, "regional", None) is not None and hasattr(terms, "source")
    if known and not find.evaluator.requires.weights:
        return value
    if not known or not find.extremes.implied[-1]:  # weights by a mixture of loggers
        return _warned(value, logs, *weights(), share)
    if share is None:
        w = terms.numbers[0]
        least = 2 if of_logged and are_codes(w * logs.propensity) else 3
        about = value._rows.design.omega, 0, least
        share, _ = regional_share(logs, w, *about)
    return allowing_for(value, share)


def allowing_for(value, share):
    """Return a value whose intervals allow for what regions lack of its policy."""
    if not (share and getattr(value._find_reach, "regional", None) is not None):
        return value
    out = copy(value)
    out._find_reach = copy(value._find_reach)
    out._find_reach.regional = share
    out.__dict__.pop("_usual_reach", None)
    return out


def _warned(value, logs, w, omega, share):
    """Return a value that warns of what the log may lack, if it may."""
    # as the share of the range by which the limits would be further
    p, (low, high) = logs.propensity, value._interval(0.95)
    worst, best = known_range(logs) or logs._reward_extremes
    if not best > worst:
        return value
    entering = None if omega is None else omega > 0
    largest = float(w.max())
    mass = implied_mass(w, p, omega, entering, largest, float(p.max()))
    share = regional_share(logs, w, omega)[0] if share is None else share
    about = shares_above(mass), largest, len(w), 1.0, 1.0, share
    sizes = (value.value - low, high - value.value) / np.float64(best - worst)
    share = min(max(ImpliedWeights(*about).further(*sizes)), 1.0)
    if not share > 0:
        return value
    text = (
        f"the log may lack {share:.1%} of what this policy does, by the weights that "
        "its propensities imply. Give logging_proba, the probabilities of all actions, "
        "or collect more rounds."
    )
    return value._with_warnings([SupportWarning(text, share)])


def _predicted(X, y, omega, group, random):
    """Return what trees that were fitted on other rounds predict."""
    from sklearn.model_selection import GroupKFold, KFold
    from sklearn.tree import DecisionTreeRegressor

    leaf = max(LEAST_ROWS, len(y) // LEAST_SHARE)
    tree = DecisionTreeRegressor(
        max_leaf_nodes=LEAVES, min_samples_leaf=leaf, random_state=random
    )
    folds = KFold(N_FOLDS, shuffle=True, random_state=random)
    folds = folds if group is None else GroupKFold(N_FOLDS)
    predicted, X = np.empty(len(y)), X.astype(np.float32)
    for train, test in folds.split(X, groups=group):
        tree.fit(X[train], y[train], sample_weight=omega[train])
        predicted[test] = tree.predict(X[test])
    return predicted

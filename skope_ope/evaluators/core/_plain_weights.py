# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Intervals of values that are plain means or ratios of weighted rewards.

They rest on the weights and rewards of the rounds and on bounds of both, not on the
round values.
"""

from dataclasses import dataclass
from math import isnan
from typing import NamedTuple

import numpy as np

from skope_ope.evaluators.core._drowned import beyond_floats
from skope_ope.evaluators.core._functions import mean, ratio
from skope_ope.evaluators.core._rounds import Rounds
from skope_ope.evaluators.core._weight_bound import (
    LOGGED,
    largest_weight,
    stated_weight,
)
from skope_ope.intervals import (
    betting_interval,
    betting_ratio_interval,
    clopper_pearson_interval,
    cressie_read_interval,
    empirical_bernstein_interval,
    empirical_likelihood_interval,
    hoeffding_interval,
    log_smoothing_interval,
)
from skope_ope.logs._row_container import known_range
from skope_ope.logs._validation import PROBA_TOLERANCE

ROUNDING_OF_WEIGHTS = 1e-9  # relative: weights that differ by less are the same
_W = np.array([0.0, 1e-3, 0.5, 1.0, 1.75, 12.5, 1e4])
_R = np.array([1.0, 0.25, 0.0, 0.75, 1.0, 0.5, 1.0])
_W.flags.writeable = _R.flags.writeable = False  # formulas are tried on them
PROBE = Rounds(w=_W, b=_W, r=_R, shift=0.0, n_rounds=7)
PROBE_WITH_MODEL = Rounds(**{**vars(PROBE), "q": _R[::-1] / 2, "v": _R / 3})
LEFT_BEHIND = "left behind"  # the weights of a value that was pickled
ON_POLICY = "the logger's own policy"
KNOWN_WEIGHTS = ("stated", "logging_proba", "propensities of the actions", ON_POLICY)


@dataclass(frozen=True)
class PlainWeights:
    """The rounds of a value whose weights are plain importance weights."""

    logs: object  # the rounds
    positive: object  # those that enter
    find: object  # returns the weights of all rounds, ndarray of shape (n_rounds,)
    ratio: bool  # whether the value is sum(w r) / sum(w), not sum(w r) / n
    # The largest possible weight of the logger's own policy: one
    bound: float | None = None
    # Takes the weights of all rounds and returns the largest that the policy may have,
    # and where it comes from. `None`: the largest of them, which is no bound
    limit: object = None


class WeightsOfRows:
    """The same of rows of plain weights, which are read when they are asked for."""

    bound = None

    def __init__(self, rows, ratio, bound):
        self._rows, self.ratio, self._bound = rows, ratio, bound

    @property
    def logs(self):
        """The rounds."""
        return self._rows.logs

    @property
    def positive(self):
        """Those that enter."""
        return self._rows.source.positive

    def find(self):
        """Return the weights of all rounds."""
        return self._rows.numbers[0]

    def limit(self, w):
        """Return the largest weight that the policy may have, and where it is from."""
        lowest, logged = self.logs.propensity.min, float(w.max(initial=0.0))
        return largest_weight(logged, self._bound, 0.0, lowest)


def plain_weights_of(evaluator, rows, bound):
    """Return the weights of a value that is of plain weighted rewards, or None."""
    ratio = plain_ratio(evaluator)
    return None if ratio is None else WeightsOfRows(rows, ratio, bound)


class BoundedInterval(NamedTuple):
    """Limits, and the bounds of weights and rewards that they rest on."""

    low: float
    high: float
    reward_range: tuple
    max_weight: float | None
    source: str | None


def bounded_interval(value, method, level, max_weight=None):
    """Return the `BoundedInterval` of a `PolicyValue` by a method's name."""
    if method == "clopper_pearson" and value.successes is not None:
        limits = clopper_pearson_interval(*value.successes, level)
        return BoundedInterval(*limits, (0.0, 1.0), None, None)
    plain = _checked(value, method)
    limits = known_range(plain.logs)
    if limits is None:
        raise ValueError(
            f"method={method!r} needs the range of the rewards: build the logs with "
            "reward_range=(low, high)."
        )
    if isnan(value.value):  # the rounds say nothing of the policy
        return BoundedInterval(*limits, limits, None, None)
    every = plain.find()
    weight = plain.positive.of(every)
    reward = plain.positive.of(plain.logs.reward)
    if method == "log_smoothing":
        found = log_smoothing_interval(weight, reward, reward_range=limits, level=level)
        return BoundedInterval(*found, limits, None, None)
    bound, source = _bound(plain, every, max_weight)
    if method == "clopper_pearson":
        known = bound if source in KNOWN_WEIGHTS else None
        found = _share_of_mass(value, plain, limits, weight, reward, known, level)
        return BoundedInterval(*found, limits, bound, source)
    if source not in KNOWN_WEIGHTS:
        raise ValueError(
            f"method={method!r} needs a bound on the importance weights, and the logs "
            "give none. Pass max_weight=..., the largest weight that the policy may "
            "have on such logs, or logging_proba=... with the logs. The largest "
            "logged weight is not a bound."
        )
    if bound < 1 - ROUNDING_OF_WEIGHTS:
        raise ValueError(
            f"method={method!r} assumes weights that average 1, and here none can be "
            f"larger than {bound:.6g}: the policy takes actions that the logger never "
            "takes, and the log has no information on these."
        )
    if method in OF_MEANS and not plain.ratio:
        low, high = (bound * end for end in limits)
        found = OF_MEANS[method](
            weight * reward, max(high, 0.0), level, lower=min(low, 0.0)
        )
    else:
        found = WEIGHTED_METHODS[method](
            weight, reward, max_weight=bound, reward_range=limits, level=level
        )
    return BoundedInterval(*found, limits, bound, source)


OF_MEANS = {
    "betting": betting_interval,
    "hoeffding": hoeffding_interval,
    "empirical_bernstein": empirical_bernstein_interval,
}
WEIGHTED_METHODS = {
    "betting": betting_ratio_interval,
    "empirical_likelihood": empirical_likelihood_interval,
    "cressie_read": cressie_read_interval,
}
WEIGHT_BOUNDED = ("clopper_pearson", *(OF_MEANS | WEIGHTED_METHODS))
BOUNDED = (*WEIGHT_BOUNDED, "log_smoothing")
FOR_ALL_SIZES = (*OF_MEANS, "log_smoothing")  # proven, not in the limit


def _checked(value, method):
    """Return the `PlainWeights` of a value; raise where the method is not for it."""
    instead = "Use 'auto'."
    plain = value._plain_weights
    if plain == LEFT_BEHIND:
        raise ValueError(
            f"method={method!r} needs the weights of the rounds, and values do not "
            "keep them when they are pickled or sent from another process. Evaluate "
            f"without n_jobs, or ask for it before. {instead}"
        )
    if value._rows.dropped:
        raise ValueError(
            f"method={method!r} needs the weight and the reward of every round, and "
            "this value comes from merged sums. Use 'auto', 'student', or "
            "'bootstrap' if the logs have groups. Or evaluate rounds in memory, "
            "evaluate(policy, lazy.sample(n))."
        )
    if plain is None and method == "clopper_pearson":
        raise ValueError(
            "method='clopper_pearson' is for values that are a share: 0/1 rewards, "
            "taken by Replay or RejectionSampling for a stationary policy, averaged by "
            "IPS or SNIPS where all weights that are not zero are the same, or by the "
            f"logger. This value of {value.estimator} is not one. {instead}"
        )
    if plain is None:
        raise ValueError(
            f"method={method!r} is for means and ratios of plain importance weights "
            "times rewards (IPS, SNIPS, SlateIPS, without cmax, and the logger's mean "
            f"reward). This value of {value.estimator} is not one. {instead}"
        )
    if plain.ratio and method in OF_MEANS and method not in WEIGHTED_METHODS:
        raise ValueError(
            f"method={method!r} is for means of independent terms, and this value of "
            f"{value.estimator} is a ratio of two. Use 'betting' or 'auto', or IPS."
        )
    check_alike(plain, f"method={method!r}", instead)
    if method in FOR_ALL_SIZES and plain.bound is None:
        _check_recorded(plain.logs, method, instead)
    return plain


def _check_recorded(logs, method, instead):
    """Raise where the propensities are not those with which the logger acted."""
    proba = getattr(logs, "logging_proba", None)
    found = ""
    if getattr(logs, "propensity_estimated", False):
        found = "they are estimated"
    elif proba is not None:
        told = proba[np.arange(len(logs)), logs.action_index]
        off = np.abs(told - logs.propensity) > PROBA_TOLERANCE
        if off.any():
            row = int(off.argmax())
            found = (
                f"that of row {row} is {logs.propensity[row]:.6g}, where logging_proba "
                f"has {told[row]:.6g}: they are clipped"
            )
    if found:
        raise ValueError(
            f"method={method!r} is proven for the true propensities of the logger, "
            f"but {found}. It would leave out their errors. {instead}"
        )


def check_alike(plain, name, instead=""):
    """Raise unless the rounds are independent and count the same."""
    if getattr(plain.logs, "group", None) is not None:
        raise ValueError(
            f"{name} is for independent rounds, and these logs have groups. {instead}"
        )
    omega = plain.positive.omega
    if omega is not None:
        used = plain.positive.of(omega)
        if np.ptp(used) > ROUNDING_OF_WEIGHTS * used.max():
            raise ValueError(
                f"{name} is for rounds that count the same, and these have sample "
                f"weights that differ. {instead}"
            )


def _bound(plain, w, max_weight):
    """Return the largest possible weight and where it comes from."""
    if max_weight is not None:
        return stated_weight(max_weight, w), "stated"
    if plain.bound is not None:
        return plain.bound, ON_POLICY
    if plain.limit is None:
        return float(w.max()), LOGGED
    return plain.limit(w)


def _share_of_mass(value, plain, limits, weight, reward, known, level):
    r"""Return the exact interval of a share."""
    # With a single weight w that is not zero, :math:`\hat V = w k / n` for k rewarded
    # rounds of n, and :math:`k / T` for SNIPS, with T rounds of weight w.
    matched = weight > 0
    only = float(weight.max()) or known or 0.0
    same = only > 0 and bool(
        (weight[matched] >= only * (1 - ROUNDING_OF_WEIGHTS)).all()
    )
    same &= known is None or known <= only * (1 + ROUNDING_OF_WEIGHTS)
    zero_one = limits == (0, 1) and bool(((reward == 0) | (reward == 1)).all())
    if not (same and zero_one):
        raise ValueError(
            "method='clopper_pearson' is for values that are a share: rewards of 0 and "
            "1, and a single weight that is not zero, the only one that the policy can "
            f"have. This value of {value.estimator} is not one: it has other "
            f"{'weights' if zero_one else 'rewards'}. Use 'auto'."
        )
    rewarded, n_matched = int(reward[matched].sum()), int(matched.sum())
    if plain.ratio:
        return clopper_pearson_interval(rewarded, n_matched, level)
    low, high = clopper_pearson_interval(rewarded, len(weight), level)
    return only * low, only * high


def is_own(evaluator):
    """Whether the class of an evaluator is not one of the package."""
    return not type(evaluator).__module__.startswith("skope_ope.")


def keeps_range(evaluator):
    """Whether what an evaluator estimates lies in the range of the rewards."""
    # Those of the package do. A formula of one's own does not where it is less for
    # larger rewards, or beyond the range where there are none.
    if not is_own(evaluator):
        return True
    with beyond_floats():
        return _keeps_range(evaluator)


def _keeps_range(evaluator):
    one, found = np.ones(len(_W)), []
    for reward in (0.0, 1.0):
        values = dict.fromkeys(("r", "q", "v"), reward * one)
        rounds = Rounds(w=one, b=one, pi=np.linspace(0.02, 0.6, len(one)), **values)
        rounds.shift = 0.0
        found.append(estimate_on(evaluator, evaluator.terms(rounds)))
    return 0 <= found[0] < found[1] <= 1 + ROUNDING_OF_WEIGHTS


def estimate_on(evaluator, terms):
    """Return what an evaluator makes of the terms of a few rounds, or NaN."""
    try:
        return evaluator.combine([float(np.mean(term)) for term in terms])[0]
    except (ArithmeticError, ValueError):  # it cannot be formed there
        return np.nan


def plain_ratio(evaluator):
    """Whether a value is a ratio of plain weighted rewards; None: nor is it a mean."""
    # The formula says so itself, on a few rounds.
    combine, requires = evaluator.combine, evaluator.requires
    own = evaluator.sampling.by == "rounds" and evaluator.proposal == "logger"
    weighs = requires.weights and not requires.model and own
    if not weighs or evaluator.leaves_bias_out or combine not in (mean, ratio):
        return None
    with beyond_floats():
        terms = evaluator.terms(PROBE)
    plain = PROBE.gain, PROBE.w
    if not all(map(np.array_equal, terms, plain)):
        return None
    return combine is ratio


def bernstein_bound(result, delta, *, max_weight=None, reward_bound=None):
    """Bernstein's bound on the deviation of IPS."""
    given = {"max_weight": max_weight, "reward_bound": reward_bound}
    missing = [name for name, value in given.items() if value is None]
    if missing:
        raise ValueError(
            f"the bound of IPS needs {' and '.join(missing)}: bounds on pi(a|x) / "
            "p and on |reward| that are known in advance."
        )
    _check_covered(result, max_weight, reward_bound)
    m, b = max_weight, reward_bound
    n, log = result._plain_weights.positive.n, np.log(2 / delta)
    return float(b * (np.sqrt(2 * m * log / n) + 2 * (m + 1) * log / (3 * n)))


def _check_covered(result, max_weight, reward_bound):
    """Raise where the inequality is about another value, or the bounds are none."""
    plain = result._plain_weights
    if plain is None:
        raise ValueError(
            "Bernstein's inequality does not cover clipped weights: cmax makes "
            "their mean differ from the value. Use cmax=None, or "
            "confidence_interval."
        )
    if plain == LEFT_BEHIND:
        raise ValueError(
            "the bound of IPS needs the rounds, which a pickled value does not "
            "keep. Compute the bound before you pickle the value."
        )
    check_alike(plain, "the bound of IPS")
    stated_weight(max_weight, plain.positive.of(plain.find()))
    reward = np.abs(plain.positive.of(plain.logs.reward))
    if not reward.max() <= reward_bound < np.inf:
        row = int(np.argmax(np.abs(plain.logs.reward)))
        raise ValueError(
            f"reward_bound={reward_bound!r} is not a bound on |reward|: that of "
            f"row {row} is {reward.max():.6g}."
        )

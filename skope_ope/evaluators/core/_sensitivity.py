# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What a value would be if something hidden had moved the logged actions."""

from __future__ import annotations

from functools import partial
from math import isfinite, isinf, isnan
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from skope_ope.evaluators.core._drowned import beyond_floats
from skope_ope.evaluators.core._estimate import estimate_of_rounds
from skope_ope.evaluators.core._functions import ratio
from skope_ope.evaluators.core._plain_weights import LEFT_BEHIND
from skope_ope.evaluators.core._reach import CornerReach, refuse_stated, terms_at
from skope_ope.evaluators.core._rows import Rows
from skope_ope.evaluators.core._weight_bound import LOGGED
from skope_ope.intervals import breakdown_gamma
from skope_ope.intervals._sensitivity import (
    ConfoundedRatio,
    check_gamma,
    extreme_weights,
)
from skope_ope.logs import BanditLogs
from skope_ope.logs._html import table_html, with_bars
from skope_ope.logs._shown_numbers import (
    WORTH,
    decimals,
    figure,
    fixed,
    level_text,
    text_table,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skope_ope._types import Array, ArrayLike
    from skope_ope.evaluators.core._policy_value import PolicyValue

MOST_ODDS = 1e9  # odds ratio beyond which an interval is not searched for a baseline


class Sensitivity:
    r"""Bounds of a value under hidden confounding, for a few odds ratios.

    `PolicyValue.sensitivity` makes it. Read more in the
    :ref:`User Guide <hidden_confounding>`.

    Parameters
    ----------
    value : float
        The estimate if nothing is hidden.
    gamma : ndarray of shape (n_gammas,)
        Odds ratios.
    bounds : list of (PolicyValue, PolicyValue)
        The least and the greatest value for each of them.
    level : float
        Coverage of the intervals.

    Attributes
    ----------
    value : float
        The estimate if nothing is hidden, that of SNIPS.
    gamma : ndarray of shape (n_gammas,)
        Odds ratios, in the order in which they were given.
    low, high : ndarray of shape (n_gammas,)
        Bounds of the estimate. They leave out its sampling error.
    interval_low, interval_high : ndarray of shape (n_gammas,)
        The lower limit of `low` and the upper limit of `high`: with the sampling error.
    level : float
        Coverage of the interval.

    Examples
    --------
    >>> from skope_ope import SNIPS
    >>> from skope_ope.datasets import make_bandit_logs
    >>> logs, policy, truth = make_bandit_logs(random_state=0, return_truth=True)
    >>> found = SNIPS().fit(logs).evaluate(policy).sensitivity([1, 2])
    >>> found.low.round(3).tolist(), found.high.round(3).tolist()
    ([0.682, 0.495], [0.682, 0.825])
    """

    def __init__(
        self,
        value: float,
        gamma: Array,
        bounds: Sequence[tuple[PolicyValue, PolicyValue]],
        level: float,
    ) -> None:
        self.value, self.gamma, self.level = value, gamma, level
        self.low, self.high = np.array([[v.value for v in pair] for pair in bounds]).T
        limits = [[v._interval(level) for v in pair] for pair in bounds]
        self.interval_low = np.array([low[0] for low, _ in limits])
        self.interval_high = np.array([high[1] for _, high in limits])

    def to_records(self) -> list[dict[str, Any]]:
        """Rows of the table as a list of dicts.

        Returns
        -------
        records : list of dict
            Keys: gamma, low, high, interval_low, interval_high.
        """
        return [
            {name: float(getattr(self, name)[i]) for name in _COLUMNS}
            for i in range(len(self.gamma))
        ]

    def __repr__(self):
        return "\n".join(text_table(*self._texts(), n_left=0))

    def _repr_html_(self):
        note = (
            "gamma is the factor by which the odds of the logged actions may be "
            "wrong. low and high bound the estimate without its sampling error; the "
            "interval includes it."
        )
        records = self.to_records()
        limits = [(self.value, r["interval_low"], r["interval_high"]) for r in records]
        header, rows = self._texts()
        header, rows, foot = with_bars(header, rows, limits, header[-1])
        title = f"SNIPS: {self._value_text}"
        return table_html(title, header, rows, [note], left=0, foot=foot)

    @property
    def _places(self):
        """Decimals of all bounds: an interval is about four standard errors wide."""
        return decimals((self.interval_high - self.interval_low) / WORTH)

    @property
    def _value_text(self):
        return fixed(self.value, self._places)

    def _texts(self):
        places = self._places
        percent = level_text(self.level)
        header = ["gamma", "low", "high", f"{percent} low", f"{percent} high"]
        rows = [
            [figure(record["gamma"])]
            + [fixed(record[name], places) for name in _COLUMNS[1:]]
            for record in self.to_records()
        ]
        return header, rows


_COLUMNS = ("gamma", "low", "high", "interval_low", "interval_high")


class HiddenConfounding:
    """How far something hidden may move a `PolicyValue` of SNIPS."""

    def sensitivity(
        self, gamma: float | ArrayLike = (1, 1.5, 2), *, level: float = 0.95
    ) -> Sensitivity:
        r"""Bounds of the value if something hidden moved the logged actions.

        The logger may have used more than the logs contain. The true odds of a logged
        action may then differ from :math:`p / (1 - p)`, at most by the factor
        :math:`\Gamma` up or down. The bounds are the optimum of the normalised
        programme over all such weights,
        :func:`~skope_ope.intervals.sensitivity_bounds`. They are wider than the sharp
        bound of that model. For SNIPS without clipping. If a logger drew at random with
        the recorded propensities, nothing is hidden. Estimated propensities can be
        wrong. Read more in the :ref:`User Guide <hidden_confounding>`.

        Parameters
        ----------
        gamma : float or array-like of shape (n_gammas,), default=(1, 1.5, 2)
            Odds ratios, at least 1.
        level : float, default=0.95
            Coverage of the intervals, which include the sampling error of the bounds.

        Returns
        -------
        sensitivity : Sensitivity
            `gamma`, `low`, `high`, `interval_low`, `interval_high`.

        Raises
        ------
        ValueError
            For other evaluators, clipped weights and values that are NaN. For pickled
            values, which have no weights. For odds ratios below 1.
        """
        gamma, plain = check_gamma(gamma), self._confounded("sensitivity")
        with beyond_floats():
            bounds = ConfoundedRatio(*_rounds(plain), _mass(plain)).bounds(gamma)
            reach = self._reach()
            pairs = [
                tuple(
                    self._at_bound(plain, g, end, sign, reach)
                    for end, sign in zip(ends, (-1, 1), strict=True)
                )
                for g, *ends in zip(gamma.tolist(), *bounds, strict=True)
            ]
        return Sensitivity(self.value, gamma, pairs, level)

    def breakdown_gamma(
        self, baseline: float | PolicyValue, *, level: float | None = None
    ) -> float:
        r"""Least Gamma at which hidden confounding could explain the gain.

        At that :math:`\Gamma` the bounds of `sensitivity` reach the baseline, from
        above or from below.

        Parameters
        ----------
        baseline : float or PolicyValue
            A number, or the mean reward of the logger on the same rounds, which needs
            no weights: ``compare_policies(...).reference``. Other values move with the
            same hidden cause and are refused.
        level : float, default=None
            `None`: the bounds of the estimate reach the baseline. A level: the interval
            of the gain, with the sampling error of the bound, reaches zero.

        Returns
        -------
        gamma : float
            1 where the baseline is reached without hidden confounding, infinite where
            it never is. NaN where the value has no interval and a level is given.

        Raises
        ------
        TypeError
            If the baseline is neither a number nor a `PolicyValue`.
        ValueError
            As for `sensitivity`; if the baseline is the value of a policy, or comes
            from other rounds.

        Examples
        --------
        >>> from skope_ope import SNIPS
        >>> from skope_ope.datasets import make_bandit_logs
        >>> logs, policy, _ = make_bandit_logs(random_state=0, return_truth=True)
        >>> value = SNIPS().fit(logs).evaluate(policy)
        >>> round(value.breakdown_gamma(logs.reward.mean()), 3)
        1.936
        """
        plain = self._confounded("breakdown_gamma")
        against = self._fixed(baseline)
        about, mass = _rounds(plain), _mass(plain)
        found = breakdown_gamma(*about, float(against), sample_weight=mass)
        if level is None:
            return found
        sign = -1 if self.value > float(against) else 1
        reach, confounded = self._reach(), ConfoundedRatio(*about, mass)

        def room(gamma):  # between the limit and the baseline
            ends = confounded.bounds(gamma)
            end = ends[0] if sign < 0 else ends[1]
            bound = self._at_bound(plain, gamma, float(end[0]), sign, reach)
            if isinstance(against, HiddenConfounding):
                low, high = (bound - against)._interval(level)
            else:
                low, high = (x - against for x in bound._interval(level))
            return low if sign < 0 else -high

        return _first_zero(room, found)

    def _confounded(self, name):
        """Return the `PlainWeights`; raise where the bounds are not for the value."""
        self._rows.check_known(name)
        plain = self._plain_weights
        if plain == LEFT_BEHIND:
            raise ValueError(
                f"{name} needs the weights of the rounds, and values do not keep them "
                "when they are pickled or sent from another process. Evaluate "
                "without n_jobs, or ask for it before."
            )
        if plain is None or not plain.ratio or not isinstance(plain.logs, BanditLogs):
            raise ValueError(
                f"{name} is for SNIPS without cmax on BanditLogs, whose value is "
                f"sum(w r) / sum(w). This value of {self.estimator} is not one. "
                "Use SNIPS().fit(logs).evaluate(policy)."
            )
        if isnan(self.value):
            raise ValueError(
                f"{name} bounds a value, and this one is NaN: the logged rounds have "
                "no information on the policy."
            )
        return plain

    def _fixed(self, baseline):
        """Return a baseline that hidden confounding does not move."""
        if isinstance(baseline, HiddenConfounding):
            plain = baseline._plain_weights
            if plain in (None, LEFT_BEHIND) or plain.bound is None:
                raise ValueError(
                    "hidden reasons change the value of a policy, too, so the "
                    "baseline must be the logger's mean reward, "
                    "compare_policies(...).reference, or a number. This one is a "
                    f"value of {baseline.estimator}."
                )
            if self.row_id is None or self.row_id != baseline.row_id:
                raise ValueError(
                    "the value and the baseline come from different rounds; give that "
                    "of the same logs (equal row_id), or a number."
                )
            return baseline
        if not isinstance(baseline, Real) or isinstance(baseline, bool):
            raise TypeError(
                "baseline must be a number, or the logger's mean reward as a "
                f"PolicyValue, got {type(baseline).__name__}."
            )
        if not isfinite(baseline):
            raise ValueError(f"baseline must be finite, got {baseline!r}.")
        return float(baseline)

    def _at_bound(self, plain, gamma, bound, sign, reach):
        """Return the value with the weights that put it at a bound."""
        # `reach` is that of the value if nothing is hidden.
        if gamma == 1:
            return self
        w, r, p = _rounds(plain)
        w = extreme_weights(w, r, p, gamma, bound, sign)
        terms, design = (w * r, w), self._rows.design
        corners = partial(_corners, terms, r, gamma, sign, reach)
        lost = 0.0 if reach is None else reach.lost
        known = reach is not None and reach.max_weight is not None
        return self._derived(
            estimate_of_rounds(design, terms, ratio),
            Rows(design, np.stack(terms), logs=self._rows.logs),
            estimator=f"SNIPS at gamma {figure(gamma)}",
            reach=CornerReach(self._limits, corners, reward=r, lost=lost, alike=known),
        )


def _rounds(plain):
    """Return weights, rewards and propensities of all rounds."""
    return plain.find(), plain.logs.reward, plain.logs.propensity


def _corners(terms, reward, gamma, sign, reach, limits, max_weight=None):
    """Return the terms of all rounds with the best and with the worst reward."""
    # Rounds may have the largest weight or none, as if nothing is hidden; Gamma raises
    # the largest weight for the reward that moves the bound, and lowers it for the
    # other.
    found = _logged_corners(terms, terms[1], reward, limits, max_weight)
    if reach is None or reach.max_weight is None:  # as heavy as those that were seen
        return found
    n, own, weight = len(reward), found[1], reach.max_weight
    raised = weight * gamma
    lowered = weight / gamma + min(weight, 1.0) * (1 - 1 / gamma)
    ends = zip(limits, (raised, lowered)[::-sign], strict=True)
    none = _everywhere(n, 0.0, 0.0)
    corners = [[_everywhere(n, w * end, w), none] for end, w in ends]
    return corners, own, raised, reach.source


def _everywhere(n, *terms):
    return terms_at(*(np.broadcast_to(term, n) for term in terms))


def _mass(plain):
    """Return the sample weights of all rounds, or None."""
    return plain.positive.omega


def _first_zero(room, most):
    """Return where a falling function of Gamma reaches zero; at 1 it may be below."""
    from scipy.optimize import brentq

    first = room(1.0)
    if not first > 0:  # NaN: there is no interval
        return first if isnan(first) else 1.0
    high = min(most, 2.0)
    while room(high) > 0:
        if high >= min(most, MOST_ODDS):
            return float("inf") if isinf(most) else most
        high = min(2 * high, most)
    return brentq(room, 1.0, high, xtol=1e-9, rtol=1e-12)


def _logged_corners(terms, w, reward, limits, max_weight=None):
    """Return the terms of all rounds with the best and with the worst reward."""
    # The first term is w r, or moves with the reward as w r does; where there is a
    # second it is w.
    refuse_stated(max_weight)

    def moved(end, rows):
        first = terms[0][rows] + w[rows] * (end - reward[rows])
        return first, *(term[rows] for term in terms[1:])

    own = [partial(moved, end) for end in limits]
    return [[one] for one in own], own, float(w.max(initial=0.0)), LOGGED

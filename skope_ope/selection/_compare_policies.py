# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""A few policies side by side, with intervals that hold together."""

from collections.abc import Mapping
from numbers import Real

import numpy as np
from scipy.special import stdtr
from sklearn.base import clone

from skope_ope._renamed import renamed_value, reordered
from skope_ope.evaluators._evaluate import evaluate
from skope_ope.evaluators._logged_value import logged_value
from skope_ope.evaluators._value_table import ValueTable
from skope_ope.logs import BanditLogs
from skope_ope.selection._candidates import is_logs
from skope_ope.selection._policy_scorer import check_search_evaluator

CORRECTIONS = ("holm", "bonferroni", None)
LOGGER = "logger"  # the baseline that is no policy, but the mean reward of the logs


@reordered(
    "evaluator",
    "policies",
    "logs",
    told_by=lambda first, *others, **named: hasattr(first, "evaluate"),
)
def compare_policies(
    policies, logs, *, evaluator, baseline=LOGGER, correction="holm", level=0.95
):
    """Compare policies on the same rounds, each with a baseline.

    The reward model is cross-fitted once, and differences are paired. The policies
    must not have been learned from these logs. Read more in the
    :ref:`User Guide <comparison>`.

    Parameters
    ----------
    policies : dict of policies
        By name; anything that evaluators take.
    logs : BanditLogs or SlateLogs
        The rounds.
    evaluator : evaluator
        It is fitted anew, on `logs`.
    baseline : str, default="logger"
        Name of the policy with which the others are compared. "logger": the mean
        reward of the logs, which is the value of the logging policy.
    correction : {"holm", "bonferroni", None}, default="holm"
        How p-values allow for the number of comparisons. With both, all intervals of
        values hold together at `level`, and so do all intervals of differences
        (Bonferroni); None makes every interval hold by itself. Holm's p-values are
        sharper than these intervals: one below 1 - `level` may stand beside an
        interval that contains 0.
    level : float, default=0.95
        Coverage of the intervals.

    Returns
    -------
    comparison : PolicyComparison
        Values by name, differences, p-values and the cautious choice.

    Examples
    --------
    >>> from sklearn.linear_model import Ridge
    >>> from skope_ope import DoublyRobust, UniformPolicy, compare_policies
    >>> from skope_ope.datasets import make_bandit_logs
    >>> logs, policy, truth = make_bandit_logs(random_state=0, return_truth=True)
    >>> comparison = compare_policies(
    ...     {"uniform": UniformPolicy(), "new": policy}, logs,
    ...     evaluator=DoublyRobust(reward_model=Ridge()), baseline="uniform")
    >>> comparison.choice, bool(comparison.p_values["new"] < 0.01)
    ('new', True)
    """
    check_search_evaluator(evaluator, "compare_policies")
    if not isinstance(policies, Mapping) or not policies:
        raise TypeError(
            "policies must be a dict of policies by name, {'a': policy, ...}, got "
            f"{type(policies).__name__ if not isinstance(policies, dict) else '{}'}."
        )
    if not is_logs(logs):
        raise TypeError(
            f"logs must be BanditLogs, got {type(logs).__name__}. The call is "
            "compare_policies(policies, logs, evaluator=evaluator)."
        )
    baseline = renamed_value("baseline", baseline, {None: LOGGER}, stacklevel=3)
    if baseline == LOGGER and LOGGER in policies:
        raise ValueError(
            f"policies has the name {LOGGER!r}, which as a baseline means the mean "
            "reward of the logs. Call that policy something else, or name another "
            "baseline."
        )
    if baseline != LOGGER and baseline not in policies:
        raise ValueError(
            f"baseline must be one of the policies {list(policies)} or {LOGGER!r}, "
            f"got {baseline!r}."
        )
    if correction not in CORRECTIONS:
        raise ValueError(
            f"correction must be one of {CORRECTIONS}, got {correction!r}."
        )
    if not isinstance(level, Real) or not 0 < level < 1:
        raise ValueError(f"level must be a number in (0, 1), got {level!r}.")
    values = _values(evaluator, policies, logs)
    reference = logged_value(logs) if baseline == LOGGER else values[baseline]
    return PolicyComparison(values, reference, baseline, correction, level)


def _values(evaluator, policies, logs):
    if isinstance(logs, BanditLogs):  # one pass over the rounds for all policies
        cv = getattr(evaluator, "cv", 5)
        table = evaluate(policies, logs, evaluators={"": evaluator}, cv=cv)
        return {name: table[name, ""] for name in policies}
    fitted = clone(evaluator).fit(logs)
    return {name: fitted.evaluate(policy) for name, policy in policies.items()}


class PolicyComparison(ValueTable):
    """Values of policies and their differences from a baseline.

    A mapping of `PolicyValue` by the name of the policy, made by `compare_policies`.

    Parameters
    ----------
    values : dict
        `PolicyValue` by name.
    reference : PolicyValue
        That of the baseline, on the same rounds.
    baseline : str
        Its name among the values; "logger" is none of them.
    correction : {"holm", "bonferroni", None}, default="holm"
        See `compare_policies`.
    level : float, default=0.95
        Coverage of the intervals.

    Attributes
    ----------
    differences : dict
        Paired differences from the baseline, `PolicyValue` by name, without the
        baseline itself.
    p_values : dict
        Two-sided, corrected, by name; Student's distribution.
    choice : str or None
        The policy with the greatest lower bound of its value.

    Examples
    --------
    >>> import numpy as np
    >>> from skope_ope import IPS, BanditLogs, ConstantPolicy, compare_policies
    >>> logs = BanditLogs(np.zeros((4, 1)), [0, 1, 1, 0], [1, 0, 1, 0], [0.5] * 4)
    >>> policies = {"zero": ConstantPolicy(0), "one": ConstantPolicy(1)}
    >>> comparison = compare_policies(
    ...     policies, logs, evaluator=IPS(), baseline="zero")
    >>> comparison.differences["one"].value
    0.0
    """

    def __init__(self, values, reference, baseline, correction="holm", level=0.95):
        super().__init__(values)
        self.baseline, self.correction, self.level = baseline, correction, level
        self.differences = {
            name: value - reference for name, value in self.items() if name != baseline
        }
        raw = [_p_value(difference) for difference in self.differences.values()]
        corrected = corrected_p_values(np.array(raw), correction)
        self.p_values = dict(zip(self.differences, corrected.tolist(), strict=True))
        lows = {name: self._interval(value)[0] for name, value in self.items()}
        known = {name: low for name, low in lows.items() if np.isfinite(low)}
        self.choice = max(known, key=known.get) if known else None

    def _interval(self, value, n_intervals=None, level=None):
        level = self.level if level is None else level
        if self.correction is not None:  # all of them hold together
            level = 1 - (1 - level) / (n_intervals or len(self))
        return value._interval(level)

    def to_records(self, level=None):
        """Rows of the table as a list of dicts.

        Parameters
        ----------
        level : float, default=None
            Coverage of the intervals; `None`: that of the comparison.

        Returns
        -------
        records : list of dict
            Keys: policy, value, standard_error, low, high, difference,
            difference_low, difference_high, p_value, chosen, warnings. What is about
            the difference is NaN for the baseline.
        """
        records = []
        for name, value in self.items():
            low, high = self._interval(value, level=level)
            gap = gap_low = gap_high = float("nan")
            if name in self.differences:
                difference = self.differences[name]
                gap = difference.value
                gap_low, gap_high = self._interval(
                    difference, len(self.differences), level
                )
            records.append(
                {
                    "policy": name,
                    "value": value.value,
                    "standard_error": value.standard_error,
                    "low": low,
                    "high": high,
                    "difference": gap,
                    "difference_low": gap_low,
                    "difference_high": gap_high,
                    "p_value": self.p_values.get(name, float("nan")),
                    "chosen": name == self.choice,
                    "warnings": "; ".join(type(w).__name__ for w in value.warnings),
                }
            )
        return records

    def to_frame(self, level=None):
        """Return the table as a pandas frame, indexed by policy.

        Parameters
        ----------
        level : float, default=None
            Coverage of the intervals; `None`: that of the comparison.

        Returns
        -------
        frame : pandas.DataFrame
        """
        return super().to_frame(level)

    _index = ("policy",)

    def _texts(self):
        against = "the logger" if self.baseline == LOGGER else self.baseline
        percent = f"{100 * self.level:.4g}%"
        header = ["policy", "value", f"{percent} low", "high", f"less {against}"]
        header += ["low", "high", "p", ""]
        rows = []
        for record in self.to_records():
            numbers = [record[name] for name in ("value", "low", "high")]
            numbers += [record[f"difference{end}"] for end in ("", "_low", "_high")]
            numbers.append(record["p_value"])
            cells = ["-" if x != x else f"{x:.4g}" for x in numbers]
            chosen = "greatest lower bound" if record["chosen"] else ""
            rows.append([str(record["policy"]), *cells, chosen])
        return header, rows


def _p_value(difference):
    """Return the two-sided p-value of no difference."""
    error = difference.standard_error
    if error != error:
        return float("nan")
    if error == 0:
        return 1.0 if difference.value == 0 else 0.0
    ratio = abs(difference.value) / error
    return float(2 * stdtr(max(difference.degrees_of_freedom, 1), -ratio))


def corrected_p_values(p, correction):
    """Adjust p-values for their number; NaN stays what it is.

    Parameters
    ----------
    p : ndarray of shape (n_comparisons,)
        Raw p-values.
    correction : {"holm", "bonferroni", None}
        Holm: the j-th smallest times (n - j + 1), made monotone.

    Returns
    -------
    p : ndarray of shape (n_comparisons,)
    """
    n = len(p)
    if correction is None or not n:
        return p
    if correction == "bonferroni":
        return np.minimum(n * p, 1.0)
    order = np.argsort(p)  # NaN comes last
    stepped = np.minimum(p[order] * (n - np.arange(n)), 1.0)
    out = np.empty(n)
    out[order] = np.maximum.accumulate(stepped)
    return out

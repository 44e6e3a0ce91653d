# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Sums of several policies by several evaluators over a part of a log.

Parts add up to the whole: `sums_of_part(...) + sums_of_part(...)`.
"""

from copy import copy

from skope_ope.evaluators.core._summary import JointSummary


class PartSums:
    """Sums over a part of a log, of several policies and evaluators.

    Parameters
    ----------
    n : int
        Number of rounds, those of sample weight zero included.
    by_evaluator : dict of JointSummary
        By the name of the evaluator.
    log : LogSums, default=None
        What is known of the log itself.
    by : dict, default=None
        By column: a dict of `PartSums` by label.
    """

    def __init__(self, n, by_evaluator, log=None, by=None):
        self.n, self.by_evaluator, self.log = n, by_evaluator, log
        self.by = {} if by is None else by

    @property
    def policies(self):
        """Names of the policies."""
        return next(iter(self.by_evaluator.values())).policies

    def __add__(self, other):
        """Return the sums of both parts."""
        if not isinstance(other, PartSums):
            return NotImplemented
        names = self.by_evaluator
        if list(names) != list(other.by_evaluator) or list(self.by) != list(other.by):
            raise ValueError(
                "these sums are of different evaluators, or by different columns: "
                f"{list(names)} by {list(self.by)}, and "
                f"{list(other.by_evaluator)} by {list(other.by)}."
            )
        joint = {name: one + other.by_evaluator[name] for name, one in names.items()}
        log = None if self.log is None else self.log + other.log
        by = {name: _both(one, other.by[name]) for name, one in self.by.items()}
        return PartSums(self.n + other.n, joint, log, by)

    def __radd__(self, other):
        """Return self for the 0 that `sum` begins with."""
        return self if other == 0 else NotImplemented


def _both(one, other):
    """Return the sums of two dicts by label."""
    out = dict(one)
    for label, part in other.items():
        out[label] = out[label] + part if label in out else part
    return out


def sums_of_part(
    policies,
    evaluators,
    logs,
    *,
    sources=None,
    n_total=None,
    shares=None,
    by=None,
    sample_weight=None,
):
    """Return the sums of policies by evaluators over a part of a log.

    Parameters
    ----------
    policies : dict
        Policies by name: policies, names of columns, or arrays for the rows of `logs`.
    evaluators : dict
        Evaluators by name; they need no fit.
    logs : BanditLogs or SlateLogs
        The rounds of the part.
    sources : dict, default=None
        Reward source (`bind(logs)`) by the name of the evaluator, for evaluators whose
        reward model is none of a number, the name of a column, or a frozen model.
    n_total : int, default=None
        Number of rounds of the whole log, where it is known.
    shares : dict, default=None
        Share of every logger in the rounds of the whole log, by label.
    by : str or list of str, default=None
        Columns by whose labels the same sums are wanted, too.
    sample_weight : ndarray of shape (n_rounds,), default=None
        Weights of the rounds, multiplied with those of the logs, up to the same factor
        in all parts.

    Returns
    -------
    sums : PartSums
    """
    found = {}
    for name, evaluator in evaluators.items():
        one = copy(evaluator)
        one.logs_ = logs
        if evaluator._uses_model:
            one.reward_source_ = (sources or {}).get(name)
        if hasattr(logs, "actions"):
            one.actions_ = logs.actions
        else:
            one.n_slots_ = logs.n_slots
        given = shares if one._mixes_loggers(logs) else None
        found[name] = JointSummary(
            {
                policy: one._summary(what, logs, sample_weight, given, policy)
                for policy, what in policies.items()
            }
        )
    return PartSums(len(logs), found)

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What is summed over the parts of a log, all of it stated beforehand."""

from collections import Counter
from copy import copy
from dataclasses import dataclass
from numbers import Real

import numpy as np

from skope_ope._part_tasks import merge_parts, task_count
from skope_ope.evaluators._part_sums import sums_of_part
from skope_ope.evaluators.core._summary import refuse_unstated
from skope_ope.policies._action_probabilities import unwrap
from skope_ope.policies._adaptive import AdaptivePolicy


@dataclass(frozen=True)
class Stated:
    """What every part of a log is asked, wherever it lies.

    Attributes
    ----------
    policies, evaluators : dict
        By name.
    sources : dict
        Reward sources by name of the evaluator.
    n_total : int or None
        Rounds of the whole log, where that is known.
    shares : dict or None
        Shares of the loggers in the whole log, where their mixture enters.
    by : tuple of str
        Columns by whose values sums are wanted, too.
    """

    policies: dict
    evaluators: dict
    sources: dict
    n_total: int | None = None
    shares: dict | None = None
    by: tuple = ()

    def sums_of(self, logs, sample_weight=None):
        """Return the `PartSums` of a part of the log."""
        return sums_of_part(
            self.policies,
            self.evaluators,
            logs,
            sources=self.sources,
            n_total=self.n_total,
            shares=self.shares,
            by=list(self.by) or None,
            sample_weight=sample_weight,
        )

    def check(self, head):
        """Raise where something depends on the whole log, before a part is read.

        Parameters
        ----------
        head : BanditLogs or SlateLogs
            A few rounds.
        """
        for name, evaluator in self.evaluators.items():
            evaluator = copy(evaluator)
            evaluator.logs_ = head
            if name in self.sources:
                evaluator.reward_source_ = self.sources[name]
            refuse_unstated(evaluator, head)


def needed(policies, evaluators, models, by, known):
    """Return what has to be read beside the fields of the logs.

    Parameters
    ----------
    policies, evaluators : dict
        By name.
    models : sequence
        The reward models that are used.
    by : sequence of str
        Columns that are asked for.
    known : collection of str
        Names of the columns.

    Returns
    -------
    context : bool
        Whether somebody looks at the context.
    columns : list of str or None
        None: all of them, because a policy may look at any.
    """
    if not all(isinstance(policy, str) for policy in policies.values()):
        return True, None
    given = [*policies.values(), *models, *by]
    for evaluator in evaluators.values():
        given += vars(evaluator).values()
    words = {one for one in given if isinstance(one, str)}
    context = any(one is not None and not isinstance(one, (str, Real)) for one in models)
    return context, [name for name in known if name in words]


def check_policies(policies):
    """Raise where a policy has rows of its own, or learns while it acts."""
    for name, policy in policies.items():
        who = "the policy" if name is None else f"policy {name!r}"
        is_table = isinstance(policy, (np.ndarray, list, tuple))
        if is_table or (hasattr(policy, "__array__") and not hasattr(policy, "fit")):
            raise TypeError(
                f"{who} is an array, which has rows of its own, and lazy logs are read "
                "part by part. Write its probabilities into the files, name them in "
                "scan_logs(..., columns={'pi': [...]}), and pass the name, 'pi'."
            )
        if isinstance(unwrap(policy), AdaptivePolicy):
            raise TypeError(
                f"{who} learns while it acts, and its value is no sum over parts of a "
                "log. DRns, RejectionSampling and Replay walk through lazy logs in "
                "their order; otherwise take rounds into memory, "
                "lazy.sample(100_000, random_state=0)."
            )


def logger_shares(lazy, n_jobs=None, verbose=0):
    """Return the share of every logger in the sample weights of lazy logs."""
    narrow = lazy.needing(context=False, columns=[])
    tasks = narrow.tasks(task_count(len(narrow.partitions)))
    found = merge_parts(_logger_masses, tasks, n_jobs=n_jobs, verbose=verbose)
    total = sum(found.values())
    labels = [None] if lazy.loggers is None else lazy.loggers.tolist()
    return {label: found[label] / total for label in labels}


def _logger_masses(partition, given):
    """Return the sample weight of every logger in a partition."""
    logs = partition.read()
    if logs is None or not len(logs):
        return None
    masses = np.bincount(logs.logger_index, logs.sample_weight, len(logs.loggers))
    return Counter(dict(zip(logs.loggers.tolist(), masses.tolist(), strict=True)))

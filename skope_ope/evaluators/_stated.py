# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What is summed over the parts of a log, all of it stated beforehand."""

from copy import copy
from dataclasses import dataclass
from numbers import Real

import numpy as np

from skope_ope.evaluators._part_sums import sums_of_part
from skope_ope.evaluators.core._summary import refuse_unstated
from skope_ope.logs import BanditLogs, SlateLogs
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


def needed(policies, evaluators, shared, by, head):
    """Return what has to be read beside the fields of the logs.

    Parameters
    ----------
    policies, evaluators : dict
        By name.
    shared : SharedModel
        The reward models.
    by : sequence of str
        Columns that are asked for.
    head : BanditLogs or SlateLogs
        A few rounds, with all columns.

    Returns
    -------
    needed : dict
        context : whether somebody looks at the context; columns : names, or None: all
        of them, because a policy may look at any.
    """
    if isinstance(head, SlateLogs) or not all(map(_is_name, policies.values())):
        return {"context": True, "columns": None}
    users = [one for one in evaluators.values() if one._uses_model]
    models = [shared.model_of(one)[0] for one in users]
    given = [*policies.values(), *models, *by]
    for evaluator in evaluators.values():
        given += vars(evaluator).values()
    words = set(filter(_is_name, given))
    context = any(
        one is not None and not isinstance(one, (str, Real)) for one in models
    )
    return {"context": context, "columns": [c for c in head.columns if c in words]}


def _is_name(one):
    return isinstance(one, str)


def check_memory(policies, logs):
    """Raise unless there are policies and rounds in memory."""
    if not isinstance(logs, (BanditLogs, SlateLogs)):
        raise TypeError(
            "logs must be LazyLogs, BanditLogs or SlateLogs, got "
            f"{type(logs).__name__}. The call is summarize(policies, logs)."
        )
    if not len(logs):
        raise ValueError("the logs are empty: an estimate needs a round.")
    if not policies:
        raise ValueError("policies is empty; name at least one.")


def check_policies(policies, sample_weight=None):
    """Raise where a policy has rows of its own, or learns while it acts."""
    if not policies:
        raise ValueError("policies is empty; name at least one.")
    if sample_weight is not None:
        raise TypeError(
            "sample_weight is an array for the rows of logs in memory. Lazy logs carry "
            "theirs as a column: scan_logs(..., sample_weight='weight')."
        )
    for name, policy in policies.items():
        who = "the policy" if name is None else f"policy {name!r}"
        is_table = isinstance(policy, (np.ndarray, list, tuple))
        if is_table or (hasattr(policy, "__array__") and not hasattr(policy, "fit")):
            raise TypeError(
                f"{who} is an array, which has rows of its own, and lazy logs"
                " are read part by part. Write its probabilities into the files, name "
                "them in scan_logs(..., columns={'pi': [...]}), and pass the name, "
                "'pi'."
            )
        if isinstance(unwrap(policy), AdaptivePolicy):
            raise TypeError(
                f"{who} learns while it acts, and its value is no sum over "
                "parts of a log. DRns, RejectionSampling and Replay walk through lazy "
                "logs in their order; otherwise take rounds into memory, "
                "lazy.sample(100_000, random_state=0)."
            )

# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""How well the rounds of each logger serve each policy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from skope_ope.evaluators.core._design import partial_sums
from skope_ope.evaluators.core._drowned import beyond_floats
from skope_ope.evaluators.core._engine import NOTHING, Job, TermStore
from skope_ope.evaluators.core._loggers import Loggers
from skope_ope.evaluators.core._overlap import MixtureOverlap, by_logger
from skope_ope.evaluators.core._part_pass import PartPass
from skope_ope.evaluators.core._rounds import PositiveRounds, combined_weights
from skope_ope.evaluators.core._summary import Summary
from skope_ope.evaluators.core._sums import weights_of
from skope_ope.evaluators.core._tally import RoundCounts
from skope_ope.evaluators.core._target import Target, refuse_learning
from skope_ope.logs import BanditLogs
from skope_ope.logs._html import table_html
from skope_ope.logs._shown_numbers import aligned, share, text_table
from skope_ope.logs.lazy._lazy_logs import kind_of

if TYPE_CHECKING:
    import pandas

    from skope_ope._types import Array, PolicyLike

COLUMNS_OF_LOGGERS = ("n_rounds", "share", "mean_reward", "min_propensity")
TARGET_NAMES = ("policy_effective_share", "policy_max_weight", "policy_unsupported")


class LoggerOverlap:
    r"""A row per logger: its rounds, and how well they serve each policy.

    :func:`logger_overlap` makes it. The effective share of the rounds of logger i for
    a policy with the weights :math:`w = \pi / \pi_i` is

    .. math:: \frac{\big(\sum_j w_{ij}\big)^2}{n_i \sum_j w_{ij}^2},

    one if both act alike, near zero if a few rounds have all the weight.

    Attributes
    ----------
    loggers : list
        Labels of the loggers that acted.
    effective_share : ndarray of shape (n_loggers, n_loggers) or None
        Entry (i, k): the rounds of logger i for evaluating logger k; one on the
        diagonal where rounds have no sample weights. None where the logs have no
        `logger_proba`.
    unsupported_by_all : float or None
        Share of the policy's probability that no logger could take, as balanced
        evaluators report it. None without a policy, or without `logger_proba`.

    Examples
    --------
    >>> import numpy as np
    >>> from skope_ope import BanditLogs
    >>> from skope_ope.evaluators import logger_overlap
    >>> logs = BanditLogs(
    ...     np.zeros((4, 1)), action=[0, 1, 1, 0], reward=[1, 0, 1, 0],
    ...     logger=["A", "A", "B", "B"],
    ...     logger_proba=[[0.5, 0.2], [0.5, 0.8], [0.5, 0.8], [0.5, 0.2]],
    ... )
    >>> print(logger_overlap(np.tile([0.2, 0.8], (4, 1)), logs))
    logger  rounds  share  mean reward  min p  policy  max w  unsupported     A     B
         A       2    50%          0.5    0.5     74%    1.6         0.0%  100%   74%
         B       2    50%          0.5    0.2    100%    1.0         0.0%   74%  100%
    """

    def __init__(
        self,
        loggers: list[Any],
        records: Any,
        effective_share: Array | None,
        unsupported_by_all: float | None = None,
    ) -> None:
        self.loggers = loggers
        self._records = records
        self.effective_share = effective_share
        self.unsupported_by_all = unsupported_by_all

    def to_records(self) -> list[dict[str, Any]]:
        """Return a dict per logger.

        Returns
        -------
        records : list of dict
        """
        records = []
        for i, (label, record) in enumerate(
            zip(self.loggers, self._records, strict=True)
        ):
            record = {"logger": label, **record}
            if self.effective_share is not None:
                for other, share in zip(
                    self.loggers, self.effective_share[i].tolist(), strict=True
                ):
                    record[f"effective_share_{other}"] = share
            records.append(record)
        return records

    def to_frame(self) -> pandas.DataFrame:
        """Return the table as a pandas frame.

        Returns
        -------
        frame : pandas.DataFrame
            Indexed by logger.
        """
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError(
                "to_frame needs pandas: pip install 'skope-ope[frames]'; to_records "
                "gives the same rows without."
            ) from error
        return pd.DataFrame(self.to_records()).set_index("logger")

    def _texts(self):
        header = ["logger", "rounds", "share", "mean reward", "min p"]
        if TARGET_NAMES[0] in self._records[0]:
            header += ["policy", "max w", "unsupported"]
        if self.effective_share is not None:
            header += [str(label) for label in self.loggers]
        names = ("mean_reward", "min_propensity", TARGET_NAMES[1])
        means, least, largest = (
            aligned([record.get(name) for record in self._records], 3) for name in names
        )
        rows = []
        for i, record in enumerate(self._records):
            row = [str(self.loggers[i]), f"{record['n_rounds']:,}"]
            row += [share(record["share"], 0), means[i], least[i]]
            if TARGET_NAMES[0] in record:
                serves, _, lost = (record[name] for name in TARGET_NAMES)
                row += [share(serves, 0), largest[i], share(lost)]
            if self.effective_share is not None:
                row += [share(one, 0) for one in self.effective_share[i].tolist()]
            rows.append(row)
        return header, rows

    @property
    def _beyond_all(self):
        """A sentence about what no logger could take, or nothing."""
        if not self.unsupported_by_all:
            return ""
        return (
            f"No logger can take {share(self.unsupported_by_all)} of the policy's "
            "actions."
        )

    def __repr__(self):
        lines = text_table(*self._texts(), n_left=0)
        return "\n".join([*lines, self._beyond_all] if self._beyond_all else lines)

    def _repr_html_(self):
        title = " ".join(["Loggers and policies.", self._beyond_all]).strip(". ")
        return table_html(title, *self._texts())


def logger_overlap(
    policy: PolicyLike = None, logs: BanditLogs | None = None
) -> LoggerOverlap:
    """Compare the loggers with each other and with a policy.

    Call ``logger_overlap(logs)`` or ``logger_overlap(policy, logs)``. Read more in the
    :ref:`User Guide <multi_logger>`.

    Parameters
    ----------
    policy : policy, array or str, default=None
        The policy to evaluate. Without a policy, pass the logs here.
    logs : BanditLogs, default=None
        Logs with `logger`; with `logger_proba` the loggers are compared with each
        other, with `propensity` the policy with them.

    Returns
    -------
    overlap : LoggerOverlap
        A table with a row per logger.

    See Also
    --------
    BanditLogs.with_logger_policies : Adds `logger_proba`.
    MultiLoggerIPS : Evaluates a policy from all loggers.
    """
    if logs is None:
        policy, logs = None, policy
    if not isinstance(logs, BanditLogs):
        raise TypeError(
            f"logs must be BanditLogs, got {kind_of(logs)}. The call is "
            "logger_overlap(policy, logs), or logger_overlap(logs)."
        )
    if logs.loggers is None:
        raise ValueError(
            "the logs do not name the loggers. Build them with logger=..., the "
            "label of the logger of every round."
        )
    if not len(logs):
        raise ValueError("the logs are empty.")
    positive = PositiveRounds(logs, combined_weights(logs, None))
    loggers = Loggers(positive)
    omega = np.ones(len(logs)) if positive.omega is None else positive.omega
    sums = partial_sums(loggers.index, len(loggers))
    rewards = sums(omega * logs.reward) / loggers.sizes
    lowest = [None] * len(loggers)
    if logs.propensity is not None:
        lowest = [
            float(logs.propensity[(loggers.index == i) & (omega > 0)].min())
            for i in range(len(loggers))
        ]
    columns = [
        loggers.count.tolist(),
        loggers.shares.tolist(),
        rewards.tolist(),
        lowest,
    ]
    names, lost = COLUMNS_OF_LOGGERS, None
    if policy is not None:
        names += TARGET_NAMES
        with beyond_floats():
            found, lost = _policy_columns(policy, loggers)
        columns += found
    records = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
    between = _between(loggers, sums, omega)
    return LoggerOverlap(loggers.labels, records, between, lost)


def _policy_columns(policy, loggers):
    logs = loggers.logs
    if logs.propensity is None:
        raise ValueError(
            "the policy is compared with the loggers by its weights pi / p, and "
            "these logs have no propensities p. Pass propensity=..., or see "
            "logs.with_logger_policies and LoggerPropensityEstimator."
        )
    target = Target(policy, logs)
    refuse_learning("logger_overlap", target)
    positive = loggers.positive
    whole = PartPass(positive, n_total=positive.n, keeps_rounds=True)
    kinds = ["own_logger"] if loggers.proba is None else ["own_logger", "mixture"]
    for kind in kinds:
        whole.add_weights(kind, None, target)
    whole.add_job(Job(NOTHING, target, sums=TermStore(len(logs))))
    whole.run()
    counts = RoundCounts.of(positive)
    owners = [weights_of(kind, None) for kind in kinds]
    of_each, *of_all = (
        Summary(None, sums, counts, sums, whole.tallies[owner])
        for owner, sums in ((one, whole.sums.of(one)) for one in owners)
    )
    found = by_logger(of_each)
    whole.release()
    shares = found.effective_sample_size / loggers.count
    columns = shares.tolist(), found.max_w.tolist(), found.missing.tolist()
    if loggers.proba is None:
        return columns, None
    return columns, float(MixtureOverlap.of_sums(*of_all).missing_mass)


def _between(loggers, sums, omega):
    """Effective share of the rounds of every logger for every other, or None."""
    if loggers.proba is None:
        return None
    own = loggers.proba[np.arange(len(omega)), loggers.index]
    own = np.where(omega > 0, own, 1.0)  # of loggers that do not take part
    columns = []
    for proba in loggers.proba.T:
        w = omega * proba / own
        first, second = sums(w), sums(w * w)
        square = loggers.count * second
        columns.append(
            np.divide(first**2, square, out=np.zeros_like(first), where=second > 0)
        )
    return np.column_stack(columns)
